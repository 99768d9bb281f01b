//! `schedule plan`: what it plans, prints and reports, in memory and on servers.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tollgate_testkit::{Flavor, shared};

use crate::desk;
use crate::formats::packed;
use crate::program::{
    all_fail, conclusion, fails, file, has, scratch, stands_alone, stderr, stdout, tollgate,
    with_input, words,
};
use crate::servers::{keys, prefix};

const THREE: &str = "--quota 1/1m --quota 5/1h --quota 10/1d";

const MESSAGES: &str = "\
key,id,time
alice,a,2026-03-01T08:00:00Z
alice,b,2026-03-01T08:00:00Z
bob,a,2026-03-01T09:00:00.25+01:00
alice,c,2026-03-01T07:59:30Z
";

/// Returns a command that plans the messages of `file`, with the words of `options`.
fn command(file: &str, options: &str) -> Command {
    let mut command = tollgate();
    command
        .args(["schedule", "plan", file])
        .args(words(options));
    command
}

fn plan(file: &str, options: &str) -> Output {
    command(file, options).output().unwrap()
}

/// Plans `text`, and returns the JSON object that is printed.
fn planned(text: impl AsRef<[u8]>, options: &str) -> Value {
    let output = plan(&file("messages", text), &format!("{options} --json"));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let status = i32::from(plan["refused"] != json!([]));
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    plan
}

/// Plans messages of one key. Each line has the wanted time, perhaps a zone, and what becomes of it.
fn becomes(options: &str, lines: &str) {
    let mut text = "key,id,time,time_zone\n".to_owned();
    let mut expected = Vec::new();
    for (id, line) in lines.lines().enumerate() {
        let (wanted, becomes) = line.split_once(" > ").unwrap();
        let (time, zone) = wanted.split_once(' ').unwrap_or((wanted, ""));
        writeln!(text, "alice,{id},{time},{zone}").unwrap();
        expected.push(becomes);
    }
    let plan = planned(text, options);
    let mut found = vec![String::new(); expected.len()];
    let outcomes = [
        ("events", "planned", "moved_by"),
        ("refused", "reason", "quota"),
    ];
    for (outcome, what, quota) in outcomes {
        for message in plan[outcome].as_array().unwrap() {
            let found = &mut found[message["id"].as_str().unwrap().parse::<usize>().unwrap()];
            *found = message[what].as_str().unwrap().to_owned();
            if let Some(quota) = message[quota].as_str() {
                write!(found, " by {quota}").unwrap();
            }
        }
    }
    assert_eq!(found, expected, "{options}");
}

#[test]
fn every_message_gets_the_earliest_permitted_time() {
    let mut lines = "2026-03-01T08:00:00Z > 2026-03-01T08:00:00Z\n".to_owned();
    for case in "\
01T08:01 1/1m
01T08:02 1/1m
01T08:03 1/1m
01T08:04 1/1m
01T09:00 5/1h
01T09:01 5/1h
01T09:02 5/1h
01T09:03 5/1h
01T09:04 5/1h
02T08:00 10/1d
02T08:01 10/1d"
        .lines()
    {
        let (time, quota) = case.split_once(' ').unwrap();
        lines += &format!("2026-03-01T08:00:00Z > 2026-03-{time}:00Z by {quota}\n");
    }
    becomes(THREE, &lines);
    for year in [1970, 1999, 2100] {
        let time = format!("{year}-06-01T08:00:00Z");
        let later = format!("{year}-06-01T08:01:00Z by 1/1m");
        becomes(THREE, &format!("{time} > {time}\n{time} > {later}"));
    }
    becomes(
        THREE,
        "2001-01-01T00:00:00Z > 2001-01-01T00:00:00Z\n\
         2002-01-01T00:00:00Z > 2002-01-01T00:00:00Z\n\
         2001-01-01T00:00:00Z > 2001-01-01T00:01:00Z by 1/1m",
    );
}

