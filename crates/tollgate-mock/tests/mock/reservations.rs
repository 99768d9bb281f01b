//! The mock answers reservations as a test sets it up, and refuses what no store would answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store, StoreError, Wait};
use tollgate_mock::{Fault, FaultyStore, MockStore};

const SECOND: Duration = Duration::from_secs(1);

fn limiter(store: MockStore, limit: &str) -> RateLimiter<MockStore> {
    RateLimiter::new(store, [limit]).unwrap()
}

#[test]
fn reservations_are_delayed_denied_or_start_at_once() {
    let mut store = MockStore::new();
    store
        .expect_reserve("mail", "a")
        .cost(2)
        .delay_by(SECOND / 4);
    store.expect_reserve("mail", "b").deny_for(SECOND);
    store.expect_reserve("mail", "c").allow();
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
fn a_delay_is_rounded_up_to_microseconds() {
    let mut store = MockStore::new();
    let nanos = Duration::from_nanos(1_001);
    store.expect_reserve("mail", "a").delay_by(nanos);
    let limiter = limiter(store, "mail=gcra:4/1s");
    let delayed = limiter.reserve("a").within(SECOND).run().unwrap();
    assert_eq!(delayed.delay(), Wait::from_micros(2));
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

/// Returns the message with which a reservation fails that costs `cost` and is delayed by `delay`.
fn message(cost: u64, delay: Duration) -> String {
    let mut store = MockStore::new();
    store.expect_reserve("mail", "a").delay_by(delay);
    let limiter = limiter(store, "mail=gcra:4/1s");
    let call = || limiter.reserve("a").cost(cost).within(SECOND).run();
    let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn a_delay_longer_than_the_call_accepts_is_refused() {
    let message = message(1, 2 * SECOND);
    assert!(
        message.contains("accepts a delay of at most 1s"),
        "{message}"
    );
}

#[test]
fn a_delay_of_a_call_that_costs_nothing_is_refused() {
    let message = message(0, SECOND);
    assert!(
        message.contains("a call that costs nothing is never delayed"),
        "{message}"
    );
}

#[test]
fn an_algorithm_without_reservations_is_not_supported() {
    let store = MockStore::new();
    let within = Operation::Reserve { max_delay: SECOND };
    for (text, supported) in [("mail=fixed-window:4/1s", false), ("mail=gcra:4/1s", true)] {
        let limit: Limit = text.parse().unwrap();
        let request = Request::new(within, [Check::new(&limit, "a", 1)]);
        assert_eq!(store.supports(&request), supported, "{text}");
    }
    let limiter = limiter(store, "mail=fixed-window:4/1s");
    let error = limiter.reserve("a").within(SECOND).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_lost_reply_to_a_reservation_is_unknown() {
    let mut store = MockStore::new();
    store.expect_reserve("mail", "a").delay_by(SECOND);
    let store = FaultyStore::new(store, [Fault::LoseReply]);
    let limiter = RateLimiter::new(store, ["mail=gcra:4/1s"]).unwrap();
    let lost: Result<_, StoreError> = limiter.reserve("a").within(SECOND).run();
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::Unknown);
}
