//! The mock answers as it is told, and nothing else.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tollgate_core::algorithm::{FixedWindow, SlidingLog};
use tollgate_core::{Check, ErrorKind, Key, Limit, Quota, RateLimiter, Request, SyncStore, Wait};
use tollgate_mock::MockStore;

fn limits() -> [Limit; 2] {
    let quota = Quota::per_minute(5);
    [
        Limit::new("log", SlidingLog::new(quota).unwrap()).unwrap(),
        Limit::new("window", FixedWindow::aligned(quota)).unwrap(),
    ]
}

#[tokio::test]
async fn every_call_is_answered_as_told() {
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
    store.expect_refund("log", "k").allow();
    store.expect_reset("log", "k").times(1).succeed();
    store.expect_reset("log", "k").fail(ErrorKind::Unavailable);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();

    for _ in 0..2 {
        let allowed = limiter.check("k").await.unwrap();
        assert!(allowed.is_allowed());
        assert_eq!(
            (allowed.limit(), allowed.remaining(), allowed.granted()),
            (5, 4, 1)
        );
    }
    let denied = limiter.check("k").await.unwrap();
    assert!(denied.is_denied());
    assert_eq!(denied.retry_after(), Wait::from_micros(1_500_000));
    assert_eq!(denied.granted(), 0);
    assert_eq!(
        limiter.check_n("k", 6).await.unwrap().retry_after(),
        Wait::NEVER
    );
    let receipt = {
        let allowed = limiter.check_now("l").unwrap();
        assert_eq!(allowed.remaining(), 2);
        allowed.into_receipt().unwrap()
    };
    assert_eq!(
        limiter.check("m").await.unwrap_err().kind(),
        ErrorKind::Unknown
    );
    assert_eq!(limiter.peek("k").await.unwrap().remaining(), 3);
    assert_eq!(limiter.take_up_to("k", 4).await.unwrap().granted(), 2);
    assert!(limiter.take_up_to("k", 4).await.unwrap().is_denied());
    assert!(limiter.refund("k", &receipt).await.unwrap().is_allowed());
    assert!(limiter.reset("k").await.is_ok());
    assert_eq!(
        limiter.reset_now("k").unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

#[test]
fn one_limit_of_several_may_refuse() {
    let mut store = MockStore::new();
    store
        .expect_check("window", "k")
        .deny_for(Duration::from_secs(1));
    let limits = limits();
    let checks = [
        Check::new(&limits[0], "k", 2),
        Check::new(&limits[1], Key::from("k"), 2),
    ];
    let decision = store
        .decide_now(&Request::of(tollgate_core::Operation::Consume, &checks))
        .unwrap();
    assert!(decision.is_denied());
    assert_eq!((decision.binding(), decision.granted()), (1, 0));
    assert!(decision.into_receipt().is_none());
}

#[test]
fn what_was_not_expected_fails_the_test() {
    let refuses = |ask: fn(&RateLimiter<MockStore>)| {
        let mut store = MockStore::new();
        store.expect_check("log", "k").times(0..=1).cost(1).allow();
        store.expect_check("log", "l").never();
        let [log, _] = limits();
        let limiter = RateLimiter::new(store, [log]).unwrap();
        catch_unwind(AssertUnwindSafe(|| ask(&limiter))).is_err()
    };
    assert!(!refuses(|limiter| drop(limiter.check_now("k"))));
    assert!(
        refuses(|limiter| drop(limiter.check_n_now("k", 2))),
        "another cost"
    );
    assert!(
        refuses(|limiter| drop(limiter.check_now("j"))),
        "another key"
    );
    assert!(
        refuses(|limiter| drop(limiter.check_now("l"))),
        "a call never to be made"
    );
    assert!(
        refuses(|limiter| drop(limiter.peek_now("k"))),
        "another operation"
    );
}

#[test]
fn what_was_expected_and_not_asked_fails_the_test() {
    let unasked = catch_unwind(|| {
        let mut store = MockStore::new();
        store.expect_check("log", "k").allow();
    });
    assert!(unasked.is_err());
    let checked = catch_unwind(|| {
        let mut store = MockStore::new();
        store.expect_reset("log", "k").succeed();
        store.checkpoint();
    });
    assert!(checked.is_err());
}
