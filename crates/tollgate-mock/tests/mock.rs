//! `MockStore` returns the answers of its expectations, and nothing else.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{Acquisition, ConcurrencyLimiter, Lease};
use tollgate_core::schedule::{Event, Placement, PlannedEvent, Reason, Refusal, Schedule};
use tollgate_core::store::{BlockSpan, Check, MAX_EXACT, Operation, Request, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Key, Limit, Quota, RateLimiter, Store, SyncStore, Timestamp, Wait};
use tollgate_core::{FixedWindow, SlidingLog};
use tollgate_mock::{Expectation, MockStore};

fn limits() -> [Limit; 2] {
    let quota = Quota::per_minute(5);
    [
        Limit::new("log", SlidingLog::new(quota).unwrap()).unwrap(),
        Limit::new("window", FixedWindow::aligned(quota)).unwrap(),
    ]
}

#[tokio::test]
async fn every_call_gets_the_answer_it_was_given() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").cost(1).times(2).allow();
    store
        .expect_check("log", "k")
        .cost(1)
        .deny_for(Duration::from_millis(1_500));
    store.expect_check("log", "k").cost(6).deny_forever();
    store.expect_check("log", "l").allow_with_remaining(2);
    store.expect_check("log", "m").fail(ErrorKind::Unknown);
    store.expect_peek("log", "k").allow_with_remaining(3);
    store
        .expect_take_up_to("log", "k")
        .cost(4)
        .times(1)
        .grant(2);
    store.expect_take_up_to("log", "k").cost(4).grant(0);
    store.expect_refund("log", "l").allow();
    store.expect_reset("log", "k").times(1).succeed();
    store.expect_reset("log", "k").fail(ErrorKind::Unavailable);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();

    for _ in 0..2 {
        let allowed = limiter.check("k").await.unwrap().into_verdicts();
        assert!(allowed.is_allowed());
        assert_eq!(
            (allowed.capacity(), allowed.remaining(), allowed.consumed()),
            (5, 4, 1)
        );
    }
    let denied = limiter.check("k").await.unwrap().into_verdicts();
    assert!(denied.is_denied());
    assert_eq!(denied.retry_after(), Wait::from_micros(1_500_000));
    assert_eq!(denied.consumed(), 0);
    assert_eq!(
        limiter.check("k").cost(6).await.unwrap().retry_after(),
        Wait::NEVER
    );
    let receipt = {
        let allowed = limiter.check("l").run().unwrap().into_verdicts();
        assert_eq!(allowed.remaining(), 2);
        allowed.into_receipt().unwrap()
    };
    assert_eq!(
        limiter.check("m").await.unwrap_err().kind(),
        ErrorKind::Unknown
    );
    assert_eq!(limiter.peek("k").await.unwrap().remaining(), 3);
    assert_eq!(limiter.take_up_to("k", 4).await.unwrap().consumed(), 2);
    assert!(limiter.take_up_to("k", 4).await.unwrap().is_denied());
    assert!(
        limiter
            .refund("l", receipt)
            .await
            .unwrap()
            .decision()
            .is_allowed()
    );
    assert!(limiter.reset("k").await.is_ok());
    assert_eq!(
        limiter.reset("k").run().unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

/// Returns the decision of a store with the expectations of `expect`, at a cost of 2 for both
/// limits.
fn decide(expect: impl FnOnce(&mut MockStore), operation: Operation<'_>) -> Verdicts {
    let mut store = MockStore::new();
    expect(&mut store);
    let limits = limits();
    let checks = [
        Check::new(&limits[0], "k", 2),
        Check::new(&limits[1], Key::from("k"), 2),
    ];
    store
        .decide_now(&Request::new(operation, &checks).at(NOW))
        .unwrap()
}

/// Returns each limit's verdict: whether it allows, what remains, and what was consumed.
fn said(decision: &Verdicts) -> Vec<(bool, u64, u64)> {
    let said = |v: &Verdict| (v.is_allowed(), v.remaining(), v.consumed());
    decision.as_slice().iter().map(said).collect()
}

const SECOND: Duration = Duration::from_secs(1);
const NOW: Timestamp = Timestamp::saturating_from_micros(1_700_000_000_000_000);

#[test]
fn denial_of_one_limit_denies_the_request_and_consumes_nothing() {
    let denied_by_second = decide(
        |store| {
            store.expect_check("log", "k").allow_with_remaining(1);
            store.expect_check("window", "k").deny_for(SECOND);
        },
        Operation::Consume,
    );
    assert!(denied_by_second.is_denied());
    assert_eq!(denied_by_second.binding(), 1);
    assert_eq!(denied_by_second.retry_after(), Wait::from_micros(1_000_000));
    assert_eq!(said(&denied_by_second), [(true, 3, 0), (false, 0, 0)]);
    for verdict in denied_by_second.as_slice() {
        assert_eq!(verdict.decided_at(), NOW);
    }
    assert!(denied_by_second.into_receipt().is_none());

    // A limit that no expectation names allows the call.
    let denied_by_one = decide(
        |store| store.expect_check("window", "k").deny_for(SECOND),
        Operation::Consume,
    );
    assert_eq!(said(&denied_by_one), [(true, 5, 0), (false, 0, 0)]);
    assert_eq!(denied_by_one.binding(), 1);
}

#[test]
fn longest_denial_binds() {
    let denied_by_both = decide(
        |store| {
            store.expect_check("log", "k").deny_for(SECOND);
            store.expect_check("window", "k").deny_forever();
        },
        Operation::Consume,
    );
    assert_eq!(denied_by_both.binding(), 1);
    assert_eq!(denied_by_both.retry_after(), Wait::NEVER);
    assert_eq!(said(&denied_by_both), [(false, 0, 0), (false, 0, 0)]);
    // The window of a minute that holds `NOW` ends after 40 seconds.
    assert_eq!(denied_by_both.reset_after().duration(), Some(40 * SECOND));
}

#[test]
fn every_limit_is_answered_by_its_own_expectation() {
    let allowed = decide(
        |store| {
            store.expect_check("window", "k").allow_with_remaining(0);
            store.expect_check("log", "k").allow_with_remaining(3);
        },
        Operation::Consume,
    );
    assert!(allowed.is_allowed());
    assert_eq!(said(&allowed), [(true, 3, 2), (true, 0, 2)]);
    let receipt = allowed.into_receipt().unwrap();
    let amounts: Vec<_> = receipt.consumed().iter().map(|c| c.cost()).collect();
    assert_eq!(amounts, [2, 2]);
}

#[test]
fn failure_of_one_limit_fails_the_request() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").deny_for(SECOND);
    store
        .expect_check("window", "k")
        .fail(ErrorKind::Unavailable);
    store.expect_reset("log", "k").succeed();
    store.expect_reset("window", "k").times(1).succeed();
    store.expect_reset("window", "k").fail(ErrorKind::Unknown);
    let limiter = RateLimiter::new(store, limits()).unwrap();
    let error = limiter.check("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    limiter.reset("k").run().unwrap();
    let error = limiter.reset("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    // A reset of no keys needs no expectation.
    limiter.store().reset_now(&[]).unwrap();
}

#[test]
fn request_counts_as_one_call_of_an_expectation_that_fits_two_of_its_limits() {
    let mut store = MockStore::new();
    store.expect_check("log", "k/a").times(1).deny_for(SECOND);
    let [log, _] = limits();
    let key = Key::from("k");
    let request =
        Request::consume(Check::new(&log, "k/a", 1)).and(Check::new(&log, key.with_rest("/a"), 1));
    let decision = store.decide_now(&request).unwrap();
    assert_eq!(said(&decision), [(false, 0, 0), (false, 0, 0)]);
}

#[test]
fn several_limits_grant_the_least_grant_of_any() {
    let granted = decide(
        |store| {
            store.expect_take_up_to("log", "k").grant(2);
            store.expect_take_up_to("window", "k").cost(2).grant(1);
        },
        Operation::TakeUpTo,
    );
    assert_eq!(granted.consumed(), 1);
    assert_eq!(said(&granted), [(true, 1, 1), (true, 0, 1)]);
    let denied = decide(
        |store| {
            store.expect_take_up_to("log", "k").allow_with_remaining(1);
            store.expect_take_up_to("window", "k").grant(0);
        },
        Operation::TakeUpTo,
    );
    assert!(denied.is_denied());
    assert_eq!(denied.retry_after(), Wait::from_micros(1_000_000));
    assert_eq!(said(&denied), [(true, 3, 0), (false, 0, 0)]);
}

#[test]
fn take_up_to_takes_at_most_the_least_cost() {
    let mut store = MockStore::new();
    store.expect_take_up_to("log", "k").cost(1).allow();
    store.expect_take_up_to("window", "k").cost(3).allow();
    let [log, window] = limits();
    let request = Request::take_up_to(Check::new(&log, "k", 1)).and(Check::new(&window, "k", 3));
    let taken = store.decide_now(&request).unwrap();
    assert_eq!(said(&taken), [(true, 4, 1), (true, 4, 1)]);
}

#[test]
fn every_operation_is_supported() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").allow();
    let [log, _] = limits();
    let check = Check::new(&log, "k", 1);
    let decision = store.decide_now(&Request::consume(check)).unwrap();
    let receipt = decision.into_receipt().unwrap();
    for request in [
        Request::consume(check),
        Request::peek(check),
        Request::take_up_to(check),
        Request::refund(&receipt, check),
    ] {
        assert!(store.supports(&request), "{request:?}");
    }
}

#[test]
fn an_allowed_call_has_the_verdict_that_stores_make() {
    let allowed = decide(
        |store| store.expect_check("log", "k").allow_with_remaining(1),
        Operation::Consume,
    );
    let verdict = |remaining, seconds: u64| {
        let verdict = Verdict::allow(5, remaining).with_consumed(2, NOW);
        verdict.with_reset_after(Wait::from_micros(seconds * 1_000_000))
    };
    // The window of a minute that holds `NOW` ends after 40 seconds.
    assert_eq!(allowed.as_slice(), [verdict(1, 60), verdict(3, 40)]);
}

#[test]
fn debug_of_store_and_expectation_hides_answers() {
    let mut store = MockStore::new();
    assert_eq!(format!("{store:?}"), "MockStore { .. }");
    let expectation = format!("{:?}", store.expect_check("log", "k").cost(2));
    let shown = r#"Expectation(check of limit `log` for key "k" at cost 2)"#;
    assert_eq!(expectation, shown);
    let expectation = format!("{:?}", store.expect_add("plans", "k").id("a"));
    let shown = r#"Expectation(add of schedule `plans` for key "k", event "a" at any time)"#;
    assert_eq!(expectation, shown);
    let expectation = format!("{:?}", store.expect_renew("uploads", "k").id("a"));
    let shown = r#"Expectation(renew of leases `uploads` for key "k", lease "a")"#;
    assert_eq!(expectation, shown);
}

#[test]
fn take_up_to_grants_no_more_than_the_capacity() {
    let mut store = MockStore::new();
    store.expect_take_up_to("log", "k").allow();
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    let granted = limiter.take_up_to("k", 9).run().unwrap().into_verdicts();
    assert_eq!((granted.consumed(), granted.remaining()), (5, 0));
    // Taking up to 0 units is always allowed.
    let nothing = limiter.take_up_to("k", 0).run().unwrap().into_verdicts();
    assert!(nothing.is_allowed());
    assert_eq!((nothing.consumed(), nothing.remaining()), (0, 5));
}

#[test]
fn limit_without_expectation_denies_a_cost_above_its_capacity() {
    let mut store = MockStore::new();
    store.expect_check("large", "k").allow();
    store.expect_peek("large", "k").allow();
    store.expect_take_up_to("large", "k").allow();
    let large = Limit::new("large", FixedWindow::aligned(Quota::per_minute(50))).unwrap();
    let closed = Limit::new("closed", FixedWindow::aligned(Quota::per_minute(0))).unwrap();
    let [log, _] = limits();
    let limiter = RateLimiter::new(&store, [large.clone(), log]).unwrap();
    for operation in [Operation::Consume, Operation::Peek] {
        let denied = ask(&limiter, operation, 6);
        assert_eq!(said(&denied), [(true, 50, 0), (false, 5, 0)]);
        assert_eq!(denied.retry_after(), Wait::NEVER);
    }
    assert!(limiter.check("k").cost(5).run().unwrap().is_allowed());
    let single = Limit::new("single", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let limiter = RateLimiter::new(&store, [large.clone(), single]).unwrap();
    let taken = limiter.take_up_to("k", 1).run().unwrap().into_verdicts();
    assert_eq!(said(&taken), [(true, 49, 1), (true, 0, 1)]);
    let limiter = RateLimiter::new(&store, [large, closed]).unwrap();
    let denied = limiter.take_up_to("k", 1).run().unwrap().into_verdicts();
    assert_eq!(said(&denied), [(true, 50, 0), (false, 0, 0)]);
    assert_eq!(denied.retry_after(), Wait::NEVER);
    let nothing = limiter.take_up_to("k", 0).run().unwrap().into_verdicts();
    assert_eq!(said(&nothing), [(true, 50, 0), (true, 0, 0)]);
}

/// Returns what the store decides of `operation` at `cost` for all limits of `limiter`.
fn ask(limiter: &RateLimiter<&MockStore>, operation: Operation<'_>, cost: u64) -> Verdicts {
    let checks = limiter
        .limits()
        .iter()
        .map(|limit| Check::new(limit, "k", cost));
    limiter
        .store()
        .decide_now(&Request::new(operation, checks))
        .unwrap()
}

#[test]
fn peek_has_a_cost_and_may_be_denied() {
    let mut store = MockStore::new();
    store.expect_peek("log", "k").cost(1).allow();
    store.expect_peek("log", "k").cost(3).deny_for(SECOND);
    let [log, _] = limits();
    let limiter = RateLimiter::new(&store, [log]).unwrap();
    let allowed = ask(&limiter, Operation::Peek, 1);
    assert!(allowed.is_allowed());
    assert_eq!(said(&allowed), [(true, 5, 0)]);
    let denied = ask(&limiter, Operation::Peek, 3);
    assert_eq!(said(&denied), [(false, 0, 0)]);
    assert_eq!(denied.retry_after(), Wait::from_micros(1_000_000));
    assert_eq!(denied.reset_after().duration(), Some(SECOND));
}

#[test]
fn denial_is_at_least_a_microsecond_and_rounded_up() {
    let wait_of = |retry_after| {
        let denied = decide(
            |store| store.expect_check("log", "k").deny_for(retry_after),
            Operation::Consume,
        );
        assert!(denied.is_denied());
        denied.retry_after()
    };
    assert_eq!(wait_of(Duration::ZERO), Wait::from_micros(1));
    assert_eq!(wait_of(Duration::from_nanos(1_001)), Wait::from_micros(2));
    assert_eq!(wait_of(Duration::MAX), Wait::NEVER);
}

#[test]
fn grant_of_nothing_to_a_call_that_takes_nothing_allows_it() {
    let mut store = MockStore::new();
    store.expect_take_up_to("log", "k").grant(0);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    assert!(limiter.take_up_to("k", 0).run().unwrap().is_allowed());
    let denied = limiter.take_up_to("k", 1).run().unwrap().into_verdicts();
    assert_eq!(denied.retry_after(), Wait::from_micros(1_000_000));
}

#[test]
fn cost_of_a_refund_is_the_cost_in_its_receipt() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").allow();
    store
        .expect_refund("log", "k")
        .cost(3)
        .allow_with_remaining(5);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    let receipt = limiter
        .check("k")
        .cost(3)
        .run()
        .unwrap()
        .into_receipt()
        .unwrap();
    let refunded = limiter.refund("k", receipt).run().unwrap();
    assert!(refunded.decision().is_allowed());
    assert_eq!(
        (refunded.remaining(), refunded.decision().consumed()),
        (5, 0)
    );
}

#[test]
fn settles_a_call_at_the_expected_cost() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").cost(3).allow();
    store
        .expect_settle("log", "k")
        .cost(2)
        .allow_with_remaining(4);
    let [log, window] = limits();
    let limiter = RateLimiter::new(store, [log, window]).unwrap();
    let decision = limiter.check("k").cost(3).run().unwrap();
    let receipt = decision.into_receipt().unwrap();
    let left = limiter.settle("k", receipt, 2).run().unwrap();
    assert!(left.decision().is_allowed());
    assert_eq!((left.remaining(), left.decision().consumed()), (4, 0));
    let untouched = left.decision().verdict("window").unwrap();
    assert_eq!(untouched.remaining(), untouched.capacity());
}

