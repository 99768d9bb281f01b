//! `check`, `peek` and `reset` on a live server: what they print, and the exit status.

use std::process::Stdio;

use serde_json::Value;
use tollgate_testkit::{Flavor, Reply, Server};

use crate::desk::Desk;
use crate::program::{fails, stderr, stdout, tollgate};

const LOGIN: [&str; 4] = ["--limit", "login=gcra:2/1d", "--key", "alice"];

#[test]
fn checks_count_peeks_do_not_and_resets_forget() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let ask = |status, command| desk.says(status, &[&[command], &LOGIN[..]].concat());
        let remaining = |answer: Value| answer["remaining"].as_u64().unwrap();
        assert_eq!(remaining(ask(0, "peek")), 2);
        assert_eq!(desk.keys(), [""; 0]);
        assert_eq!(remaining(ask(0, "check")), 1);
        assert_eq!(desk.keys(), [desk.key("login:gcra:v1:{alice}")]);
        assert_eq!(remaining(ask(0, "check")), 0);
        let denied = ask(1, "check");
        assert_eq!(denied["allowed"], false);
        assert_eq!(denied["limits"][0]["limit"], "login=gcra:2/1d");
        assert_eq!(denied["limits"][0]["capacity"], 2);
        let wait = denied["retry_after_us"].as_u64().unwrap();
        assert!((43_000_000_000..43_200_000_000).contains(&wait), "{wait}");
        assert_eq!(remaining(ask(1, "peek")), 0);
        assert_eq!(ask(0, "reset")["limits"][0], "login=gcra:2/1d");
        assert_eq!(desk.keys(), [""; 0]);
        assert_eq!(remaining(ask(0, "peek")), 2);
    }
}

/// A ban at night should not depend on a second connection, which the server may refuse.
#[test]
fn a_block_and_the_look_after_it_share_a_connection() {
    let server = Server::start(Flavor::System);
    let store = format!("redis://{}", server.address());
    let received = || -> u64 {
        let reply = server.command(&["INFO", "stats"]);
        let text = reply.text().unwrap().to_owned();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("total_connections_received:"));
        count.unwrap().trim().parse().unwrap()
    };
    let opened = |command: &str| {
        let before = received();
        let subject = ["--key", "mallory", "--limit", "ban=block:15m"];
        let asked = tollgate()
            .args([command, "--store", &store])
            .args(subject)
            .output();
        let asked = asked.unwrap();
        assert!(asked.status.success(), "{}", stderr(&asked));
        received() - before
    };
    assert_eq!(opened("peek"), opened("block"));
}

#[test]
fn a_blocked_key_is_denied_until_it_is_reset() {
    let subject = ["--limit", "api=gcra:5/1d", "--limit", "ban=block:15m"];
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let ask = |status, command, more: &[&str]| {
            let key = ["--key", "mallory"];
            desk.says(status, &[&[command], &subject[..], &key, more].concat())
        };
        let blocked = ask(0, "block", &[]);
        assert_eq!(blocked["limits"], serde_json::json!(["ban=block:15m"]));
        assert_eq!(blocked["wait_us"], 900_000_000);
        let denied = ask(1, "check", &[]);
        assert_eq!(denied["limits"][0]["allowed"], true);
        assert_eq!(denied["limits"][1]["remaining"], 0);
        let wait = denied["retry_after_us"].as_u64().unwrap();
        assert!((800_000_000..900_000_000).contains(&wait), "{denied}");
        assert_eq!(
            ask(0, "block", &["--lasting", "2h"])["wait_us"],
            7_200_000_000_u64
        );
        ask(0, "reset", &[]);
        assert_eq!(ask(0, "check", &[])["remaining"], 4);
    }
    let desk = Desk::new("redis");
    let block = ["block", "--key", "mallory"];
    let text = stdout(&desk.ask(&[&block[..], &subject].concat()));
    assert_eq!(text, "block mallory: blocked for 15m by ban=block:15m\n");
    let none = desk.ask(&[&block[..], &subject[..2]].concat());
    fails(&none, &["only a limit that blocks can block a key"]);
}

#[test]
fn a_limit_in_shadow_says_what_it_would_do() {
    let limits = [
        "--limit",
        "api=gcra:9/1d",
        "--limit",
        "next=sliding-log:1/1d,shadow",
    ];
    let desk = Desk::new("redis");
    let check = [&["check", "--key", "alice"], &limits[..]].concat();
    desk.says(0, &check);
    let answer = desk.says(0, &check);
    assert_eq!(answer["allowed"], true);
    assert_eq!(answer["limits"][1]["allowed"], false);
    let text = stdout(&desk.ask(&check));
    assert!(text.starts_with("check alice, cost 1: allowed\n"), "{text}");
    let row = "next=sliding-log:1/1d,shadow  would be denied          0   1";
    assert!(text.contains(row), "{text}");
    let top = desk.says(0, &[&["top"], &limits[..]].concat());
    assert_eq!((&top["keys"], &top["denied"]), (&2.into(), &0.into()));
    let top = stdout(&desk.ask(&[&["top"], &limits[2..]].concat()));
    assert!(top.contains("would be denied"), "{top}");
}

