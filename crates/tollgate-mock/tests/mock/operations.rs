//! Each operation on limits, with its answers.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store, SyncStore, Wait};
use tollgate_mock::MockStore;

use super::{SECOND, decide, limits, said};

#[tokio::test]
async fn every_call_gets_the_answer_it_was_given() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").cost(1).times(2).allow();
    let expected = store.expect_check("log", "k").cost(1);
    expected.deny_for(Duration::from_millis(1_500));
    store.expect_check("log", "k").cost(6).deny_forever();
    store.expect_check("log", "l").allow_with_remaining(2);
    store.expect_check("log", "m").fail(ErrorKind::Unknown);
    store.expect_peek("log", "k").allow_with_remaining(3);
    let expected = store.expect_take_up_to("log", "k").cost(4);
    expected.times(1).grant(2);
    store.expect_take_up_to("log", "k").cost(4).grant(0);
    store.expect_refund("log", "l").allow();
    store.expect_reset("log", "k").times(1).succeed();
    store.expect_reset("log", "k").fail(ErrorKind::Unavailable);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();

    for _ in 0..2 {
        let allowed = limiter.check("k").await.unwrap().into_verdicts();
        assert_eq!(said(&allowed), [(true, 4, 1)]);
    }
    let denied = limiter.check("k").await.unwrap().into_verdicts();
    assert!(denied.is_denied());
    assert_eq!(denied.retry_after(), Wait::from_micros(1_500_000));
    assert_eq!(denied.consumed(), 0);
    let denied = limiter.check("k").cost(6).await.unwrap();
    assert_eq!(denied.retry_after(), Wait::NEVER);
    let receipt = {
        let allowed = limiter.check("l").run().unwrap().into_verdicts();
        assert_eq!(allowed.remaining(), 2);
        allowed.into_receipt().unwrap()
    };
    let error = limiter.check("m").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert_eq!(limiter.peek("k").await.unwrap().remaining(), 3);
    assert_eq!(limiter.take_up_to("k", 4).await.unwrap().consumed(), 2);
    assert!(limiter.take_up_to("k", 4).await.unwrap().is_denied());
    let refunded = limiter.refund("l", receipt).await.unwrap();
    assert!(refunded.decision().is_allowed());
    assert!(limiter.reset("k").await.is_ok());
    let error = limiter.reset("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn operations_are_supported_that_the_algorithm_has() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").allow();
    let [log, _] = limits();
    let check = Check::new(&log, "k", 1);
    let decision = store.decide_now(&Request::consume(check)).unwrap();
    let receipt = decision.into_receipt().unwrap();
    let within = Operation::Reserve { max_delay: SECOND };
    let gcra: Limit = "log=gcra:4/1s".parse().unwrap();
    for (request, is_supported) in [
        (Request::consume(check), true),
        (Request::peek(check), true),
        (Request::take_up_to(check), true),
        (Request::refund(&receipt, check), true),
        (Request::new(within, [check]), false),
        (Request::new(within, [Check::new(&gcra, "k", 1)]), true),
    ] {
        assert_eq!(store.supports(&request), is_supported, "{request:?}");
    }
    let limiter = RateLimiter::new(store, [log.clone()]).unwrap();
    let error = limiter.reserve("k").within(SECOND).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
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
fn lowers_what_remains_to_at_most_the_cost() {
    let mut store = MockStore::new();
    store.expect_lower("log", "k").cost(4).times(1).allow();
    let expected = store.expect_lower("log", "k").cost(4);
    expected.allow_with_remaining(1);
    let [log, window] = limits();
    let limiter = RateLimiter::new(store, [log, window]).unwrap();
    for remaining in [4, 1] {
        let left = limiter.lower("k", 4).run().unwrap();
        let left = |name| left.decision().verdict(name).unwrap().remaining();
        assert_eq!((left("log"), left("window")), (remaining, 4));
    }
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
fn reservations_are_delayed_denied_or_start_at_once() {
    let mut store = MockStore::new();
    let expected = store.expect_reserve("mail", "a").cost(2);
    // Delays are rounded up to microseconds.
    expected.delay_by(Duration::from_nanos(250_000_001));
    store.expect_reserve("mail", "b").deny_for(SECOND);
    store.expect_reserve("mail", "c").allow();
    let limiter = RateLimiter::new(store, ["mail=gcra:4/1s"]).unwrap();
    let decide = |key: &str| limiter.reserve(key).cost(2).within(SECOND).run().unwrap();
    let delayed = decide("a");
    assert!(delayed.is_allowed());
    assert_eq!(delayed.delay(), Wait::from_micros(250_001));
    assert_eq!((delayed.consumed(), delayed.remaining()), (2, 0));
    assert!(delayed.into_receipt().is_some());
    let denied = decide("b");
    assert!(denied.is_denied() && denied.delay().is_zero());
    assert_eq!(denied.retry_after().duration(), Some(SECOND));
    let at_once = decide("c");
    assert!(at_once.is_allowed() && at_once.delay().is_zero());
    assert_eq!(at_once.remaining(), 2);
}

#[test]
fn no_limit_delays_a_reservation_that_another_denies() {
    let mut store = MockStore::new();
    store.expect_reserve("mail", "a").delay_by(SECOND);
    store.expect_reserve("sms", "a").deny_for(2 * SECOND);
    let limiter = RateLimiter::new(store, ["mail=gcra:4/1s", "sms=gcra:4/1s"]).unwrap();
    let denied = limiter.reserve("a").within(SECOND).run().unwrap();
    assert!(denied.is_denied());
    let mail = denied.verdict("mail").unwrap();
    assert!(mail.is_allowed() && mail.delay().is_zero());
}

#[tokio::test]
async fn each_limit_is_matched_at_its_own_cost() {
    let mut store = MockStore::new();
    store.expect_check("tokens", "k").cost(800).allow();
    store.expect_check("requests", "k").cost(1).allow();
    let settled = store.expect_settle("tokens", "k").cost(335);
    settled.times(2).allow();
    let settled = store.expect_settle("requests", "k").cost(1);
    settled.times(2).allow();
    store.expect_peek("tokens", "k").cost(9).allow();
    store.expect_refund("tokens", "k").cost(800).allow();
    store.expect_refund("requests", "k").cost(1).allow();
    let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:1000/1m"];
    let limiter = RateLimiter::new(store, limits).unwrap();
    let receipt = || {
        let call = limiter.check("k").cost_of("tokens", 800);
        call.run().unwrap().into_receipt().unwrap()
    };
    let settle = || limiter.settle("k", receipt(), 1).cost_of("tokens", 335);
    settle().run().unwrap();
    settle().await.unwrap();
    let peeked = limiter.peek("k").cost_of("tokens", 9).await.unwrap();
    assert!(peeked.is_allowed());
    limiter.refund("k", receipt()).run().unwrap();
}
