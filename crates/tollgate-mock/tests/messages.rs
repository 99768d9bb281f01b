//! The full messages of a mock that fails a test.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::time::Duration;

use tollgate_core::lease::{ConcurrencyLimiter, Lease};
use tollgate_core::schedule::{Event, PlannedEvent, Reason, Refusal, Schedule};
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Key, Limit, RateLimiter, SyncStore, Timestamp, Wait};
use tollgate_mock::{Expectation, MockStore};

fn limit(name: &str, algorithm: &str) -> Limit {
    let algorithm: tollgate_core::Algorithm = algorithm.parse().unwrap();
    Limit::new(name, algorithm).unwrap()
}

fn attempts() -> Limit {
    limit("attempts", "sliding-log:5/1m")
}

fn limiter(store: MockStore) -> RateLimiter<MockStore> {
    RateLimiter::new(store, [attempts()]).unwrap()
}

/// Returns the message that `fails` panics with.
fn message<T>(fails: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(fails)) else {
        return "no panic".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic that is no text".to_owned())
}

#[test]
fn unexpected_key_is_named_beside_all_expectations() {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").times(..2).allow();
    store
        .expect_check("attempts", "alice")
        .cost(2)
        .times(..)
        .allow();
    store.expect_peek("attempts", "alice").times(0..=3).allow();
    let receipts = [limiter_receipt(), limiter_receipt()];
    store
        .expect_refund("attempts", "alice")
        .cost(2)
        .times(..)
        .allow();
    store.expect_reset("attempts", "alice").never();
    store
        .expect_take_up_to("attempts", b"\xff\"")
        .times(..)
        .grant(1);
    let limiter = limiter(store);
    assert!(limiter.check("alice").run().unwrap().is_allowed());
    for receipt in receipts {
        assert!(
            limiter
                .refund("alice", receipt)
                .run()
                .unwrap()
                .decision()
                .is_allowed()
        );
    }
    assert_eq!(
        message(|| limiter.check("bob").run()),
        r#"unexpected check:
  limit `attempts=sliding-log:5/1m` for key "bob" at cost 1: no expectation names this limit and key
expected calls:
  check of limit `attempts` for key "alice" at any cost, at most 1 time: called 1 time
  check of limit `attempts` for key "alice" at cost 2, any number of times: called 0 times
  peek of limit `attempts` for key "alice" at any cost, at most 3 times: called 0 times
  refund of limit `attempts` for key "alice" at cost 2, any number of times: called 2 times
  reset of limit `attempts` for key "alice", never: called 0 times
  take_up_to of limit `attempts` for key b"\xff\"" at any cost, any number of times: called 0 times
to expect this call, add `store.expect_check("attempts", "bob")` with an answer, such as `.allow()`"#
    );
}

/// Returns a receipt for 2 of the limit `attempts`, from another store.
fn limiter_receipt() -> tollgate_core::Receipt {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").allow();
    let limiter = limiter(store);
    let decision = limiter.check("alice").cost(2).run().unwrap();
    decision.into_receipt().unwrap()
}

#[test]
fn readme_shows_the_actual_message() {
    let mut store = MockStore::new();
    let wait = Duration::from_secs(6);
    store.expect_check("mail", "alice").cost(3).deny_for(wait);
    let mail = limit("mail", "gcra:10/1m,burst=3");
    let limiter = RateLimiter::new(store, [mail]).unwrap();
    let text = message(|| limiter.check("bob").cost(3).run());
    assert!(
        include_str!("../README.md").contains(&format!("```text\n{text}\n```")),
        "{text}"
    );
    let denied = limiter.check("alice").cost(3).run().unwrap();
    assert_eq!(denied.retry_after().duration(), Some(wait));
}