#[test]
fn lowers_what_remains_to_at_most_the_cost() {
    let mut store = MockStore::new();
    store.expect_lower("log", "k").cost(4).times(1).allow();
    store
        .expect_lower("log", "k")
        .cost(4)
        .allow_with_remaining(1);
    let [log, window] = limits();
    let limiter = RateLimiter::new(store, [log, window]).unwrap();
    for remaining in [4, 1] {
        let left = limiter.lower("k", 4).run().unwrap();
        assert_eq!(
            left.decision().verdict("log").unwrap().remaining(),
            remaining
        );
        assert_eq!(left.decision().verdict("window").unwrap().remaining(), 4);
    }
}

#[test]
#[should_panic(expected = "at most 4 of the capacity")]
fn lowering_leaves_no_more_than_it_says() {
    let mut store = MockStore::new();
    store.expect_lower("log", "k").allow_with_remaining(5);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    let _ = limiter.lower("k", 4).run();
}

#[test]
fn malformed_requests_fail_as_in_every_store_and_are_no_calls() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").times(1).allow();
    let [log, window] = limits();
    let check = Check::new(&log, "k", 1);
    let receipt = {
        let decision = store.decide_now(&Request::consume(check)).unwrap();
        decision.into_receipt().unwrap()
    };
    let many: Vec<Limit> = (0..33)
        .map(|n| Limit::new(&format!("l{n}"), *log.algorithm()).unwrap())
        .collect();
    let malformed = [
        Request::new(Operation::Consume, &[]),
        Request::consume(check).and(check),
        Request::new(
            Operation::Consume,
            many.iter().map(|limit| Check::new(limit, "k", 1)),
        ),
        Request::refund(&receipt, check).and(Check::new(&window, "k", 1)),
    ];
    for request in malformed {
        let error = store.decide_now(&request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
}

#[test]
fn call_expected_never_is_refused_for_every_operation() {
    let refuses = |expect: fn(&mut MockStore), ask: fn(&RateLimiter<MockStore>)| {
        let mut store = MockStore::new();
        expect(&mut store);
        let limiter = RateLimiter::new(store, limits()).unwrap();
        catch_unwind(AssertUnwindSafe(|| ask(&limiter))).is_err()
    };
    assert!(refuses(
        |store| {
            store.expect_reset("log", "k").times(..).succeed();
            store.expect_reset("window", "k").never();
        },
        |limiter| drop(limiter.reset("k").run()),
    ));
    assert!(refuses(
        |store| {
            store.expect_check("log", "k").times(..).allow();
            store.expect_check("window", "k").never();
        },
        |limiter| drop(limiter.check("k").run()),
    ));
    assert!(!refuses(
        |store| {
            store.expect_check("log", "k").times(..).allow();
            store.expect_check("window", "l").never();
        },
        |limiter| drop(limiter.check("k").run()),
    ));
}

#[test]
fn calls_of_many_threads_are_counted_one_by_one() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").times(40).allow();
    store.expect_check("log", "k").times(40).deny_for(SECOND);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    let allowed: usize = thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let allowed = |_: &u32| limiter.check("k").run().unwrap().is_allowed();
                    (0..10).filter(allowed).count()
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).sum()
    });
    assert_eq!(allowed, 40);
}

