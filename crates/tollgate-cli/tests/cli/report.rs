//! The HTML report.

use std::fs;

use crate::program::{SAMPLE, conclusion, file, has, replay, scratch, stands_alone, stderr};

fn report(log: &str, options: &str) -> String {
    let path = scratch("report.html");
    let output = replay(log, &format!("{options} --report '{}'", &*path));
    assert!(output.status.success(), "{}", stderr(&output));
    fs::read_to_string(&*path).unwrap()
}

/// Returns the numbers in `limit`'s row of the table that compares algorithms.
fn row(html: &str, limit: &str) -> Vec<String> {
    // It is the last table.
    let start = html.rfind(&format!("<td><code>{limit}</code>")).unwrap();
    let row = &html[start..start + html[start..].find("</tr>").unwrap()];
    row.split("<td class=\"n\">")
        .skip(1)
        .map(|cell| cell.split("</td>").next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_report_shows_time_keys_and_every_algorithm_and_loads_no_other_file() {
    let html = report(SAMPLE, "--limit gcra:5/1m --limit fixed-window:30/1h");
    assert!(html.starts_with("<!DOCTYPE html>"));
    for part in [
        "admitted and denied over time by gcra:5/1m and fixed-window:30/1h</h2>",
        "Keys denied most by gcra:5/1m and fixed-window:30/1h</h2>",
        "Decided by <b>gcra:5/1m and fixed-window:30/1h</b>",
        "All algorithms at 5/1m",
        "All algorithms at 30/1h",
        "sliding-buckets:5/1m,buckets=12",
        "sliding-counter:30/1h",
        "requests per 2 minutes",
        ">20 May 2015 11:06:00 UTC</td>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // A table that is too wide is scrolled by itself, and a colour stays beside its name.
    let tables = html.matches("<table>").count();
    let wide = html.matches("<div class=\"wide\" tabindex=\"0\"><table>");
    assert_eq!(wide.count(), tables);
    has(&html, "<span><i class=\"d\"></i> denied</span>");
    let many = report(
        SAMPLE,
        "--limit gcra:1/1m --limit gcra:2/1m --limit gcra:3/1m",
    );
    has(&many, "over time by all 3 limits together</h2>");
    assert!(!html.to_lowercase().contains("refused"));
    stands_alone(&html, SAMPLE);
}

#[test]
fn a_report_begins_with_who_was_denied_and_by_what() {
    let mut log = String::new();
    for (address, requests) in [("10.0.0.1", 5), ("10.0.0.2", 3), ("10.0.0.3", 1)] {
        let line = format!("{address} - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n");
        log += &line.repeat(requests);
    }
    let log = file("three.log", log);
    let html = report(&log, "--limit gcra:2/1m");
    let bars = ">10.0.0.1</td><td class=\"bars\"><i class=\"d\" style=\"width:60.0%\"></i>\
                <i class=\"a\" style=\"width:40.0%\"></i></td>";
    assert!(html.contains(bars), "{html}");
    for case in "\
--limit gcra:2/1m => 4 of 9 requests (44.4 %), of 2 of 3 keys, were denied by gcra:2/1m, most often those of 10.0.0.1 (3 of 5).
--limit gcra:4/1m --limit fixed-window:2/1h => 4 of 9 requests (44.4 %), of 2 of 3 keys, were denied by fixed-window:2/1h (4), most often those of 10.0.0.1 (3 of 5).
--limit gcra:4/1m --top 0 => 1 of 9 requests (11.1 %), of 1 of 3 keys, was denied by gcra:4/1m.
--limit gcra:5/1m --limit gcra:9/1h => No request was denied: gcra:5/1m and gcra:9/1h admitted all 9 requests of 3 keys."
        .lines()
    {
        let (options, expected) = case.split_once(" => ").unwrap();
        assert_eq!(conclusion(&report(&log, options)), expected);
    }
}

#[test]
fn log_contents_are_escaped_in_a_report() {
    let line = "10.0.0.1 - <b>&'\"</b> [17/May/2015:10:05:03 +0000] \"GET /<script>alert(1)</script> HTTP/1.1\" 200 1\n";
    let log = file("<i>evil.log", line.repeat(3));
    let html = report(&log, "--key user+path --limit gcra:1/1m");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(html.contains("&lt;b&gt;&amp;&#39;&quot;&lt;/b&gt;"));
    for markup in ["<script", "<b>&", "<i>evil"] {
        assert!(!html.contains(markup), "{markup}");
    }
}

#[test]
fn exact_limits_are_shown_to_keep_to_the_quota() {
    let html = report(SAMPLE, "--limit sliding-log:2/1m");
    // The worst window, its ratio to the quota, and the promised bound.
    assert_eq!(row(&html, "sliding-log:2/1m")[4..], ["2", "1.00", "2"]);
    assert_eq!(row(&html, "gcra:2/1m")[6], "3");
    assert_eq!(row(&html, "fixed-window:2/1m")[6], "4");
}

#[test]
fn requests_a_window_apart_are_never_counted_together() {
    let line = |time: &str| {
        format!("10.0.0.1 - - [17/May/2015:10:{time} +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    // The first and the last are a minute apart, the middle two a second.
    let log = [line("05:00"), line("05:30"), line("05:31"), line("06:00")].concat();
    let html = report(&file("apart.log", log), "--limit sliding-log:9/1m");
    assert!(html.contains("Without a limit it is <b>3</b>"));
    assert_eq!(row(&html, "sliding-log:9/1m")[4], "3");
    assert_eq!(row(&html, "gcra:9/1m,burst=1")[4], "2");
}

#[test]
fn a_report_names_algorithms_that_cannot_count_the_quota() {
    let html = report(SAMPLE, "--limit fixed-window:999983/1d");
    assert!(html.contains("not possible"));
    let html = report(SAMPLE, "--limit fixed-window:0/1d");
    assert!(html.contains("never refill"));
}