#[test]
fn a_check_that_is_repeated_with_its_id_counts_once() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let ask =
            |status, more: &[&str]| desk.says(status, &[&["check"], &LOGIN[..], more].concat());
        let first = ask(0, &["--id", "request-1"]);
        assert_eq!(first["remaining"], 1);
        assert_eq!(ask(0, &["--id", "request-1"]), first);
        assert_eq!(ask(0, &["--id", "request-2"])["remaining"], 0);
        assert_eq!(ask(1, &["--id", "request-3"])["allowed"], false);
        assert_eq!(ask(0, &["--id", "request-1"]), first);
    }
    let desk = Desk::new("redis");
    let other = ["check", "--id", "request-1", "--cost"];
    desk.says(0, &[&other[..], &["1"], &LOGIN].concat());
    let taken = desk.ask(&[&other[..], &["2"], &LOGIN].concat());
    fails(&taken, &["this id was used for another call"]);
}

#[test]
fn a_check_waits_until_it_is_allowed() {
    for (scheme, limit) in [
        ("redis", "mail=gcra:1/1s"),
        ("fred", "mail=sliding-log:1/1s"),
    ] {
        let desk = Desk::new(scheme);
        let subject = ["check", "--limit", limit, "--key", "alice", "--wait-up-to"];
        let ask = |status, more: &[&str]| desk.says(status, &[&subject, more].concat());
        let waited = |answer: &Value| answer["waited_us"].as_u64().unwrap();
        let first = ask(0, &["5s"]);
        assert_eq!(first["limits"][0]["limit"], limit);
        let second = ask(0, &["5s"]);
        assert_eq!(second["allowed"], true);
        assert!(waited(&second) > waited(&first), "{first} {second}");
        let refused = ask(1, &["1ms"]);
        let wait = refused["wait_us"].as_u64().unwrap();
        assert!((1_001..=1_000_000).contains(&wait), "{refused}");
        assert_eq!(refused["wait_up_to_us"], 1_000);
        let found = (&refused["allowed"], &refused["limit"]);
        assert_eq!(found, (&false.into(), &limit.into()));
        assert_eq!(ask(1, &["5s", "--cost", "2"])["wait_us"], Value::Null);

        let text = |more: &[&str]| stdout(&desk.ask(&[&subject, more].concat()));
        let allowed = text(&["5s"]);
        let said = "check alice, cost 1: allowed after ";
        assert!(allowed.starts_with(said), "{allowed}");
        let refused = text(&["1ms"]);
        let start = "check alice, cost 1: denied, it would have to wait ";
        assert!(refused.starts_with(start), "{refused}");
        let said = format!("\nlimit: {limit}\n");
        assert!(refused.ends_with(&said), "{refused}");
        let never = text(&["1ms", "--cost", "2"]);
        assert!(never.contains("denied forever"), "{never}");
    }
    let desk = Desk::new("redis");
    let wrong = desk.ask(&[&["check"][..], &LOGIN, &["--wait-up-to", "soon"]].concat());
    fails(&wrong, &["--wait-up-to soon: that is not a length of time"]);
}

#[test]
fn several_limits_are_decided_together_for_both_parts_of_a_key() {
    let desk = Desk::new("redis");
    let limits = ["--limit", "a=gcra:5/1d", "--limit", "b=sliding-log:1/1d"];
    let key = ["--key", "al ice", "--rest", "/x:y"];
    let ask = |status, command: &[&str]| desk.says(status, &[command, &limits, &key].concat());
    assert_eq!(ask(0, &["check"])["limits"].as_array().unwrap().len(), 2);
    let names = ["a:gcra", "b:sliding-log"];
    let expected = names.map(|name| desk.key(&format!("{name}:v1:{{al%20ice}}:/x%3ay")));
    assert_eq!(desk.keys(), expected);
    let denied = ask(1, &["check"]);
    assert_eq!(denied["limits"][0]["allowed"], true);
    assert_eq!(denied["limits"][0]["remaining"], 4);
    assert_eq!(denied["limits"][1]["allowed"], false);
    // A cost above the capacity of a limit.
    let never = ask(1, &["peek", "--cost", "2"]);
    assert_eq!(never["retry_after_us"], Value::Null);
    assert_eq!(ask(0, &["check", "--cost", "0"])["remaining"], 0);
    ask(0, &["reset"]);
    assert_eq!(ask(0, &["peek"])["remaining"], 1);
}

