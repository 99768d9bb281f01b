//! Each operation on limits, with its answers.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request, Verdict};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store, SyncStore, Wait};
use tollgate_mock::MockStore;

use super::{NOW, SECOND, ask, decide, limits, said};

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
fn a_limit_cannot_be_lowered_to_more_than_its_capacity() {
    let mut store = MockStore::new();
    store.expect_lower("a", "k").allow();
    let limit: Limit = "a=gcra:5/1s".parse().unwrap();
    let request = Request::lower(Check::new(&limit, "k", 100));
    assert_eq!(store.decide_now(&request).unwrap().remaining(), 5);
}