#[test]
fn unexpected_call_fails_the_test() {
    let refuses = |ask: fn(&RateLimiter<MockStore>)| {
        let mut store = MockStore::new();
        store.expect_check("log", "k").times(0..=1).cost(1).allow();
        store.expect_check("log", "l").never();
        let [log, _] = limits();
        let limiter = RateLimiter::new(store, [log]).unwrap();
        catch_unwind(AssertUnwindSafe(|| ask(&limiter))).is_err()
    };
    assert!(!refuses(|limiter| drop(limiter.check("k").run())));
    assert!(
        refuses(|limiter| drop(limiter.check("k").cost(2).run())),
        "another cost"
    );
    assert!(
        refuses(|limiter| drop(limiter.check("j").run())),
        "another key"
    );
    assert!(
        refuses(|limiter| drop(limiter.check("l").run())),
        "a call never to be made"
    );
    assert!(
        refuses(|limiter| drop(limiter.peek("k").run())),
        "another operation"
    );
}

#[test]
fn receipt_of_another_key_is_refused_as_in_every_store() {
    let mut store = MockStore::new();
    store.expect_check("log", "alice").allow();
    store.expect_refund("log", "bob").never();
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    let receipt = limiter
        .check("alice")
        .run()
        .unwrap()
        .into_receipt()
        .unwrap();
    let error = limiter.refund("bob", receipt).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}

