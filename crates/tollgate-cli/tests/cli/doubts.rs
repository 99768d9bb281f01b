//! A key that is not written as the service counts it: what shows it is accepted, and the rest is told.

use serde_json::Value;
use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{answer, file, has, has_fields, run, stderr, stdout};

const SECRET: (&str, &str) = ("TOLLGATE_KEY_SECRET", "000102030405060708090a0b0c0d0e0f");
const WRONG: (&str, &str) = ("TOLLGATE_KEY_SECRET", "ff0102030405060708090a0b0c0d0e0f");
/// Returns what a command answers, whatever it warns of.
fn says(desk: &Desk, status: i32, line: &str, secret: Option<(&str, &str)>) -> Value {
    let mut command = desk.command(&format!("{line} --json"));
    answer(&command.envs(secret).output().unwrap(), status)
}

/// `top` shows hashes, and long keys; what it shows is blocked and reset.
#[test]
fn keys_are_taken_as_top_shows_them() {
    let long = "é".repeat(70);
    let longest = "k".repeat(300);
    for scheme in ["redis", "fred"] {
        for (key, rest, secret) in [
            ("alice", "/a", Some(SECRET)),
            (&*long, "", None),
            (&*longest, "/a", None),
        ] {
            let desk = Desk::new(scheme);
            let own = format!("--key {key} --rest '{rest}'");
            let says = |status, line: &str, whom: &str, secret| {
                says(&desk, status, &format!("{line} {whom}"), secret)
            };
            says(0, "check --limit login=gcra:5/1d", &own, secret);
            let top = desk.text("top --limit login=gcra:5/1d");
            let row: Vec<_> = top.lines().nth(3).unwrap().split_whitespace().collect();
            let last = row.last().unwrap();
            let shown = if last.starts_with("login=") { "" } else { last };
            let shown = format!("--key {} --rest '{shown}'", row[0]);
            let block = says(0, "block --limit ban=block:15m", &shown, None);
            has_fields(&block, "doubt=none");
            let peek = says(1, "peek --limit ban=block:15m", &own, secret);
            assert_eq!(peek["allowed"], false, "{top}");
            let reset = says(0, "reset", &shown, None);
            assert_eq!(reset["forgotten"], 2);
            assert_eq!(desk.keys(), [""; 0]);
        }
    }
}

/// What is not the service's key, and what is said of it.
#[test]
fn a_key_that_the_service_writes_otherwise_is_doubted() {
    let unread = "TOLLGATE_KEY_SECRET to the service's secret";
    let (none, secret, wrong) = (None, Some(SECRET), Some(WRONG));
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
        says(&desk, 0, "check alice --limit login=gcra:5/1d", counted);
        for (command, status, limit) in [
            ("peek", 0, "--limit login=gcra:5/1d"),
            ("explain", 0, ""),
            ("reset", 1, ""),
            ("give", 1, "--limit login=gcra:5/1d"),
            ("block", 1, "--limit ban=block:15m"),
        ] {
            let line = format!("{command} {asked} {limit} --time-source {clock}");
            let answer = says(&desk, status, &line, secret);
            let said = answer["doubt"].as_str().unwrap_or_default();
            assert!(said.contains(doubt), "{asked} {answer}");
            if command != "block" {
                let output = desk.command(&line).envs(secret).output().unwrap();
                has(&(stdout(&output) + &stderr(&output)), doubt);
            }
        }
        // Its own key is not.
        for line in [
            "peek alice --limit login=gcra:5/1d",
            "charge alice --limit login=gcra:5/1d",
            "block alice --limit ban=block:15m",
        ] {
            has_fields(&says(&desk, 0, line, counted), "doubt=none");
        }
    }
}

/// Without `--or`, or with the bits of another network, a client has no states: `peek` names the others.
#[test]
fn a_peek_at_a_client_names_their_other_rests() {
    for scheme in ["redis", "fred"] {
        for (client, counted, rest) in [
            ("203.0.113.7", "--or 2", "2|"),
            ("2001:db8:1:2::7", "--ipv6-prefix 56", "2001:db8:1::/56"),
        ] {
            let desk = Desk::new(scheme);
            let subject = format!("--address {client} --limit login=gcra:5/1d");
            desk.says(0, &format!("check --cost 5 {counted} {subject}"));
            for command in ["peek", "check"] {
                let output = desk.ask(&format!("{command} {subject}"));
                let state = format!("login=gcra:N/WINDOW of the rest {rest}");
                has(&stderr(&output), &state);
                has(&stdout(&output), &format!("- {state}\n"));
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
            let block = format!("block --key {denied} --limit ban --limits {}", &*limits);
            let output = run(&format!("{block} --store {store}"));
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            has(&stderr(&output), "the key is blocked, but it is not known");
            has(&stdout(&output), "blocked for 15m by ban=block:15m");
        }
        assert_eq!(server.command(&["DBSIZE"]).integer(), Some(2));
    }
}

/// A neighbour's state says nothing of a client, and a network's not that its clients are denied.
#[test]
fn a_block_tells_whose_states_it_does_not_deny() {
    let desk = Desk::new("redis");
    let check = |whom: &str| {
        let line = format!("check --limit login=gcra:5/1d {whom}");
        says(&desk, 0, &line, None);
    };
    let block = |whom: &str, fields: &str| {
        let line = format!("block --limit ban=block:15m {whom}");
        let is_idle = fields.contains("true");
        has_fields(&says(&desk, is_idle.into(), &line, None), fields);
        let said = if is_idle {
            ", but seems to deny nobody\n"
        } else {
            "blocked for 1"
        };
        let output = desk.ask(&line);
        has(&stdout(&output), said);
        let warns = stderr(&output).contains("with other rests");
        assert_eq!(warns, fields.contains("rest_differs=true"), "{output:?}");
    };
    let neither = "rest_differs=none & clock_differs=none";
    let rest = "rest_differs=true & clock_differs=none";
    check("--address 2001:db8:1:3::7");
    block("--address 2001:db8:1:2::7", neither);
    check("--key 2001:db8:1::/48");
    block("2001:db8:1::/48", rest);
    // The service counts by other bits.
    check("--address 2001:db8:2:1::7 --ipv6-prefix 56");
    block("--address 2001:db8:2:1::7", rest);
    check("carol --time-source caller");
    block("carol", "rest_differs=none & clock_differs=true");
    block("carol --time-source caller", neither);
}
