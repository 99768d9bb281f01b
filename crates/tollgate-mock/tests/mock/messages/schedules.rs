//! Calls of schedules.

use tollgate_core::Timestamp;
use tollgate_core::schedule::{Event, PlannedEvent, Reason, Refusal, Schedule};
use tollgate_mock::MockStore;

use super::message;
use crate::{LATER, NOON};

fn reminders(store: MockStore) -> Schedule<MockStore> {
    Schedule::new(store, "reminders", ["1/1m", "hourly=5/1h"]).unwrap()
}

#[test]
fn unexpected_event_is_named_beside_all_expectations() {
    let mut store = MockStore::new();
    store
        .expect_check("attempts", "alice")
        .cost(2)
        .times(..)
        .allow();
    store.expect_add("reminders", "alice").id("a").planned();
    store
        .expect_reserve_next("reminders", "alice")
        .time(NOON)
        .times(..)
        .planned_at(LATER);
    store
        .expect_cancel("reminders", "alice")
        .id([0xff])
        .times(..)
        .cancelled(true);
    store
        .expect_next_free("reminders", "alice")
        .times(..=2)
        .found(None);
    store.expect_reset_schedule("reminders", "alice").never();
    let schedule = reminders(store);
    assert!(schedule.add("alice", "a", NOON).run().unwrap().is_planned());
    assert_eq!(
        message(|| schedule.add("bob", "b", NOON).at(LATER).run()),
        r#"unexpected add at the caller's instant 2027-01-15T08:01:00Z:
  schedule `reminders` for key "bob", event "b" at 2027-01-15T08:00:00Z: no expectation names this schedule and key
expected calls:
  check of limit `attempts` for key "alice" at cost 2, any number of times: called 0 times
  add of schedule `reminders` for key "alice", event "a" at any time, at least 1 time: called 1 time
  reserve_next of schedule `reminders` for key "alice", any event at 2027-01-15T08:00:00Z, any number of times: called 0 times
  cancel of schedule `reminders` for key "alice", event b"\xff", any number of times: called 0 times
  next_free of schedule `reminders` for key "alice" at any time, at most 2 times: called 0 times
  reset of schedule `reminders` for key "alice", never: called 0 times
to expect this call, add `store.expect_add("reminders", "bob")` with an answer, such as `.planned()`"#
    );
}

