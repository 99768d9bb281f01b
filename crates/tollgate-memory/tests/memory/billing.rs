//! Billing months that begin on a day of each call's own.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tollgate_core::{ErrorKind, LimitErrorKind, ManualClock, RateLimiter, Timestamp};
use tollgate_memory::MemoryStore;

const AMOUNT: u64 = 100;
const LIMIT: &str = "bill=fixed-window:100/month@local,day=local";

fn store() -> (Arc<MemoryStore>, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(store), clock)
}

/// A customer whose day changes has the amount of its new month, less what was left if that is taken over; and
/// nothing of it counts under the old day.
#[test]
fn a_customer_whose_day_changes_starts_afresh_or_takes_over_what_is_left() {
    let (store, clock) = store();
    // 17 May 2026.
    clock.set(Timestamp::from_micros(1_778_976_000_000_000).unwrap());
    let limiter = RateLimiter::new(store, [LIMIT]).unwrap();
    let limiter = limiter.in_zone(&TimeZone::UTC).unwrap();
    let [old, new] = [15, 20].map(|day| limiter.on_day(day).unwrap());
    assert!(old.check("anna").cost(70).run().unwrap().is_allowed());
    let left = || [old, new].map(|limiter| limiter.peek("anna").run().unwrap().remaining());
    assert_eq!(left(), [30, AMOUNT]);
    let remaining = old.peek("anna").run().unwrap().remaining();
    assert_eq!(new.lower("anna", remaining).run().unwrap().remaining(), 30);
    assert_eq!(left(), [30, 30]);
    assert!(new.check("anna").cost(10).run().unwrap().is_allowed());
    assert_eq!(left(), [30, 20]);
    clock.advance(Duration::from_secs(3 * 86_400));
    assert_eq!(left(), [30, AMOUNT]);
}

#[test]
fn a_call_without_a_day_or_with_none_that_exists_counts_nothing() {
    let (store, _) = store();
    let limits = ["bill=fixed-window:5/month@UTC,day=local", "burst=gcra:5/1s"];
    let limiter = RateLimiter::new(store.clone(), limits).unwrap();
    for day in [0, 32, u8::MAX] {
        assert_eq!(limiter.on_day(day).unwrap_err().kind(), LimitErrorKind::Day);
    }
    let zoned = limiter.in_zone(&TimeZone::UTC).unwrap();
    for limiter in [&limiter, zoned] {
        let error = limiter.check("anna").run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("limiter.on_day(15)?"), "{error}");
    }
    let burst = limiter.on_day(31).unwrap().peek("anna").run().unwrap();
    assert_eq!(burst.remaining(), 5);
    let without = RateLimiter::new(store, ["burst=gcra:5/1s"]).unwrap();
    assert!(std::ptr::eq(
        without.on_day(99).unwrap(),
        &raw const without
    ));
}
