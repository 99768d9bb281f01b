//! The mock answers reservations as a test sets it up, and refuses what no store would answer.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tollgate_core::{ErrorKind, RateLimiter, StoreError, Wait};
use tollgate_mock::{Fault, FaultyStore, MockStore};

const SECOND: Duration = Duration::from_secs(1);

fn limiter(store: MockStore, limit: &str) -> RateLimiter<MockStore> {
    RateLimiter::new(store, [limit]).unwrap()
}

#[test]
fn reservations_are_delayed_denied_or_start_at_once() {
    let mut store = MockStore::new();
    store
        .expect_reservation("mail", "a")
        .cost(2)
        .delay_by(SECOND / 4);
    store.expect_reservation("mail", "b").deny_for(SECOND);
    store.expect_reservation("mail", "c").allow();
    let limiter = limiter(store, "mail=gcra:4/1s");
    let decide = |key: &str| limiter.reserve(key).cost(2).within(SECOND).run().unwrap();
    let delayed = decide("a");
    assert!(delayed.is_allowed());
    assert_eq!(delayed.delay(), Wait::from_micros(250_000));
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
fn a_delay_longer_than_the_call_accepts_is_refused() {
    let mut store = MockStore::new();
    store.expect_reservation("mail", "a").delay_by(2 * SECOND);
    let limiter = limiter(store, "mail=gcra:4/1s");
    let call = || limiter.reserve("a").within(SECOND).run();
    let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("accepts a delay of at most 1s"),
        "{message}"
    );
}

#[test]
fn an_algorithm_without_reservations_is_not_supported() {
    let limiter = limiter(MockStore::new(), "mail=fixed-window:4/1s");
    let error = limiter.reserve("a").within(SECOND).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_lost_reply_to_a_reservation_is_unknown() {
    let mut store = MockStore::new();
    store.expect_reservation("mail", "a").delay_by(SECOND);
    let store = FaultyStore::new(store, [Fault::LoseReply]);
    let limiter = RateLimiter::new(store, ["mail=gcra:4/1s"]).unwrap();
    let lost: Result<_, StoreError> = limiter.reserve("a").within(SECOND).run();
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::Unknown);
}
