//! Any number of threads gives the same answer.

use std::fs;
use std::process::Output;

use crate::formats::packed;
use crate::program::{SAMPLE, Scratch, file, scratch, stderr, tollgate};

const JOBS: [&str; 5] = ["1", "2", "3", "7", "64"];

/// Returns logs of several blocks each: plain, packed, and with the requests in reverse, with lines
/// far apart that are skipped, and with keys that appear early, late, and in one log only.
fn logs() -> [Scratch; 3] {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let log = |name: &str, bad: &[(usize, &str)]| {
        let mut log = String::new();
        for round in 0..6 {
            for (number, line) in text.lines().enumerate() {
                let number = round * 1_000 + number;
                for (_, text) in bad.iter().filter(|(at, _)| *at == number) {
                    log += &format!("{text}\n");
                }
                let (_, rest) = line.split_once(' ').unwrap();
                // Some keys have many requests, and others one.
                let key = if number.is_multiple_of(3) {
                    number % 7
                } else {
                    number
                };
                log += &format!("{name}-{key} {rest}\n");
            }
        }
        assert!(log.len() > 4 * 256 * 1024);
        log
    };
    let mut reverse: Vec<_> = log("c", &[(5, "10.0.0.1 - - x")])
        .lines()
        .map(str::to_owned)
        .collect();
    reverse.reverse();
    [
        file(
            "plain.log",
            log("a", &[(4_000, "this is no request"), (4_001, "{")]),
        ),
        file("packed.log", packed(log("a", &[(5_999, " ")]).as_bytes())),
        file("reverse.log", reverse.join("\n")),
    ]
}

fn run(jobs: &str, arguments: &[&str]) -> Output {
    let mut command = tollgate();
    command.args(arguments).args(["--jobs", jobs]);
    command.output().unwrap()
}

#[test]
fn replays_and_advice_are_the_same_with_any_number_of_threads() {
    let logs = logs();
    let logs = logs.each_ref().map(|log| &**log);
    let report = scratch("report.html");
    let replay = ["--limit", "gcra:2/1m", "--limit", "sliding-log:5/1h"];
    let commands: [(&str, &[&str]); 4] = [
        ("replay", &["--key", "client", "--report", &report]),
        (
            "replay",
            &["--key", "client+path", "--json", "--top", "100000"],
        ),
        ("advise", &["--key", "client", "--report", &report]),
        ("advise", &["--key", "client", "--json", "--top", "1000"]),
    ];
    for (command, options) in commands {
        let limits = if command == "replay" {
            &replay[..]
        } else {
            &[]
        };
        let arguments = [&[command][..], &logs, options, limits].concat();
        let mut first = None;
        for jobs in JOBS {
            let _ = fs::remove_file(&*report);
            let output = run(jobs, &arguments);
            assert!(output.status.success(), "{}", stderr(&output));
            let page = fs::read_to_string(&*report).unwrap_or_default();
            assert_eq!(page.is_empty(), !options.contains(&"--report"));
            let found = (output.stdout, output.stderr, page);
            let first = first.get_or_insert_with(|| found.clone());
            assert_eq!(*first, found, "{command} with {jobs} jobs");
        }
        let (_, remarks, _) = first.unwrap();
        let remarks = String::from_utf8(remarks).unwrap();
        let [plain, packed, reverse] = logs;
        for place in [
            format!("{plain}:4001: "),
            format!("{plain}:4003: "),
            format!("{packed}:6000: "),
            format!("{reverse}:5996: "),
        ] {
            assert!(remarks.contains(&place), "{place} in {remarks}");
        }
    }
}

#[test]
fn one_request_is_enough_for_many_threads() {
    let line = "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1";
    let log = file("one.log", line);
    let empty = file("empty.log", "");
    let answer = |jobs| {
        let arguments = ["replay", &empty, &log, &empty, "--limit", "gcra:2/1m"];
        let output = run(jobs, &arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    for jobs in JOBS {
        assert_eq!(answer(jobs), answer("1"), "{jobs} jobs");
    }
}

#[test]
fn an_unreadable_log_ends_all_threads() {
    let mut short = packed(fs::read_to_string(&*logs()[0]).unwrap().as_bytes());
    short.truncate(short.len() / 2);
    let (short, other) = (file("short.gz", &short), file("other.gz", &short));
    for jobs in JOBS.repeat(4) {
        // Of several, the first one is named.
        let logs = [SAMPLE, &short, &other, &other, &other];
        let arguments = [&["replay"], &logs[..], &["--limit", "gcra:5/1m"]].concat();
        let output = run(jobs, &arguments);
        assert_eq!(output.status.code(), Some(2), "{jobs} jobs");
        assert!(output.stdout.is_empty());
        let said = stderr(&output);
        assert!(said.starts_with("tollgate: cannot read ") && said.contains("short.gz"));
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn at_least_one_thread_is_needed() {
    for jobs in ["0", "65", "many", ""] {
        let output = run(jobs, &["replay", SAMPLE, "--limit", "gcra:5/1m"]);
        assert_eq!(output.status.code(), Some(2), "{jobs}");
        assert!(stderr(&output).contains("--jobs"), "{}", stderr(&output));
    }
}
