//! Log formats: what the program reads, and which lines it skips.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::program::{SAMPLE, fails, file, replay, replay_json, scratch, stderr, stdout, tollgate};

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
fn zeros_after_gzip_are_not_an_error() {
    let text = fs::read(SAMPLE).unwrap();
    let padded = [packed(&text), vec![0; 512]].concat();
    let path = file("padded.gz", padded);
    assert_eq!(replay_json(&[&[&*path], &LIMIT[..]].concat()), sample());
}

#[test]
fn content_that_is_not_read_is_named() {
    let text = fs::read_to_string(SAMPLE).unwrap();
    let wide = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<_>>();
    let twice = packed(&packed(text.as_bytes()));
    for (content, hints) in [
        (wide(u16::to_le_bytes), ["UTF-16", "iconv"]),
        (wide(u16::to_be_bytes), ["UTF-16", "iconv"]),
        (
            [&b"\xff\xfe"[..], &wide(u16::to_le_bytes)].concat(),
            ["UTF-16", "iconv"],
        ),
        (packed(&wide(u16::to_le_bytes)), ["UTF-16", "iconv"]),
        (b"BZh91AY&SY".to_vec(), ["bzip2", "bzip2 -dc"]),
        (b"\xfd7zXZ\0\0\x04".to_vec(), ["xz", "xz -dc"]),
        (b"\x28\xb5\x2f\xfd\x24".to_vec(), ["zstd", "zstd -dc"]),
        (b"PK\x03\x04".to_vec(), ["zip", "unzip -p"]),
        (twice, ["gzip within gzip", "gzip -dc"]),
        (
            text.replace('\n', "\r").into_bytes(),
            ["CR", "tr '\\r' '\\n'"],
        ),
    ] {
        let path = file("other.log", content);
        let hints = ["cannot read", "other.log", hints[0], hints[1]];
        fails(&replay(&[&[&*path], &LIMIT[..]].concat()), &hints);
        let output = tollgate()
            .args(["replay", "-"])
            .args(LIMIT)
            .stdin(fs::File::open(&*path).unwrap())
            .output()
            .unwrap();
        fails(&output, &["cannot read -", hints[2], hints[3]]);
    }
}

#[test]
fn long_keys_neither_end_a_replay_nor_widen_its_rows() {
    let line = |path: &str| {
        format!("10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" 414 1\n")
    };
    let log = [
        line("/a"),
        line(&"/b".repeat(4_000)),
        line(&"/c".repeat(40_000)),
    ]
    .concat();
    let log = file("long.log", log);
    let arguments = [&*log, "--key", "path", "--limit", "gcra:0/1m"];
    let output = replay(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = stdout(&output);
    assert!(rows.contains("/b/b/…"), "{rows}");
    assert!(rows.lines().all(|row| row.chars().count() < 200), "{rows}");
    let reason = ":3: a part of the key is longer than 8 KiB";
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    let found = replay_json(&arguments);
    assert_eq!(
        (&found["requests"], &found["skipped_lines"]),
        (&2.into(), &1.into())
    );
    // Other keys do not need the path.
    let found = replay_json(&[&log, "--limit", "gcra:0/1m"]);
    assert_eq!((&found["requests"], &found["keys"]), (&3.into(), &1.into()));
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
{"at": "2015-05-17T10:05:00Z", "client": {"addr": "10.0.0.1"}}
{"client": {"addr": "10.0.0.1", "port": 1}, "at": "2015-05-17T12:05:01.5+02:00", "more": [1, {"x": null}]}
{"at": 1431857102, "client": {"addr": "10.0.0.1"}}
{"at": 1431857103.25, "client": {"addr": "1\u0030.0.0.1"}}
{"at": 1.4318571035e9, "client": {"addr": "10.0.0.1"}}
{"at": "1431857104000", "client": {"addr": "10.0.0.2"}}
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
        assert_eq!(found["top_denied"][0]["key"], "10.0.0.1");
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
    let log = "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n\
               {\"time\": 1431857103, \"ip\": \"10.0.0.1\"}\n";
    let found = replay_json(&[&file("mixed.log", log), "--limit", "gcra:1/1m"]);
    assert_eq!((&found["keys"], &found["denied"]), (&1.into(), &1.into()));
}

#[test]
fn zones_are_taken_into_account() {
    let line = |time: &str| format!("10.0.0.1 - - [{time}] \"GET / HTTP/1.1\" 200 1\n");
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
    let good = "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let log = format!(
        "{good}garbage\n\n{good}{{\"time\": 5}}\n{{broken\n10.0.0.1 - - [yesterday] x\na\nb\n{good}"
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
    for (number, reason) in [
        (2, "no address at the start"),
        (3, "the line is empty"),
        (5, "no address field"),
        (6, "not a JSON object"),
        (7, "no [time]"),
    ] {
        let expected = format!("bad.log:{number}: ");
        let line = remarks.lines().find(|line| line.contains(&expected));
        let line = line.unwrap_or_else(|| panic!("{number} in {remarks}"));
        assert!(line.contains(reason), "{line}");
        assert_eq!(line.contains("(and 2 more)"), number == 2, "{line}");
    }
    assert!(
        remarks.starts_with("tollgate: 7 lines skipped\n"),
        "{remarks}"
    );
    assert_eq!(remarks.lines().count(), 6, "each reason once: {remarks}");
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