#[test]
fn unexpected_cost_is_named_in_the_message() {
    let mut store = MockStore::new();
    store
        .expect_check("attempts", "alice")
        .cost(2)
        .times(2..5)
        .allow();
    let limiter = limiter(store);
    for _ in 0..2 {
        assert!(limiter.check("alice").cost(2).run().unwrap().is_allowed());
    }
    assert_eq!(
        message(|| limiter.check("alice").cost(3).run()),
        r#"unexpected check:
  limit `attempts=sliding-log:5/1m` for key "alice" at cost 3: expected at another cost only
expected calls:
  check of limit `attempts` for key "alice" at cost 2, 2 to 4 times: called 2 times
to expect this cost, add `store.expect_check("attempts", "alice").cost(3)` with an answer, such as `.allow()`"#
    );
}

#[test]
fn call_beyond_the_expected_number_is_named_in_the_message() {
    let mut store = MockStore::new();
    store.expect_reset("attempts", "alice").times(1).succeed();
    let limiter = limiter(store);
    limiter.reset("alice").run().unwrap();
    assert_eq!(
        message(|| limiter.reset("alice").run()),
        r#"unexpected reset:
  limit `attempts=sliding-log:5/1m` for key "alice": every expectation that fits has had all its calls
expected calls:
  reset of limit `attempts` for key "alice", 1 time: called 1 time
to expect another call, raise `.times(..)`, or add `store.expect_reset("attempts", "alice")` with an answer, such as `.succeed()`"#
    );
}

#[test]
fn advice_is_about_the_first_refused_limit() {
    let mut store = MockStore::new();
    store.expect_peek("a", "k").cost(1).never();
    store.expect_peek("a", "k").cost(2).times(..).allow();
    store.expect_peek("b", "k").cost(2).times(..).allow();
    let limits = [limit("a", "gcra:5/1m"), limit("b", "gcra:6/1m")];
    let checks = limits.each_ref().map(|limit| Check::new(limit, "k", 1));
    assert_eq!(
        message(|| store.decide_now(&Request::new(Operation::Peek, &checks))),
        r#"unexpected peek:
  limit `a=gcra:5/1m` for key "k" at cost 1: every expectation that fits has had all its calls
  limit `b=gcra:6/1m` for key "k" at cost 1: expected at another cost only
expected calls:
  peek of limit `a` for key "k" at cost 1, never: called 0 times
  peek of limit `a` for key "k" at cost 2, any number of times: called 0 times
  peek of limit `b` for key "k" at cost 2, any number of times: called 0 times
to expect another call, raise `.times(..)`, or add `store.expect_peek("a", "k")` with an answer, such as `.allow()`"#
    );
}

#[test]
fn message_of_a_mock_without_expectations_says_none() {
    let limiter = limiter(MockStore::new());
    assert_eq!(
        message(|| limiter.take_up_to("alice", 3).run()),
        r#"unexpected take_up_to:
  limit `attempts=sliding-log:5/1m` for key "alice" at cost 3: no expectation names this limit and key
expected calls: none
to expect this call, add `store.expect_take_up_to("attempts", "alice")` with an answer, such as `.allow()`"#
    );
}

#[test]
fn unexpected_request_shows_each_limit_and_the_instant() {
    let mut store = MockStore::new();
    store.expect_check("burst", "10.0.0.1").allow();
    store.expect_check("login", "10.0.0.1/login").never();
    let limits = [
        limit("burst", "gcra:10/1m,burst=3"),
        limit("steady", "fixed-window:20/1h"),
        limit("login", "gcra:5/1m"),
    ];
    let ip = Key::from("10.0.0.1");
    let request = Request::consume(Check::new(&limits[0], ip, 2))
        .and(Check::new(&limits[1], b"\0\xfe".as_slice(), 1))
        .and(Check::new(&limits[2], ip.with_rest("/login"), 1))
        .at(Timestamp::from_micros(1_700_000_000_000_001).unwrap());
    assert_eq!(
        message(|| store.decide_now(&request)),
        r#"unexpected check at the caller's instant 2023-11-14T22:13:20.000001Z:
  limit `burst=gcra:10/1m,burst=3` for key "10.0.0.1" at cost 2: expected
  limit `steady=fixed-window:20/1h` for key b"\x00\xfe" at cost 1: no expectation names this limit and key
  limit `login=gcra:5/1m` for key "10.0.0.1" with rest "/login" at cost 1: every expectation that fits has had all its calls
expected calls:
  check of limit `burst` for key "10.0.0.1" at any cost, at least 1 time: called 0 times
  check of limit `login` for key "10.0.0.1/login" at any cost, never: called 0 times
to expect another call, raise `.times(..)`, or add `store.expect_check("login", "10.0.0.1/login")` with an answer, such as `.allow()`"#
    );
    // A call that fails the test does not count as an expected call.
    let unmet = message(move || drop(store));
    assert!(unmet.contains("called 0 times, too few"), "{unmet}");
}

