//! `tollgate advise`: what it proposes is what `tollgate replay` then does.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::program::{
    SAMPLE, answer, conclusion, fails, file, full, has, has_fields, replay_json, run, scratch,
    stderr, stdout,
};

fn advise(log: &str, options: &str) -> std::process::Output {
    run(&format!("advise '{log}' {options}"))
}

fn advise_json(log: &str, options: &str) -> Value {
    answer(&advise(log, &format!("{options} --json")), 0)
}

/// A log with a line for each request, by its second and key.
fn log(requests: &[(u64, &str)]) -> String {
    let mut log = String::new();
    for (second, key) in requests {
        let at = 1_772_352_000 + second;
        writeln!(log, r#"{{"time":{at},"ip":"{key}"}}"#).unwrap();
    }
    log
}

#[test]
fn every_proposal_denies_what_a_replay_of_it_denies() {
    let advice = advise_json(SAMPLE, "--window 1m --window 1h --top 1000");
    for window in advice["windows"].as_array().unwrap() {
        let proposals = window["proposals"].as_array().unwrap();
        assert!(proposals.len() > 2, "{window}");
        let others = ["proposed", "nobody_denied"].map(|name| &window[name]);
        for limit in proposals.iter().chain(others) {
            let text = format!("sliding-log:{}", limit["quota"].as_str().unwrap());
            let replay = replay_json(SAMPLE, &format!("--limit {text} --top 10000"));
            assert_eq!(limit["denied_requests"], replay["denied"], "{text}");
            let keys = replay["top_denied"].as_array().unwrap();
            assert_eq!(limit["denied_keys"], keys.len(), "{text}");
            assert_eq!(advice["requests"], replay["requests"]);
            assert_eq!(advice["keys"], replay["keys"]);
            if limit["quota"] == window["proposed"]["quota"] {
                let denied: HashMap<_, _> = keys
                    .iter()
                    .map(|key| (key["key"].as_str().unwrap(), &key["denied"]))
                    .collect();
                let most = window["most_denied"].as_array().unwrap();
                assert_eq!(most.len(), keys.len());
                for key in most {
                    let name = key["key"].as_str().unwrap();
                    assert_eq!(&key["denied_requests"], denied[name], "{name}");
                }
            }
        }
    }
}

#[test]
fn a_share_of_the_keys_never_exceeds_its_proposal() {
    // Of ten keys, the first has one request in ten seconds, the second two, and so on; later ones
    // come when the window has just ended, so they change nothing.
    let names: Vec<_> = (1..=10).map(|key| format!("10.0.0.{key}")).collect();
    let mut requests = Vec::new();
    for (key, name) in (1..).zip(&names) {
        requests.extend((0..key).map(|_| (5, name.as_str())));
        requests.push((15, name));
    }
    let log = file("shares.jsonl", log(&requests));
    let advice = advise_json(&log, "--window 10s");
    has_fields(
        &advice["windows"][0],
        r#"proposals.*.keys_never_denied=["50", "75", "90", "100"] & proposals.*.denied_keys=[5, 2, 1, 0]"#,
    );
    let quotas = r#"proposals.*.quota=["5/10s", "8/10s", "9/10s", "10/10s"]"#;
    has_fields(&advice["windows"][0], quotas);
}

#[test]
fn what_is_proposed_denies_at_most_one_key_in_a_hundred() {
    // Of as many keys, the busiest three send 30, 20 and 10 requests at once, and the others two.
    for (keys, proposed, denied) in [
        (99, 30, 0),
        (100, 20, 1),
        (199, 20, 1),
        (200, 10, 2),
        (300, 2, 3),
        // More than one in a thousand.
        (2_000, 2, 3),
    ] {
        let names: Vec<_> = (0..keys)
            .map(|key| format!("10.0.{}.{}", key / 200, key % 200))
            .collect();
        let mut requests = Vec::new();
        for (name, count) in names
            .iter()
            .zip([30, 20, 10].into_iter().chain(std::iter::repeat(2)))
        {
            requests.extend((0..count).map(|_| (0, name.as_str())));
        }
        let log = file("share.jsonl", log(&requests));
        let advice = advise_json(&log, "");
        let window = &advice["windows"][0];
        assert_eq!(window["proposed"]["amount"], proposed, "{keys}");
        assert_eq!(window["proposed"]["denied_keys"], denied, "{keys}");
        assert_eq!(window["most_denied"].as_array().unwrap().len(), denied);
        assert_eq!(window["nobody_denied"]["amount"], 30);
        assert_eq!(window["nobody_denied"]["denied_keys"], 0);
        // The curve has the proposed limit, which the report marks.
        let curve = window["curve"].as_array().unwrap().iter();
        let amounts: Vec<_> = curve.map(|of| of["amount"].as_u64().unwrap()).collect();
        let holds = amounts.contains(&proposed) && amounts.is_sorted();
        assert!(holds, "{amounts:?}");
    }
}

#[test]
fn denied_keys_are_described_by_what_they_call_themselves_and_ask_for() {
    let line = |ip: &str, path: &str, agent: &str| {
        format!(
            "{ip} - - [17/May/2015:10:05:03 +0000] \"GET {path}?q HTTP/1.1\" 200 1 \"-\" \"{agent}\"\n"
        )
    };
    let mut log = String::new();
    for key in 0..200 {
        log += &line(&format!("10.0.0.{key}"), "/", "quiet");
    }
    log += &line("10.1.0.1", "/first", "once");
    log += &line("10.1.0.1", "/b", "bot/2 (+http://b)");
    log += &line("10.1.0.1", "/b", "bot/2 (+http://b)");
    log += &line("10.1.0.1", "/c", "bot/2 (+http://b)").repeat(2);
    log += &line("10.1.0.2", "/d", "-").repeat(3);
    let log = file("callers.log", log);
    let advice = advise_json(&log, "");
    has_fields(
        &advice["windows"][0],
        r#"most_denied.*.key=["10.1.0.1", "10.1.0.2"] & most_denied.*.path=["/b", "/d"]"#,
    );
    let agents = r#"most_denied.*.user_agent=["bot/2 (+http://b)", ""]"#;
    has_fields(&advice["windows"][0], agents);
    let text = stdout(&advise(&log, ""));
    for (key, said) in [
        ("10.1.0.1 ", "  /b               bot/2 (+http://b)"),
        ("10.1.0.2 ", "  /d               -"),
    ] {
        let row = text.lines().find(|line| line.starts_with(key)).unwrap();
        assert!(row.ends_with(said), "{row}");
    }
}

#[test]
fn every_denied_key_is_shown_with_its_own_numbers() {
    let names: Vec<_> = (0..400)
        .map(|key| format!("10.0.{}.{}", key / 200, key % 200))
        .collect();
    let quiet = names.iter().flat_map(|name| [(0, name.as_str()); 5]);
    let mut requests: Vec<_> = quiet.collect();
    // Busy keys: the most within a minute, and more requests much later.
    let busy = [(3, 40, 9), (70, 90, 5), (131, 60, 7), (199, 50, 1)];
    for (key, most, later) in busy {
        requests.extend((5..most).map(|_| (0, names[key].as_str())));
        requests.extend((0..later).map(|_| (3_600, names[key].as_str())));
    }
    let log = file("many.jsonl", log(&requests));
    let advice = advise_json(&log, "");
    let window = &advice["windows"][0];
    let limit = window["proposed"]["amount"].as_u64().unwrap();
    assert!(limit < 40, "{limit}");
    let order = [1, 2, 3, 0].map(|index| busy[index]);
    let keys = order.map(|(key, ..)| &names[key]);
    let most = order.map(|(_, most, _)| most);
    let requests = order.map(|(_, most, later)| most + later);
    let denied = order.map(|(_, most, later)| most - limit + later.saturating_sub(limit));
    let keys = format!("most_denied.*.key={keys:?} & most_denied.*.most_in_a_window={most:?}");
    has_fields(window, &keys);
    let requests = format!("requests={requests:?} & most_denied.*.denied_requests={denied:?}");
    has_fields(window, &format!("most_denied.*.{requests}"));
}

#[test]
fn one_request_is_enough() {
    let log = file("one.jsonl", log(&[(0, "10.0.0.1")]));
    let text = stdout(&advise(&log, ""));
    let expected = "\
1 request of 1 key (ip), 1 Mar 2026 08:00:00 to 1 Mar 2026 08:00:00 UTC
Read as json.

Proposed: 1/1m, which would deny no request.

QUOTA  KEYS NEVER DENIED  KEYS DENIED  SHARE  REQUESTS DENIED  SHARE
1/1m      at least 100 %            0  0.0 %                0  0.0 %
";
    assert_eq!(text, expected);
}

#[test]
fn a_report_shows_the_curve_and_the_keys() {
    let mut requests: Vec<_> = (0..6).map(|second| (second, "<script>")).collect();
    let quiet: Vec<_> = (0..99).map(|key| format!("quiet-{key}")).collect();
    for quiet in &quiet {
        requests.extend([(0, quiet.as_str()), (1, quiet)]);
    }
    let log = file("script.jsonl", log(&requests));
    let report = scratch("advice.html");
    let windows = "--key client --window 1m --window 2m";
    let done = advise(&log, &format!("{windows} --report '{}'", &*report));
    assert!(done.status.success(), "{}", stderr(&done));
    let page = fs::read_to_string(&*report).unwrap();
    assert!(!page.contains("<script>"), "{page}");
    assert!(page.contains("Limits over 1m") && page.contains("Limits over 2m"));
    assert!(page.contains("&lt;script&gt;"));
    // Six requests of one key, and two of each of 99.
    assert_eq!(
        conclusion(&page),
        "Proposed: 2/1m, which would deny 4 of 204 requests (2.0 %), of 1 of 100 keys; \
         or 6/1m, which would deny no request. \
         Over another window: 2/2m, which would deny 4 of 204 requests (2.0 %), of 1 of 100 keys; \
         or 6/2m, which would deny no request."
    );
    for window in ["1m", "2m"] {
        let row = format!("<tr class=\"proposed\"><td><code>2/{window}</code>");
        has(&page, &row);
    }
}

#[test]
fn wrong_words_are_refused_before_the_log_is_read() {
    for (options, expected) in [
        ("--window 1y", "--window 1y: that is not a length of time"),
        ("--window 0s", "--window 0s: "),
        ("--window 60s --window 1m", "--window 1m is given twice"),
        ("--key name", "--key name: "),
    ] {
        fails(&advise("no-such-file.log", options), &[expected]);
    }
    let log = file("over.jsonl", log(&[(0, "a")]));
    let output = advise(&log, &format!("--report '{}'", &*log));
    fails(&output, &["that file is the input"]);
}

#[test]
fn the_readme_shows_the_output_of_advise() {
    let Some(log) = full() else {
        return;
    };
    let manual = include_str!("../../README.md");
    let text = stdout(&advise(log, "--key ip --window 1m --top 3"));
    has(manual, &format!("\n{text}```"));
}
