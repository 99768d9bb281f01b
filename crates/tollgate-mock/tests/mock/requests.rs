//! Requests with several limits.

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, FixedWindow, Key, Limit, Quota, RateLimiter, SyncStore, Wait};
use tollgate_mock::MockStore;

use super::{NOW, SECOND, ask, decide, limits, said};

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