#[test]
fn unexpected_request_without_any_expected_limit_suggests_the_first() {
    let store = MockStore::new();
    let limits = [limit("a", "gcra:5/1m"), limit("b", "gcra:6/1m")];
    let checks = [
        Check::new(&limits[0], b"\xff".as_slice(), 0),
        Check::new(&limits[1], "k", 7),
    ];
    assert_eq!(
        message(|| store.decide_now(&Request::new(Operation::Peek, &checks))),
        r#"unexpected peek:
  limit `a=gcra:5/1m` for key b"\xff" at cost 0: no expectation names this limit and key
  limit `b=gcra:6/1m` for key "k" at cost 7: no expectation names this limit and key
expected calls: none
to expect this call, add `store.expect_peek("a", b"\xff")` with an answer, such as `.allow()`"#
    );
}

fn unmet(when: &str) -> String {
    format!(
        r#"not every expected call was made before {when}:
  check of limit `attempts` for key "alice" at any cost, 1 time: called 0 times, too few
  check of limit `attempts` for key "bob" at any cost, at least 1 time: called 1 time
  refund of limit `attempts` for key b"\xffb" at cost 3, at least 2 times: called 0 times, too few
if fewer calls are right, say so with `.times(..)`, or remove the expectation"#
    )
}

fn expects_more_than_is_asked() -> MockStore {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").times(1).allow();
    store.expect_check("attempts", "bob").allow();
    store
        .expect_refund("attempts", b"\xffb")
        .cost(3)
        .times(2..)
        .allow();
    let attempts = attempts();
    let request = Request::consume(Check::new(&attempts, "bob", 1));
    assert!(store.decide_now(&request).unwrap().is_allowed());
    store
}

#[test]
fn unmet_expectations_are_named_on_drop() {
    let store = expects_more_than_is_asked();
    assert_eq!(message(move || drop(store)), unmet("the store was dropped"));
}

#[test]
fn unmet_expectations_are_named_at_a_checkpoint_and_then_forgotten() {
    let mut store = expects_more_than_is_asked();
    assert_eq!(message(|| store.checkpoint()), unmet("the checkpoint"));
    assert_eq!(message(move || drop(store)), "no panic");
}

#[test]
fn store_dropped_by_a_panic_does_not_panic_again() {
    // A second panic would abort the process.
    let text = message(|| {
        let _store = expects_more_than_is_asked();
        panic_any("the first panic");
    });
    assert_eq!(text, "the first panic");
}

