//! Replays of real requests agree with the naive implementation.

use std::path::Path;
use std::{env, fs, panic};

use serde_json::json;

use crate::naive::{self, Kind, Limit};
use crate::program::{FULL, SAMPLE, file, replay, replay_json, stdout};

const SECOND: i128 = 1_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

const fn limit(text: &'static str, amount: i128, window_us: i128, kind: Kind) -> Limit {
    Limit {
        text,
        amount,
        window_us,
        kind,
        counts_denied: false,
    }
}

const fn counting_denied(mut limit: Limit) -> Limit {
    limit.counts_denied = true;
    limit
}

const LIMITS: [Limit; 16] = [
    limit("fixed-window:5/1m", 5, MINUTE, Kind::Aligned),
    limit("fixed-window:20/1h", 20, HOUR, Kind::Aligned),
    counting_denied(limit(
        "fixed-window:4/10s,count-denied",
        4,
        10 * SECOND,
        Kind::Aligned,
    )),
    limit("fixed-window:5/1m,anchored", 5, MINUTE, Kind::Anchored),
    counting_denied(limit(
        "fixed-window:3/7s,anchored,count-denied",
        3,
        7 * SECOND,
        Kind::Anchored,
    )),
    limit("sliding-log:5/1m", 5, MINUTE, Kind::Log),
    limit("sliding-log:20/1h", 20, HOUR, Kind::Log),
    counting_denied(limit(
        "sliding-log:3/20s,count-denied",
        3,
        20 * SECOND,
        Kind::Log,
    )),
    limit("sliding-counter:5/1m", 5, MINUTE, Kind::Counter),
    limit("sliding-counter:3/13s", 3, 13 * SECOND, Kind::Counter),
    limit(
        "sliding-buckets:20/1h,buckets=12",
        20,
        HOUR,
        Kind::Buckets { count: 12 },
    ),
    limit(
        "sliding-buckets:5/31s,buckets=7",
        5,
        31 * SECOND,
        Kind::Buckets { count: 7 },
    ),
    limit("gcra:5/1m", 5, MINUTE, Kind::Bucket { burst: 5 }),
    limit("gcra:10/1m,burst=3", 10, MINUTE, Kind::Bucket { burst: 3 }),
    limit(
        "gcra:7/1300ms,burst=2",
        7,
        1_300_000,
        Kind::Bucket { burst: 2 },
    ),
    limit("gcra:0/1m", 0, MINUTE, Kind::Bucket { burst: 0 }),
];

const COMPOSITES: [&[Limit]; 3] = [
    &[
        limit("gcra:5/1m", 5, MINUTE, Kind::Bucket { burst: 5 }),
        limit("fixed-window:30/1h", 30, HOUR, Kind::Aligned),
    ],
    &[
        limit("fixed-window:3/1s", 3, SECOND, Kind::Aligned),
        limit("fixed-window:20/1m", 20, MINUTE, Kind::Aligned),
        limit("sliding-log:9/40s", 9, 40 * SECOND, Kind::Log),
    ],
    &[
        counting_denied(limit(
            "sliding-log:6/30s,count-denied",
            6,
            30 * SECOND,
            Kind::Log,
        )),
        limit("sliding-counter:5/1m", 5, MINUTE, Kind::Counter),
        counting_denied(limit(
            "fixed-window:9/1m,anchored,count-denied",
            9,
            MINUTE,
            Kind::Anchored,
        )),
        limit("gcra:4/1m", 4, MINUTE, Kind::Bucket { burst: 4 }),
        limit(
            "sliding-buckets:8/1m,buckets=6",
            8,
            MINUTE,
            Kind::Buckets { count: 6 },
        ),
    ],
];

/// Returns the sample and a longer log: the one that `TOLLGATE_ACCESS_LOG` names, which must exist,
/// or otherwise the full log, if it exists.
fn logs() -> Vec<String> {
    logs_with(env::var_os("TOLLGATE_ACCESS_LOG").map(|log| log.into_string().unwrap()))
}

#[expect(
    clippy::print_stderr,
    reason = "a log that is absent is not passed over in silence"
)]
fn logs_with(named: Option<String>) -> Vec<String> {
    let mut logs = vec![SAMPLE.to_owned()];
    if let Some(log) = named {
        assert!(
            Path::new(&log).is_file(),
            "TOLLGATE_ACCESS_LOG names {log}, which is not there (a relative path starts at the \
             folder of this crate)"
        );
        logs.push(log);
    } else if Path::new(FULL).is_file() {
        logs.push(FULL.to_owned());
    } else {
        eprintln!("not used, for it is not there: {FULL}; TOLLGATE_ACCESS_LOG may name another");
    }
    eprintln!("logs used: {}", logs.join(", "));
    logs
}

#[test]
fn tests_read_the_sample_log_and_the_one_in_the_environment() {
    assert_eq!(logs_with(Some(FILE.to_owned())), [SAMPLE, FILE]);
    assert_eq!(logs_with(None)[0], SAMPLE);
    let missing = panic::catch_unwind(|| logs_with(Some("nowhere.log".to_owned())));
    assert!(missing.is_err());
}

/// Any file that exists.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

fn agrees(log: &str, key: &str, limits: &[Limit]) -> u64 {
    let (hits, skipped) = naive::read(&fs::read_to_string(log).unwrap());
    let mut arguments = vec![log, "--key", key];
    for limit in limits {
        arguments.extend(["--limit", limit.text]);
    }
    let found = replay_json(&arguments);
    let read_as = json!([{"format": "combined", "prefix": "none", "requests": hits.len()}]);
    let mut expected = naive::expected(hits, skipped, key, limits);
    expected["read_as"] = read_as;
    assert_eq!(found, expected, "{arguments:?}");
    found["denied"].as_u64().unwrap()
}

