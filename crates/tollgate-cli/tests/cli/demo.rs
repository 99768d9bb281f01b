//! The command `tollgate demo`.

use std::fs;

use crate::program::{conclusion, scratch, stderr, stdout, tollgate};

#[test]
fn a_demo_is_deterministic() {
    let run = || {
        let report = scratch("demo.html");
        let output = tollgate()
            .args(["demo", "--report", &*report])
            .output()
            .unwrap();
        assert!(output.status.success());
        (stdout(&output), fs::read_to_string(&*report).unwrap())
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.1.contains("<svg"));
}

#[test]
fn the_readme_shows_the_output_of_the_demo() {
    let manual = include_str!("../../README.md");
    let text = stdout(&tollgate().arg("demo").output().unwrap());
    assert!(
        manual.contains(&format!("$ tollgate demo\n{text}```")),
        "{text}"
    );
}

#[test]
fn a_demo_compares_every_algorithm() {
    let text = stdout(&tollgate().arg("demo").output().unwrap());
    for row in [
        "fixed-window:60/1m ",
        "fixed-window:60/1m,anchored ",
        "sliding-counter:60/1m ",
        "sliding-log:60/1m ",
        "sliding-buckets:60/1m,buckets=12 ",
        "gcra:60/1m ",
        "gcra:60/1m,burst=1 ",
    ] {
        assert!(text.contains(&format!("\n{row}")), "{row}");
    }
    let is_verdict = |limit: &str, verdict: &str| {
        let line = text.lines().find(|line| line.starts_with(limit)).unwrap();
        assert!(line.ends_with(verdict), "{line}");
    };
    is_verdict("sliding-log:60/1m", "  never over");
    is_verdict("fixed-window:60/1m ", "  far over the quota");
}

#[test]
fn the_report_of_a_demo_says_what_its_table_says() {
    let report = scratch("verdicts.html");
    let output = tollgate()
        .args(["demo", "--report", &*report])
        .output()
        .unwrap();
    let (text, html) = (stdout(&output), fs::read_to_string(&*report).unwrap());
    let said = conclusion(&html);
    let mut verdicts = 0;
    for line in text.lines().filter(|line| line.contains(":60/1m")) {
        let cells: Vec<_> = line.split("  ").filter(|cell| !cell.is_empty()).collect();
        let [limit, .., others, _worst, verdict] = cells[..] else {
            continue;
        };
        let start = html.rfind(&format!("<td><code>{limit}</code>")).unwrap();
        let (row, _) = html[start..].split_once("</tr>").unwrap();
        let (verdict, others) = (verdict.trim(), others.trim());
        let judged =
            format!("</td><td class=\"verdict\">{verdict}</td><td class=\"n\">{others}</td>");
        assert!(row.contains(&judged), "{row} does not say {judged}");
        // The first window is furthest over, and the log is the one that is kept and spares the others.
        let is_named = ["fixed-window:60/1m", "sliding-log:60/1m"].contains(&limit);
        assert_eq!(said.contains(&format!("{limit} ")), is_named, "{said}");
        verdicts += 1;
    }
    assert_eq!(verdicts, 7);
    assert!(said.starts_with("With 60/1m for each client, sliding-log:60/1m kept"));
}

#[test]
fn a_demo_takes_any_quota() {
    for quota in ["1/1d", "0/1s", "100000/7us", "5/1h"] {
        let output = tollgate()
            .args(["demo", "--quota", quota])
            .output()
            .unwrap();
        assert!(output.status.success(), "{quota}");
        assert!(stdout(&output).contains(quota));
    }
}

#[test]
fn a_demo_works_without_a_token_bucket() {
    for quota in ["9007199254740991/1d", "100000/7us", "0/1d", "1/1us"] {
        let report = scratch("any.html");
        let output = tollgate()
            .args(["demo", "--quota", quota, "--report", &*report])
            .output()
            .unwrap();
        assert!(output.status.success(), "{quota}: {}", stderr(&output));
        let html = fs::read_to_string(&*report).unwrap();
        assert!(html.contains(&format!("All algorithms at {quota}")));
    }
}

#[test]
fn a_worst_window_is_readable() {
    let row = |quota: &str| {
        let output = tollgate()
            .args(["demo", "--quota", quota])
            .output()
            .unwrap();
        let text = stdout(&output);
        let row = text.lines().find(|row| row.starts_with("fixed-window:"));
        row.unwrap().to_owned()
    };
    let day = row("100000/1d");
    assert!(day.contains("  27,497 (0.28x)  "), "{day}");
    // With a quota of 0 there is no ratio to show.
    let nothing = row("0/1d");
    assert!(nothing.ends_with("  0  never over"), "{nothing}");
}
