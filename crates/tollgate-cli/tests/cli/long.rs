//! Texts of any length: keys that are longer than a line, and records that never end.

use std::process::Command;

use tollgate_testkit::{Flavor, shared};

use crate::formats::packed;
use crate::program::{fails, file, run, scratch, stderr, stdout};
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
    let plan = format!("schedule plan '{}' --quota 1/1h", &*messages);
    let output = run(&format!("{plan} --report '{}'", &*report));
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
    let subject = format!("--key {long} --rest {long} --store {store} --prefix {prefix}");
    // Half of them as tables, and half as JSON.
    for command in [
        "check --limit login=gcra:5/1m --json",
        "check --limit login=gcra:5/1m --wait-up-to 1s",
        "peek --limit login=gcra:5/1m --json",
        "block --limit login=gcra:5/1m --limit ban=block:1m",
        "reset --limit login=gcra:5/1m --json",
        "reset --limit login=gcra:5/1m --limit ban=block:1m",
        "schedule list --schedule reminders --json",
        "schedule cancel --schedule reminders --quota 5/1h --id a",
    ] {
        let output = run(&format!("{command} {subject}"));
        let code = output.status.code();
        // There is no event to be cancelled.
        let is_done = code == Some(0) || (code == Some(1) && command.contains("cancel"));
        assert!(is_done, "{command} {code:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(&long), "{command}");
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
    let open = format!("{csv}\"open");
    let json = "{\"key\":\"a\",\"id\":\"a\",\"time\":\"2026-03-01T08:00:00Z\"}\n{\"key\":\"";
    for (start, fill, line, hint) in [
        (&*csv, b'x', ":3: ", "line end"),
        (&open, b'\n', ":3: ", "close every quote"),
        (&open, b',', ":3: ", "close every quote"),
        (&csv, b',', ":3: ", ""),
        ("", b'x', ":1: ", ""),
        (json, b'x', ":2: ", "line end"),
    ] {
        // 400 MB of text, in two megabytes, and at most 200 MB of memory.
        let messages = file("bomb.gz", bomb(start, fill, 400));
        let plan = "ulimit -v 200000; exec \"$0\" schedule plan \"$1\" --quota 1/1m";
        let output = Command::new("sh")
            .args(["-c", plan, env!("CARGO_BIN_EXE_tollgate"), &messages])
            .output()
            .unwrap();
        fails(&output, &[line, "longer than 1 MiB", hint]);
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
        let messages = file("long", text);
        let output = run(&format!("schedule plan '{}' --quota 1/1h", &*messages));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).starts_with("2 messages of 1 key: 1 as wanted, 1 moved"));
    }
}
