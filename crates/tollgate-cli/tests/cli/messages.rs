//! What reaches the terminal: no secrets, no control characters, and numbers that agree with their
//! nouns.

use std::fs;

use crate::desk::Desk;
use crate::program::{SAMPLE, fails, file, replay, scratch, stderr, stdout, tollgate};

/// An address with a password, and the same with a query that holds one.
const ADDRESSES: [&str; 4] = [
    "redis://user:sesame@127.0.0.1:1/0",
    "redis-sentinel://127.0.0.1:1?sentinelPassword=sesame",
    "user:sesame@127.0.0.1:1",
    "redis:/user:sesame@127.0.0.1:1",
];

#[test]
fn a_password_in_the_wrong_place_is_not_printed() {
    let long = format!("redis://user:{}@127.0.0.1:1", "sesame".repeat(50));
    let quoted = "redis://user:\"ses\\ame\"sesame@127.0.0.1:1";
    for address in ADDRESSES.into_iter().chain([&*long, quoted]) {
        let option = format!("--limit={address}");
        let report = format!("{address}/x");
        let check = [
            "check",
            "a",
            "--limit",
            "a=gcra:1/1s",
            "--store",
            "redis://h",
        ];
        let replay = ["replay", SAMPLE, "--limit", "gcra:1/1s"];
        let doctor = ["doctor", "--store", "redis://127.0.0.1:1"];
        let plan = ["schedule", "plan", SAMPLE];
        for (command, arguments) in [
            (&[][..], &[address][..]),
            // A second word.
            (&check, &[address]),
            (&check, &[&option]),
            (&check, &["--limit", address]),
            (&check, &["--cost", address]),
            (&doctor, &[address]),
            (&doctor, &["--time-source", address]),
            (&doctor, &["--prefix", address]),
            (&["doctor"], &["--store", address, "--tls-ca", address]),
            (&["replay", address], &replay[2..]),
            (&replay, &["--limit", address]),
            (&replay, &["--key", address]),
            (
                &replay,
                &["--store", "rediss://127.0.0.1:1", "--tls-ca", address],
            ),
            (&replay, &["--report", &report]),
            (&["advise", SAMPLE], &["--window", address]),
            (&["schedule", "plan", address], &["--quota", "1/1m"]),
            (&plan, &["--quota", address]),
            (&plan, &["--per-day", "1", "--time-zone", address]),
            (&["schedule"], &[address]),
        ] {
            let arguments = [command, arguments].concat();
            let output = tollgate().args(&arguments).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{arguments:?}");
            let text = stderr(&output);
            let holds = !text.contains("sesame") && !text.contains("ses\\");
            assert!(holds, "{arguments:?}: {text}");
            // The rest of the address helps to find the place.
            assert!(text.contains("..."), "{arguments:?}: {text}");
        }
    }
}

#[test]
fn an_address_is_not_taken_for_a_key() {
    let desk = Desk::new("redis");
    for command in ["explain", "reset"] {
        for address in [ADDRESSES[0], ADDRESSES[1], "freds-cluster://u:sesame@h"] {
            let words = ["KEY: ...", "--store", "--key"];
            fails(&desk.ask(&[command, address]), &words);
            let output = desk.ask(&[command, "--key", address]);
            assert_eq!(stderr(&output), "");
        }
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let evil = "a\u{1b}[31m\u{9b}2J\u{202e}b\rc";
    let shown = "a\\u{1b}[31m\\u{9b}2J\\u{202e}b\\rc";
    let missing = format!("{}-{evil}", &*scratch("missing"));
    let noise = file(&format!("{evil}.csv"), "key,id,time\nalice,a,noon\n");
    let folder = format!("{missing}/report.html");
    let run = |arguments: &[&str]| tollgate().args(arguments).output().unwrap();
    for arguments in [
        &["replay", &missing, "--limit", "gcra:1/1s"][..],
        &["replay", &file(evil, "nothing\n"), "--limit", "gcra:1/1s"],
        &["schedule", "plan", &noise, "--quota", "1/1m"],
        &["schedule", "plan", &missing, "--quota", "1/1m"],
        &[
            "doctor",
            "--store",
            "rediss://127.0.0.1:1",
            "--tls-ca",
            &missing,
        ],
        &["doctor", "--store", &format!("redis://127.0.0.1:1/{evil}")],
        &["doctor", "--store", &format!("{evil}://127.0.0.1:1")],
    ] {
        fails(&run(arguments), &[shown]);
    }
    for arguments in [
        &[
            "replay",
            SAMPLE,
            "--limit",
            "gcra:1/1s",
            "--report",
            &folder,
        ][..],
        &[evil],
        &["doctor", evil],
        &["peek", "--cost", evil],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = stderr(&output);
        // The parser of arguments leaves out sequences that choose a colour.
        assert!(text.contains("\\u{9b}2J\\u{202e}b\\rc"), "{text:?}");
        let holds = !text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r']);
        assert!(holds, "{text:?}");
    }
    // JSON escapes what would do harm, and means the same.
    let desk = Desk::new("redis");
    let limit = ["--limit", "login=gcra:5/1m", "--key", evil];
    let output = desk.ask(&[&["check", "--json"][..], &limit].concat());
    let text = stdout(&output);
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text:?}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["key"], evil);
}

#[test]
fn numbers_agree_with_their_nouns() {
    let line = fs::read_to_string(SAMPLE).unwrap();
    let one = file("one.log", line.lines().next().unwrap());
    let limit = ["--limit", "gcra:5/1m"];
    let text = stdout(&replay(&[&[&*one], &limit[..]].concat()));
    assert!(text.starts_with("1 request of 1 key (ip), "), "{text}");
    let report = scratch("one.html");
    let output = replay(&[&[&*one, "--report", &report], &limit[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let advised = scratch("advised.html");
    let output = tollgate()
        .args(["advise", &one, "--report", &advised])
        .output();
    assert!(output.unwrap().status.success());
    let planned = scratch("planned.html");
    let message = file("one.csv", "key,id,time\nalice,a,2026-03-01T08:00:00Z\n");
    let output = tollgate()
        .args([
            "schedule", "plan", &message, "--quota", "1/1h", "--report", &planned,
        ])
        .output();
    assert!(output.unwrap().status.success());
    for (report, nouns) in [
        (report, ["request", "key"]),
        (advised, ["request", "key"]),
        (planned, ["message", "key"]),
    ] {
        let page = fs::read_to_string(&*report).unwrap();
        for noun in nouns {
            let said = format!("<b>1</b> {noun}<small>");
            assert!(page.contains(&said), "{noun}: {page}");
        }
    }
}