#[test]
fn impossible_answers_are_refused() {
    let answered = |expect: fn(&mut MockStore), operation: Operation<'_>, cost: u64| {
        let mut store = MockStore::new();
        expect(&mut store);
        let limit = limit("mail", "gcra:10/1m,burst=5");
        let check = [Check::new(&limit, "alice", cost)];
        message(|| store.decide_now(&Request::new(operation, &check)))
    };
    let check = |answer: fn(Expectation<'_>), cost: u64| {
        let mut store = MockStore::new();
        answer(store.expect_check("mail", "alice"));
        let limit = limit("mail", "gcra:10/1m,burst=5");
        message(|| store.decide_now(&Request::consume(Check::new(&limit, "alice", cost))))
    };
    assert_eq!(check(|call| call.allow(), 5), "no panic");
    assert_eq!(
        check(|call| call.allow(), 6),
        r#"no store answers `allow()` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 6
a cost above the capacity, 5, is always denied: expect a lower cost, or answer with `.deny_forever()`"#
    );
    assert_eq!(
        check(|call| call.deny_for(Duration::from_millis(2_500)), 6),
        r#"no store answers `deny_for(2.5s)` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 6
a cost above the capacity, 5, is always denied: expect a lower cost, or answer with `.deny_forever()`"#
    );
    assert_eq!(check(|call| call.deny_forever(), 6), "no panic");
    assert_eq!(
        check(|call| call.deny_for(Duration::from_millis(2_500)), 0),
        r#"no store answers `deny_for(2.5s)` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 0
a call that costs nothing is always allowed: expect a higher cost"#
    );
    assert_eq!(check(|call| call.allow_with_remaining(3), 2), "no panic");
    assert_eq!(
        check(|call| call.allow_with_remaining(4), 2),
        r#"no store answers `allow_with_remaining(4)` to this check:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 2
at most 3 of the capacity, 5, can remain after this call: lower the number"#
    );
    assert_eq!(
        answered(
            |store| store.expect_peek("mail", "alice").allow_with_remaining(6),
            Operation::Peek,
            1
        ),
        r#"no store answers `allow_with_remaining(6)` to this peek:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 1
at most 5 of the capacity, 5, can remain after this call: lower the number"#
    );
    let zero = |store: &mut MockStore| store.expect_peek("mail", "alice").allow_with_remaining(0);
    assert_eq!(answered(zero, Operation::Peek, 0), "no panic");
    assert_eq!(
        answered(zero, Operation::Peek, 1),
        r#"no store answers `allow_with_remaining(0)` to this peek:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 1
a peek is allowed only if its cost remains: raise the number, or deny it"#
    );
    let take = |expect: fn(&mut MockStore), most| answered(expect, Operation::TakeUpTo, most);
    let three = |store: &mut MockStore| store.expect_take_up_to("mail", "alice").grant(3);
    let six = |store: &mut MockStore| store.expect_take_up_to("mail", "alice").grant(6);
    assert_eq!(take(three, 3), "no panic");
    assert_eq!(
        take(three, 2),
        r#"no store answers `grant(3)` to this take_up_to:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 2
at most 2 can be granted, the lower of the cost and the capacity, 5: lower the number"#
    );
    assert_eq!(
        take(six, 9),
        r#"no store answers `grant(6)` to this take_up_to:
  limit `mail=gcra:10/1m,burst=5` for key "alice" at cost 9
at most 5 can be granted, the lower of the cost and the capacity, 5: lower the number"#
    );
}

#[test]
fn answer_to_another_operation_is_refused_when_it_is_set() {
    let given = |give: fn(&mut MockStore)| message(|| give(&mut MockStore::new()));
    assert_eq!(
        given(|store| store.expect_check("mail", "alice").grant(2)),
        r#"`grant(2)` answers no check: answer with `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_check("mail", "alice").delay_by(Duration::ZERO)),
        r#"`delay_by(0ns)` answers no check: answer with `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_peek("mail", "alice").succeed()),
        r#"`succeed()` answers no peek: answer with `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_take_up_to("mail", "alice").succeed()),
        r#"`succeed()` answers no take_up_to: answer with `grant`, `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_refund("mail", "alice").deny_forever()),
        r#"`deny_forever()` answers no refund: answer with `allow`, `allow_with_remaining` or `fail`"#
    );
    assert_eq!(
        given(|store| store
            .expect_reset("mail", "alice")
            .fail(ErrorKind::Unavailable)),
        "not every expected call was made before the store was dropped:\n  \
         reset of limit `mail` for key \"alice\", at least 1 time: called 0 times, too few\n\
         if fewer calls are right, say so with `.times(..)`, or remove the expectation"
    );
    assert_eq!(
        given(|store| store.expect_reset("mail", "alice").allow()),
        r#"`allow()` answers no reset: answer with `succeed` or `fail`"#
    );
    assert_eq!(
        given(|store| store.expect_reset("mail", "alice").cost(1).succeed()),
        "a reset has no cost: remove `.cost(1)`"
    );
}

