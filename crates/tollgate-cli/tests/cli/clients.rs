//! Clients by address and by API key, counted as the layer of `tollgate-http` counts them.

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::program::{answer, fails, file, has, has_fields, stdout, with_input};

/// The first half of the SHA-256 of `secret`, as the layer writes it.
const HASH: &str = "sha256-2bb80d537b1da3e38bd30361aa855686";

#[test]
fn an_address_is_counted_by_its_network() {
    // Beside the client are counted: its neighbour, the same client of another limiter, and an IPv4 address. What
    // limits in full read is reset without a search.
    let script = r#"
        0 check --key 2001:db8:1::/48 --rest 2001:db8:1:2::/64 --cost 5 LOGIN
        0 check --key 2001:db8:1::/48 --rest 2001:db8:1:3::/64 LOGIN
        0 check --key 2001:db8:1::/48 --rest 2|2001:db8:1:2::/64 --cost 4 LOGIN
        0 check --key 203.0.113.7 --cost 3 LOGIN
        0 explain SEVEN => states.*.rest=["2001:db8:1:2::/64", "2|2001:db8:1:2::/64"]
        1 peek SEVEN LOGIN => remaining=0
        1 peek --address [2001:db8:1:2::7]:80 LOGIN => remaining=0
        1 peek --address 2001:db8:1:2::/64 LOGIN => remaining=0
        0 peek --address 2001:db8:1:2::/56 LOGIN => remaining=5
        0 peek SEVEN LOGIN --or 2 => remaining=1
        0 peek SEVEN LOGIN --or 1 => remaining=5
        0 peek SEVEN LOGIN --ipv6-prefix 56 => remaining=5
        0 explain SEVEN LOGIN => limits.0.rest="2001:db8:1:2::/64" & limits.0.remaining=0
        0 explain SEVEN LOGIN => limits.1.rest="2|2001:db8:1:2::/64" & limits.1.remaining=1
        0 block SEVEN --limit ban=block:15m
        1 peek SEVEN --limit ban=block:15m => allowed=false
        0 reset SEVEN --dry-run --rest 2|2001:db8:1:2::/64 => states.*.rest=["2|2001:db8:1:2::/64"]
        0 reset SEVEN LOGIN --dry-run => states.*.rest=["2001:db8:1:2::/64", "2|2001:db8:1:2::/64"]
        0 reset SEVEN => forgotten=3
        0 explain SEVEN => states=[]
        1 reset SEVEN => other_states=none
        0 peek --address 203.0.113.7 LOGIN => remaining=2
        0 peek --address 203.0.113.7:123 LOGIN => remaining=2
        0 peek --address ::ffff:203.0.113.7 LOGIN => remaining=2
        0 peek --address 64:ff9b::cb00:7107 LOGIN => remaining=2
    "#;
    let script = script.replace("SEVEN", "--address 2001:db8:1:2::7");
    let script = script.replace("LOGIN", "--limit login=gcra:5/1d");
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        desk.plays(&script);
        // The neighbour has kept its state.
        assert_eq!(desk.keys().len(), 2);
    }
}

