//! Clients by address and by API key, counted as the layer of `tollgate-http` counts them.

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::program::{fails, stderr, stdout, tollgate};

const LIMIT: [&str; 2] = ["--limit", "login=gcra:5/1d"];

/// Counts `cost` for a key of the layer.
fn count(desk: &Desk, partition: &str, rest: &str, cost: &str) {
    let key = ["check", "--key", partition, "--rest", rest, "--cost", cost];
    desk.says(0, &[&key[..], &LIMIT].concat());
}

fn rests(answer: &Value) -> Vec<&str> {
    let states = answer["states"].as_array().unwrap().iter();
    states.map(|it| it["rest"].as_str().unwrap()).collect()
}

#[test]
fn an_address_is_counted_by_its_network() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        count(&desk, "2001:db8:1::/48", "2001:db8:1:2::/64", "5");
        // The neighbour, the same client of another limiter, and an IPv4 address.
        count(&desk, "2001:db8:1::/48", "2001:db8:1:3::/64", "1");
        count(&desk, "2001:db8:1::/48", "2|2001:db8:1:2::/64", "4");
        count(&desk, "203.0.113.7", "", "3");
        let seven = ["--address", "2001:db8:1:2::7"];
        let says = |status, command: &[&str]| desk.says(status, &[command, &seven].concat());
        let asks = |status, command: &str, more: &[&str]| {
            says(status, &[&[command], &LIMIT[..], more].concat())
        };
        let own = ["2001:db8:1:2::/64", "2|2001:db8:1:2::/64"];
        assert_eq!(rests(&says(0, &["explain"])), own);
        assert_eq!(asks(1, "peek", &[])["remaining"], 0);
        assert_eq!(asks(0, "peek", &["--or", "2"])["remaining"], 1);
        assert_eq!(asks(0, "peek", &["--or", "1"])["remaining"], 5);
        assert_eq!(asks(0, "peek", &["--ipv6-prefix", "56"])["remaining"], 5);
        let answer = asks(0, "explain", &["--or", "2"]);
        assert_eq!(answer["limits"][0]["remaining"], 1);

        says(0, &["block", "--limit", "ban=block:15m"]);
        assert_eq!(
            says(1, &["peek", "--limit", "ban=block:15m"])["allowed"],
            false
        );
        let dry = says(0, &["reset", "--dry-run", "--or", "2"]);
        assert_eq!(rests(&dry), own[1..]);
        let reset = says(0, &["reset"]);
        assert_eq!(reset["forgotten"], 3);
        assert_eq!(says(0, &["explain"])["states"], json!([]));
        assert_eq!(says(1, &["reset"])["other_states"], Value::Null);

        for address in ["203.0.113.7", "::ffff:203.0.113.7", "64:ff9b::cb00:7107"] {
            let arguments = [&["peek", "--address", address], &LIMIT[..]].concat();
            assert_eq!(desk.says(0, &arguments)["remaining"], 2);
        }
        // The neighbour has kept its state.
        assert_eq!(desk.keys().len(), 2);
    }
}

/// Asks with `input` on standard input.
fn with_input(desk: &Desk, arguments: &[&str], input: &str) -> Output {
    let mut child = tollgate()
        .args(arguments)
        .args(["--store", &desk.server.url(), "--prefix", &desk.prefix])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have ended before.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn an_api_key_is_counted_by_its_hash() {
    let desk = Desk::new("redis");
    // The first half of the SHA-256 of `secret`.
    let hash = "sha256-2bb80d537b1da3e38bd30361aa855686";
    count(&desk, hash, "", "3");
    count(&desk, hash, "1|", "4");
    let peek = |more: &[&str], left: u64| {
        let arguments = [&["peek", "--api-key", "--json"], &LIMIT[..], more].concat();
        for input in ["secret\n", "secret", " secret\r\n"] {
            let output = with_input(&desk, &arguments, input);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(!stdout(&output).contains("secret"));
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(
                (&answer["key"], &answer["remaining"]),
                (&json!(hash), &json!(left))
            );
        }
    };
    peek(&[], 2);
    peek(&["--or", "1"], 1);
    let explain = stdout(&with_input(&desk, &["explain", "--api-key"], "secret"));
    assert!(
        explain.starts_with(&format!("explain {hash}: 2 states\n")),
        "{explain}"
    );
    let reset = with_input(&desk, &["reset", "--api-key"], "secret");
    assert!(
        stdout(&reset).contains(": 2 states forgotten\n"),
        "{}",
        stdout(&reset)
    );
    for input in ["", "\n", "one\ntwo\n"] {
        let output = with_input(&desk, &["explain", "--api-key"], input);
        fails(&output, &["--api-key", "on one line"]);
    }
}
