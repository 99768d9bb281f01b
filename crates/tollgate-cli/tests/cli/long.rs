//! Texts of any length: keys that are longer than a line, and records that never end.

use std::process::Command;

use tollgate_testkit::{Flavor, shared};

use crate::formats::packed;
use crate::program::{file, scratch, stderr, stdout, tollgate};
use crate::servers::{keys, prefix};

/// Longer than the widest column that Rust's formatting can pad to.
const LONG: usize = 70_000;

#[test]
fn keys_and_ids_of_any_length_are_shown() {
    let key = "k".repeat(LONG);
    let messages = format!(
        "key,id,time\n{key},a,2026-03-01T08:00:00Z\nbob,b,2026-03-01T08:00:00Z\n\
         {key},c,2026-03-01T08:00:00Z\n"
    );
    let messages = file("long.csv", messages);
    let report = scratch("long.html");
    let output = tollgate()
        .args(["schedule", "plan", &messages, "--quota", "1/1h"])
        .args(["--report", &report])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains(&format!("\n{key}  a ")), "{}", text.len());
    // Short rows are not padded to the longest one.
    assert!(text.len() < 2 * LONG + 3_000, "{}", text.len());
    let bob = text.lines().find(|line| line.starts_with("bob ")).unwrap();
    assert!(bob.len() < 1_000, "{}", bob.len());
}

#[test]
fn every_command_takes_keys_of_any_length() {
    let server = shared::standalone(Flavor::System);
    let (store, prefix) = (server.url(), prefix());
    let long = "k".repeat(LONG);
    let subject = ["--key", &long, "--rest", &long];
    let limit = ["--limit", "login=gcra:5/1m"];
    let block = [&limit[..], &["--limit", "ban=block:1m"]].concat();
    let schedule = ["--schedule", "reminders"];
    let event = [&schedule[..], &["--quota", "5/1h", "--id", "a"]].concat();
    let mut is_json = false;
    for (command, options) in [
        (&["check"][..], &limit[..]),
        (&["check", "--wait-up-to", "1s"], &limit),
        (&["peek"], &limit),
        (&["block"], &block),
        (&["reset"], &limit),
        (&["reset"], &block),
        (&["schedule", "list"], &schedule),
        (&["schedule", "cancel"], &event),
    ] {
        // Half of them as tables, and half as JSON.
        is_json = !is_json;
        let output = tollgate()
            .args(command)
            .args(options)
            .args(subject)
            .args(["--store", &store, "--prefix", &prefix])
            .args(is_json.then_some("--json"))
            .output()
            .unwrap();
        let code = output.status.code();
        // There is no event to be cancelled.
        let is_done = code == Some(0) || (code == Some(1) && command.contains(&"cancel"));
        assert!(is_done, "{:?} {code:?}: {}", command[0], stderr(&output));
        assert!(stdout(&output).contains(&long), "{:?}", command[0]);
    }
    for key in keys(&server.address(), &prefix) {
        assert!(key.len() < 400, "{}", key.len());
        server.command(&["DEL", &key]);
    }
}

/// Returns a gzip file that unpacks to `start` and then `count` times a million times `fill`.
fn bomb(start: &str, fill: u8, count: usize) -> Vec<u8> {
    // A gzip file may have several members.
    let million = packed(&vec![fill; 1_000_000]);
    [packed(start.as_bytes()), million.repeat(count)].concat()
}

#[cfg(unix)]
#[test]
fn a_record_that_never_ends_is_refused_in_little_memory() {
    let heading = "key,id,time\n";
    let first = "alice,a,2026-03-01T08:00:00Z\n";
    let csv = format!("{heading}{first}");
    for (start, fill, hints) in [
        (
            csv.clone(),
            b'x',
            &[":3: ", "longer than 1 MiB", "line end"][..],
        ),
        (
            format!("{csv}\"open"),
            b'\n',
            &[":3: ", "longer than 1 MiB", "close every quote"],
        ),
        (
            format!("{csv}\"open"),
            b',',
            &[":3: ", "longer than 1 MiB", "close every quote"],
        ),
        (csv, b',', &[":3: ", "longer than 1 MiB"]),
        (String::new(), b'x', &[":1: ", "longer than 1 MiB"]),
        (
            "{\"key\":\"a\",\"id\":\"a\",\"time\":\"2026-03-01T08:00:00Z\"}\n{\"key\":\""
                .to_owned(),
            b'x',
            &[":2: ", "longer than 1 MiB", "line end"],
        ),
    ] {
        // 400 MB of text, in two megabytes, and at most 200 MB of memory.
        let messages = file("bomb.gz", bomb(&start, fill, 400));
        let plan = "ulimit -v 200000; exec \"$0\" schedule plan \"$1\" --quota 1/1m";
        let output = Command::new("sh")
            .args(["-c", plan, env!("CARGO_BIN_EXE_tollgate"), &messages])
            .output()
            .unwrap();
        crate::program::fails(&output, hints);
    }
}

#[test]
fn the_longest_record_is_read() {
    let time = "2026-03-01T08:00:00Z";
    let filler = "x".repeat(1_000_000);
    let csv = format!("key,id,time,more\nalice,a,{time},\"{filler}\"\nalice,b,{time},{filler}\n");
    let json = format!(
        "{{\"key\":\"alice\",\"id\":\"a\",\"time\":\"{time}\",\"more\":\"{filler}\"}}\n\
         {{\"key\":\"alice\",\"id\":\"b\",\"time\":\"{time}\",\"more\":\"{filler}\"}}"
    );
    for text in [csv, json] {
        let output = tollgate()
            .args(["schedule", "plan", &file("long", text), "--quota", "1/1h"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).starts_with("2 messages of 1 key: 1 as wanted, 1 moved"));
    }
}
