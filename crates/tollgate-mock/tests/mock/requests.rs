//! Requests with several limits.

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, FixedWindow, Key, Limit, Quota, RateLimiter, SyncStore, Wait};
use tollgate_mock::MockStore;

use super::{NOW, SECOND, ask, decide, limits, said};

#[test]
fn one_denial_denies_the_request_the_longest_one_binds_and_nothing_is_consumed() {
    type Expect = fn(&mut MockStore);
    let table: [(Expect, _, _); 3] = [
        (
            |store| {
                store.expect_check("log", "k").allow_with_remaining(1);
                store.expect_check("window", "k").deny_for(SECOND);
            },
            [(true, 3, 0), (false, 0, 0)],
            Wait::from_micros(1_000_000),
        ),
        // A limit that no expectation names allows the call.
        (
            |store| store.expect_check("window", "k").deny_for(SECOND),
            [(true, 5, 0), (false, 0, 0)],
            Wait::from_micros(1_000_000),
        ),
        (
            |store| {
                store.expect_check("log", "k").deny_for(SECOND);
                store.expect_check("window", "k").deny_forever();
            },
            [(false, 0, 0), (false, 0, 0)],
            Wait::NEVER,
        ),
    ];
    for (expect, expected, wait) in table {
        let denied = decide(expect, Operation::Consume);
        assert!(denied.is_denied());
        assert_eq!((denied.binding(), denied.retry_after()), (1, wait));
        assert_eq!(said(&denied), expected);
        assert!(denied.as_slice().iter().all(|of| of.decided_at() == NOW));
        assert!(denied.into_receipt().is_none());
    }
}

#[test]
fn every_limit_is_answered_by_its_own_expectation() {
    let expect = |store: &mut MockStore| {
        store.expect_check("window", "k").allow_with_remaining(0);
        store.expect_check("log", "k").allow_with_remaining(3);
    };
    let allowed = decide(expect, Operation::Consume);
    assert_eq!(said(&allowed), [(true, 3, 2), (true, 0, 2)]);
    let receipt = allowed.into_receipt().unwrap();
    let costs: Vec<_> = receipt.consumed().iter().map(|used| used.cost()).collect();
    assert_eq!(costs, [2, 2]);
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
fn limit_without_expectation_denies_a_cost_above_its_capacity() {
    let mut store = MockStore::new();
    store.expect_check("large", "k").allow();
    store.expect_peek("large", "k").allow();
    store.expect_take_up_to("large", "k").allow();
    let limit = |name, amount| {
        let quota = Quota::per_minute(amount);
        Limit::new(name, FixedWindow::aligned(quota)).unwrap()
    };
    let beside = |other| RateLimiter::new(&store, [limit("large", 50), other]).unwrap();
    for operation in [Operation::Consume, Operation::Peek] {
        let denied = ask(&beside(limit("small", 5)), operation, 6);
        assert_eq!(said(&denied), [(true, 50, 0), (false, 5, 0)]);
        assert_eq!(denied.retry_after(), Wait::NEVER);
    }
    let taken = ask(&beside(limit("single", 1)), Operation::TakeUpTo, 1);
    assert_eq!(said(&taken), [(true, 49, 1), (true, 0, 1)]);
    let denied = ask(&beside(limit("closed", 0)), Operation::TakeUpTo, 1);
    assert_eq!(said(&denied), [(true, 50, 0), (false, 0, 0)]);
    assert_eq!(denied.retry_after(), Wait::NEVER);
    let nothing = ask(&beside(limit("closed", 0)), Operation::TakeUpTo, 0);
    assert_eq!(said(&nothing), [(true, 50, 0), (true, 0, 0)]);
}