#[test]
fn another_event_or_a_call_too_many_says_so() {
    let mut store = MockStore::new();
    store
        .expect_add("reminders", "alice")
        .id("a")
        .times(1)
        .planned();
    store
        .expect_add("reminders", "alice")
        .id("later")
        .times(..)
        .planned();
    store
        .expect_list("reminders", "alice")
        .time(NOON)
        .times(..)
        .events([]);
    store
        .expect_cancel("reminders", "alice")
        .id("a")
        .times(..)
        .cancelled(true);
    let schedule = reminders(store);
    assert!(schedule.add("alice", "a", NOON).run().unwrap().is_planned());
    let end = |text: String| text.lines().last().unwrap().to_owned();
    let line = |text: &str| text.lines().nth(1).unwrap().to_owned();
    let events = [Event::new("b", NOON).with_weight(2), Event::new("c", LATER)];
    let text = message(|| schedule.add_all("alice", events).run());
    assert_eq!(
        line(&text),
        r#"  schedule `reminders` for key "alice", event "b" of weight 2 at 2027-01-15T08:00:00Z, event "c" at 2027-01-15T08:01:00Z: expected for another event or time only"#
    );
    assert_eq!(
        end(text),
        r#"to expect this, add `store.expect_add("reminders", "alice").id("b")` with an answer, such as `.planned()`"#
    );
    let text = message(|| schedule.add("alice", "a", NOON).run());
    assert!(line(&text).ends_with("every expectation that fits has had all its calls"));
    assert_eq!(
        end(text),
        r#"to expect another call, raise `.times(..)`, or add `store.expect_add("reminders", "alice")` with an answer, such as `.planned()`"#
    );
    let text = message(|| schedule.list("alice", LATER, LATER).run());
    assert_eq!(
        line(&text),
        r#"  schedule `reminders` for key "alice", from 2027-01-15T08:01:00Z until 2027-01-15T08:01:00Z: expected for another event or time only"#
    );
    assert_eq!(
        end(text),
        r#"to expect this, add `store.expect_list("reminders", "alice").time(..)` with an answer, such as `.events([])`"#
    );
    let text = message(|| schedule.latest_free("alice", NOON).run());
    assert!(
        line(&text).contains(r#"for key "alice", until 2027"#),
        "{text}"
    );
    let text = message(|| schedule.cancel("alice", "x").run());
    assert!(
        line(&text).contains(r#"for key "alice", event "x": expected for another"#),
        "{text}"
    );
    assert_eq!(
        end(text),
        r#"to expect this, add `store.expect_cancel("reminders", "alice").id("x")` with an answer, such as `.cancelled(true)`"#
    );
}

#[test]
fn expected_events_that_never_came_are_listed_with_the_calls_of_limits() {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").times(..).allow();
    store.expect_cancel("reminders", "alice").cancelled(false);
    let text = message(|| store.checkpoint());
    assert_eq!(
        text,
        r#"not every expected call was made before the checkpoint:
  check of limit `attempts` for key "alice" at any cost, any number of times: called 0 times
  cancel of schedule `reminders` for key "alice", any event, at least 1 time: called 0 times, too few
if fewer calls are right, say so with `.times(..)`, or remove the expectation"#
    );
}

#[test]
fn answers_that_no_store_gives_to_a_schedule_fail_the_test() {
    type Expect = fn(&mut MockStore);
    type Call = fn(&Schedule<MockStore>);
    let add: Call = |schedule| drop(schedule.add("k", "a", NOON).run());
    let move_it: Call = |schedule| drop(schedule.reschedule("k", "a", NOON).run());
    let reserve: Call = |schedule| drop(schedule.reserve_next("k", "a", NOON).run());
    let table: [(&str, Expect, Call); 12] = [
        (
            "`refused_by(\"daily\", None)` to this add",
            |store| store.expect_add("reminders", "k").refused_by("daily", None),
            add,
        ),
        (
            "it has `1/1m`, `hourly`",
            |store| store.expect_add("reminders", "k").refused_by("5/1h", None),
            add,
        ),
        (
            "name a later one",
            |store| {
                let expectation = store.expect_add("reminders", "k");
                expectation.refused_by("1/1m", Some(NOON));
            },
            add,
        ),
        (
            "`past(2027-01-15T08:00:00Z)`",
            |store| store.expect_add("reminders", "k").past(NOON),
            add,
        ),
        (
            "`beyond_horizon(2027-01-15T08:00:00Z)`",
            |store| store.expect_add("reminders", "k").beyond_horizon(NOON),
            add,
        ),
        (
            "no reason to refuse",
            |store| {
                let refusal = Refusal::new(Reason::UnknownId);
                store.expect_add("reminders", "k").refused(refusal);
            },
            add,
        ),
        (
            "no reason to refuse",
            |store| {
                let refusal = Refusal::new(Reason::IdTaken(NOON));
                store.expect_reschedule("reminders", "k").refused(refusal);
            },
            move_it,
        ),
        (
            "answer with `.planned_at`",
            |store| {
                let expectation = store.expect_reserve_next("reminders", "k");
                expectation.refused_by("1/1m", Some(LATER));
            },
            reserve,
        ),
        (
            "name a later",
            |store| {
                let earlier = Timestamp::UNIX_EPOCH;
                store
                    .expect_reserve_next("reminders", "k")
                    .planned_at(earlier);
            },
            reserve,
        ),
        (
            "the search goes the other way",
            |store| {
                let earlier = Timestamp::UNIX_EPOCH;
                let expectation = store.expect_next_free("reminders", "k");
                expectation.found(Some(earlier));
            },
            |schedule| drop(schedule.next_free("k", NOON).run()),
        ),
        (
            "the search goes the other way",
            |store| {
                let expectation = store.expect_latest_free("reminders", "k");
                expectation.found(Some(LATER));
            },
            |schedule| drop(schedule.latest_free("k", NOON).run()),
        ),
        (
            "not all of these events",
            |store| {
                let events = [NOON, LATER].map(|time| PlannedEvent::new(*b"a", time, 1));
                store.expect_list("reminders", "k").events(events);
            },
            |schedule| drop(schedule.list("k", NOON, LATER).run()),
        ),
    ];
    for (expected, expect, call) in table {
        let mut store = MockStore::new();
        expect(&mut store);
        let schedule = reminders(store);
        let text = message(|| call(&schedule));
        assert!(text.starts_with("no store answers"), "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn answers_of_other_operations_fail_the_test() {
    type Expect = fn(&mut MockStore);
    let table: [(&str, Expect); 9] = [
        (
            "`past(2027-01-15T08:01:00Z)` answers no reserve_next: answer with `planned`",
            |store| store.expect_reserve_next("reminders", "k").past(LATER),
        ),
        (
            "`cancelled(true)` answers no add: answer with `planned`",
            |store| store.expect_add("reminders", "k").cancelled(true),
        ),
        (
            "`events(0 events)` answers no cancel: answer with `cancelled`",
            |store| store.expect_cancel("reminders", "k").events([]),
        ),
        (
            "`planned()` answers no cancel: answer with `cancelled`",
            |store| {
                store.expect_cancel("reminders", "k").planned();
            },
        ),
        ("`planned_at(", |store| {
            store.expect_add("reminders", "k").planned_at(NOON);
        }),
        (
            "`found(None)` answers no list: answer with `events`",
            |store| {
                store.expect_list("reminders", "k").found(None);
            },
        ),
        ("`succeed()` answers no next_free", |store| {
            store.expect_next_free("reminders", "k").succeed();
        }),
        ("a list is about no event: remove `.id(..)`", |store| {
            store.expect_list("reminders", "k").id("a").events([]);
        }),
        ("a cancel has no time: remove `.time(..)`", |store| {
            let expectation = store.expect_cancel("reminders", "k").time(NOON);
            expectation.cancelled(true);
        }),
    ];
    for (expected, expect) in table {
        let text = message(|| expect(&mut MockStore::new()));
        assert!(text.starts_with(expected), "{text}");
    }
}