#[test]
fn days_are_local_and_change_their_length() {
    // On 29 March 2026, clocks in Berlin go from 02:00 to 03:00: the day has 23 hours.
    becomes(
        "--per-day 2 --time-zone Europe/Berlin",
        "2026-03-29T00:00:00+01:00 > 2026-03-28T23:00:00Z\n\
         2026-03-29T23:59:59+02:00 > 2026-03-29T21:59:59Z\n\
         2026-03-29T12:00:00+02:00 > 2026-03-29T22:00:00Z by 2/day@Europe/Berlin\n\
         2026-03-30T00:00:00+02:00 > 2026-03-29T22:00:00Z\n\
         2026-03-30T00:00:00+02:00 > 2026-03-30T22:00:00Z by 2/day@Europe/Berlin",
    );
    // On 25 October 2026, the day has 25 hours.
    becomes(
        "--per-day 2 --time-zone Europe/Berlin",
        "2026-10-25T00:00:00+02:00 > 2026-10-24T22:00:00Z\n\
         2026-10-25T23:59:59+01:00 > 2026-10-25T22:59:59Z\n\
         2026-10-25T02:30:00+01:00 > 2026-10-25T23:00:00Z by 2/day@Europe/Berlin",
    );
    becomes(
        "--per-week 1 --per-month 2 --time-zone Europe/Berlin",
        "2026-03-01T12:00:00+01:00 > 2026-03-01T11:00:00Z\n\
         2026-03-01T12:00:00+01:00 > 2026-03-01T23:00:00Z by 1/week@Europe/Berlin\n\
         2026-03-01T12:00:00+01:00 > 2026-03-31T22:00:00Z by 2/month@Europe/Berlin\n\
         2026-03-01T12:00:00+01:00 > 2026-04-05T22:00:00Z by 2/month@Europe/Berlin",
    );
}

#[test]
fn nothing_is_planned_at_closed_times() {
    let night = "--quota 'closed 22:00-08:00@local' --quota 1/1m --time-zone";
    // In Berlin, clocks go forward in this night. Tokyo is nine hours ahead.
    becomes(
        &format!("{night} UTC"),
        "2026-03-28T21:59:59Z Europe/Berlin > 2026-03-29T06:00:00Z by closed 22:00-08:00@local\n\
         2026-03-28T21:59:59Z > 2026-03-28T21:59:59Z\n\
         2026-03-28T23:00:00Z America/New_York > 2026-03-28T23:00:00Z\n\
         2026-03-28T12:00:00Z Asia/Tokyo > 2026-03-28T12:00:00Z",
    );
    becomes(
        &format!("{night} Europe/Berlin --horizon 8h"),
        "2026-06-01T23:00:00+02:00 > no time from the wanted one to \
         2026-06-02T07:00:00+02:00[Europe/Berlin] is free; at the wanted one, closed \
         22:00-08:00@local is in the way by closed 22:00-08:00@local",
    );
    becomes(
        &format!("{night} Europe/Berlin"),
        "2026-06-01T23:00:00+02:00 > 2026-06-02T06:00:00Z by closed 22:00-08:00@local\n\
         2026-06-01T23:00:00+02:00 > 2026-06-02T06:01:00Z by closed 22:00-08:00@local",
    );
}

#[test]
fn a_horizon_counts_from_the_earliest_wanted_time() {
    becomes(
        "--quota 1/1h --horizon 1d",
        "2026-03-01T08:00:00Z > 2026-03-01T08:00:00Z\n\
         2026-03-02T08:00:00Z > 2026-03-02T08:00:00Z\n\
         2026-03-02T08:00:00.000001Z > the time is beyond the horizon: the latest possible is \
         2026-03-02T08:00:00Z\n\
         2026-03-02T08:00:00Z > no time from the wanted one to 2026-03-02T08:00:00Z is free; at the \
         wanted one, 1/1h is in the way by 1/1h",
    );
}

