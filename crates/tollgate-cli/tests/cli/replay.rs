//! Replays of real requests give the numbers of the algorithms' definitions.

use std::{fs, iter};

use serde_json::json;

use crate::expected;
use crate::program::{SAMPLE, answer, file, full, has, replay, replay_json, stdout};

pub(crate) const LIMITS: [&str; 16] = [
    "fixed-window:5/1m",
    "fixed-window:20/1h",
    "fixed-window:4/10s,count-denied",
    "fixed-window:5/1m,anchored",
    "fixed-window:3/7s,anchored,count-denied",
    "sliding-log:5/1m",
    "sliding-log:20/1h",
    "sliding-log:3/20s,count-denied",
    "sliding-counter:5/1m",
    "sliding-counter:3/13s",
    "sliding-buckets:20/1h,buckets=12",
    "sliding-buckets:5/31s,buckets=7",
    "gcra:5/1m",
    "gcra:10/1m,burst=3",
    "gcra:7/1300ms,burst=2",
    "gcra:0/1m",
];

pub(crate) const COMPOSITES: [&[&str]; 3] = [
    &["gcra:5/1m", "fixed-window:30/1h"],
    &[
        "fixed-window:3/1s",
        "fixed-window:20/1m",
        "sliding-log:9/40s",
    ],
    &[
        "sliding-log:6/30s,count-denied",
        "sliding-counter:5/1m",
        "fixed-window:9/1m,anchored,count-denied",
        "gcra:4/1m",
        "sliding-buckets:8/1m,buckets=6",
    ],
];

fn logs() -> impl Iterator<Item = &'static str> {
    iter::once(SAMPLE).chain(full())
}

fn agrees(log: &str, key: &str, limits: &[&str]) -> u64 {
    let (hits, skipped) = expected::read(&fs::read_to_string(log).unwrap());
    let options = format!("--key {key} --limit {}", limits.join(" --limit "));
    let found = replay_json(log, &options);
    let read_as = json!([{"format": "combined", "prefix": "none", "requests": hits.len()}]);
    let mut expected = expected::of_replay(hits, skipped, key, limits);
    expected["read_as"] = read_as;
    assert_eq!(found, expected, "{options}");
    found["denied"].as_u64().unwrap()
}

#[test]
fn replays_agree_with_the_definitions_of_their_limits() {
    for log in logs() {
        for limit in LIMITS {
            let denied = agrees(log, "ip", &[limit]);
            assert!(denied > 0, "{limit}: idle");
        }
        for limits in COMPOSITES {
            agrees(log, "ip", limits);
        }
        for key in ["path", "user", "ip+path", "path+ip", "user+ip+path"] {
            agrees(log, key, COMPOSITES[0]);
            agrees(log, key, &["sliding-log:2/1h"]);
        }
    }
}

#[test]
fn several_files_are_one_log() {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let odd: Vec<&str> = lines.iter().skip(1).step_by(2).copied().collect();
    let even: Vec<&str> = lines.iter().step_by(2).copied().collect();
    let [odd, even] = [odd, even].map(|lines| file("half.log", lines.join("\n")));
    let limit = "--limit fixed-window:5/1m";
    let apart = replay_json(&odd, &format!("'{}' {limit}", &*even));
    assert_eq!(apart, replay_json(SAMPLE, limit));
}

#[cfg(unix)]
#[test]
fn log_files_are_closed_after_reading() {
    let line = "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let logs: Vec<_> = (0..64).map(|_| file("one.log", line)).collect();
    // The limit on open files leaves room for three streams and one log.
    let script = "ulimit -n 4 && exec \"$0\" replay --json --limit gcra:5/1m \"$@\"";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_tollgate")])
        .args(logs.iter().map(|log| &**log))
        .output()
        .unwrap();
    assert_eq!(answer(&output, 0)["requests"], 64);
}

#[test]
fn the_top_list_has_the_requested_length() {
    let top = |n: usize| {
        let options = format!("--limit gcra:1/1d --top {n}");
        replay_json(SAMPLE, &options)["top_denied"].clone()
    };
    let all = top(100_000);
    let all = all.as_array().unwrap();
    assert!(all.len() > 13);
    for n in [0, 1, 5, 13] {
        assert_eq!(top(n).as_array().unwrap()[..], all[..n]);
    }
}

#[test]
fn the_readme_shows_the_output_of_a_replay() {
    let Some(log) = full() else {
        return;
    };
    let manual = include_str!("../../README.md");
    let limits = "--limit gcra:5/1m --limit fixed-window:30/1h";
    for options in ["--key ip", "--top 2 --json"] {
        let text = stdout(&replay(log, &format!("{options} {limits}")));
        has(manual, &format!("\n{text}```"));
    }
}
