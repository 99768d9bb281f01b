//! A key that is not written as the service counts it: what shows it is accepted, and the rest is told.

use serde_json::{Value, json};
use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{file, stderr, stdout, tollgate};

const SECRET: (&str, &str) = ("TOLLGATE_KEY_SECRET", "000102030405060708090a0b0c0d0e0f");
const WRONG: (&str, &str) = ("TOLLGATE_KEY_SECRET", "ff0102030405060708090a0b0c0d0e0f");
const LOGIN: [&str; 2] = ["--limit", "login=gcra:5/1d"];
const BAN: [&str; 2] = ["--limit", "ban=block:15m"];

/// Returns what a command answers, whatever it warns of.
fn says(desk: &Desk, status: i32, arguments: &[&str], secret: &[(&str, &str)]) -> Value {
    let output = desk.ask_with(&[arguments, &["--json"]].concat(), secret);
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `top` shows hashes, and long keys; what it shows is blocked and reset.
#[test]
fn keys_are_taken_as_top_shows_them() {
    let long = "é".repeat(70);
    let longest = "k".repeat(300);
    for scheme in ["redis", "fred"] {
        for (key, rest, secret) in [
            ("alice", "/a", &[SECRET][..]),
            (&*long, "", &[]),
            (&*longest, "/a", &[]),
        ] {
            let desk = Desk::new(scheme);
            let own = ["--key", key, "--rest", rest];
            let check = [&["check"], &LOGIN[..], &own].concat();
            says(&desk, 0, &check, secret);
            let top = stdout(&desk.ask(&[&["top"], &LOGIN[..]].concat()));
            let row: Vec<_> = top.lines().nth(3).unwrap().split_whitespace().collect();
            let last = row.last().unwrap();
            let shown = if last.starts_with("login=") { "" } else { last };
            let shown = ["--key", row[0], "--rest", shown];
            let block = says(&desk, 0, &[&["block"], &shown[..], &BAN].concat(), &[]);
            assert_eq!(block.get("doubt"), None, "{block}");
            let peek = [&["peek"], &own[..], &BAN].concat();
            assert_eq!(says(&desk, 1, &peek, secret)["allowed"], false, "{top}");
            let reset = says(&desk, 0, &[&["reset"], &shown[..]].concat(), &[]);
            assert_eq!(reset["forgotten"], 2);
            assert_eq!(desk.keys(), [""; 0]);
        }
    }
}

/// What is not the service's key, and what is said of it.
#[test]
fn a_key_that_the_service_writes_otherwise_is_doubted() {
    let unread = "TOLLGATE_KEY_SECRET to the service's secret";
    let (none, secret, wrong) = (&[][..], &[SECRET][..], &[WRONG][..]);
    let hash = "#000102030405060708090a0b0c0d0e0f";
    let (json, another) = ("`tollgate top --json`", "the secret is another one");
    for (counted, asked, clock, secret, doubt) in [
        (secret, "alice", "server", none, unread),
        (secret, "alice", "server", wrong, another),
        (none, "alice", "server", secret, "unset TOLLGATE_KEY_SECRET"),
        (none, "bob", "caller", none, "--time-source server"),
        (none, "kkkkkkkk…", "server", none, json),
        (none, "a\\u{1b}[31m", "server", none, json),
        (none, hash, "server", none, "this hash"),
        (none, "2001:db8:1:2::7", "server", none, "--address"),
    ] {
        let desk = Desk::new("redis");
        let check = [&["check", "alice"], &LOGIN[..]].concat();
        says(&desk, 0, &check, counted);
        let clock = ["--time-source", clock];
        let limit = |command: &'static str| match command {
            "block" => &BAN[..],
            "explain" | "reset" => &[],
            _ => &LOGIN[..],
        };
        for (command, status) in [("peek", 0), ("explain", 0), ("reset", 1), ("block", 0)] {
            let arguments = [&[command, asked], limit(command), &clock].concat();
            let answer = says(&desk, status, &arguments, secret);
            let said = answer["doubt"].as_str().unwrap_or_default();
            assert!(said.contains(doubt), "{asked} {answer}");
            if command != "block" {
                let output = desk.ask_with(&arguments, secret);
                let text = stdout(&output) + &stderr(&output);
                assert!(text.contains(doubt), "{asked} {text}");
            }
        }
        // Its own key is not.
        for command in ["peek", "block"] {
            let arguments = [&[command, "alice"], limit(command)].concat();
            let answer = says(&desk, 0, &arguments, counted);
            assert_eq!(answer.get("doubt"), None, "{answer}");
        }
    }
}

