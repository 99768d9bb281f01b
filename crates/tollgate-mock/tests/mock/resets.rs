//! The mock says when a limit has its full capacity again, as a store would.

use std::time::Duration;

use tollgate_core::{RateLimiter, SyncStore, Timestamp, Wait};
use tollgate_memory::MemoryStore;
use tollgate_mock::MockStore;

const NOW: Timestamp = Timestamp::saturating_from_micros(1_700_000_000_250_000);
const LIMITS: [&str; 8] = [
    "api=gcra:10/1m,burst=3",
    "api=gcra:7/1s",
    "api=fixed-window:5/1m",
    "api=fixed-window:5/1m,anchored",
    "api=fixed-window:5/1m,anchored,count-denied",
    "api=sliding-log:5/1m",
    "api=sliding-buckets:5/1m,buckets=6",
    "api=sliding-counter:5/1m",
];

fn limiter<S>(store: S, limit: &str) -> RateLimiter<S> {
    RateLimiter::new(store, [limit]).unwrap()
}

#[test]
fn allowed_call_is_reset_when_what_it_left_used_has_come_back() {
    for text in LIMITS {
        for earlier in 0..=2 {
            let real = limiter(MemoryStore::new(), text);
            let check = real.check("k").cost(earlier).at(NOW);
            check.run().unwrap().permit().unwrap();
            let expected = real.check("k").at(NOW).run().unwrap();
            assert!(!expected.reset_after().is_zero(), "{text}");

            let mut store = MockStore::new();
            let left = expected.remaining();
            store.expect_check("api", "k").allow_with_remaining(left);
            store
                .expect_peek("api", "k")
                .cost(0)
                .allow_with_remaining(left);
            let mock = limiter(store, text);
            let said = mock.check("k").at(NOW).run().unwrap();
            assert_eq!(
                said.reset_after(),
                expected.reset_after(),
                "{text} {earlier}"
            );
            let said = mock.peek("k").cost(0).at(NOW).run().unwrap();
            assert_eq!(
                said.reset_after(),
                expected.reset_after(),
                "{text} {earlier}"
            );
        }
    }
}

#[test]
fn denied_call_is_reset_no_earlier_than_it_is_to_be_repeated() {
    for text in LIMITS.iter().filter(|text| !text.contains("count-denied")) {
        for cost in 1..=3 {
            let real = limiter(MemoryStore::new(), text);
            let all = real.limits()[0].algorithm().capacity();
            let full = real.check("k").cost(all).at(NOW).run().unwrap();
            let denied = real.check("k").cost(cost).at(NOW).run().unwrap();
            assert_eq!(denied.reset_after(), full.reset_after(), "{text}");

            let mut store = MockStore::new();
            let wait = denied.retry_after().duration().unwrap();
            store.expect_check("api", "k").deny_for(wait);
            let mock = limiter(store, text);
            let said = mock.check("k").cost(cost).at(NOW).run().unwrap();
            assert_eq!(said.reset_after(), denied.reset_after(), "{text} {cost}");
        }
    }
}

#[test]
fn reservation_is_reset_after_its_delay() {
    let text = "mail=gcra:4/1s";
    let (quarter, second) = (Duration::from_millis(250), Duration::from_secs(1));
    let reserve = |limiter: &RateLimiter<&dyn SyncStore>, longest| {
        let call = limiter.reserve("k").cost(2).within(longest).at(NOW);
        let decision = call.run().unwrap();
        (
            decision.delay(),
            decision.retry_after(),
            decision.reset_after(),
        )
    };
    let store = MemoryStore::new();
    let real = limiter(&store as &dyn SyncStore, text);
    let first = real.check("k").cost(3).at(NOW).run().unwrap();
    first.permit().unwrap();

    let mut mock = MockStore::new();
    mock.expect_reserve("mail", "k")
        .times(1)
        .deny_for(quarter / 2);
    mock.expect_reserve("mail", "k").delay_by(quarter);
    let mock = limiter(&mock as &dyn SyncStore, text);
    let denied = reserve(&real, quarter / 2);
    assert_eq!(denied, reserve(&mock, quarter / 2));
    assert_eq!(denied.2.duration(), Some(quarter * 3));
    let delayed = reserve(&real, second);
    assert_eq!(delayed, reserve(&mock, second));
    assert_eq!(delayed.2.duration(), Some(quarter * 5));
}

#[test]
fn limit_with_nothing_used_is_reset_already() {
    let mut store = MockStore::new();
    store.expect_check("api", "k").cost(6).deny_forever();
    store.expect_check("api", "k").cost(5).deny_forever();
    store.expect_check("api", "k").cost(0).allow();
    store.expect_lower("api", "k").allow_with_remaining(2);
    let mock = limiter(store, "api=sliding-log:5/1m");
    let check = |cost| {
        let decision = mock.check("k").cost(cost).at(NOW).run().unwrap();
        decision.reset_after().duration().unwrap()
    };
    assert_eq!([check(6), check(0)], [Duration::ZERO; 2]);
    // Nothing is left of it, although the denial does not say until when.
    assert_eq!(check(5), Duration::from_secs(60));
    let left = mock.lower("k", 2).at(NOW).run().unwrap();
    assert_eq!(left.decision().reset_after(), Wait::from_micros(60_000_000));
}

#[test]
fn limit_that_allows_what_another_denies_is_reset_already() {
    let mut store = MockStore::new();
    let second = Duration::from_secs(1);
    store.expect_check("day", "k").deny_for(second);
    let limits = ["hour=sliding-log:5/1h", "day=sliding-log:9/1d"];
    let mock = RateLimiter::new(store, limits).unwrap();
    let denied = mock.check("k").at(NOW).run().unwrap();
    let resets = denied
        .verdicts()
        .map(|(_, verdict)| verdict.reset_after().duration());
    assert!(resets.eq([Some(Duration::ZERO), Some(second)]));
}
