//! `schedule plan`: what it plans, prints and draws, in memory and on servers.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testkit::{Flavor, shared};

use crate::program::{conclusion, fails, file, scratch, stderr, stdout, tollgate};
use crate::servers::{keys, prefix};

const THREE: [&str; 6] = ["--quota", "1/1m", "--quota", "5/1h", "--quota", "10/1d"];

const BERLIN: [&str; 4] = ["--per-day", "2", "--time-zone", "Europe/Berlin"];

const MESSAGES: &str = "\
key,id,time
alice,a,2026-03-01T08:00:00Z
alice,b,2026-03-01T08:00:00Z
bob,a,2026-03-01T09:00:00.25+01:00
alice,c,2026-03-01T07:59:30Z
";

fn plan(arguments: &[&str]) -> Output {
    tollgate()
        .args(["schedule", "plan"])
        .args(arguments)
        .output()
        .unwrap()
}

/// Plans `text`, and returns the JSON object that is printed.
fn planned(status: i32, text: impl AsRef<[u8]>, arguments: &[&str]) -> Value {
    let messages = file("messages", text);
    let output = plan(&[&[&*messages, "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the planned times, in the order of the file.
fn times(plan: &Value) -> Vec<&str> {
    let events = plan["events"].as_array().unwrap().iter();
    events
        .map(|event| event["planned"].as_str().unwrap())
        .collect()
}

/// Returns messages of one key, which are wanted at `times`.
fn wanted(times: &[&str]) -> String {
    let mut text = "key,id,time\n".to_owned();
    for (index, time) in times.iter().enumerate() {
        writeln!(text, "alice,m{index},{time}").unwrap();
    }
    text
}

#[test]
fn every_message_gets_the_earliest_permitted_time() {
    assert_eq!(
        planned(0, MESSAGES, &THREE),
        json!({
            "events": [
                {"key": "alice", "id": "a", "wanted": "2026-03-01T08:00:00Z",
                 "planned": "2026-03-01T08:00:00Z", "moved_by": null},
                {"key": "alice", "id": "b", "wanted": "2026-03-01T08:00:00Z",
                 "planned": "2026-03-01T08:01:00Z", "moved_by": "1/1m"},
                {"key": "bob", "id": "a", "wanted": "2026-03-01T08:00:00.25Z",
                 "planned": "2026-03-01T08:00:00.25Z", "moved_by": null},
                {"key": "alice", "id": "c", "wanted": "2026-03-01T07:59:30Z",
                 "planned": "2026-03-01T08:02:00Z", "moved_by": "1/1m"},
            ],
            "moved": 2,
            "refused": [],
            "quotas": [
                {"quota": "1/1m", "moved": 2, "refused": 0},
                {"quota": "5/1h", "moved": 0, "refused": 0},
                {"quota": "10/1d", "moved": 0, "refused": 0},
            ],
        })
    );
    let twelve = wanted(&["2026-03-01T08:00:00Z"; 12]);
    let plan = planned(0, twelve, &THREE);
    let moved = |quota: usize| plan["quotas"][quota]["moved"].as_u64().unwrap();
    assert_eq!([moved(0), moved(1), moved(2)], [4, 5, 2]);
    let times = times(&plan);
    assert_eq!(
        times[4..6],
        ["2026-03-01T08:04:00Z", "2026-03-01T09:00:00Z"]
    );
    assert_eq!(
        times[9..],
        [
            "2026-03-01T09:04:00Z",
            "2026-03-02T08:00:00Z",
            "2026-03-02T08:01:00Z"
        ]
    );
}

#[test]
fn the_table_shows_the_same() {
    let messages = file("messages.csv", MESSAGES);
    let output = plan(&[&[&*messages], &THREE[..]].concat());
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
    assert_eq!(
        stdout(&output),
        "4 messages of 2 keys: 2 as wanted, 2 moved, 0 refused\n\n\
         QUOTA IN THE WAY  MOVED  REFUSED\n\
         1/1m                  2        0\n\
         5/1h                  0        0\n\
         10/1d                 0        0\n\n\
         KEY    ID  WANTED                   PLANNED                  LATER BY  QUOTA IN THE WAY\n\
         alice  a   2026-03-01T08:00:00Z     2026-03-01T08:00:00Z\n\
         alice  b   2026-03-01T08:00:00Z     2026-03-01T08:01:00Z     1m        1/1m\n\
         bob    a   2026-03-01T08:00:00.25Z  2026-03-01T08:00:00.25Z\n\
         alice  c   2026-03-01T07:59:30Z     2026-03-01T08:02:00Z     2m 30s    1/1m\n"
    );
    let zone = ["--time-zone", "Europe/Berlin"];
    let report = scratch("plan.html");
    let output = plan(&[&[&*messages, "--report", &*report], &THREE[..], &zone].concat());
    assert_eq!(
        stdout(&output),
        "4 messages of 2 keys: 2 as wanted, 2 moved, 0 refused, times in Europe/Berlin\n\n\
         QUOTA IN THE WAY  MOVED  REFUSED\n\
         1/1m                  2        0\n\
         5/1h                  0        0\n\
         10/1d                 0        0\n\n\
         KEY    ID  WANTED                        PLANNED                       LATER BY  QUOTA IN THE WAY\n\
         alice  a   2026-03-01T09:00:00+01:00     2026-03-01T09:00:00+01:00\n\
         alice  b   2026-03-01T09:00:00+01:00     2026-03-01T09:01:00+01:00     1m        1/1m\n\
         bob    a   2026-03-01T09:00:00.25+01:00  2026-03-01T09:00:00.25+01:00\n\
         alice  c   2026-03-01T08:59:30+01:00     2026-03-01T09:02:00+01:00     2m 30s    1/1m\n"
    );
    let page = fs::read_to_string(&*report).unwrap();
    assert!(page.contains("</b>, times in Europe/Berlin</p>"), "{page}");
    assert!(
        page.contains("<td>2026-03-01T09:02:00+01:00</td>"),
        "{page}"
    );
    let few = ["--quota", "1/1d", "--horizon", "23h"];
    let output = plan(&[&[&*messages], &few[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.starts_with("4 messages of 2 keys: 2 as wanted, 0 moved, 2 refused\n"));
    let row = "refused                  1/1d              no time from the wanted one to \
               2026-03-02T06:59:30Z is free; at the wanted one, 1/1d is in the way\n";
    assert!(text.contains(row), "{text}");
}

#[test]
fn json_lines_and_csv_are_the_same() {
    let lines = r#"{"key":"alice","id":"a","time":"2026-03-01T08:00:00Z","more":[1]}

{"id":"b","key":"alice","time":"2026-03-01T08:00:00Z"}
{"key":"bob","id":"a","time":"2026-03-01T09:00:00.25+01:00"}
{"key":"\u0061lice","id":"c","time":"2026-03-01T07:59:30Z"}"#;
    let expected = planned(0, MESSAGES, &THREE);
    assert_eq!(planned(0, lines, &THREE), expected);
    assert_eq!(planned(0, lines.replace('\n', "\r\n"), &THREE), expected);
    let marked = format!("\u{feff}{lines}\n");
    assert_eq!(planned(0, marked, &THREE), expected);
    let numbers = r#"{"key":7,"id":1.50,"time":"2026-03-01T08:00:00Z"}"#;
    let plan = planned(0, numbers, &THREE);
    assert_eq!(
        (&plan["events"][0]["key"], &plan["events"][0]["id"]),
        (&json!("7"), &json!("1.50"))
    );
}

#[test]
fn csv_is_read_however_it_is_written() {
    let expected = planned(0, MESSAGES, &THREE);
    for text in [
        MESSAGES.trim_end().to_owned(),
        MESSAGES.replace('\n', "\r\n"),
        format!("\u{feff}{MESSAGES}"),
        format!("\n\n{}\n\n", MESSAGES.replace('\n', "\n \n\n")),
        MESSAGES
            .replace("alice", "\"alice\"")
            .replace("key,id", "\"key\", id"),
        MESSAGES.replace('Z', "Z "),
        "time,x,key,id\n\
         2026-03-01T08:00:00Z,1,alice,a\n\
         2026-03-01T08:00:00Z,\"2,2\",alice,b\n\
         2026-03-01T09:00:00.25+01:00,\"3\n3\",bob,a\n\
         2026-03-01T07:59:30Z,,alice,c"
            .to_owned(),
    ] {
        assert_eq!(planned(0, &text, &THREE), expected, "{text:?}");
    }
    let quoted = "key,id,time\n\"a \"\"b\"\", c\",\"1\n2\",2026-03-01T08:00:00Z\n";
    let plan = planned(0, quoted, &THREE);
    assert_eq!(plan["events"][0]["key"], "a \"b\", c");
    assert_eq!(plan["events"][0]["id"], "1\n2");
}

#[test]
fn standard_input_and_gzip_are_read() {
    let mut child = tollgate()
        .args(["schedule", "plan", "-"])
        .args(THREE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(MESSAGES.as_bytes())
        .unwrap();
    let expected = stdout(&plan(&[&[&*file("m.csv", MESSAGES)], &THREE[..]].concat()));
    assert_eq!(stdout(&child.wait_with_output().unwrap()), expected);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(MESSAGES.as_bytes()).unwrap();
    let packed = file("m.csv.gz", gzip.finish().unwrap());
    assert_eq!(stdout(&plan(&[&[&*packed], &THREE[..]].concat())), expected);
}

#[test]
fn days_are_local_and_change_their_length() {
    // On 29 March 2026, clocks in Berlin go from 02:00 to 03:00: the day has 23 hours.
    let spring = wanted(&[
        "2026-03-29T00:00:00+01:00",
        "2026-03-29T23:59:59+02:00",
        "2026-03-29T12:00:00+02:00",
        "2026-03-30T00:00:00+02:00",
        "2026-03-30T00:00:00+02:00",
    ]);
    let plan = planned(0, spring, &BERLIN);
    assert_eq!(
        times(&plan),
        [
            "2026-03-28T23:00:00Z",
            "2026-03-29T21:59:59Z",
            "2026-03-29T22:00:00Z",
            "2026-03-29T22:00:00Z",
            "2026-03-30T22:00:00Z",
        ]
    );
    // On 25 October 2026, the day has 25 hours.
    let autumn = wanted(&[
        "2026-10-25T00:00:00+02:00",
        "2026-10-25T23:59:59+01:00",
        "2026-10-25T02:30:00+01:00",
    ]);
    let plan = planned(0, autumn, &BERLIN);
    assert_eq!(times(&plan)[2], "2026-10-25T23:00:00Z");
    let weeks = [
        "--per-week",
        "1",
        "--per-month",
        "2",
        "--time-zone",
        "Europe/Berlin",
    ];
    let plan = planned(0, wanted(&["2026-03-01T12:00:00+01:00"; 4]), &weeks);
    assert_eq!(
        times(&plan),
        [
            "2026-03-01T11:00:00Z",
            "2026-03-01T23:00:00Z",
            "2026-03-31T22:00:00Z",
            "2026-04-05T22:00:00Z",
        ]
    );
}

#[test]
fn nothing_is_planned_at_closed_times() {
    let night = ["--quota", "closed 22:00-08:00@local"];
    let quotas = [&night[..], &["--quota", "1/1m"]].concat();
    let text = "\
key,id,time,time_zone
alice,a,2026-03-28T21:59:59Z,Europe/Berlin
alice,b,2026-03-28T21:59:59Z,
alice,c,2026-03-28T23:00:00Z,America/New_York
bob,a,2026-03-28T12:00:00Z,Asia/Tokyo
";
    // In Berlin, clocks go forward in this night. Tokyo is nine hours ahead.
    let expected = [
        "2026-03-29T06:00:00Z",
        "2026-03-28T21:59:59Z",
        "2026-03-28T23:00:00Z",
        "2026-03-28T12:00:00Z",
    ];
    let utc = ["--time-zone", "UTC"];
    let plan_of = |text: &str| planned(0, text, &[&quotas[..], &utc].concat());
    assert_eq!(times(&plan_of(text)), expected);
    let mut lines = String::new();
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let [key, id, time, zone] = *fields else {
            panic!("{line}");
        };
        let mut object = json!({"key": key, "id": id, "time": time});
        if !zone.is_empty() {
            object["time_zone"] = json!(zone);
        }
        writeln!(lines, "{object}").unwrap();
    }
    assert_eq!(times(&plan_of(&lines)), expected);

    let late = wanted(&["2026-06-01T23:00:00+02:00"; 3]);
    let berlin = ["--time-zone", "Europe/Berlin"];
    let horizon = ["--horizon", "8h"];
    let plan = planned(1, &late, &[&quotas[..], &berlin, &horizon].concat());
    assert_eq!(
        plan["refused"][2]["reason"],
        "no time from the wanted one to 2026-06-02T07:00:00+02:00[Europe/Berlin] is free; at the \
         wanted one, closed 22:00-08:00@local is in the way"
    );
    assert_eq!(plan["refused"][2]["quota"], night[1]);
    assert_eq!(
        plan["quotas"][0],
        json!({"quota": night[1], "moved": 0, "refused": 3})
    );
    let plan = planned(0, &late, &[&quotas[..], &berlin].concat());
    let later = [0, 1, 2].map(|minute| format!("2026-06-02T06:0{minute}:00Z"));
    assert_eq!(times(&plan), later);
}

/// A zone that is missing or unknown is an error.
#[test]
fn local_quotas_need_a_time_zone() {
    let quotas = ["--quota", "2/day@local"];
    let at = "2026-06-01T12:00:00Z";
    for (text, hints) in [
        (
            format!("key,id,time\nalice,a,{at}\n"),
            &["--time-zone", "time_zone"][..],
        ),
        (
            format!("key,id,time,time_zone\nalice,a,{at},UTC\nalice,b,{at},\n"),
            &["--time-zone", "time_zone", "message b to alice"],
        ),
        (
            format!("key,id,time,time_zone\nalice,a,{at},Mars\n"),
            &[":2: ", "field time_zone, \"Mars\"", "Europe/Berlin"],
        ),
        (
            format!("{{\"key\":1,\"id\":1,\"time\":\"{at}\",\"time_zone\":5}}\n"),
            &[":1: ", "time_zone", "wrong type"],
        ),
    ] {
        let messages = file("m", text);
        fails(&plan(&[&[&*messages], &quotas[..]].concat()), hints);
    }
    let text = format!("key,id,time,time_zone\nalice,a,{at},UTC\n");
    assert_eq!(times(&planned(0, text, &quotas)), [at]);
}

#[test]
fn times_may_be_long_past_or_far_apart() {
    for year in [1970, 1999, 2100] {
        let time = format!("{year}-06-01T08:00:00Z");
        let plan = planned(0, wanted(&[&time, &time]), &THREE);
        assert_eq!(times(&plan)[1], format!("{year}-06-01T08:01:00Z"));
    }
    let apart = [
        "2001-01-01T00:00:00Z",
        "2002-01-01T00:00:00Z",
        "2001-01-01T00:00:00Z",
    ];
    let plan = planned(0, wanted(&apart), &THREE);
    assert_eq!(
        times(&plan)[1..],
        ["2002-01-01T00:00:00Z", "2001-01-01T00:01:00Z"]
    );
}

#[test]
fn quotas_that_allow_a_short_horizon_only_are_planned_within_it() {
    // One a second: a key can hold 100,000 seconds, a little more than a day.
    let mut text = "key,id,time\n".to_owned();
    for day in 1..=30 {
        writeln!(text, "alice,{day}a,2026-01-{day:02}T08:00:00Z").unwrap();
        writeln!(text, "alice,{day}b,2026-01-{day:02}T08:00:00Z").unwrap();
    }
    let messages = file("month.csv", &text);
    let output = plan(&[&messages, "--quota", "1/1s", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let note = stderr(&output);
    assert!(
        note.starts_with("tollgate: with these quotas") && note.contains("1d 3h"),
        "{note}"
    );
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["moved"], 30);
    assert_eq!(times(&plan)[59], "2026-01-30T08:00:01Z");
}

#[test]
fn a_horizon_counts_from_the_earliest_wanted_time() {
    let text = wanted(&[
        "2026-03-01T08:00:00Z",
        "2026-03-02T08:00:00Z",
        "2026-03-02T08:00:00.000001Z",
        "2026-03-02T08:00:00Z",
    ]);
    let plan = planned(1, text, &["--quota", "1/1h", "--horizon", "1d"]);
    assert_eq!(
        times(&plan),
        ["2026-03-01T08:00:00Z", "2026-03-02T08:00:00Z"]
    );
    assert_eq!(
        plan["refused"],
        json!([
            {"key": "alice", "id": "m2", "wanted": "2026-03-02T08:00:00.000001Z",
             "reason": "the time is beyond the horizon: the latest possible is \
                        2026-03-02T08:00:00Z", "quota": null},
            {"key": "alice", "id": "m3", "wanted": "2026-03-02T08:00:00Z",
             "reason": "no time from the wanted one to 2026-03-02T08:00:00Z is free; at the wanted \
                        one, 1/1h is in the way",
             "quota": "1/1h"},
        ])
    );
}

/// What is not counted for a quota is counted beside them.
#[test]
fn the_table_counts_what_is_beyond_the_horizon_and_what_was_not_looked_up() {
    let mut text = "key,id,time\n".to_owned();
    for id in 0..10_003 {
        writeln!(text, "alice,{id},2026-03-01T08:00:00Z").unwrap();
    }
    writeln!(text, "alice,late,2026-03-03T08:00:00Z").unwrap();
    let messages = file("m.csv", text);
    let output = plan(&[&messages, "--quota", "1/1s", "--horizon", "1d"]);
    let rows = "1/1s              10,000        0\n\
                the horizon            0        1\n\
                not looked up          2        0\n\n";
    assert!(
        stdout(&output).contains(rows),
        "{}",
        &stdout(&output)[..500]
    );
}

/// Returns messages of several keys, in no order.
fn many(count: u32) -> String {
    let mut text = "key,id,time\n".to_owned();
    for n in 0..count {
        let (key, day, minute) = (n * 7 % 13, 27 + n * 5 % 3, n * 11 % 600);
        let (hour, minute) = (minute / 60, minute % 60);
        writeln!(
            text,
            "key {key},m{n},2026-03-{day:02}T{hour:02}:{minute:02}:00+01:00"
        )
        .unwrap();
    }
    text
}

#[test]
fn servers_plan_as_memory_does() {
    let server = shared::standalone(Flavor::System);
    let cluster = shared::cluster(Flavor::System);
    let single = [server.address()];
    let stores = [
        ("redis", &single[..]),
        ("fred", &single[..]),
        ("redis-cluster", cluster.addresses()),
        ("fred-cluster", cluster.addresses()),
    ];
    let text = many(200);
    let messages = file("many.csv", &text);
    let mixed = [&THREE[..], &BERLIN].concat();
    let short = ["--quota", "1/1m", "--quota", "second=1/1s"];
    let refused = ["--quota", "3/1h", "--horizon", "3d"];
    for (scheme, addresses) in stores {
        let store = format!("{scheme}://{}", addresses.join(","));
        for quotas in [&mixed[..], &THREE, &short, &refused] {
            for format in [&["--json"][..], &[]] {
                let arguments = [&[&*messages], quotas, format].concat();
                let expected = plan(&arguments);
                let prefix = prefix();
                let on_server = ["--store", &store, "--prefix", &prefix];
                // The first run leaves nothing for the second one to find.
                for _ in 0..2 {
                    let found = plan(&[&arguments[..], &on_server].concat());
                    assert_eq!(stdout(&found), stdout(&expected), "{store} {quotas:?}");
                    assert_eq!(stderr(&found), stderr(&expected));
                    assert_eq!(found.status.code(), expected.status.code());
                    for address in addresses {
                        assert_eq!(keys(address, &prefix), [""; 0]);
                    }
                }
            }
        }
    }
}

#[test]
fn a_plan_on_a_server_does_not_touch_the_service() {
    let server = shared::standalone(Flavor::System);
    let (store, prefix) = (server.url(), prefix());
    let add = tollgate()
        .args([
            "schedule",
            "reserve",
            "--schedule",
            "plan",
            "--key",
            "alice",
            "--id",
            "m0",
        ])
        .args(["--quota", "1/1d", "--store", &store, "--prefix", &prefix])
        .output()
        .unwrap();
    assert!(add.status.success(), "{}", stderr(&add));
    let before = keys(&server.address(), &prefix);
    assert_eq!(before.len(), 1);
    let messages = file("m.csv", wanted(&["2026-03-01T08:00:00Z"; 3]));
    let arguments = [&*messages, "--quota", "1/1d"];
    let on_server = ["--store", &store, "--prefix", &prefix];
    let found = plan(&[&arguments[..], &on_server].concat());
    assert_eq!(stdout(&found), stdout(&plan(&arguments)));
    assert_eq!(keys(&server.address(), &prefix), before);
    server.command(&["DEL", &before[0]]);
}

#[test]
fn bad_lines_are_named_and_nothing_is_printed() {
    let at = |line: &str| format!("key,id,time\nalice,a,2026-03-01T08:00:00Z\n{line}\n");
    let long = at(&format!("alice,{},2026-03-01T08:00:00Z", "x".repeat(201)));
    for (text, hints) in [
        (
            at("alice,b,noon"),
            &[":3: ", "field time", "\"noon\"", "RFC 3339"][..],
        ),
        (
            at("alice,b,2026-03-01T08:00:00"),
            &[":3: ", "field time", "no offset", "Z for UTC"],
        ),
        (
            at("alice,b,1969-12-31T00:00:00Z"),
            &[":3: ", "field time", "before 1970"],
        ),
        (at("alice,b"), &[":3: ", "2 fields", "heading has 3"]),
        (
            at("alice,b,2026-03-01T08:00:00Z,c"),
            &[":3: ", "4 fields", "quote"],
        ),
        (at("\n\r\nalice,b,x"), &[":5: ", "field time"]),
        (
            at("\"al\nice\",b,2026-03-01T08:00:00Z\nalice,c,x"),
            &[":5: ", "field time"],
        ),
        (
            at("alice,\"b,2026-03-01T08:00:00Z"),
            &[":3: ", "2 fields", "close every quote"],
        ),
        (
            at(",b,2026-03-01T08:00:00Z"),
            &[":3: ", "field key is empty"],
        ),
        (
            at("alice,,2026-03-01T08:00:00Z"),
            &[":3: ", "field id", "1 to 200"],
        ),
        (long, &[":3: ", "field id", "201 bytes"]),
        (
            at("bob,a,2026-03-01T08:00:00Z\nalice,a,2026-03-02T08:00:00Z"),
            &[":4: ", "id \"a\"", "key \"alice\"", "line 2"],
        ),
        (
            at("alice,a,2026-03-01T08:00:00Z"),
            &[":3: ", "line 2 already"],
        ),
        (
            "alice,a,2026-03-01T08:00:00Z\n".to_owned(),
            &[":1: ", "no column key", "key,id,time"],
        ),
        ("key,id\nalice,a\n".to_owned(), &[":1: ", "no column time"]),
        (
            "key,id,time\n".to_owned(),
            &["no message found", "key,id,time"],
        ),
        (String::new(), &["no message found"]),
    ] {
        let messages = file("bad.csv", &text);
        let output = plan(&[&[&*messages], &THREE[..]].concat());
        fails(&output, &[hints, &[&*messages]].concat());
        fails(
            &plan(&[&[&*messages, "--json"], &THREE[..]].concat()),
            hints,
        );
    }
    let latin = plan(&[&[&*file("latin.csv", b"key,id,time\n\xe4,a,x")], &THREE[..]].concat());
    fails(&latin, &[":2: ", "field key", "UTF-8"]);
}

#[test]
fn lines_are_counted_however_they_end() {
    let time = "2026-03-01T08:00:00Z";
    let mut many = String::new();
    for n in 0..3_000 {
        writeln!(many, "alice,{n},{time}\r").unwrap();
    }
    for (text, line) in [
        ("\n\n \nkey,id,time\nalice,a,noon\n".to_owned(), 5),
        ("\u{feff}\r\n\r\nkey,id,time\r\nalice,a,noon".to_owned(), 4),
        (
            format!("key,id,time\r\n\r\nalice,\"1\r\n2\",{time}\r\n\r\n\r\nalice,b,noon\r\n"),
            7,
        ),
        (
            format!("key,id,time\nalice,\"1\n2\n\",{time}\nalice,b,noon"),
            5,
        ),
        // In more than one block.
        (format!("key,id,time\r\n{many}\r\nalice,b,noon\r\n"), 3_003),
        (
            format!("\n{{\"key\":\"a\",\"id\":\"a\",\"time\":\"{time}\"}}\r\n\r\n{{\"key\":1}}"),
            4,
        ),
    ] {
        let output = plan(&[&[&*file("lines", &text)], &THREE[..]].concat());
        let place = format!(":{line}: ");
        fails(&output, &[place.as_str()]);
    }
}

#[test]
fn bad_json_lines_are_named() {
    let at = |line: &str| {
        format!("{{\"key\":\"a\",\"id\":\"a\",\"time\":\"2026-03-01T08:00:00Z\"}}\n\n{line}\n")
    };
    for (line, hints) in [
        (
            "{\"key\":\"a\",\"id\":\"b\"}",
            &["no field time", "2026-03-01T08:00:00Z"][..],
        ),
        ("{\"key\":\"a\",\"time\":\"x\"}", &["no field id"]),
        ("{\"id\":\"a\",\"time\":\"x\"}", &["no field key"]),
        (
            "{\"key\":[],\"id\":\"b\",\"time\":\"x\"}",
            &["field key", "wrong type"],
        ),
        (
            "{\"key\":\"a\",\"id\":\"b\",\"time\":1772352000}",
            &["field time", "wrong type"],
        ),
        (
            "{\"key\":\"a\",\"id\":\"b\",\"time\":\"noon\"}",
            &["field time", "\"noon\""],
        ),
        ("{\"key\":\"a\"", &["not a JSON object", "column 10"]),
        (
            "[\"a\",\"b\",\"2026-03-01T08:00:00Z\"]",
            &["not a JSON object"],
        ),
        (
            "a,b,2026-03-01T08:00:00Z",
            &["not a JSON object", "each line"],
        ),
    ] {
        let messages = file("bad.jsonl", at(line));
        let output = plan(&[&[&*messages], &THREE[..]].concat());
        fails(&output, &[&[":3: "], hints].concat());
    }
}

#[test]
fn command_lines_that_cannot_be() {
    let messages = file("m.csv", MESSAGES);
    for (arguments, hints) in [
        (&[][..], &["no quota", "--quota 5/1h"][..]),
        (&["--quota", "5"], &["--quota 5", "window"]),
        (
            &["--per-day", "5", "--time-zone", "Mars"],
            &["--time-zone Mars", "Europe/Berlin"],
        ),
        (
            &["--quota", "5/1h", "--horizon", "soon"],
            &["--horizon soon", "366d"],
        ),
        (
            &["--quota", "5/1h", "--report", &messages],
            &["--report", "choose another"],
        ),
        (
            &["--quota", "5/1h", "--store", "memry"],
            &["memry", "give memory, redis://"],
        ),
        (
            &["--quota", "5/1h", "--store", "redis://127.0.0.1:1"],
            &["(unavailable)"],
        ),
        (&["--quota", "200000/1h"], &["--quota 200000/1h", "100000"]),
        (&["--quota", "60000/1d"], &["at most 50000 for 60000/1d"]),
        (
            &["--quota", "5/day"],
            &["--quota 5/day", "24 hours", "`5/day@UTC`"],
        ),
    ] {
        fails(&plan(&[&[&*messages], arguments].concat()), hints);
    }
    fails(
        &plan(&["/does/not/exist", "--quota", "5/1h"]),
        &["/does/not/exist", "readable"],
    );
    assert_eq!(fs::read_to_string(&*messages).unwrap(), MESSAGES);
}

#[test]
fn a_large_file_takes_seconds() {
    let mut text = "key,id,time\n".to_owned();
    for n in 0..100_000_u32 {
        let (hour, minute) = (n / 60 % 24, n % 60);
        writeln!(
            text,
            "key-{},{n},2026-03-01T{hour:02}:{minute:02}:00Z",
            n % 20_000
        )
        .unwrap();
    }
    let begin = Instant::now();
    let messages = file("large.csv", &text);
    let output = plan(&[&[&*messages, "--json"], &THREE[..]].concat());
    assert!(output.status.success());
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(times(&plan).len(), 100_000);
    // The test's own build is slow, and so may be the machine.
    assert!(
        begin.elapsed() < Duration::from_secs(60),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_report_draws_every_key_and_needs_nothing_else() {
    let text = format!("{MESSAGES}<b>&,<i>,2026-03-01T08:00:00Z\n");
    let messages = file("m.csv", text);
    let report = scratch("plan.html");
    let quotas = ["--quota", "1/1m", "--horizon", "1m"];
    let output = plan(&[&[&*messages, "--report", &report], &quotas[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let html = fs::read_to_string(&*report).unwrap();
    for part in [
        "<!DOCTYPE html>",
        "Wanted and planned times of each key",
        "alice, b: wanted at 2026-03-01T08:00:00Z, refused: no time from the wanted one to 2026-03-01T08:00:30Z is free",
        "<tr><td>1/1m</td><td class=\"n\">0</td><td class=\"n\">2</td></tr>",
        "bob, a: wanted at 2026-03-01T08:00:00.25Z, planned as wanted",
        "&lt;b&gt;&amp;",
        "prefers-color-scheme: dark",
        "time (UTC)",
        "<h2>Refused</h2>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let said = conclusion(&html);
    let refused = "2 are refused, the first of them to alice: no time from the wanted one to 2026-03-01T08:00:30Z";
    assert!(said.starts_with("Of "), "{said}");
    assert!(said.contains(refused), "{said}");
    let outside = [
        "http", "//", "src=", "href=", "url(", "<script", "<link", "<b>&", "<i>,",
    ];
    for outside in outside {
        assert!(!html.replace(&*messages, "").contains(outside), "{outside}");
    }
    for (open, close) in [
        ("<svg", "</svg>"),
        ("<g>", "</g>"),
        ("<tr>", "</tr>"),
        ("<text", "</text>"),
    ] {
        assert_eq!(
            html.matches(open).count(),
            html.matches(close).count(),
            "{open}"
        );
    }
    let store = shared::standalone(Flavor::System).url();
    let other = scratch("other.html");
    plan(
        &[
            &[&*messages, "--report", &other, "--store", &store],
            &quotas[..],
        ]
        .concat(),
    );
    assert_eq!(fs::read_to_string(&*other).unwrap(), html);
}

#[test]
fn a_report_is_in_local_time_and_shades_closed_times() {
    let text = "\
key,id,time,time_zone
alice,a,2026-06-01T10:00:00Z,
alice,b,2026-06-02T23:00:00Z,
bob,a,2026-06-01T12:00:00Z,Asia/Tokyo
";
    let messages = file("m.csv", text);
    let report = scratch("closed.html");
    let quotas = ["--quota", "1/1m", "--quota", "closed 22:00-08:00@local"];
    let berlin = ["--time-zone", "Europe/Berlin"];
    let output = plan(&[&[&*messages, "--report", &report], &quotas[..], &berlin].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let html = fs::read_to_string(&*report).unwrap();
    for part in [
        "time (Europe/Berlin)",
        "times in the zone of each message",
        ">Asia/Tokyo</text>",
        "bob, a: wanted at 2026-06-01T21:00:00+09:00, planned as wanted",
        "<i class=\"closed\"></i> closed",
        // Midnight of Berlin, not of UTC.
        ">00:00</text>",
        ">2 Jun 2026</text>",
        "alice, b: wanted at 2026-06-03T01:00:00+02:00, planned at 2026-06-03T08:00:00+02:00, 7h later, \
         closed 22:00-08:00@local in the way",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // From 12:00 on the first to 08:00 on the third are two nights, also in Tokyo.
    assert_eq!(html.matches("<rect class=\"closed\"").count(), 4);
    assert_eq!(
        stdout(&output),
        "3 messages of 2 keys: 2 as wanted, 1 moved, 0 refused, times in the zone of each message\n\n\
         QUOTA IN THE WAY          MOVED  REFUSED\n\
         1/1m                          0        0\n\
         closed 22:00-08:00@local      1        0\n\n\
         KEY    ID  ZONE           WANTED                     PLANNED                    LATER BY  \
         QUOTA IN THE WAY\n\
         alice  a   Europe/Berlin  2026-06-01T12:00:00+02:00  2026-06-01T12:00:00+02:00\n\
         alice  b   Europe/Berlin  2026-06-03T01:00:00+02:00  2026-06-03T08:00:00+02:00  7h        \
         closed 22:00-08:00@local\n\
         bob    a   Asia/Tokyo     2026-06-01T21:00:00+09:00  2026-06-01T21:00:00+09:00\n"
    );
    let html = |arguments: &[&str]| {
        plan(&[&[&*messages, "--report", &report], arguments].concat());
        fs::read_to_string(&*report).unwrap()
    };
    let open = html(&["--quota", "1/1m"]);
    assert!(open.contains("time (UTC)") && !open.contains("class=\"closed\""));
}

#[test]
fn a_report_that_cannot_be_written_is_said_after_the_plan() {
    let messages = file("m.csv", MESSAGES);
    let output = plan(
        &[
            &[&*messages, "--report", "/does/not/exist.html"],
            &THREE[..],
        ]
        .concat(),
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot write the report /does/not/exist.html"));
    assert!(stdout(&output).starts_with("4 messages"));
}

#[test]
fn the_manual_shows_what_is_planned() {
    let manual = include_str!("../../README.md");
    let (_, rest) = manual.split_once("$ cat messages.csv\n").unwrap();
    let (csv, rest) = rest
        .split_once("$ tollgate schedule plan messages.csv ")
        .unwrap();
    let (quotas, _) = rest.split_once('\n').unwrap();
    let messages = file("messages.csv", csv);
    let arguments: Vec<_> = [&*messages].into_iter().chain(quotas.split(' ')).collect();
    let text = stdout(&plan(&arguments));
    assert!(manual.contains(&format!("\n{text}```")), "{text}");
    let json = stdout(&plan(&[&arguments[..], &["--json"]].concat()));
    assert!(manual.contains(&format!("\n{json}```")), "{json}");
}
