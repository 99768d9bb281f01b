//! `schedule add`, `cancel`, `list`, `move`, `next` and `reserve` on a live server.

use serde_json::{Value, json};
use tollgate_testkit::{Flavor, Server};

use crate::desk::Desk;
use crate::program::{fails, stderr, stdout, tollgate};

const QUOTAS: [&str; 6] = [
    "--quota",
    "1/1m",
    "--quota",
    "hourly=3/1h",
    "--quota",
    "10/1d",
];

/// Returns a time of a day that is a few months ahead, at `time` in UTC.
fn day(time: &str) -> String {
    let now = std::time::SystemTime::now();
    let days = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 86_400 + 100;
    let date = days_to_date(days);
    format!("{date}T{time}Z")
}

/// Howard Hinnant's conversion of days since 1970, so that the tests need no calendar.
fn days_to_date(days: u64) -> String {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[test]
fn events_are_added_listed_moved_and_cancelled() {
    for scheme in ["redis", "fred"] {
        let desk = Desk::of_reminders(scheme);
        let ask = |status, arguments: &[&str]| desk.says(status, &[arguments, &QUOTAS].concat());
        let add = |status, id, time| ask(status, &["add", "--id", id, "--time", &day(time)]);
        let added = add(0, "a", "08:00:00");
        assert_eq!(
            added,
            json!({
                "command": "add", "schedule": "reminders", "key": "alice", "rest": "", "id": "a",
                "weight": 1, "planned": true, "new": true, "time": day("08:00:00"), "refused": null,
            })
        );
        assert_eq!(desk.keys(), [desk.key("reminders:schedule:v1:{alice}")]);
        assert_eq!(add(0, "a", "08:00:00")["new"], false);
        let taken = add(1, "a", "09:00:00");
        assert_eq!(taken["refused"]["reason"], "id-taken");
        assert_eq!(taken["refused"]["bound"], day("08:00:00"));

        let refused = add(1, "b", "08:00:20.5");
        assert_eq!(refused["planned"], false);
        assert_eq!(refused["time"], Value::Null);
        assert_eq!(
            refused["refused"],
            json!({
                "reason": "quota", "quota": "1/1m", "bound": null,
                "next_free": day("08:01:00"), "latest_free": day("07:59:00"),
            })
        );
        let first = ask(0, &["reserve", "--id", "b", "--from", &day("08:00:20.5")]);
        assert_eq!(first["time"], day("08:01:00"));
        assert_eq!(first["new"], true);
        let again = ask(0, &["reserve", "--id", "b", "--from", &day("12:00:00")]);
        assert_eq!(
            (&again["time"], &again["new"]),
            (&first["time"], &json!(false))
        );
        add(0, "c", "08:30:00");
        let hourly = add(1, "d", "08:45:00");
        assert_eq!(hourly["refused"]["quota"], "hourly=3/1h");
        assert_eq!(hourly["refused"]["next_free"], day("09:00:00"));
        assert_eq!(hourly["refused"]["latest_free"], day("07:30:00"));

        let next = |from| ask(0, &["next", "--from", &day(from)])["time"].clone();
        assert_eq!(next("08:45:00"), day("09:00:00"));
        assert_eq!(next("09:00:00.25"), day("09:00:00.25"));
        let latest = ask(0, &["next", "--until", &day("08:45:00")]);
        assert_eq!(latest["time"], day("07:30:00"));
        let heavy = ask(1, &["next", "--from", &day("08:00:00"), "--weight", "2"]);
        assert_eq!(heavy["time"], Value::Null);

        let stays = ask(1, &["move", "--id", "c", "--time", &day("08:01:30")]);
        assert_eq!(stays["refused"]["quota"], "1/1m");
        let moved = ask(0, &["move", "--id", "c", "--time", &day("08:40:00")]);
        assert_eq!(moved["time"], day("08:40:00"));
        let unknown = ask(1, &["move", "--id", "x", "--time", &day("08:40:00")]);
        assert_eq!(unknown["refused"]["reason"], "unknown-id");

        let listed = ask(0, &["list"]);
        let event = |id, time| json!({"id": id, "time": day(time), "weight": 1});
        let all = [
            event("a", "08:00:00"),
            event("b", "08:01:00"),
            event("c", "08:40:00"),
        ];
        assert_eq!(listed["events"], json!(all));
        let (from, until) = (day("08:01:00"), day("08:40:00"));
        let some = desk.says(0, &["list", "--from", &from, "--until", &until]);
        assert_eq!(some["events"], json!([all[1]]));

        assert_eq!(ask(0, &["cancel", "--id", "b"])["cancelled"], true);
        assert_eq!(ask(1, &["cancel", "--id", "b"])["cancelled"], false);
        assert_eq!(add(0, "b", "08:20:00")["new"], true);
        for id in ["a", "b", "c"] {
            ask(0, &["cancel", "--id", id]);
        }
        assert_eq!(desk.keys(), [""; 0]);
    }
}

#[test]
fn past_and_far_times_are_refused() {
    let desk = Desk::of_reminders("redis");
    let ask = |status, time: &str, more: &[&str]| {
        let add = ["add", "--id", "a", "--time", time, "--quota", "10/1d"];
        desk.says(status, &[&add, more].concat())["refused"].clone()
    };
    let past = ask(1, "2026-01-01T00:00:00Z", &[]);
    assert_eq!(past["reason"], "past");
    assert_eq!(past["next_free"], past["bound"]);
    let far = ask(1, "2100-01-01T00:00:00Z", &[]);
    assert_eq!(far["reason"], "beyond-horizon");
    assert_eq!(far["next_free"], Value::Null);
    assert_eq!(far["latest_free"], far["bound"]);
    let near = ask(1, &day("00:00:00"), &["--horizon", "99d"]);
    assert_eq!(near["reason"], "beyond-horizon");
    ask(0, &day("00:00:00"), &["--horizon", "101d"]);
    desk.says(0, &["cancel", "--id", "a", "--quota", "10/1d"]);
    let yesterday = std::time::SystemTime::now();
    let days = yesterday
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        / 86_400
        - 1;
    let yesterday = format!("{}T23:59:59Z", days_to_date(days));
    assert_eq!(ask(1, &yesterday, &["--tolerance", "0s"])["reason"], "past");
    ask(0, &yesterday, &["--tolerance", "2d"]);
}

#[test]
fn calendar_quotas_count_local_days() {
    let desk = Desk::of_reminders("fred");
    let zone = ["--per-day", "1", "--time-zone", "Pacific/Kiritimati"];
    let ask = |status, time: &str, id| {
        let add = ["add", "--id", id, "--time", time];
        desk.says(status, &[&add, &zone[..]].concat())
    };
    // There, a day begins at ten in the morning UTC.
    ask(0, &day("09:59:59"), "a");
    ask(0, &day("10:00:00"), "b");
    let refused = ask(1, &day("09:00:00"), "c");
    assert_eq!(refused["refused"]["quota"], "1/day@Pacific/Kiritimati");
    let quota = ["--quota", "1/day@Pacific/Kiritimati"];
    let next = desk.says(
        0,
        &[&["next", "--from", &day("11:00:00")], &quota[..]].concat(),
    );
    assert!(next["time"].as_str().unwrap().ends_with("T10:00:00Z"));
}

#[test]
fn closed_times_are_those_of_the_zone_that_is_given() {
    let desk = Desk::of_reminders("redis");
    let quotas = ["--quota", "9/1d", "--quota", "closed 22:00-08:00@local"];
    // Ten hours ahead of UTC, without a summer time.
    let brisbane = ["--time-zone", "Australia/Brisbane"];
    let ask = |status, arguments: &[&str]| {
        desk.says(status, &[arguments, &quotas[..], &brisbane].concat())
    };
    let evening = day("12:00:00");
    let refused = ask(1, &["add", "--id", "b", "--time", &evening]);
    assert_eq!(refused["refused"]["reason"], "closed");
    assert_eq!(refused["refused"]["quota"], quotas[3]);
    assert_eq!(refused["refused"]["next_free"], day("22:00:00"));
    assert_eq!(refused["refused"]["latest_free"], day("11:59:59.999999"));
    let next = ask(0, &["next", "--from", &evening]);
    assert_eq!(next["time"], day("22:00:00"));
    let latest = ask(0, &["next", "--until", &evening]);
    assert_eq!(latest["time"], day("11:59:59.999999"));
    ask(0, &["add", "--id", "b", "--time", &day("11:00:00")]);
    ask(1, &["move", "--id", "b", "--time", &evening]);
    ask(0, &["cancel", "--id", "b"]);
    let add = ["add", "--id", "b", "--time", &evening];
    let said = stdout(&desk.ask(&[&add[..], &quotas, &brisbane].concat()));
    let reason = "refused, nothing can be planned then: closed 22:00-08:00@local\n";
    assert!(said.contains(reason), "{said}");
    // What looks for room needs the zone; what does not, does not.
    for arguments in [
        &add[..],
        &["move", "--id", "b", "--time", &evening],
        &["reserve", "--id", "b"],
        &["next"],
    ] {
        let output = desk.ask(&[arguments, &quotas].concat());
        fails(&output, &["zone `local`", "--time-zone Europe/Berlin"]);
    }
    desk.says(1, &[&["cancel", "--id", "b"], &quotas[..]].concat());
    desk.says(0, &[&["list"], &quotas[..]].concat());
}

#[test]
fn times_are_local_where_a_zone_is_given() {
    let desk = Desk::of_reminders("redis");
    let ask = |zone: &[&str], arguments: &[&str]| {
        stdout(&desk.ask(&[arguments, zone, &["--quota", "1/1d"]].concat()))
    };
    // Ten hours ahead of UTC, without a summer time.
    let given = ["--time-zone", "Australia/Brisbane"];
    let of_quotas = ["--quota", "9/day@Australia/Brisbane"];
    let noon = day("02:00:00.5");
    let local = format!("{}T12:00:00.5+10:00", &noon[..10]);
    let add = ["add", "--id", "a", "--time", &noon];
    let named = format!("{local}[Australia/Brisbane]");
    assert_eq!(
        ask(&given, &add),
        format!("add alice, a: planned at {named}\n")
    );
    let again = format!("add alice, a: already planned at {named}\n");
    assert_eq!(ask(&of_quotas, &add), again);
    let free = ask(&given, &["next", "--from", &noon]);
    assert!(
        free.ends_with("T12:00:00.5+10:00[Australia/Brisbane]\n"),
        "{free}"
    );
    let refused = ask(&given, &["add", "--id", "b", "--time", &noon]);
    let begins = format!("add alice, b at {named}: refused, the quota 1/1d has no room\n");
    assert!(refused.starts_with(&begins), "{refused}");
    assert!(refused.contains("T12:00:00.5+10:00  "), "{refused}");
    let list = ask(&given, &["list"]);
    assert!(
        list.starts_with("list alice: 1 event, times in Australia/Brisbane\n")
            && list.contains(&local),
        "{list}"
    );
    // In JSON, times are in UTC.
    let json = desk.says(0, &[&["list"], &given[..]].concat());
    assert_eq!(json["events"][0]["time"], noon);
}

#[test]
fn answers_are_for_people_too() {
    let desk = Desk::of_reminders("redis");
    let ask = |arguments: &[&str]| stdout(&desk.ask(&[arguments, &QUOTAS].concat()));
    let (eight, half) = (day("08:00:00"), day("08:00:30"));
    let add = |id, time| ask(&["add", "--id", id, "--time", time]);
    assert_eq!(
        add("m\u{1b}1", &eight),
        format!("add alice, m\\u{{1b}}1: planned at {eight}\n")
    );
    assert_eq!(
        add("m\u{1b}1", &eight),
        format!("add alice, m\\u{{1b}}1: already planned at {eight}\n")
    );
    let (before, after) = (day("07:59:00"), day("08:01:00"));
    assert_eq!(
        add("m2", &half),
        format!(
            "add alice, m2 at {half}: refused, the quota 1/1m has no room\n\n\
             QUOTA IN THE WAY  NEXT FREE             LATEST FREE BEFORE\n\
             1/1m              {after}  {before}\n"
        )
    );
    assert_eq!(
        ask(&["list"]),
        format!(
            "list alice: 1 event\n\n\
             TIME                  WEIGHT  ID\n\
             {eight}       1  m\\u{{1b}}1\n"
        )
    );
    let next = ask(&["next", "--from", &half]);
    assert_eq!(next, format!("next alice: free at {after}\n"));
    let none = "cancel alice, x: no such event is planned\n";
    assert_eq!(ask(&["cancel", "--id", "x"]), none);
    assert_eq!(
        ask(&["cancel", "--id", "m\u{1b}1"]),
        "cancel alice, m\\u{1b}1: cancelled\n"
    );
    assert_eq!(ask(&["list"]), "list alice: 0 events\n");
}

#[test]
fn keys_are_hashed_and_clocks_are_apart() {
    let desk = Desk::of_reminders("redis");
    let secret = ("TOLLGATE_KEY_SECRET", "000102030405060708090a0b0c0d0e0f");
    let time = day("08:00:00");
    let add = [&["add", "--id", "a", "--time", &time], &QUOTAS[..]].concat();
    let run = |more: &[&str], variables: &[(&str, &str)]| {
        let output = desk.ask_with(&[&add, more].concat(), variables);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    run(&["--hashed-long-keys"], &[secret]);
    assert_eq!(desk.keys(), [desk.key("reminders:schedule:v1:{alice}")]);
    run(&["--time-source", "caller"], &[]);
    let caller = desk.key("reminders:schedule:v1-caller:{alice}");
    assert!(desk.keys().contains(&caller), "{:?}", desk.keys());
    run(&["--rest", "x"], &[]);
    assert!(
        desk.keys()
            .contains(&desk.key("reminders:schedule:v1:{alice}:x"))
    );
    run(&[], &[secret]);
    assert!(desk.keys().iter().any(|key| key.contains("{#")));
    let output = desk.ask_with(&add, &[("TOLLGATE_KEY_SECRET", "00")]);
    fails(&output, &["TOLLGATE_KEY_SECRET", "32 hex digits"]);
}

#[test]
fn weights_count() {
    let desk = Desk::of_reminders("redis");
    let ask =
        |status, command: &[&str]| desk.says(status, &[command, &["--quota", "3/2h"]].concat());
    let time = day("08:00:00");
    ask(0, &["add", "--id", "a", "--time", &time, "--weight", "2"]);
    ask(1, &["add", "--id", "b", "--time", &time, "--weight", "2"]);
    let other = ask(1, &["add", "--id", "a", "--time", &time, "--weight", "1"]);
    assert_eq!(other["refused"]["reason"], "id-taken");
    let reserved = ask(
        0,
        &["reserve", "--id", "b", "--from", &time, "--weight", "2"],
    );
    assert_eq!(reserved["time"], day("10:00:00"));
    assert_eq!(ask(0, &["list"])["events"][1]["weight"], 2);
}

#[test]
fn command_lines_that_cannot_be() {
    let desk = Desk::of_reminders("redis");
    let quota = ["--quota", "5/1h"];
    let time = ["--time", "2026-03-01T08:00:00Z"];
    let long = "x".repeat(201);
    for (arguments, hints) in [
        (
            &["--id", "a", "--time", "noon"][..],
            &["--time noon", "RFC 3339"][..],
        ),
        (
            &["--id", "a", "--time", "2026-03-01T08:00:00"],
            &["no offset", "+01:00"],
        ),
        (
            &["--id", "", time[0], time[1]],
            &["--id", "0 bytes", "1 to 200"],
        ),
        (&["--id", &long, time[0], time[1]], &["--id", "201 bytes"]),
        (
            &["--id", "a", time[0], time[1], "--horizon", "1y"],
            &["--horizon 1y", "366d"],
        ),
        (
            &["--id", "a", time[0], time[1], "--horizon", "4000d"],
            &["--horizon 4000d", "at most"],
        ),
        (
            &["--id", "a", time[0], time[1], "--tolerance", "4000d"],
            &["--tolerance 4000d", "too many events"],
        ),
        (
            &["--id", "a", time[0], time[1], "--quota", "5"],
            &["--quota 5", "window"],
        ),
        (
            &["--id", "a", time[0], time[1], "--quota", "1/day@Mars"],
            &["--quota 1/day@Mars", "Europe/Berlin"],
        ),
        (
            &[
                "--id",
                "a",
                time[0],
                time[1],
                "--per-day",
                "1",
                "--time-zone",
                "Mars",
            ],
            &["--time-zone Mars", "no such time zone"],
        ),
    ] {
        fails(&desk.ask(&[&["add"], arguments, &quota].concat()), hints);
    }
    let none = desk.ask(&["next"]);
    fails(&none, &["no quota", "--quota 5/1h"]);
    let name = tollgate()
        .args(["schedule", "list", "--schedule", "a b", "--key", "a"])
        .args(["--store", &desk.server.url()])
        .output();
    fails(&name.unwrap(), &["--schedule a b", "1 to 64"]);
    for scheme in ["redis", "fred"] {
        let store = format!("{scheme}://127.0.0.1:1");
        let list = [
            "schedule",
            "list",
            "--schedule",
            "a",
            "--key",
            "a",
            "--store",
        ];
        let output = tollgate().args(list).arg(store).output().unwrap();
        fails(&output, &["(unavailable)", "refused"]);
    }
    // Without a zone, clap says what is missing.
    let output = desk.ask(&["next", "--per-day", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--time-zone"));
}

#[test]
fn a_key_that_is_no_schedule_is_an_error() {
    let server = Server::start(Flavor::System);
    server.command(&["SET", "tollgate:reminders:schedule:v1:{alice}", "x"]);
    for scheme in ["redis", "fred"] {
        let store = format!("{scheme}://{}", server.address());
        let output = tollgate()
            .args([
                "schedule",
                "next",
                "--schedule",
                "reminders",
                "--key",
                "alice",
            ])
            .args(["--quota", "5/1h", "--store", &store])
            .output();
        fails(
            &output.unwrap(),
            &["(misconfigured)", "that tollgate has not written"],
        );
    }
}
