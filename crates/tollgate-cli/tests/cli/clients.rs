//! Clients by address and by API key, counted as the layer of `tollgate-http` counts them.

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::program::{fails, file, stderr, stdout, tollgate};

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
        let answer = asks(0, "explain", &[]);
        let left = |index: usize| {
            let limit = &answer["limits"][index];
            (&limit["rest"], &limit["remaining"])
        };
        assert_eq!(left(0), (&json!(own[0]), &json!(0)));
        assert_eq!(left(1), (&json!(own[1]), &json!(1)));

        says(0, &["block", "--limit", "ban=block:15m"]);
        assert_eq!(
            says(1, &["peek", "--limit", "ban=block:15m"])["allowed"],
            false
        );
        let dry = says(0, &["reset", "--dry-run", "--rest", own[1]]);
        assert_eq!(rests(&dry), own[1..]);
        // What limits in full read needs no search.
        let dry = asks(0, "reset", &["--dry-run"]);
        assert_eq!(rests(&dry), own);
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
        for input in ["secret\n", "secret", " secret\r\n", "\u{feff}secret\n"] {
            let output = with_input(&desk, &arguments, input);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(!stdout(&output).contains("secret"));
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            let found = (&answer["key"], &answer["remaining"]);
            assert_eq!(found, (&json!(hash), &json!(left)));
        }
    };
    peek(&[], 2);
    peek(&["--or", "1"], 1);
    let explain = stdout(&with_input(&desk, &["explain", "--api-key"], "secret"));
    let said = format!("explain {hash}: 2 states\n");
    assert!(explain.starts_with(&said), "{explain}");
    let reset = with_input(&desk, &["reset", "--api-key"], "secret");
    assert!(
        stdout(&reset).contains(": 2 states forgotten\n"),
        "{}",
        stdout(&reset)
    );
    let long = "k".repeat(70_000);
    for input in ["", "\n", "one\ntwo\n", &long] {
        let output = with_input(&desk, &["explain", "--api-key"], input);
        fails(&output, &["--api-key", "on one line"]);
    }
}

/// What the layer counts as an alternative is found without being told which, also where a hash hides it.
#[test]
fn alternatives_are_found_among_hashed_keys() {
    let secret = [("TOLLGATE_KEY_SECRET", "000102030405060708090a0b0c0d0e0f")];
    let path = file("limits.toml", "login = 'gcra:5/1d'");
    for (scheme, address) in [("redis", "2001:db8:1:2::7"), ("fred", "203.0.113.7")] {
        let desk = Desk::new(scheme);
        let asks = |status, command: &[&str], address: &str| -> Value {
            let whom = [command, &["--address", address, "--json"]].concat();
            let output = desk.ask_with(&whom, &secret);
            assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let check = [&["check", "--or", "2"], &LIMIT[..]].concat();
        asks(0, &check, address);
        asks(0, &check, "2001:db8:1:3::7");
        let found = asks(0, &["explain", "--limits", &path], address);
        assert_eq!(found["limits"][0]["remaining"], 4, "{found}");
        assert_eq!(found["limits"][0]["has_state"], true);
        let rest = rests(&found)[0];
        assert!(rest.starts_with("2|"), "{rest}");
        for command in [
            &["reset"][..],
            &["reset", "--limit", "login"],
            &["reset", "--limit", "login", "--limits", &path],
        ] {
            assert_eq!(asks(0, command, address)["forgotten"], 1, "{command:?}");
            asks(0, &check, address);
        }
        assert_eq!(desk.keys().len(), 2);
    }
}

/// A reset of a limit leaves no rest of the client by which it still denies them.
#[test]
fn a_reset_of_a_limit_finds_what_the_layer_adds_to_a_client() {
    let path = file("limits.toml", "login = 'gcra:5/1d'");
    for scheme in ["redis", "fred"] {
        for more in [&["--limits", &path, "--limit", "login"][..], &LIMIT] {
            let desk = Desk::new(scheme);
            for rest in ["", "2|", "0|3|bob"] {
                count(&desk, "203.0.113.7", rest, "5");
            }
            let reset = [&["reset", "--address", "203.0.113.7"], more].concat();
            assert_eq!(desk.says(0, &reset)["forgotten"], 3);
        }
    }
}

#[test]
fn a_network_is_shown_and_is_reset_only_by_its_own_bits() {
    let text = "login = 'gcra:5/1d'\nnetwork = 'gcra:50/1d'\n";
    let path = file("limits.toml", text);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        let seven = ["--address", "2001:db8:1:2::7"];
        let of = |bits| ["--ipv6-prefix", bits];
        let check = |whom: &[&str], limit: &str| {
            let limit = ["--limit", limit, "--limits", &path];
            desk.says(0, &[&["check"], whom, &limit].concat());
        };
        check(&seven, "login");
        check(&["--address", "2001:db8:1:3::7"], "login");
        for bits in ["48", "56"] {
            check(&[seven, of(bits)].concat(), "network");
        }
        let explain = [&["explain", "--limits", &path], &seven[..]].concat();
        let own = "2001:db8:1:2::/64";
        let answer = desk.says(0, &explain);
        assert_eq!(rests(&answer), [own, "", "2001:db8:1::/56"]);
        let left: Vec<_> = answer["limits"].as_array().unwrap().iter().collect();
        let left: Vec<_> = left.iter().map(|it| &it["remaining"]).collect();
        assert_eq!(left, [4, 49, 49]);
        let states = answer["states"].as_array().unwrap().iter();
        let networks: Vec<_> = states.map(|it| it["of_network"] == true).collect();
        assert_eq!(networks, [false, true, true]);
        let text = stdout(&desk.ask(&explain));
        let head = format!("explain 2001:db8:1::/48 {own}: 3 states\n");
        assert!(text.starts_with(&head), "{text}");
        let remark = "perhaps with other clients:\n- network=gcra:N/WINDOW\n";
        assert!(text.contains(remark), "{text}");

        let reset = |more: &[&str]| desk.says(0, &[&["reset"], &seven[..], more].concat());
        assert_eq!(rests(&reset(&["--dry-run"])), [own]);
        assert_eq!(rests(&reset(&of("48"))), [""]);
        assert_eq!(rests(&reset(&of("56"))), ["2001:db8:1::/56"]);
        assert_eq!(rests(&desk.says(0, &explain)), [own]);
        assert_eq!(desk.keys().len(), 2);
    }
}