/// Without `--or`, or with the bits of another network, a client has no states: `peek` names the others.
#[test]
fn a_peek_at_a_client_names_their_other_rests() {
    for scheme in ["redis", "fred"] {
        for (counted, rest) in [
            (&["--address", "203.0.113.7", "--or", "2"][..], "2|"),
            (
                &["--address", "2001:db8:1:2::7", "--ipv6-prefix", "56"],
                "2001:db8:1::/56",
            ),
        ] {
            let desk = Desk::new(scheme);
            let check = [&["check", "--cost", "5"], counted, &LOGIN].concat();
            desk.says(0, &check);
            for command in ["peek", "check"] {
                let asked = [&[command], &counted[..2], &LOGIN].concat();
                let output = desk.ask(&asked);
                let warning = stderr(&output);
                let state = format!("login=gcra:N/WINDOW of the rest {rest}");
                assert!(warning.contains(&state), "{warning}");
                assert!(stdout(&output).contains(&format!("- {state}\n")));
            }
        }
    }
}

/// The block comes first, so that nothing which only warns can prevent it.
#[test]
fn a_block_stands_whatever_its_user_may_look_at() {
    let limits = file("limits.toml", "ban = 'block:15m'");
    for scheme in ["redis", "fred"] {
        let server = Server::start(Flavor::System);
        let store = format!("{scheme}://{}", server.address());
        for denied in ["-scan", "-exists"] {
            server.command(&["ACL", "SETUSER", "default", denied]);
            let output = tollgate()
                .args(["block", "--key", denied, "--store", &store])
                .args(["--limit", "ban", "--limits", &limits])
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(stderr(&output).contains("the key is blocked, but it is not known"));
            assert!(stdout(&output).contains("blocked for 15m by ban=block:15m"));
        }
        assert_eq!(server.command(&["DBSIZE"]).integer(), Some(2));
    }
}

/// A neighbour's state says nothing of a client, and a network's not that its clients are denied.
#[test]
fn a_block_tells_whose_states_it_does_not_deny() {
    let block = |desk: &Desk, whom: &[&str]| {
        let answer = says(desk, 0, &[&["block"], whom, &BAN].concat(), &[]);
        let is = |field| answer.get(field) == Some(&json!(true));
        (is("rest_differs"), is("clock_differs"))
    };
    let desk = Desk::new("redis");
    let check = |whom: &[&str]| says(&desk, 0, &[&["check"], whom, &LOGIN].concat(), &[]);
    check(&["--address", "2001:db8:1:3::7"]);
    let found = block(&desk, &["--address", "2001:db8:1:2::7"]);
    assert_eq!(found, (false, false));
    check(&["--key", "2001:db8:1::/48"]);
    assert_eq!(block(&desk, &["2001:db8:1::/48"]), (true, false));
    // The service counts by other bits.
    let address = ["--address", "2001:db8:2:1::7"];
    check(&[&address[..], &["--ipv6-prefix", "56"]].concat());
    assert_eq!(block(&desk, &address), (true, false));
    let by_caller = ["--key", "carol", "--time-source", "caller"];
    check(&by_caller);
    assert_eq!(block(&desk, &["carol"]), (false, true));
    assert_eq!(block(&desk, &by_caller), (false, false));
}