#[test]
fn quotas_that_allow_a_short_horizon_only_are_planned_within_it() {
    // One a second: a key can hold 100,000 seconds, a little more than a day.
    let mut text = "key,id,time\n".to_owned();
    for day in 1..=30 {
        for id in ["a", "b"] {
            writeln!(text, "alice,{day}{id},2026-01-{day:02}T08:00:00Z").unwrap();
        }
    }
    let plan = planned(&text, "--quota 1/1s");
    assert_eq!(plan["moved"], 30);
    assert_eq!(plan["events"][59]["planned"], "2026-01-30T08:00:01Z");
    let note = stderr(&self::plan(&file("month.csv", &text), "--quota 1/1s"));
    let begins = "tollgate: with these quotas";
    assert!(note.starts_with(begins) && note.contains("1d 3h"), "{note}");
}

#[test]
fn no_message_is_planned_beyond_the_horizon_that_was_given() {
    // One a second: the quotas allow 100,000 seconds from each wanted time, the option two days.
    let mut lines = "2026-01-01T08:00:00Z > 2026-01-01T08:00:00Z\n".to_owned();
    lines += "2026-01-03T07:59:59Z > 2026-01-03T07:59:59Z\n";
    lines += "2026-01-03T07:59:59Z > 2026-01-03T08:00:00Z by 1/1s\n";
    for _ in 0..2 {
        lines += "2026-01-03T07:59:59Z > no time from the wanted one to 2026-01-03T08:00:00Z is free; \
                  at the wanted one, 1/1s is in the way by 1/1s\n";
    }
    lines += "2026-01-03T08:00:02Z > the time is beyond the horizon: the latest possible is \
              2026-01-03T08:00:00Z\n";
    becomes("--quota 1/1s --horizon 2d", lines.trim_end());
}

/// A file that another program reads has each value as it is.
#[test]
fn csv_holds_values_as_they_are() {
    let text = "key,id,time\n\"a\u{1b}\n\"\"b\",x\u{9b},2026-03-01T08:00:00Z\n";
    let messages = file("odd.csv", text);
    let text = stdout(&plan(&messages, &format!("{THREE} --csv")));
    let planned = "2026-03-01T08:00:00Z,2026-03-01T08:00:00Z,,\n";
    assert_eq!(
        text,
        format!("key,id,wanted,planned,quota,refused\n\"a\u{1b}\n\"\"b\",x\u{9b},{planned}")
    );
}

#[test]
fn messages_are_listed_as_csv_by_outcome_and_by_key() {
    let text = format!("{MESSAGES}bob,\"b,c\",2026-03-01T08:30:00Z\n");
    let messages = file("listed.csv", text);
    let of = |options: &str| {
        let output = plan(&messages, &format!("{THREE} --horizon 90s {options}"));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stdout(&output)
    };
    let lines = |text: &str, lines: &[usize]| -> String {
        let all: Vec<_> = text.split_inclusive('\n').collect();
        lines.iter().map(|&line| all[line]).collect()
    };
    let csv = "\
key,id,wanted,planned,quota,refused
alice,a,2026-03-01T08:00:00Z,2026-03-01T08:00:00Z,,
alice,b,2026-03-01T08:00:00Z,2026-03-01T08:01:00Z,1/1m,
bob,a,2026-03-01T08:00:00.25Z,2026-03-01T08:00:00.25Z,,
alice,c,2026-03-01T07:59:30Z,,1/1m,\"no time from the wanted one to 2026-03-01T08:01:00Z is free; at the wanted one, 1/1m is in the way\"
bob,\"b,c\",2026-03-01T08:30:00Z,,,the time is beyond the horizon: the latest possible is 2026-03-01T08:01:00Z
";
    assert_eq!(of("--csv"), csv);
    assert_eq!(of("--csv --only moved"), lines(csv, &[0, 2]));
    assert_eq!(of("--csv --only refused"), lines(csv, &[0, 4, 5]));
    let json: Value = serde_json::from_str(&of("--json --only refused")).unwrap();
    assert_eq!(json["events"], json!([]));
    assert_eq!(json["refused"].as_array().unwrap().len(), 2);
    let only = of("--only moved");
    assert!(only.contains("\nalice  b   2026"), "{only}");
    assert!(!only.contains("\nbob "), "{only}");
    let keys = "\
key,messages,as_wanted,moved,refused,last_planned
alice,3,1,1,1,2026-03-01T08:01:00Z
bob,2,1,0,1,2026-03-01T08:00:00.25Z
";
    assert_eq!(of("--csv --per-key"), keys);
    let moved = of("--csv --per-key --only moved");
    assert_eq!(moved, lines(keys, &[0, 1]));
    let keys = "\
KEY    MESSAGES  AS WANTED  MOVED  REFUSED  LATER BY UP TO  LAST PLANNED
alice         3          1      1        1  1m              2026-03-01T08:01:00Z
bob           2          1      0        1                  2026-03-01T08:00:00.25Z
";
    let found = of("--per-key --only refused");
    assert!(found.ends_with(&format!("\n\n{keys}")), "{found}");
    // Neither the most delayed message nor the latest need be the last in the file.
    let day = "2026-03-01T";
    let text = format!("key,id,time\na,1,{day}08:00:00Z\na,2,{day}08:00:00Z\na,3,{day}07:00:00Z");
    let found = stdout(&plan(
        &file("early.csv", text),
        &format!("{THREE} --per-key"),
    ));
    let said = "0  1m              2026-03-01T08:01:00Z\n";
    assert!(found.ends_with(said), "{found}");
}

