//! Log formats: what the program reads, and which lines it skips.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::program::{SAMPLE, file, replay, replay_json, scratch, stderr, stdout, tollgate};

const LIMIT: [&str; 2] = ["--limit", "gcra:5/1m"];

pub(crate) fn packed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn sample() -> serde_json::Value {
    replay_json(&[&[SAMPLE], &LIMIT[..]].concat())
}

#[test]
fn gzip_is_recognized_by_its_content() {
    let text = fs::read(SAMPLE).unwrap();
    let half = text.len() / 2;
    // Joined as by `cat a.gz b.gz`, and under any file name.
    let both = [packed(&text[..half]), packed(&text[half..])].concat();
    for (name, content) in [("one.log.gz", packed(&text)), ("two.log", both)] {
        let path = file(name, content);
        assert_eq!(replay_json(&[&[&*path], &LIMIT[..]].concat()), sample());
    }
}

#[test]
fn a_broken_gzip_file_is_unreadable() {
    let mut content = packed(&fs::read(SAMPLE).unwrap());
    content.truncate(content.len() / 2);
    let path = file("short.gz", content);
    let output = replay(&[&[&*path], &LIMIT[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("short.gz"), "{}", stderr(&output));
}

#[test]
fn a_dash_reads_standard_input() {
    let output = tollgate()
        .args(["replay", "-", "--json"])
        .args(LIMIT)
        .stdin(fs::File::open(SAMPLE).unwrap())
        .output()
        .unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found, sample());
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let marked = [b"\xef\xbb\xbf", &*fs::read(SAMPLE).unwrap()].concat();
    let path = file("marked.log", marked);
    assert_eq!(replay_json(&[&[&*path], &LIMIT[..]].concat()), sample());
}

#[test]
fn common_format_is_read() {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let common: Vec<String> = text
        .lines()
        .map(|line| {
            let request_end = line.find("\" ").unwrap();
            let size_end = line[request_end + 6..].find(' ').unwrap();
            line[..request_end + 6 + size_end].to_owned()
        })
        .collect();
    assert!(common.iter().all(|line| line.matches('"').count() == 2));
    let path = file("common.log", common.join("\r\n"));
    for format in ["auto", "common", "combined"] {
        let found = replay_json(&[&[&*path, "--format", format], &LIMIT[..]].concat());
        assert_eq!(found, sample());
    }
}

#[test]
fn json_lines_are_read_by_the_names_of_their_fields() {
    // From 10:05:00 on: five requests of `a` within a minute, and one of `b`.
    let log = r#"
{"at": "2015-05-17T10:05:00Z", "client": {"addr": "a"}}
{"client": {"addr": "a", "port": 1}, "at": "2015-05-17T12:05:01.5+02:00", "more": [1, {"x": null}]}
{"at": 1431857102, "client": {"addr": "a"}}
{"at": 1431857103.25, "client": {"addr": "\u0061"}}
{"at": 1.4318571035e9, "client": {"addr": "a"}}
{"at": "1431857104000", "client": {"addr": "b"}}
"#;
    let path = file("lines.json", log.trim_start());
    let names = ["--time-field", "at", "--ip-field", "client.addr"];
    for format in ["auto", "json"] {
        let found = replay_json(
            &[
                &[&*path, "--format", format, "--limit", "sliding-log:3/1m"],
                &names[..],
            ]
            .concat(),
        );
        assert_eq!(found["requests"], 6);
        assert_eq!(found["keys"], 2);
        assert_eq!(found["denied"], 2);
        assert_eq!(found["top_denied"][0]["key"], "a");
    }
}

#[test]
fn json_lines_need_only_the_fields_of_the_key() {
    let log = "{\"time\": 1, \"user\": \"u\"}\n{\"time\": 1}\n{\"time\": 2, \"user\": null}\n";
    let path = file("users.json", log);
    let found = replay_json(&[&path, "--key", "user", "--limit", "gcra:1/1m"]);
    assert_eq!(found["requests"], 3);
    assert_eq!(found["top_denied"][0]["key"], "-");
    let by_address = replay(&[&path, "--limit", "gcra:1/1m"]);
    assert_eq!(by_address.status.code(), Some(2));
    assert!(stderr(&by_address).contains("--ip-field"));
}

#[test]
fn a_log_may_mix_formats() {
    let log = "a - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n\
               {\"time\": 1431857103, \"ip\": \"a\"}\n";
    let found = replay_json(&[&file("mixed.log", log), "--limit", "gcra:1/1m"]);
    assert_eq!((&found["keys"], &found["denied"]), (&1.into(), &1.into()));
}

#[test]
fn zones_are_taken_into_account() {
    let line = |time: &str| format!("a - - [{time}] \"GET / HTTP/1.1\" 200 1\n");
    // Two times in the same second, and one a second later.
    let log = [
        line("17/May/2015:03:05:03 -0700"),
        line("17/May/2015:15:35:03 +0530"),
        line("17/May/2015:10:05:04 +0000"),
    ]
    .concat();
    let found = replay_json(&[&file("zones.log", log), "--limit", "fixed-window:1/1s"]);
    assert_eq!(
        (&found["allowed"], &found["denied"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn bad_lines_are_counted_and_shown_with_their_numbers() {
    let good = "a - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let log = format!(
        "{good}garbage\n\n{good}{{\"time\": 5}}\n{{broken\na - - [yesterday] x\na\nb\n{good}"
    );
    let path = file("bad.log", log);
    let output = replay(&[&path, "--json", "--limit", "gcra:5/1m"]);
    assert!(output.status.success());
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["requests"], &found["skipped_lines"]),
        (&3.into(), &7.into())
    );
    let remarks = stderr(&output);
    for number in [2, 3, 5, 6, 7] {
        assert!(
            remarks.contains(&format!("bad.log:{number}: ")),
            "{number} in {remarks}"
        );
    }
    assert!(
        !remarks.contains("bad.log:8: "),
        "only the first few: {remarks}"
    );
    assert!(
        remarks.contains("7 lines skipped") && remarks.contains("and 2 more"),
        "{remarks}"
    );
}

#[test]
fn damaged_bytes_never_stop_a_replay() {
    let text = fs::read(SAMPLE).unwrap();
    let mut seed = 1_u64;
    for rate in [20, 400] {
        let mut damaged = text.clone();
        for byte in &mut damaged {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if (seed >> 33).is_multiple_of(rate) {
                *byte = (seed >> 40).to_le_bytes()[0];
            }
        }
        let last = usize::from(damaged.last() != Some(&b'\n'));
        let lines = damaged.iter().filter(|&&byte| byte == b'\n').count() + last;
        let path = file("damaged.log", &damaged);
        for key in ["ip", "ip+user+path"] {
            let report = scratch("damaged.html");
            let output = replay(&[
                &path,
                "--key",
                key,
                "--limit",
                "gcra:1/1m",
                "--json",
                "--report",
                &report,
            ]);
            assert!(output.status.success(), "{}", stderr(&output));
            let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let number = |name: &str| usize::try_from(found[name].as_u64().unwrap()).unwrap();
            assert_eq!(number("requests") + number("skipped_lines"), lines);
            assert!(!stdout(&output).contains('\u{1b}'));
        }
    }
}
