//! `schedule cancel` and `list` on a live server, of events that a service has planned.

use serde_json::json;

use crate::desk::{Desk, plan};
use crate::program::{all_fail, fails, has, run};

/// Returns a time of a day that is a few months ahead, at `time` in UTC.
fn day(time: &str) -> String {
    let ahead = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(100 * 24);
    format!("{}T{time}Z", ahead.strftime("%F"))
}

fn desk_with(scheme: &'static str, events: &[(&str, &str, u64)]) -> Desk {
    let desk = Desk::of_reminders(scheme);
    for (id, time, weight) in events {
        let event = (*id, &*day(time), *weight);
        let (store, name) = (desk.server.url(), ("reminders", "5/1h"));
        plan(&store, &desk.prefix, name, "alice", event);
    }
    desk
}

#[test]
fn events_are_listed_and_cancelled() {
    let events = [
        ("b", "08:30:00.5", 2),
        ("a", "08:00:00", 1),
        ("c", "09:00:00", 1),
    ];
    let listed = |ids: &[usize]| {
        let event = |&index: &usize| {
            let (id, time, weight) = events[index];
            json!({"id": id, "time": day(time), "weight": weight})
        };
        let events: Vec<_> = ids.iter().map(event).collect();
        let about = ["list", "reminders", "alice", ""];
        let [command, schedule, key, rest] = about;
        json!({"command": command, "schedule": schedule, "key": key, "rest": rest, "events": events})
    };
    for scheme in ["redis", "fred"] {
        let desk = desk_with(scheme, &events);
        assert_eq!(desk.says(0, "list"), listed(&[1, 0, 2]));
        let (from, until) = (day("08:30:00.5"), day("09:00:00"));
        let some = desk.says(0, &format!("list --from {from} --until {until}"));
        assert_eq!(some, listed(&[0]));
        desk.plays(
            r#"
            0 cancel --quota 5/1h --id b => id="b" & cancelled=true
            1 cancel --quota 5/1h --id b => cancelled=false
            "#,
        );
        assert_eq!(desk.says(0, "list"), listed(&[1, 2]));
        desk.plays("0 cancel --quota 5/1h --id a\n0 cancel --quota 5/1h --id c");
        assert_eq!(desk.keys(), [""; 0]);
    }
}

#[test]
fn events_that_stay_are_kept_as_long_as_the_service_keeps_them() {
    for (quotas, kept) in [
        ("--quota 7/1h --quota 5/1h", 3_600),
        ("--quota 9/2h --tolerance 5m", 7_500),
    ] {
        let desk = desk_with("redis", &[("a", "08:00:00", 1), ("b", "09:00:00", 1)]);
        let keys = desk.keys();
        desk.says(0, &format!("cancel --id a {quotas}"));
        let left = desk.server.command(&["TTL", &keys[0]]).integer().unwrap();
        let last: jiff::Timestamp = day("09:00:00").parse().unwrap();
        let kept = kept + (last - jiff::Timestamp::now()).get_seconds();
        let holds = (kept - 5..kept + 5).contains(&left);
        assert!(holds, "{quotas:?}: {left} instead of {kept}");
    }
}

#[test]
fn answers_are_for_people_too() {
    let desk = desk_with("redis", &[("m\u{1b}1", "02:00:00.5", 1)]);
    let date = &day("")[..10];
    let list = format!(
        "list alice: 1 event\n\n\
         TIME                    WEIGHT  ID\n\
         {date}T02:00:00.5Z       1  m\\u{{1b}}1\n"
    );
    assert_eq!(desk.text("list"), list);
    // Ten hours ahead of UTC, without a summer time.
    let local = desk.text("list --time-zone Australia/Brisbane");
    assert!(local.starts_with("list alice: 1 event, times in Australia/Brisbane\n"));
    has(&local, &format!("\n{date}T12:00:00.5+10:00 "));
    let cancel = |id| desk.text(&format!("cancel --quota 5/1h --id {id}"));
    assert_eq!(cancel("x"), "cancel alice, x: no such event is planned\n");
    assert_eq!(cancel("m\u{1b}1"), "cancel alice, m\\u{1b}1: cancelled\n");
    assert_eq!(desk.text("list"), "list alice: 0 events\n");
}

#[test]
fn command_lines_that_cannot_be() {
    let desk = Desk::of_reminders("redis");
    let long = "x".repeat(201);
    let cases = "\
list --from noon => --from noon: the time is not a time; write it as RFC 3339
list --until 2026-03-01T08:00:00 => has no offset
list --time-zone Mars => --time-zone Mars: there is no such time zone
cancel --id a => no quota is given: give at least one, such as --quota 5/1h
cancel --quota 5/1h --id LONG => 201
cancel --id a --quota 5/1h --tolerance 4000d => --tolerance 4000d: with these quotas
cancel --id a --quota 1/day@Mars => --quota 1/day@Mars: ";
    all_fail(&cases.replace("LONG", &long), |line| desk.ask(line));
    let url = desk.server.url();
    let named = "--schedule a b: give the name of the service's schedule: 1 to 64";
    for (name, store, hint) in [
        ("a b", &*url, named),
        ("a", "redis://127.0.0.1:1", "(unavailable)"),
        ("a", "fred://127.0.0.1:1", "(unavailable)"),
    ] {
        let list = run(&format!(
            "schedule list --key a --schedule '{name}' --store {store}"
        ));
        fails(&list, &[hint]);
    }
}