const NOON: Timestamp = Timestamp::saturating_from_micros(1_800_000_000_000_000);
const LATER: Timestamp = Timestamp::saturating_from_micros(1_800_000_060_000_000);

fn reminders(store: MockStore) -> Schedule<MockStore> {
    Schedule::new(store, "reminders", ["1/1m", "hourly=5/1h"]).unwrap()
}

#[test]
fn schedules_get_the_answers_of_their_expectations() {
    let mut store = MockStore::new();
    store
        .expect_add("reminders", "alice/x")
        .id("a")
        .time(NOON)
        .times(1)
        .planned();
    store
        .expect_add("reminders", "alice/x")
        .id("a")
        .already_planned();
    store
        .expect_add("reminders", "alice/x")
        .id("b")
        .refused_by("hourly", Some(LATER));
    store.expect_add("reminders", "alice/x").id("c").past(LATER);
    store
        .expect_reschedule("reminders", "alice/x")
        .times(1)
        .beyond_horizon(NOON);
    store.expect_reschedule("reminders", "alice/x").planned();
    let schedule = reminders(store);
    let key = Key::from("alice").with_rest("/x");
    let planned = |is_new| Placement::Planned { time: NOON, is_new };
    let add = |id: &'static str| schedule.add(key, id, NOON).run().unwrap();
    assert_eq!(add("a"), planned(true));
    assert_eq!(add("a"), planned(false));
    let refusal = add("b").permit().unwrap_err();
    assert_eq!(refusal.quota().unwrap().name(), "hourly");
    assert_eq!(refusal.next_free(), Some(LATER));
    assert_eq!(
        *add("c").permit().unwrap_err().reason(),
        Reason::Past(LATER)
    );
    let moved = schedule.reschedule(key, "a", LATER).run().unwrap();
    let refusal = moved.permit().unwrap_err();
    assert_eq!(*refusal.reason(), Reason::BeyondHorizon(NOON));
    let moved = schedule.reschedule(key, "a", LATER).run().unwrap();
    assert_eq!(moved.permit(), Ok(LATER));
}

