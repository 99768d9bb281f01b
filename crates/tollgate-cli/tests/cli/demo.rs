//! The command `tollgate demo`.

use std::fs;

use crate::program::{conclusion, has, run, scratch, stderr, stdout};

#[test]
fn the_readme_shows_the_output_of_the_demo() {
    let manual = include_str!("../../README.md");
    let text = stdout(&run("demo"));
    has(manual, &format!("$ tollgate demo\n{text}```"));
}

#[test]
fn the_report_of_a_demo_says_what_its_table_says() {
    let report = scratch("verdicts.html");
    let output = run(&format!("demo --report '{}'", &*report));
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
        let judged = format!("</td><td class=\"key\">{verdict}</td><td class=\"n\">{others}</td>");
        assert!(row.contains(&judged), "{row} does not say {judged}");
        // The first window is furthest over, and the log is the one that is kept and spares the others.
        let is_named = ["fixed-window:60/1m", "sliding-log:60/1m"].contains(&limit);
        assert_eq!(said.contains(&format!("{limit} ")), is_named, "{said}");
        verdicts += 1;
    }
    assert_eq!(verdicts, 7);
    // The first charts are of one of these algorithms only, and say of which.
    for part in [
        "Decided by <b>gcra:60/1m</b>",
        "over time by gcra:60/1m<",
        "denied most by gcra:60/1m<",
    ] {
        has(&html, part);
    }
    assert!(said.starts_with("With 60/1m for each client, sliding-log:60/1m kept"));
}

#[test]
fn a_demo_works_without_a_token_bucket_and_without_a_quota() {
    for (quota, worst) in [
        ("9007199254740991/1d", "  27,497 (0.01x)  "),
        // There is no ratio to show.
        ("0/1d", "  0  never over"),
    ] {
        let report = scratch("any.html");
        let output = run(&format!("demo --quota {quota} --report '{}'", &*report));
        assert!(output.status.success(), "{quota}: {}", stderr(&output));
        let text = stdout(&output);
        let mut rows = text.lines().filter(|row| row.starts_with("fixed-window:"));
        assert!(rows.any(|row| row.contains(worst)), "{text}");
        let html = fs::read_to_string(&*report).unwrap();
        assert!(html.contains(&format!("All algorithms at {quota}")));
    }
}