#[test]
fn the_table_is_in_local_time_and_says_why_a_message_is_refused() {
    let messages = file("messages.csv", MESSAGES);
    let output = plan(&messages, &format!("{THREE} --time-zone Europe/Berlin"));
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
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
    let output = plan(&messages, "--quota 1/1d --horizon 23h");
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.starts_with("4 messages of 2 keys: 2 as wanted, 0 moved, 2 refused\n"));
    let row = "refused                            no time from the wanted one to \
               2026-03-02T06:59:30Z is free; at the wanted one, 1/1d is in the way\n";
    assert!(text.contains(row), "{text}");
    let zones = "key,id,time,time_zone\nalice,a,2026-06-01T22:00:00Z,Asia/Tokyo\n";
    let zones = file("zones.csv", zones);
    let text = stdout(&plan(&zones, "--quota 2/day@local --time-zone UTC"));
    let title =
        "1 message of 1 key: 1 as wanted, 0 moved, 0 refused, times in the zone of each message\n";
    let holds = text.starts_with(title) && text.contains("2026-06-02T07:00:00+09:00");
    assert!(holds, "{text}");
}

#[test]
fn files_are_read_however_they_are_written() {
    let lines = r#"{"key":"alice","id":"a","time":"2026-03-01T08:00:00Z","more":[1]}

{"id":"b","key":"alice","time":"2026-03-01T08:00:00Z","time_zone":"UTC"}
{"key":"bob","id":"a","time":"2026-03-01T09:00:00.25+01:00"}
{"key":"\u0061lice","id":"c","time":"2026-03-01T07:59:30Z"}"#;
    let expected = planned(MESSAGES, THREE);
    for text in [
        MESSAGES.trim_end().to_owned(),
        MESSAGES.replace('\n', "\r\n"),
        format!("\u{feff}{MESSAGES}"),
        format!("\n\n{}\n\n", MESSAGES.replace('\n', "\n \n\n")),
        MESSAGES.replace("alice", "\"alice\""),
        MESSAGES.replace("key,id", "\"key\", id"),
        MESSAGES.replace('Z', "Z "),
        "time,x,key,id\n\
         2026-03-01T08:00:00Z,1,alice,a\n\
         2026-03-01T08:00:00Z,\"2,2\",alice,b\n\
         2026-03-01T09:00:00.25+01:00,\"3\n3\",bob,a\n\
         2026-03-01T07:59:30Z,,alice,c"
            .to_owned(),
        lines.to_owned(),
        lines.replace('\n', "\r\n"),
        format!("\u{feff}{lines}\n"),
    ] {
        assert_eq!(planned(&text, THREE), expected, "{text:?}");
    }
    let names = |text| {
        let event = &planned(text, THREE)["events"][0];
        [event["key"].clone(), event["id"].clone()]
    };
    let quoted = "key,id,time\n\"a \"\"b\"\", c\",\"1\n2\",2026-03-01T08:00:00Z\n";
    assert_eq!(names(quoted), ["a \"b\", c", "1\n2"]);
    let numbers = r#"{"key":7,"id":1.50,"time":"2026-03-01T08:00:00Z"}"#;
    assert_eq!(names(numbers), ["7", "1.50"]);

    let expected = stdout(&plan(&file("m.csv", MESSAGES), THREE));
    let found = with_input(command("-", THREE), MESSAGES);
    assert_eq!(stdout(&found), expected);
    let packed = file("m.csv.gz", packed(MESSAGES.as_bytes()));
    assert_eq!(stdout(&plan(&packed, THREE)), expected);
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
    // Of several keys, in no order.
    let mut text = "key,id,time\n".to_owned();
    for n in 0..200 {
        let (key, day, minute) = (n * 7 % 13, 27 + n * 5 % 3, n * 11 % 600);
        let (hour, minute) = (minute / 60, minute % 60);
        let time = format!("2026-03-{day:02}T{hour:02}:{minute:02}:00+01:00");
        writeln!(text, "key {key},m{n},{time}").unwrap();
    }
    let messages = file("many.csv", &text);
    for (scheme, addresses) in stores {
        let store = format!("{scheme}://{}", addresses.join(","));
        for quotas in [
            &format!("{THREE} --per-day 2 --time-zone Europe/Berlin"),
            "--quota 1/1m --quota second=1/1s",
            "--quota 3/1h --horizon 3d",
        ] {
            let expected = plan(&messages, quotas);
            let prefix = prefix();
            let options = format!("{quotas} --store {store} --prefix {prefix}");
            let found = plan(&messages, &options);
            assert_eq!(stdout(&found), stdout(&expected), "{store} {quotas:?}");
            assert_eq!(stderr(&found), stderr(&expected));
            assert_eq!(found.status.code(), expected.status.code());
            for address in addresses {
                assert_eq!(keys(address, &prefix), [""; 0]);
            }
        }
    }
}