#[tokio::test]
async fn schedules_search_reserve_and_list_what_the_test_says() {
    let mut store = MockStore::new();
    store
        .expect_reserve("reminders", "k")
        .id("a")
        .planned_at(LATER);
    store
        .expect_reserve("reminders", "k")
        .id("b")
        .already_planned();
    store
        .expect_reserve("reminders", "k")
        .id("c")
        .refused_by("1/1m", None);
    store
        .expect_cancel("reminders", "k")
        .id("a")
        .cancelled(true);
    store.expect_cancel("reminders", "k").cancelled(false);
    store
        .expect_next_free("reminders", "k")
        .time(NOON)
        .found(Some(LATER));
    store.expect_latest_free("reminders", "k").found(None);
    let [first, second, third] = [("a", LATER), ("c", NOON), ("b", NOON)]
        .map(|(id, time)| PlannedEvent::new(id.as_bytes(), time, 2));
    store
        .expect_list("reminders", "k")
        .events([first.clone(), second.clone(), third.clone()]);
    store
        .expect_reset_schedule("reminders", "k")
        .times(1)
        .succeed();
    store
        .expect_reset_schedule("reminders", "k")
        .fail(ErrorKind::Unavailable);
    store
        .expect_add("reminders", "k")
        .times(2)
        .fail(ErrorKind::Unknown);
    let schedule = reminders(store);
    let reserve = async |id| schedule.reserve_next("k", id, NOON).await.unwrap();
    let planned = |time, is_new| Placement::Planned { time, is_new };
    assert_eq!(reserve("a").await, planned(LATER, true));
    assert_eq!(reserve("b").await, planned(NOON, false));
    assert!(!reserve("c").await.is_planned());
    assert!(schedule.cancel("k", "a").await.unwrap());
    assert!(!schedule.cancel("k", "b").await.unwrap());
    assert_eq!(schedule.next_free("k", NOON).await.unwrap(), Some(LATER));
    assert_eq!(schedule.latest_free("k", NOON).await.unwrap(), None);
    // As every store lists them: by time, and then by id.
    let all = schedule.list("k", Timestamp::UNIX_EPOCH, Timestamp::MAX);
    assert_eq!(all.await.unwrap(), [third, second, first]);
    schedule.reset("k").await.unwrap();
    let error = schedule.reset("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = schedule.add("k", "x", NOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    // A call that is not valid is no call.
    let error = schedule.add("k", "", NOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let error = schedule.add("k", "x", NOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
}

#[test]
fn one_of_several_events_is_expected_by_its_id_and_time() {
    let mut store = MockStore::new();
    store
        .expect_add("reminders", "k")
        .id("b")
        .time(LATER)
        .times(1)
        .planned();
    store.expect_add("reminders", "k").refused_by("1/1m", None);
    let schedule = reminders(store);
    let events = |times: [Timestamp; 2]| [Event::new("a", times[0]), Event::new("b", times[1])];
    let add = |times| schedule.add_all("k", events(times)).run().unwrap().permit();
    // Another event at that time, and that event at another time.
    assert!(add([LATER, NOON]).is_err());
    assert_eq!(add([NOON, LATER]), Ok(2));
}

#[test]
fn the_first_of_several_events_that_has_the_reason_is_refused() {
    let refused = |times: [Timestamp; 2], answer: fn(Expectation<'_, Schedule<MockStore>>)| {
        let mut store = MockStore::new();
        answer(store.expect_add("reminders", "k"));
        let events = [Event::new("a", times[0]), Event::new("b", times[1])];
        let added = reminders(store).add_all("k", events).run().unwrap();
        added.permit().unwrap_err().index()
    };
    assert_eq!(refused([NOON, LATER], |call| call.past(LATER)), 0);
    assert_eq!(refused([LATER, NOON], |call| call.past(LATER)), 1);
    assert_eq!(refused([LATER, NOON], |call| call.beyond_horizon(NOON)), 0);
    assert_eq!(refused([NOON, LATER], |call| call.beyond_horizon(NOON)), 1);
    // A free time is after that of the refused event.
    let between = |call: Expectation<'_, Schedule<MockStore>>| {
        let free = NOON.saturating_add(Duration::from_secs(1));
        call.refused_by("1/1m", Some(free));
    };
    assert_eq!(refused([NOON, LATER], between), 0);
    assert_eq!(refused([LATER, NOON], between), 1);
}

#[test]
fn schedules_get_answers_that_are_just_possible() {
    let mut store = MockStore::new();
    // A time that is free already.
    store.expect_reserve("reminders", "k").planned_at(NOON);
    store.expect_next_free("reminders", "k").found(Some(NOON));
    store.expect_latest_free("reminders", "k").found(Some(NOON));
    // Reasons that only some operations have.
    let unknown = Refusal::new(Reason::UnknownId);
    store.expect_reschedule("reminders", "k").refused(unknown);
    let taken = Refusal::new(Reason::IdTaken(LATER));
    store.expect_add("reminders", "k").refused(taken);
    let schedule = reminders(store);
    let reserved = schedule.reserve_next("k", "a", NOON).run().unwrap();
    assert_eq!(reserved.permit(), Ok(NOON));
    assert_eq!(schedule.next_free("k", NOON).run().unwrap(), Some(NOON));
    assert_eq!(schedule.latest_free("k", NOON).run().unwrap(), Some(NOON));
    let moved = schedule.reschedule("k", "a", NOON).run().unwrap();
    let refusal = moved.permit().unwrap_err();
    assert_eq!(*refusal.reason(), Reason::UnknownId);
    let added = schedule.add("k", "a", NOON).run().unwrap();
    let refusal = added.permit().unwrap_err();
    assert_eq!(*refusal.reason(), Reason::IdTaken(LATER));
}

const TTL: Duration = Duration::from_secs(30);

fn uploads(store: MockStore) -> ConcurrencyLimiter<MockStore> {
    ConcurrencyLimiter::new(store, "uploads", 3, TTL).unwrap()
}

fn lease(id: &str, token: u64, weight: u64) -> Lease {
    Lease::new(id.as_bytes(), token, weight, NOON, NOON.saturating_add(TTL))
}

#[test]
fn leases_get_the_answers_of_their_expectations() {
    let mut store = MockStore::new();
    store
        .expect_acquire("uploads", "alice/x")
        .id("a")
        .times(1)
        .granted(lease("a", 7, 2));
    store
        .expect_acquire("uploads", "alice/x")
        .id("a")
        .already_held(lease("a", 7, 2));
    store
        .expect_acquire("uploads", "alice/x")
        .id("b")
        .denied(2, Wait::from_micros(5));
    store
        .expect_acquire("uploads", "alice/x")
        .granted_at(NOON, 8);
    store
        .expect_renew("uploads", "alice/x")
        .id("a")
        .renewed(lease("a", 7, 2));
    store.expect_renew("uploads", "alice/x").lost();
    store
        .expect_release("uploads", "alice/x")
        .times(1)
        .released(true);
    store.expect_release("uploads", "alice/x").released(false);
    store.expect_peek_leases("uploads", "alice/x").occupied(2);
    let uploads = uploads(store);
    let key = Key::from("alice").with_rest("/x");
    let acquire = |id: &'static str| uploads.acquire(key, id).weight(2).run().unwrap();
    let granted = |lease, is_new| Acquisition::Granted { lease, is_new };
    assert_eq!(acquire("a"), granted(lease("a", 7, 2), true));
    assert_eq!(acquire("a"), granted(lease("a", 7, 2), false));
    let denied = acquire("b").permit().unwrap_err();
    assert_eq!((denied.held(), denied.amount()), (2, 3));
    assert_eq!(denied.ends_within(), Wait::from_micros(5));
    // Any id and weight, such as those of a guard.
    assert_eq!(acquire("any"), granted(lease("any", 8, 2), true));
    let renewed = |lease| uploads.renew(key, &lease).run().unwrap();
    assert_eq!(renewed(lease("a", 7, 2)), Some(lease("a", 7, 2)));
    assert_eq!(renewed(lease("b", 7, 2)), None);
    assert!(uploads.release(key, &lease("a", 7, 2)).run().unwrap());
    assert!(!uploads.release(key, &lease("a", 7, 2)).run().unwrap());
    assert_eq!(uploads.peek(key).run().unwrap().remaining(), 1);
}

#[test]
fn leases_get_answers_that_are_just_possible() {
    let mut store = MockStore::new();
    let short = Wait::from_micros(5);
    // The whole amount, at the instant of the caller.
    let expectation = store.expect_acquire("uploads", "k").id("all");
    expectation.granted_at(NOON, 7);
    let expectation = store.expect_acquire("uploads", "k").id("other");
    expectation.denied(1, short);
    // The amount was greater before, and a lease that is held keeps its weight.
    let expectation = store.expect_acquire("uploads", "k").id("more");
    expectation.denied(4, short);
    let expectation = store.expect_acquire("uploads", "k").id("held");
    expectation.already_held(lease("held", 7, 2));
    let uploads = uploads(store);
    let acquire = |id: &'static str, weight| {
        let call = uploads.acquire("k", id).weight(weight).at(NOON);
        call.run().unwrap()
    };
    assert_eq!(acquire("all", 3).permit(), Ok(lease("all", 7, 3)));
    assert_eq!(acquire("other", 3).permit().unwrap_err().held(), 1);
    assert_eq!(acquire("more", 1).permit().unwrap_err().held(), 4);
    assert_eq!(acquire("held", 4).permit(), Ok(lease("held", 7, 2)));
}

#[tokio::test]
async fn calls_of_leases_fail_as_the_test_says_and_are_counted() {
    let mut store = MockStore::new();
    store
        .expect_acquire("uploads", "k")
        .times(2)
        .fail(ErrorKind::Unknown);
    store.expect_renew("uploads", "k").fail(ErrorKind::Full);
    store
        .expect_release("uploads", "k")
        .fail(ErrorKind::Unavailable);
    store
        .expect_peek_leases("uploads", "k")
        .fail(ErrorKind::Protocol);
    store.expect_reset_leases("uploads", "k").times(1).succeed();
    store
        .expect_reset_leases("uploads", "k")
        .fail(ErrorKind::Unavailable);
    let uploads = uploads(store);
    let held = lease("a", 7, 1);
    let error = uploads.acquire("k", "a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    // A call that is not valid is no call.
    for malformed in [
        uploads.acquire("k", "").run(),
        uploads.acquire("k", "a").weight(0).run(),
    ] {
        assert_eq!(malformed.unwrap_err().kind(), ErrorKind::Malformed);
    }
    let error = uploads.acquire("k", "a").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    let error = uploads.renew("k", &held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    let error = uploads.release("k", &held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = uploads.peek("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    uploads.reset("k").await.unwrap();
    let reset = uploads
        .store()
        .reset_leases_now(uploads.terms(), "k".into());
    assert_eq!(reset.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_limit_cannot_be_lowered_to_more_than_its_capacity() {
    let mut store = MockStore::new();
    store.expect_lower("a", "k").allow();
    let limit: Limit = "a=gcra:5/1s".parse().unwrap();
    let request = Request::lower(Check::new(&limit, "k", 100));
    assert_eq!(store.decide_now(&request).unwrap().remaining(), 5);
}

#[test]
fn a_block_that_is_over_leaves_everything() {
    let mut store = MockStore::new();
    store.expect_block("a", "k").succeed();
    let limit: Limit = "a=block:15m".parse().unwrap();
    let check = Check::new(&limit, "k", 0);
    let left = |span| {
        let verdicts = store.decide_now(&Request::block(span, check)).unwrap();
        (verdicts.is_allowed(), verdicts.remaining())
    };
    assert_eq!(left(BlockSpan::Usual), (false, 0));
    assert_eq!(left(BlockSpan::Lasting(Duration::ZERO)), (true, MAX_EXACT));
}