#[test]
fn an_api_key_is_counted_by_its_hash() {
    let desk = Desk::new("redis");
    let check = format!("check --key {HASH} --limit login=gcra:5/1d");
    desk.says(0, &format!("{check} --cost 3"));
    desk.says(0, &format!("{check} --cost 4 --rest 1|"));
    for (or, left) in [("", 2), ("--or 1", 1)] {
        let peek = format!("peek --api-key --json --limit login=gcra:5/1d {or}");
        for input in ["secret\n", "secret", " secret\r\n", "\u{feff}secret\n"] {
            let output = with_input(desk.command(&peek), input);
            assert!(!stdout(&output).contains("secret"));
            let answer = answer(&output, 0);
            let found = (&answer["key"], &answer["remaining"]);
            assert_eq!(found, (&json!(HASH), &json!(left)));
        }
    }
    let explain = stdout(&with_input(desk.command("explain --api-key"), "secret"));
    let said = format!("explain {HASH}: 2 states\n");
    assert!(explain.starts_with(&said), "{explain}");
    let reset = stdout(&with_input(desk.command("reset --api-key"), "secret"));
    has(&reset, ": 2 states forgotten\n");
    let long = "k".repeat(70_000);
    for input in ["", "\n", "one\ntwo\n", &long] {
        let output = with_input(desk.command("explain --api-key"), input);
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
        let asks = |line: &str, address: &str| -> Value {
            let mut command = desk.command(&format!("{line} --address {address} --json"));
            answer(&command.envs(secret).output().unwrap(), 0)
        };
        let check = "check --or 2 --limit login=gcra:5/1d";
        asks(check, address);
        asks(check, "2001:db8:1:3::7");
        let found = asks(&format!("explain --limits {}", &*path), address);
        has_fields(&found, "limits.0.remaining=4 & limits.0.has_state=true");
        let rest = found["states"][0]["rest"].as_str().unwrap();
        assert!(rest.starts_with("2|"), "{rest}");
        let of_file = format!("reset --limit login --limits {}", &*path);
        for reset in ["reset", "reset --limit login", &of_file] {
            assert_eq!(asks(reset, address)["forgotten"], 1, "{reset}");
            asks(check, address);
        }
        assert_eq!(desk.keys().len(), 2);
    }
}

/// A reset of a limit leaves no rest of the client by which it still denies them.
#[test]
fn a_reset_of_a_limit_finds_what_the_layer_adds_to_a_client() {
    let path = file("limits.toml", "login = 'gcra:5/1d'");
    for scheme in ["redis", "fred"] {
        for limit in [&format!("login --limits {}", &*path), "login=gcra:5/1d"] {
            let desk = Desk::new(scheme);
            for rest in ["", "2|", "0|3|bob"] {
                let key = format!("--key 203.0.113.7 --rest '{rest}'");
                desk.says(0, &format!("check {key} --cost 5 --limit login=gcra:5/1d"));
            }
            let reset = format!("reset --address 203.0.113.7 --limit {limit}");
            desk.plays(&format!("0 {reset} => forgotten=3"));
        }
    }
}

#[test]
fn a_network_is_shown_and_is_reset_only_by_its_own_bits() {
    let text = "login = 'gcra:5/1d'\nnetwork = 'gcra:50/1d'\n";
    let path = file("limits.toml", text);
    let script = |text: &str| {
        let text = text.replace("SEVEN", "--address 2001:db8:1:2::7");
        let text = text.replace("FILE", &format!("--limits {}", &*path));
        text.replace("OWN", "2001:db8:1:2::/64")
    };
    let [before, after] = [
        r#"
        0 check SEVEN --limit login FILE
        0 check --address 2001:db8:1:3::7 --limit login FILE
        0 check SEVEN --ipv6-prefix 48 --limit network FILE
        0 check SEVEN --ipv6-prefix 56 --limit network FILE
        0 explain SEVEN FILE => states.*.rest=["OWN", "", "2001:db8:1::/56"] & limits.*.remaining=[4, 49, 49]
        0 explain SEVEN FILE => states.*.of_network=[null, true, true]
        "#,
        r#"
        0 reset SEVEN --dry-run => states.*.rest=["OWN"]
        0 reset SEVEN --ipv6-prefix 48 => states.*.rest=[""]
        0 reset SEVEN --ipv6-prefix 56 => states.*.rest=["2001:db8:1::/56"]
        0 explain SEVEN FILE => states.*.rest=["OWN"]
        "#,
    ]
    .map(script);
    for scheme in ["redis", "fred"] {
        let desk = Desk::new(scheme);
        desk.plays(&before);
        let text = desk.text(&script("explain SEVEN FILE"));
        let head = script("explain 2001:db8:1::/48 OWN: 3 states\n");
        assert!(text.starts_with(&head), "{text}");
        let remark = "perhaps with other clients:\n- network=gcra:N/WINDOW\n";
        has(&text, remark);
        desk.plays(&after);
        assert_eq!(desk.keys().len(), 2);
    }
}