#[test]
fn a_key_of_several_lines_is_shown_on_one() {
    let desk = Desk::new("redis");
    let key = ["--key", "a\nb", "--rest", "/\r\n"];
    for (command, more) in [
        ("check", &["--limit", "login=gcra:5/1d"][..]),
        ("peek", &["--limit", "login=gcra:5/1d"]),
        ("block", &["--limit", "ban=block:15m"]),
        ("explain", &[]),
        ("reset", &[]),
        ("reset", &[]),
    ] {
        let text = stdout(&desk.ask(&[&[command], &key[..], more].concat()));
        let head = format!("{command} a\\nb");
        assert!(text.starts_with(&head), "{text}");
    }
    let list = ["schedule", "list", "--schedule", "mails"];
    let text = stdout(&desk.ask(&[&list[..], &key].concat()));
    assert_eq!(text, "list a\\nb /\\r\\n: 0 events\n");
}

#[test]
fn tables_and_json_agree() {
    let desk = Desk::new("redis");
    let limit = ["--limit", "login=fixed-window:2000/1d,anchored"];
    let ask = |command: &[&str]| desk.ask(&[command, &limit, &["--key", "a\u{1b}[1m"]].concat());
    let allowed = stdout(&ask(&["check", "--cost", "1500"]));
    assert_eq!(
        allowed,
        "check a\\u{1b}[1m, cost 1,500: allowed\n\n\
         LIMIT                                VERDICT  REMAINING     OF  RETRY AFTER  RESET AFTER\n\
         login=fixed-window:2000/1d,anchored  allowed        500  2,000           0s           1d\n"
    );
    let denied = stdout(&ask(&["peek", "--cost", "501"]));
    let first = denied.lines().next().unwrap();
    let wait = "peek a\\u{1b}[1m, cost 501: denied, to be tried again after 23h 59m ";
    assert!(first.starts_with(wait), "{denied}");
    let never = stdout(&ask(&["peek", "--cost", "2001"]));
    assert!(never.contains("denied forever") && never.contains("never"));
    let expected = "reset a\\u{1b}[1m: 1 state forgotten\n- login=fixed-window:N/1d,anchored\n";
    assert_eq!(stdout(&ask(&["reset"])), expected);
}

#[test]
fn the_readme_shows_the_actual_output() {
    let manual = include_str!("../../README.md");
    let desk = Desk::new("redis");
    let ask = |command, limits: &[&str]| {
        let arguments = [&[command, "--key", "alice"], limits].concat();
        let text = stdout(&desk.ask(&arguments));
        assert!(manual.contains(&format!("\n{text}")), "{text}");
    };
    let login = ["--limit", "login=gcra:10/1m"];
    let both = [&login[..], &["--limit", "attempts=sliding-log:3/1h"]].concat();
    ask("check", &both);
    ask("reset", &both);
    ask("block", &["--limit", "ban=block:15m"]);
    let words = ["check", "--limit", "login=sliding-log:5/1h", "--key", "bob"];
    desk.says(0, &words);
    let peek = stdout(&desk.ask(&["peek", "--limit", "login=gcra:10/1m", "--key", "bob"]));
    assert!(manual.contains(&format!("\n{peek}```")), "{peek}");
    for limit in [&["--limit", "login=gcra:10/1m"][..], &[]] {
        let reset = stdout(&desk.ask(&[&["reset", "bob"], limit].concat()));
        assert!(manual.contains(&format!("\n{reset}")), "{reset}");
    }
}

