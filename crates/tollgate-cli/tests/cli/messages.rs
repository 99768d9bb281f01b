//! What reaches the terminal: no secrets, no control characters, and numbers that agree with their
//! nouns.

use std::fs;

use crate::desk::Desk;
use crate::program::{SAMPLE, fails, file, has, run, scratch, stderr, stdout, tollgate, words};

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
        for line in "\
ADDRESS
check a --limit a=gcra:1/1s --store redis://h ADDRESS
check a --limit a=gcra:1/1s --store redis://h --limit=ADDRESS
check a --limit a=gcra:1/1s --store redis://h --limit ADDRESS
check a --limit a=gcra:1/1s --store redis://h --cost ADDRESS
doctor --store redis://127.0.0.1:1 ADDRESS
doctor --store redis://127.0.0.1:1 --time-source ADDRESS
doctor --store redis://127.0.0.1:1 --prefix ADDRESS
doctor --store ADDRESS --tls-ca ADDRESS
replay ADDRESS --limit gcra:1/1s
replay LOG --limit gcra:1/1s --limit ADDRESS
replay LOG --limit gcra:1/1s --key ADDRESS
replay LOG --limit gcra:1/1s --store rediss://127.0.0.1:1 --tls-ca ADDRESS
replay LOG --limit gcra:1/1s --report ADDRESS/x
advise LOG --window ADDRESS
schedule plan ADDRESS --quota 1/1m
schedule plan LOG --quota ADDRESS
schedule plan LOG --per-day 1 --time-zone ADDRESS
schedule ADDRESS"
            .lines()
        {
            let arguments = words(line).into_iter();
            let arguments =
                arguments.map(|word| word.replace("ADDRESS", address).replace("LOG", SAMPLE));
            let arguments: Vec<_> = arguments.collect();
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
            let hints = ["KEY: ...", "--store", "--key"];
            fails(&desk.ask(&format!("{command} {address}")), &hints);
            let output = desk.ask(&format!("{command} --key {address}"));
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
    for line in [
        &format!("replay '{missing}' --limit gcra:1/1s"),
        &format!("replay '{}' --limit gcra:1/1s", &*file(evil, "nothing\n")),
        &format!("schedule plan '{}' --quota 1/1m", &*noise),
        &format!("schedule plan '{missing}' --quota 1/1m"),
        &format!("doctor --store rediss://127.0.0.1:1 --tls-ca '{missing}'"),
        &format!("doctor --store 'redis://127.0.0.1:1/{evil}'"),
        &format!("doctor --store '{evil}://127.0.0.1:1'"),
    ] {
        fails(&run(line), &[shown]);
    }
    for line in [
        &format!("replay '{SAMPLE}' --limit gcra:1/1s --report '{folder}'"),
        &format!("'{evil}'"),
        &format!("doctor '{evil}'"),
        &format!("peek --cost '{evil}'"),
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        let text = stderr(&output);
        // The parser of arguments leaves out sequences that choose a colour.
        assert!(text.contains("\\u{9b}2J\\u{202e}b\\rc"), "{text:?}");
        let holds = !text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r']);
        assert!(holds, "{text:?}");
    }
    // JSON escapes what would do harm, and means the same.
    let desk = Desk::new("redis");
    let text = desk.text(&format!(
        "check --json --limit login=gcra:5/1m --key '{evil}'"
    ));
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text:?}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["key"], evil);
}

#[test]
fn numbers_agree_with_their_nouns() {
    let line = fs::read_to_string(SAMPLE).unwrap();
    let one = file("one.log", line.lines().next().unwrap());
    let text = stdout(&run(&format!("replay '{}' --limit gcra:5/1m", &*one)));
    assert!(text.starts_with("1 request of 1 key (ip), "), "{text}");
    let message = file("one.csv", "key,id,time\nalice,a,2026-03-01T08:00:00Z\n");
    for (command, file, noun) in [
        ("replay --limit gcra:5/1m", &one, "request"),
        ("advise", &one, "request"),
        ("schedule plan --quota 1/1h", &message, "message"),
    ] {
        let report = scratch("one.html");
        let output = run(&format!("{command} '{}' --report '{}'", &**file, &*report));
        assert!(output.status.success(), "{}", stderr(&output));
        let page = fs::read_to_string(&*report).unwrap();
        for noun in [noun, "key"] {
            has(&page, &format!("<b>1</b> {noun}<small>"));
        }
    }
}