#[test]
fn a_plan_on_a_server_does_not_touch_the_service() {
    let server = shared::standalone(Flavor::System);
    let (store, prefix) = (server.url(), prefix());
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let event = ("m0", &*soon.to_string(), 1);
    desk::plan(&store, &prefix, ("plan", "1/1d"), "alice", event);
    let before = keys(&server.address(), &prefix);
    assert_eq!(before.len(), 1);
    let text = format!("key,id,time\nalice,m1,{soon}\nalice,m0,{soon}");
    let messages = file("m.csv", text);
    let options = format!("--quota 1/1d --store {store} --prefix {prefix}");
    let found = plan(&messages, &options);
    assert_eq!(stdout(&found), stdout(&plan(&messages, "--quota 1/1d")));
    assert_eq!(keys(&server.address(), &prefix), before);
    server.command(&["DEL", &before[0]]);
}

#[test]
fn bad_lines_are_named_and_nothing_is_printed() {
    let time = "2026-03-01T08:00:00Z";
    let check = |text: &[u8], line: &str, hint: &str| {
        let messages = file("bad", text);
        for format in ["", "--json"] {
            let output = plan(&messages, &format!("{THREE} {format}"));
            fails(&output, &[&*messages, line, hint]);
        }
    };
    for case in r#"
alice,b,noon > the field time, "noon", is not a time; write it as RFC 3339
alice,b,2026-03-01T08:00:00 > has no offset; append Z for UTC
alice,b,1969-12-31T00:00:00Z > is before 1970
alice,b,2026-03-01T08:00:00+25:00 > has an offset of 24 hours or more; write one such as +01:00
alice, b,AT > the field id, " b", has a space before or after its text: remove it
"alice ",b,AT > the field key, "alice ", has a space
{"key":1,"id":" 2","time":"AT"} > the field id, " 2", has a space
alice,b > fields: 2, and the heading has 3
alice,b,AT,c > fields: 4, and the heading has 3: quote a field
alice,"b,AT > fields: 2, and the heading has 3: quote a field that contains a comma or a line end, and close
,b,AT > the field key is empty
alice,,AT > the field id has 0 bytes: give 1 to 200
alice,LONG,AT > the field id has 201 bytes
alice,a,AT > the id "a" of the key "alice" is on line 2 already
{"key":1,"id":2} > missing field `time` at column 16; give one object on each line
{"key":1,"time":"x"} > missing field `id`
{"key":[],"id":2,"time":"AT"} > a key or an id is no text or number
{"key":1,"id":2,"time":1772352000} > expected a string
{"key":1,"id":2,"time":"noon"} > the field time, "noon"
{"key":1,"id":2,"time":"AT","time_zone":5} > expected a string
{"key":"a" > not a message: EOF while parsing an object at column 10
[1,2,"x"] > not a JSON object"#
        .trim_start()
        .lines()
    {
        let (line, hint) = case.split_once(" > ").unwrap();
        let line = line.replace("AT", time).replace("LONG", &"x".repeat(201));
        let start = match &line[..1] {
            "{" | "[" => format!("{{\"key\":1,\"id\":1,\"time\":\"{time}\"}}\n"),
            _ => format!("key,id,time\nalice,a,{time}"),
        };
        check(format!("{start}\n{line}\n").as_bytes(), ":3: ", hint);
    }
    let many = format!("alice,N,{time}\r\n");
    let many: String = (0..3_000)
        .map(|n| many.replace('N', &n.to_string()))
        .collect();
    // The last is in more than one block.
    for case in r#"
alice,a,AT/ => :1: , no column key: begin the file with key,id,time
key,id/alice,a/ => :1: , no column time
key,id,time/ => , no message found
 => , no message found
// /key,id,time/a,b,x/ => :5: , field time
\u{feff}~/~/key,id,time~/a,b,x => :4: , field time
key,id,time~/~/a,"1~/2",AT~/~/~/a,b,x~/ => :7: , field time
key,id,time/a,"1/2/",AT/a,b,x => :5: , field time
key,id,time~/MANY~/a,b,x~/ => :3003: , field time
"#
    .trim_matches('\n')
    .lines()
    {
        // A slash is the end of a line, and a tilde before it a CR.
        let (text, found) = case.split_once(" => ").unwrap();
        let text = text.replace('/', "\n").replace('~', "\r");
        let text = text.replace("\\u{feff}", "\u{feff}");
        let text = text.replace("AT", time).replace("MANY", &many);
        let (line, hint) = found.split_once(", ").unwrap();
        check(text.as_bytes(), line, hint);
    }
    check(b"key,id,time\n\xe4,a,x", ":2: ", "UTF-8");
}

#[test]
fn command_lines_that_cannot_be() {
    let messages = file("m.csv", format!("{MESSAGES}\n"));
    let cases = "\
--quota 5 => --quota 5:
 => no quota is given: give at least one, such as --quota 5/1h
--per-day -1 => --per-day -1: a number or a length of time is never negative
--per-day=-1 --quota 5/1h => --per-day -1: a number or a length
--quota 5/1h --horizon -1d => --horizon -1d: a number or
--per-day 5 --time-zone Mars => --time-zone Mars:
--quota 2/day@local => give it as --time-zone
--quota 2/day@local => in a field time_zone of each message, which the message a to alice
--quota 5/1h --horizon soon => --horizon soon:
--quota 5/1h --report MESSAGES => choose another
--quota 5/1h --store memry => give memory, redis://
--quota 5/1h --store redis://127.0.0.1:1 => (unavailable)
--quota 200000/1h => 100000
--quota 60000/1d => at most 50000 for 60000/1d
--quota 5/day => `5/day@UTC`";
    let cases = cases.replace("MESSAGES", &format!("'{}'", &*messages));
    all_fail(&cases, |options| plan(&messages, options));
    let hints = ["/does/not/exist", "readable"];
    fails(&plan("/does/not/exist", THREE), &hints);
    let zones = "key,id,time,time_zone\nalice,a,2026-06-01T12:00:00Z,";
    let mars = plan(&file("m", format!("{zones}Mars")), "--quota 2/day@local");
    let hints = [":2: ", "field time_zone, \"Mars\"", "Europe/Berlin"];
    fails(&mars, &hints);
    let utc = plan(&file("m", format!("{zones}UTC")), "--quota 2/day@local");
    assert!(utc.status.success(), "{}", stderr(&utc));
    // The plan is printed before the report is written.
    let output = plan(&messages, &format!("{THREE} --report /does/not/exist.html"));
    assert_eq!(output.status.code(), Some(2));
    has(
        &stderr(&output),
        "cannot write the report /does/not/exist.html",
    );
    assert!(stdout(&output).starts_with("4 messages"));
    let text = fs::read_to_string(&*messages).unwrap();
    assert!(text.starts_with(MESSAGES));
}

#[test]
fn a_report_says_what_became_of_the_messages_and_needs_nothing_else() {
    let text = format!("{MESSAGES}<b>&,<i>,2026-03-01T08:00:00Z\n<b>&,late,2026-03-01T08:01:00Z\n");
    let messages = file("m.csv", text);
    let report = scratch("plan.html");
    let page = |status, options: &str| {
        let output = plan(&messages, &format!("{options} --report '{}'", &*report));
        assert_eq!(output.status.code(), Some(status));
        let html = fs::read_to_string(&*report).unwrap();
        html.replace(" class=\"key\"", "")
            .replace(" class=\"n\"", "")
    };
    let html = page(1, "--quota 1/90s --horizon 2m --time-zone Europe/Berlin");
    for part in [
        "<!DOCTYPE html>",
        "prefers-color-scheme: dark",
        "<td>1/90s</td><td>2</td><td>1</td>",
        "<td>1 Mar 2026 09:00:00 CET</td>",
        "<i class=\"a\" style=\"width:100.0%\"></i></td><td>3</td><td>0</td>",
        "<i class=\"d\" style=\"width:66.6%\"></i></td><td>0</td><td>2</td>",
        "<p>3 of 3.</p>",
        "<td>&lt;b&gt;&amp;</td><td>late</td><td>2026-03-01T09:01:00+01:00</td>\
         <td>2026-03-01T09:01:30+01:00</td><td>30s</td><td>1/90s</td>",
        "<td>alice</td><td>c</td><td>2026-03-01T08:59:30+01:00</td><td>refused</td><td></td>\
         <td>no time from the wanted one to 2026-03-01T09:01:30+01:00[Europe/Berlin] is free; at the wanted \
         one, 1/90s is in the way</td>",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    let said = "6 messages of 3 keys: 3 as wanted, 2 moved, 1 refused, times in Europe/Berlin";
    assert_eq!(conclusion(&html), said);
    stands_alone(&html, &messages);
    assert!(!html.contains("<b>&") && !html.contains("<i>,"), "{html}");
    let html = page(0, "--quota 9/1h");
    let said = "6 messages of 3 keys: 6 as wanted, 0 moved, 0 refused";
    assert_eq!(conclusion(&html), said);
    assert!(html.contains(" UTC</td>") && !html.contains("Quotas in the way"));
}

#[test]
fn the_manual_shows_what_is_planned() {
    let manual = include_str!("../../README.md");
    let (_, rest) = manual.split_once("$ cat messages.csv\n").unwrap();
    let (csv, rest) = rest
        .split_once("$ tollgate schedule plan messages.csv ")
        .unwrap();
    let (quotas, _) = rest.split_once('\n').unwrap();
    let text = stdout(&plan(&file("messages.csv", csv), quotas));
    has(manual, &format!("\n{text}```"));
    let shown = manual.lines().find(|line| line.starts_with("{\"events\""));
    let shown: Value = serde_json::from_str(shown.unwrap()).unwrap();
    assert_eq!(shown, planned(csv, quotas));
}