#[test]
fn each_algorithm_agrees_with_its_naive_form() {
    for log in logs() {
        for limit in LIMITS {
            let denied = agrees(&log, "ip", &[limit]);
            // Other logs may have no requests to deny.
            let is_known = [SAMPLE, FULL].contains(&&*log);
            assert!(
                denied > 0 || !is_known || limit.window_us < 2 * SECOND,
                "{}: idle",
                limit.text
            );
        }
    }
}

#[test]
fn several_limits_agree_with_their_naive_form() {
    for log in logs() {
        for limits in COMPOSITES {
            agrees(&log, "ip", limits);
        }
    }
}

#[test]
fn every_kind_of_key_agrees_with_the_naive_form() {
    for log in logs() {
        for key in ["path", "user", "ip+path", "path+ip", "user+ip+path"] {
            agrees(&log, key, COMPOSITES[0]);
            agrees(&log, key, &[limit("sliding-log:2/1h", 2, HOUR, Kind::Log)]);
        }
    }
}

#[test]
fn requests_are_replayed_in_order_of_time() {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let run =
        |log: &str| replay_json(&[log, "--limit", "gcra:5/1m", "--limit", "sliding-log:9/1h"]);
    let as_is = run(SAMPLE);
    lines.reverse();
    assert_eq!(run(&file("reversed.log", lines.join("\n"))), as_is);
}

#[test]
fn several_files_are_one_log() {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let odd: Vec<&str> = lines.iter().skip(1).step_by(2).copied().collect();
    let even: Vec<&str> = lines.iter().step_by(2).copied().collect();
    let limit = ["--limit", "fixed-window:5/1m"];
    let (odd, even) = (
        file("odd.log", odd.join("\n")),
        file("even.log", even.join("\n")),
    );
    let apart = replay_json(&[&[&*odd, &*even], &limit[..]].concat());
    assert_eq!(apart, replay_json(&[&[SAMPLE], &limit[..]].concat()));
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
    assert!(output.status.success(), "{output:?}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["requests"], 64);
}

#[test]
fn composite_keys_do_not_collide() {
    let line = |ip: &str, user: &str| {
        format!("{ip} - {user} [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    // Users whose names contain possible separators are separate keys.
    let log: String = [
        line("10.0.0.1", "b c"),
        line("10.0.0.1", "b c"),
        line("10.0.0.1", "b+c"),
        line("10.0.0.1", "b\0c"),
    ]
    .concat();
    let found = replay_json(&[
        &file("keys.log", log),
        "--key",
        "ip+user",
        "--limit",
        "gcra:1/1m",
    ]);
    assert_eq!(found["keys"], 3);
    assert_eq!(found["denied"], 1);
    assert_eq!(found["top_denied"][0]["key"], "10.0.0.1 b c");
}

#[test]
fn requests_without_a_user_are_counted_together() {
    let found = replay_json(&[SAMPLE, "--key", "user", "--limit", "fixed-window:1/1d"]);
    assert_eq!(found["keys"], 1);
    assert_eq!(found["top_denied"][0]["key"], "-");
}

#[test]
fn a_path_is_counted_without_its_query() {
    let line = |path: &str| {
        format!("10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" 200 1\n")
    };
    let log = [line("/a?x=1"), line("/a"), line("/a?"), line("/b")].concat();
    let found = replay_json(&[
        &file("paths.log", log),
        "--key",
        "path",
        "--limit",
        "gcra:1/1m",
    ]);
    assert_eq!(found["keys"], 2);
    assert_eq!(found["denied"], 2);
}

#[test]
fn the_top_list_has_the_requested_length() {
    let top =
        |n: &str| replay_json(&[SAMPLE, "--limit", "gcra:1/1d", "--top", n])["top_denied"].clone();
    let all = top("100000");
    let all = all.as_array().unwrap();
    assert!(all.len() > 20);
    for n in [0, 1, 5, 17] {
        let some = top(&n.to_string());
        assert_eq!(some.as_array().unwrap()[..], all[..n]);
    }
}

#[test]
fn a_replays_tables_and_json_agree() {
    let arguments = [
        SAMPLE,
        "--limit",
        "gcra:5/1m",
        "--limit",
        "fixed-window:30/1h",
    ];
    let json = replay_json(&arguments);
    let text = stdout(&replay(&arguments));
    let has_row = |name: &str, number: u64| {
        let is_row = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.next() == Some(&number.to_string())
        };
        assert!(text.lines().any(is_row), "{name} {number} in\n{text}");
    };
    has_row("allowed", json["allowed"].as_u64().unwrap());
    has_row("denied", json["denied"].as_u64().unwrap());
    for limit in json["limits"].as_array().unwrap() {
        has_row(
            limit["limit"].as_str().unwrap(),
            limit["refused"].as_u64().unwrap(),
        );
    }
    for key in json["top_denied"].as_array().unwrap() {
        has_row(
            key["key"].as_str().unwrap(),
            key["denied"].as_u64().unwrap(),
        );
    }
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "a check that is not made is not passed over in silence"
)]
fn the_readme_shows_the_output_of_a_replay() {
    if !Path::new(FULL).is_file() {
        eprintln!("the manual is not checked, for the log it shows is not there: {FULL}");
        return;
    }
    let manual = include_str!("../../README.md");
    let limits = ["--limit", "gcra:5/1m", "--limit", "fixed-window:30/1h"];
    for options in [&["--key", "ip"][..], &["--top", "2", "--json"]] {
        let text = stdout(&replay(&[&[FULL], options, &limits[..]].concat()));
        assert!(manual.contains(&format!("\n{text}```")), "{text}");
    }
}
