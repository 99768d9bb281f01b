//! A failure prints one line that says what to do, and exits with status 2.

use std::fs;
use std::process::Stdio;

use crate::program::{
    SAMPLE, fails, file, replay, replay_without_waiting, run, scratch, stderr, tollgate, words,
};

const LIMIT: &str = "--limit gcra:5/1m";

#[test]
fn unreadable_files_are_found_before_reading_starts() {
    let missing = scratch("missing.log");
    let folder = env!("CARGO_TARGET_TMPDIR");
    for unreadable in [&*missing, folder] {
        let output = replay_without_waiting("-", &format!("'{unreadable}' {LIMIT}"));
        fails(&output, &[unreadable, "readable"]);
    }
    // Standard input can be read only once.
    let output = replay_without_waiting("-", &format!("'{SAMPLE}' - {LIMIT}"));
    fails(&output, &["twice", "remove"]);
}

#[test]
fn a_log_without_requests_is_an_error() {
    for (name, content) in [
        ("empty.log", &b""[..]),
        ("noise.log", b"\xff\xff\n\0\n\n{}\n"),
    ] {
        let path = file(name, content);
        let output = replay(&path, &format!("--json {LIMIT}"));
        fails(&output, &[name, "no request found", "--format"]);
    }
}

#[test]
fn invalid_limits_and_keys_are_errors() {
    for (limit, hint) in [
        ("gcra:5", "expected `/` and a window"),
        ("gcra:5/0s", "window"),
        ("gcra:5/1week", "a unit"),
        ("gcra:0/1m,burst=3", "never refill"),
        ("gcra:9007199254740991/7us", "amount"),
        ("sliding-buckets:5/1m,buckets=0", "1 to 127"),
        ("sliding-log:999999999/1m", "too large"),
        ("fixed-window:5/1m,anchored,anchored", "expected"),
        ("leaky:5/1m", "gcra"),
        ("", "expected"),
    ] {
        let output = replay(SAMPLE, &format!("--limit '{limit}'"));
        fails(&output, &["--limit", limit, hint]);
    }
    let twice = replay(SAMPLE, "--limit gcra:5/1m --limit gcra:5/60s,burst=5");
    fails(&twice, &["gcra:5/1m", "twice", "remove"]);
    let many: String = (1..=33).map(|n| format!("--limit gcra:{n}/1m ")).collect();
    fails(&replay(SAMPLE, &many), &["33", "32"]);
    for key in ["agent", "", "ip+", "ip+ip", "IP", "ip path"] {
        let output = replay(SAMPLE, &format!("--key '{key}' {LIMIT}"));
        fails(&output, &["--key", "ip+path"]);
    }
    fails(
        &run("demo --quota 5/x"),
        &["--quota", "wrong at character 3"],
    );
}

#[test]
fn an_unwritable_report_is_an_error() {
    let report = format!("{}/report.html", &*scratch("nowhere"));
    let output = replay(SAMPLE, &format!("{LIMIT} --report '{report}'"));
    assert_eq!(output.status.code(), Some(2));
    // The results are printed nevertheless.
    assert!(!output.stdout.is_empty());
    assert!(stderr(&output).contains("report.html"));
}

#[test]
fn a_report_never_overwrites_the_log() {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let log = file("kept.log", &text);
    let (folder, name) = log.rsplit_once('/').unwrap();
    let mut others = vec![log.to_string(), format!("{folder}/./{name}")];
    #[cfg(unix)]
    let links = [scratch("soft.log"), scratch("hard.log")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&*log, &*links[0]).unwrap();
        fs::hard_link(&*log, &*links[1]).unwrap();
        others.extend(links.iter().map(|link| link.to_string()));
    }
    for report in &others {
        let output = replay(SAMPLE, &format!("'{}' --report '{report}' {LIMIT}", &*log));
        fails(&output, &["--report", report, "another"]);
        // The other way round, and then with the log as standard input.
        let output = replay(report, &format!("--report '{}' {LIMIT}", &*log));
        fails(&output, &["--report", &log, "another"]);
        if cfg!(unix) {
            let mut command = tollgate();
            command.args(["replay", "-", "--report", report]);
            command
                .args(words(LIMIT))
                .stdin(fs::File::open(&*log).unwrap());
            let output = command.output().unwrap();
            fails(&output, &["--report", report, "another"]);
        }
        assert_eq!(fs::read_to_string(&*log).unwrap(), text);
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let mut child = tollgate()
        .args(["replay", SAMPLE, "--limit", "gcra:1/1d", "--top", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
}

#[test]
fn messages_show_a_part_of_long_arguments() {
    let long = "x\u{1b}".repeat(5_000);
    for option in ["--limit", "--key"] {
        let output = replay(SAMPLE, &format!("{LIMIT} {option} {long}"));
        assert_eq!(output.status.code(), Some(2));
        let message = stderr(&output);
        assert!(message.contains("..."), "{message}");
        let holds = !message.contains('\u{1b}') && message.len() < 2_000;
        assert!(holds, "{message}");
    }
}