#[test]
fn empty_range_of_calls_is_refused() {
    let empty = |expect: fn(Expectation<'_>)| {
        message(|| expect(MockStore::new().expect_check("mail", "alice")))
    };
    let text = "no number of calls is in this range: use `.never()` to expect none";
    assert_eq!(empty(|call| call.times(..0).allow()), text);
    assert_eq!(empty(|call| call.times(2..2).allow()), text);
    #[expect(clippy::reversed_empty_ranges, reason = "the range is to be empty")]
    let backwards = empty(|call| call.times(3..=2).allow());
    assert_eq!(backwards, text);
}

const NOON: Timestamp = Timestamp::saturating_from_micros(1_800_000_000_000_000);
const LATER: Timestamp = Timestamp::saturating_from_micros(1_800_000_060_000_000);

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
        .expect_reserve("reminders", "alice")
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
                let expectation = store.expect_reserve("reminders", "k");
                expectation.refused_by("1/1m", Some(LATER));
            },
            reserve,
        ),
        (
            "name a later",
            |store| {
                let earlier = Timestamp::UNIX_EPOCH;
                store.expect_reserve("reminders", "k").planned_at(earlier);
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
            |store| store.expect_reserve("reminders", "k").past(LATER),
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

const TTL: Duration = Duration::from_secs(30);

fn uploads(store: MockStore) -> ConcurrencyLimiter<MockStore> {
    ConcurrencyLimiter::new(store, "uploads", 3, TTL).unwrap()
}

fn lease(id: &str, token: u64, weight: u64) -> Lease {
    Lease::new(id.as_bytes(), token, weight, NOON, NOON.saturating_add(TTL))
}

#[test]
fn unexpected_call_of_leases_is_named_beside_all_expectations() {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").times(..).allow();
    store
        .expect_cancel("reminders", "alice")
        .times(..)
        .cancelled(true);
    store
        .expect_acquire("uploads", "alice")
        .id("a")
        .granted(lease("a", 7, 1));
    store.expect_renew("uploads", "alice").times(..=2).lost();
    store
        .expect_release("uploads", "alice")
        .id([0xff])
        .times(..)
        .released(true);
    store
        .expect_peek_leases("uploads", "alice")
        .times(..)
        .occupied(1);
    store.expect_reset_leases("uploads", "alice").never();
    let uploads = uploads(store);
    assert!(uploads.acquire("alice", "a").run().unwrap().is_granted());
    assert_eq!(
        message(|| uploads.acquire("bob", "b").weight(2).at(LATER).run()),
        r#"unexpected acquire at the caller's instant 2027-01-15T08:01:00Z:
  leases `uploads` for key "bob", lease "b" of weight 2: no expectation names these leases and key
expected calls:
  check of limit `attempts` for key "alice" at any cost, any number of times: called 0 times
  cancel of schedule `reminders` for key "alice", any event, any number of times: called 0 times
  acquire of leases `uploads` for key "alice", lease "a", at least 1 time: called 1 time
  renew of leases `uploads` for key "alice", any lease, at most 2 times: called 0 times
  release of leases `uploads` for key "alice", lease b"\xff", any number of times: called 0 times
  peek of leases `uploads` for key "alice", any number of times: called 0 times
  reset of leases `uploads` for key "alice", never: called 0 times
to expect this call, add `store.expect_acquire("uploads", "bob")` with an answer, such as `.granted_at(now, 1)`"#
    );
    let text = message(|| uploads.release("alice", &lease("x", 9, 1)).run());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[1],
        r#"  leases `uploads` for key "alice", lease "x" with token 9: expected for another lease only"#
    );
    assert_eq!(
        *lines.last().unwrap(),
        r#"to expect this, add `store.expect_release("uploads", "alice").id("x")` with an answer, such as `.released(true)`"#
    );
    for (text, call) in [
        (
            message(|| uploads.renew("bob", &lease("x", 9, 1)).run()),
            r#", lease "x" with token 9"#,
        ),
        (message(|| uploads.peek("bob").run()), ""),
        (message(|| uploads.reset("bob").run()), ""),
    ] {
        let line = format!(
            r#"  leases `uploads` for key "bob"{call}: no expectation names these leases and key"#
        );
        assert_eq!(text.lines().nth(1), Some(&line[..]));
    }
}

#[test]
fn a_call_of_leases_too_many_or_too_few_says_so() {
    let mut store = MockStore::new();
    store
        .expect_peek_leases("uploads", "alice")
        .times(1)
        .occupied(1);
    let uploads = uploads(store);
    assert_eq!(uploads.peek("alice").run().unwrap().held(), 1);
    let text = message(|| uploads.peek("alice").run());
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[1].ends_with("every expectation that fits has had all its calls"),
        "{text}"
    );
    assert_eq!(
        *lines.last().unwrap(),
        r#"to expect another call, raise `.times(..)`, or add `store.expect_peek_leases("uploads", "alice")` with an answer, such as `.occupied(0)`"#
    );
    let mut store = MockStore::new();
    store.expect_renew("uploads", "alice").lost();
    let text = message(|| store.checkpoint());
    assert!(
        text.contains("renew of leases `uploads` for key \"alice\", any lease, at least 1 time: called 0 times, too few"),
        "{text}"
    );
}