#[test]
fn keys_are_hashed_with_the_secret_of_the_service() {
    let desk = Desk::new("redis");
    let secret = ("TOLLGATE_KEY_SECRET", "000102030405060708090a0b0c0d0e0f");
    let check = |arguments: &[&str]| {
        let arguments = [&["check"], &LOGIN[..], arguments].concat();
        let output = desk.ask_with(&arguments, &[secret]);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    check(&["--hashed-long-keys"]);
    assert_eq!(desk.keys(), [desk.key("login:gcra:v1:{alice}")]);
    check(&[]);
    let hashed = desk.keys().remove(0);
    assert!(
        hashed.contains("{#") && !hashed.contains("alice"),
        "{hashed}"
    );

    for (variables, options) in [
        (&[("TOLLGATE_KEY_SECRET", "0001")][..], &[][..]),
        (&[("TOLLGATE_KEY_SECRET", "")], &[]),
        (&[], &["--hashed-long-keys"]),
    ] {
        let output = desk.ask_with(&[&["peek"], &LOGIN[..], options].concat(), variables);
        fails(&output, &["TOLLGATE_KEY_SECRET", "32 hex digits"]);
    }
}

#[test]
fn a_call_counts_even_if_the_output_is_closed() {
    let desk = Desk::new("redis");
    let mut child = tollgate()
        .args(["peek", "--cost", "3"])
        .args(LOGIN)
        .args(["--prefix", &desk.prefix])
        .env("TOLLGATE_STORE", desk.server.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_key_of_another_kind_is_an_error() {
    let desk = Desk::new("redis");
    for (words, hint) in [
        (
            &["SADD", &desk.key("login:gcra:v1:{alice}"), "x"],
            "WRONGTYPE",
        ),
        (
            &["SET", &desk.key("login:gcra:v1:{alice}"), "x"],
            "that tollgate has not written",
        ),
    ] {
        desk.server.command(&["DEL", words[1]]);
        assert!(!matches!(desk.server.command(words), Reply::Error(_)));
        for scheme in ["redis", "fred"] {
            for command in ["check", "peek"] {
                let output = desk.ask_through(scheme, &[&[command], &LOGIN[..]].concat(), &[]);
                fails(&output, &["(misconfigured)", hint, "choose another prefix"]);
            }
        }
    }
}

#[test]
fn unreachable_servers_are_errors() {
    for (store, hints) in [
        (
            "redis://127.0.0.1:1",
            &["(unavailable)", "refused", "running"][..],
        ),
        (
            "fred://127.0.0.1:1",
            &["(unavailable)", "refused", "running"],
        ),
        ("redis-cluster://127.0.0.1:1", &["(unavailable)", "running"]),
        ("redis://127.0.0.1:x", &["(misconfigured)", "--store"]),
        ("fred://127.0.0.1:x", &["(misconfigured)", "--store"]),
        ("redis://", &["the host is missing", "redis://HOST:PORT"]),
        ("127.0.0.1:6379", &["not the address", "redis://HOST:PORT"]),
        (
            "http://127.0.0.1",
            &["scheme is not known", "redis://HOST:PORT"],
        ),
        (
            "rediss://u:secret@127.0.0.1:1",
            &["(unavailable)", "running"],
        ),
        (
            "freds://u:secret@127.0.0.1:1",
            &["(unavailable)", "running"],
        ),
        (
            "redis-clusters://127.0.0.1:1",
            &["scheme is not known", "rediss or freds for TLS"],
        ),
        ("memory", &["not the address", "give redis://HOST:PORT"]),
        ("", &["not the address"]),
    ] {
        let arguments = [&["peek", "--store", store], &LOGIN[..]].concat();
        let output = tollgate().args(arguments).output().unwrap();
        fails(&output, hints);
        let text = stderr(&output);
        assert!(!text.contains("secret") && !text.contains(" { "), "{text}");
        // One piece of advice is enough.
        assert!(
            text.matches("see that").count() + text.matches("check that").count() <= 1,
            "{text}"
        );
    }
    let log = crate::program::SAMPLE;
    for (store, hint) in [
        ("redis://127.0.0.1:1", "(unavailable)"),
        ("fred://127.0.0.1:1", "(unavailable)"),
        ("memry", "give memory, redis://HOST:PORT"),
    ] {
        let output = crate::program::replay(&[log, "--limit", "gcra:5/1m", "--store", store]);
        fails(&output, &[store, hint]);
    }
}

#[test]
fn invalid_command_lines_are_errors() {
    let desk = Desk::new("redis");
    for (arguments, hints) in [
        (
            ["--limit", "gcra:5/1m", "--key", "a"],
            &["name", "login=gcra:10/1m"][..],
        ),
        (
            ["--limit", "gcra:5/1m,burst=2", "--key", "a"],
            &["name", "login="],
        ),
        (["--limit", "a b=gcra:5/1m", "--key", "a"], &["not a name"]),
        (
            ["--limit", "a=gcra:5", "--key", "a"],
            &["--limit a=gcra:5", "expected `/` and a window"],
        ),
        (["--limit", "=gcra:5/1m", "--key", "a"], &["not a name"]),
    ] {
        fails(&desk.ask(&[&["check"], &arguments[..]].concat()), hints);
    }
    let twice = [&["check", "--limit", "login=gcra:3/1d"], &LOGIN[..]].concat();
    let words = ["two limits of one limiter are called \"login\""];
    fails(&desk.ask(&twice), &words);
    let store = desk.server.url();
    for prefix in ["", "a b", &"x".repeat(65)] {
        let asked = tollgate()
            .arg("peek")
            .args(LOGIN)
            .args(["--store", &store, "--prefix", prefix])
            .output();
        fails(&asked.unwrap(), &["--prefix", "1 to 64"]);
        let log = crate::program::SAMPLE;
        let limit = [
            "--limit",
            "gcra:5/1m",
            "--store",
            &store,
            "--prefix",
            prefix,
        ];
        fails(
            &crate::program::replay(&[&[log], &limit[..]].concat()),
            &["--prefix", "1 to 64"],
        );
    }
}