#[test]
fn answers_that_no_store_gives_to_a_call_of_leases_fail_the_test() {
    type Expect = fn(&mut MockStore);
    type Call = fn(&ConcurrencyLimiter<MockStore>);
    let acquire: Call = |uploads| drop(uploads.acquire("k", "a").run());
    let heavy: Call = |uploads| drop(uploads.acquire("k", "a").weight(4).run());
    let renew: Call = |uploads| drop(uploads.renew("k", &lease("a", 7, 1)).run());
    let later: Call = |uploads| drop(uploads.acquire("k", "a").at(LATER).run());
    let earlier: Call = |uploads| drop(uploads.acquire("k", "a").at(NOON).run());
    let table: [(&str, Expect, Call); 11] = [
        (
            "`granted(\"b\" with token 7)` to this acquire",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.granted(lease("b", 7, 1));
            },
            acquire,
        ),
        (
            "has another weight",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.granted(lease("a", 7, 2));
            },
            acquire,
        ),
        (
            "the lease has ended",
            |store| {
                let ended = Lease::new(*b"a", 7, 1, NOON, NOON);
                store.expect_acquire("uploads", "k").already_held(ended);
            },
            acquire,
        ),
        (
            "at the caller's instant",
            |store| store.expect_acquire("uploads", "k").granted_at(NOON, 7),
            later,
        ),
        (
            "at the caller's instant",
            |store| store.expect_acquire("uploads", "k").granted_at(LATER, 7),
            earlier,
        ),
        (
            "a weight above the amount is always denied",
            |store| store.expect_acquire("uploads", "k").granted_at(NOON, 7),
            heavy,
        ),
        (
            "`denied(2, 1s)`",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.denied(2, Wait::from_micros(1_000_000));
            },
            acquire,
        ),
        (
            "`denied(3, never)`",
            |store| {
                store.expect_acquire("uploads", "k").denied(3, Wait::NEVER);
            },
            acquire,
        ),
        (
            "never finds room",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.denied(0, Wait::from_micros(1));
            },
            heavy,
        ),
        (
            "has another token",
            |store| {
                let expectation = store.expect_renew("uploads", "k");
                expectation.renewed(lease("a", 8, 1));
            },
            renew,
        ),
        (
            "has another id",
            |store| {
                let expectation = store.expect_renew("uploads", "k");
                expectation.renewed(lease("b", 7, 1));
            },
            renew,
        ),
    ];
    for (expected, expect, call) in table {
        let mut store = MockStore::new();
        expect(&mut store);
        let uploads = uploads(store);
        let text = message(|| call(&uploads));
        assert!(text.starts_with("no store answers"), "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn answers_of_other_operations_on_leases_fail_the_test() {
    type Expect = fn(&mut MockStore);
    let table: [(&str, Expect); 6] = [
        (
            "`lost()` answers no acquire: answer with `granted`",
            |store| store.expect_acquire("uploads", "k").lost(),
        ),
        (
            "`released(true)` answers no renew: answer with `renewed`",
            |store| store.expect_renew("uploads", "k").released(true),
        ),
        (
            "`occupied(1)` answers no release: answer with `released`",
            |store| store.expect_release("uploads", "k").occupied(1),
        ),
        (
            "`succeed()` answers no peek: answer with `occupied`",
            |store| store.expect_peek_leases("uploads", "k").succeed(),
        ),
        (
            "`denied(1, never)` answers no reset: answer with `succeed`",
            |store| {
                let expectation = store.expect_reset_leases("uploads", "k");
                expectation.denied(1, Wait::NEVER);
            },
        ),
        ("a peek is about no lease: remove `.id(..)`", |store| {
            let expectation = store.expect_peek_leases("uploads", "k");
            expectation.id("a").occupied(1);
        }),
    ];
    for (expected, expect) in table {
        let text = message(|| expect(&mut MockStore::new()));
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn a_block_that_succeeds_lasts_as_the_call_says() {
    let ban = || limit("ban", "block:15m");
    let until = Timestamp::from_micros(5_000_007).unwrap();
    let then = Timestamp::from_micros(5_000_000).unwrap();
    let mut store = MockStore::new();
    store.expect_block("ban", "mallory").times(4).succeed();
    let wait = Duration::from_secs(7);
    store.expect_block("ban", "eve").times(1).deny_for(wait);
    store.expect_block("ban", "eve").times(1).deny_forever();
    store
        .expect_block("ban", "eve")
        .times(1)
        .fail(ErrorKind::Unavailable);
    store.expect_block("ban", "alice").never();
    let limiter = RateLimiter::new(store, [attempts(), ban()]).unwrap();
    let block = || limiter.block("mallory");
    let usual = Duration::from_secs(15 * 60);
    for (call, lasts) in [
        (block(), usual),
        (block().lasting(wait), wait),
        (block().until(until).at(then), Duration::from_micros(7)),
        // By the clock of a mock, it is the first instant.
        (block().until(until), Duration::from_micros(5_000_007)),
    ] {
        let shown = format!("{call:?}");
        assert_eq!(call.run().unwrap().duration(), Some(lasts), "{shown}");
    }
    let block = || limiter.block("eve").run();
    assert_eq!(block().unwrap().duration(), Some(wait));
    assert_eq!(block().unwrap(), Wait::NEVER);
    assert_eq!(block().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn an_unexpected_block_is_named_without_a_cost() {
    let mut store = MockStore::new();
    store.expect_block("ban", "alice").times(1).succeed();
    let limiter = RateLimiter::new(store, [limit("ban", "block:15m")]).unwrap();
    assert_eq!(
        message(|| limiter.block("bob").run()),
        r#"unexpected block:
  limit `ban=block:15m` for key "bob": no expectation names this limit and key
expected calls:
  block of limit `ban` for key "alice", 1 time: called 0 times
to expect this call, add `store.expect_block("ban", "bob")` with an answer, such as `.succeed()`"#
    );
    let _ = limiter.block("alice").run().unwrap();
    let mut store = MockStore::new();
    assert_eq!(
        message(|| store.expect_block("ban", "k").cost(2).succeed()),
        "a block has no cost: remove `.cost(2)`"
    );
    let mut store = MockStore::new();
    assert_eq!(
        message(|| store.expect_block("ban", "k").allow()),
        "`allow()` answers no block: answer with `succeed`, `deny_for`, `deny_forever` or `fail`"
    );
}

#[test]
fn a_block_of_a_limit_without_expectation_is_the_usual_one() {
    let mut store = MockStore::new();
    store
        .expect_block("ban", "k")
        .deny_for(Duration::from_secs(1));
    let limits = [limit("ban", "block:15m"), limit("out", "block:2s")];
    let limiter = RateLimiter::new(store, limits).unwrap();
    let wait = limiter.block("k").run().unwrap();
    assert_eq!(wait.duration(), Some(Duration::from_secs(2)));
}
