//! `RateLimiter` over a `MemoryStore`, at the store's time and at the caller's.

use std::time::Duration;

use tollgate_core::call::{Left, SettleError};
use tollgate_core::store::{Check, Fingerprint, Operation, Request, Verdict, Verdicts};
use tollgate_core::{
    ErrorKind, FixedWindow, Gcra, Key, Limit, Quota, RateLimiter, SlidingLog, SyncStore, Timestamp,
    Wait,
};
use tollgate_memory::{ManualClock, MemoryStore};

fn limits() -> [Limit; 2] {
    let quota = Quota::per_minute(10);
    [
        Limit::new("log", SlidingLog::new(quota).unwrap()).unwrap(),
        Limit::new("bucket", Gcra::with_burst(quota, 8).unwrap()).unwrap(),
    ]
}

fn limiter(limits: &[Limit]) -> RateLimiter<MemoryStore> {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    RateLimiter::new(store, limits.to_vec()).unwrap()
}

#[test]
fn every_call_counts_on_one_clock() {
    for limits in [&limits()[..1], &limits()[..]] {
        let limiter = limiter(limits);
        let now = Timestamp::from_micros(5_000_000).unwrap();
        let receipt = limiter
            .check("k")
            .cost(5)
            .at(now)
            .run()
            .unwrap()
            .into_receipt()
            .unwrap();
        assert!(limiter.check("k").at(now).run().unwrap().is_allowed());
        let left = limiter.peek("k").at(now).run().unwrap().remaining();
        assert_eq!(
            limiter
                .take_up_to("k", 100)
                .at(now)
                .run()
                .unwrap()
                .consumed(),
            left
        );
        assert!(limiter.check("k").at(now).run().unwrap().is_denied());
        assert_eq!(
            limiter
                .refund("k", receipt)
                .at(now)
                .run()
                .unwrap()
                .remaining(),
            5
        );
        assert!(
            limiter
                .check("k")
                .cost(5)
                .at(now)
                .run()
                .unwrap()
                .is_allowed()
        );
        assert!(limiter.check("k").at(now).run().unwrap().is_denied());
        assert_eq!(
            limiter
                .check("k")
                .at(now)
                .run()
                .unwrap()
                .binding()
                .1
                .decided_at(),
            now
        );
        // None of this was counted at the store's own time.
        assert_eq!(limiter.peek("k").run().unwrap().remaining(), left + 6);
        limiter.reset("k").run().unwrap();
        assert_eq!(
            limiter.peek("k").at(now).run().unwrap().remaining(),
            left + 6
        );
    }
}

#[tokio::test]
async fn every_call_can_be_awaited_or_run() {
    let limiter = limiter(&limits());
    let now = Timestamp::from_micros(5_000_000).unwrap();
    let receipt = limiter
        .check("k")
        .cost(5)
        .await
        .unwrap()
        .into_receipt()
        .unwrap();
    assert_eq!(limiter.take_up_to("k", 100).await.unwrap().consumed(), 3);
    assert!(limiter.check("k").await.unwrap().is_denied());
    assert_eq!(limiter.refund("k", receipt).await.unwrap().remaining(), 5);
    assert_eq!(limiter.peek("k").await.unwrap().remaining(), 5);
    let receipt = limiter
        .check("k")
        .cost(5)
        .at(now)
        .await
        .unwrap()
        .into_receipt()
        .unwrap();
    assert_eq!(
        limiter
            .take_up_to("k", 100)
            .at(now)
            .await
            .unwrap()
            .consumed(),
        3
    );
    assert!(limiter.check("k").at(now).await.unwrap().is_denied());
    assert_eq!(
        limiter
            .refund("k", receipt)
            .at(now)
            .await
            .unwrap()
            .remaining(),
        5
    );
    assert_eq!(limiter.peek("k").at(now).await.unwrap().remaining(), 5);
    limiter.reset("k").await.unwrap();
    assert_eq!(limiter.peek("k").at(now).await.unwrap().remaining(), 8);
    assert_eq!(limiter.peek("k").await.unwrap().remaining(), 8);
}

#[test]
fn states_on_the_callers_clock_are_dropped_on_request() {
    let store = MemoryStore::builder()
        .max_keys(100)
        .clock(ManualClock::new())
        .build();
    let limit = Limit::new("w", FixedWindow::anchored(Quota::per_minute(1))).unwrap();
    let limiter = RateLimiter::new(&store, [limit]).unwrap();
    let now = Timestamp::from_micros(5_000_000).unwrap();
    for key in 0..100 {
        assert!(
            limiter
                .check(&key.to_string())
                .at(now)
                .run()
                .unwrap()
                .is_allowed()
        );
    }
    assert!(limiter.check("own").run().is_err());
    let minute = Duration::from_secs(60);
    assert_eq!(store.sweep(), 0);
    assert_eq!(
        store.sweep_at(now.saturating_add(minute - Duration::from_micros(1))),
        0
    );
    assert_eq!(store.sweep_at(now.saturating_add(minute)), 100);
    assert!(limiter.check("own").run().unwrap().is_allowed());
}

#[test]
fn only_counted_calls_set_when_a_state_is_stale() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let with = |quota| {
        let limit = Limit::new("log", SlidingLog::new(quota).unwrap()).unwrap();
        RateLimiter::new(&store, [limit]).unwrap()
    };
    let (hourly, secondly) = (with(Quota::per_hour(5)), with(Quota::per_second(5)));
    assert!(hourly.check("k").cost(5).run().unwrap().is_allowed());
    assert!(secondly.peek("k").run().unwrap().is_denied());
    assert!(secondly.check("k").run().unwrap().is_denied());
    clock.advance(Duration::from_secs(5));
    assert_eq!(store.sweep(), 0);
    assert!(hourly.check("k").run().unwrap().is_denied());
}

#[tokio::test]
async fn a_peek_is_denied_when_a_check_would_be() {
    for limits in [&limits()[..1], &limits()[..]] {
        let limiter = limiter(limits);
        let now = Timestamp::from_micros(5_000_000).unwrap();
        assert!(limiter.check("k").cost(7).run().unwrap().is_allowed());
        assert!(
            limiter
                .check("k")
                .cost(7)
                .at(now)
                .run()
                .unwrap()
                .is_allowed()
        );
        for cost in 0..10 {
            let seen = [
                limiter.peek("k").cost(cost).run().unwrap(),
                limiter.peek("k").cost(cost).await.unwrap(),
                limiter.peek("k").cost(cost).at(now).run().unwrap(),
                limiter.peek("k").cost(cost).at(now).await.unwrap(),
            ];
            let left = seen[0].remaining();
            for decision in seen {
                assert_eq!(decision.is_allowed(), cost <= left, "cost {cost} of {left}");
            }
        }
        assert!(limiter.peek("k").run().unwrap().is_allowed());
        assert!(limiter.take_up_to("k", 10).run().unwrap().is_allowed());
        assert!(limiter.peek("k").run().unwrap().is_denied());
        assert!(limiter.peek("k").await.unwrap().is_denied());
        let wait = limiter.peek("k").run().unwrap().retry_after();
        assert_eq!(limiter.check("k").run().unwrap().retry_after(), wait);
    }
}

#[test]
fn a_receipt_is_refunded_by_the_limiter_key_and_clock_that_consumed() {
    let [log, bucket] = limits();
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let both = RateLimiter::new(&store, [log.clone(), bucket.clone()]).unwrap();
    let swapped = RateLimiter::new(&store, [bucket.clone(), log]).unwrap();
    let one = RateLimiter::new(&store, [bucket]).unwrap();
    let now = Timestamp::from_micros(5_000_000).unwrap();
    let receipt = both.check("alice").cost(5).run().unwrap();
    let receipt = receipt.into_receipt().unwrap();
    assert!(both.check("bob").cost(5).run().unwrap().is_allowed());
    assert!(
        both.check("alice")
            .cost(5)
            .at(now)
            .run()
            .unwrap()
            .is_allowed()
    );
    // Each error returns the receipt.
    let refused = |refund: Result<Left<'_>, SettleError>| {
        let error = refund.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert_eq!(
            error.to_string(),
            "this receipt is for another limit, key or clock: use it with the limiter and key of the call, and use `at` only if the call did"
        );
        error.into_receipt().unwrap()
    };
    let receipt = refused(both.refund("bob", receipt).run());
    let receipt = refused(both.refund(Key::from("al").with_rest("ice"), receipt).run());
    let receipt = refused(
        both.refund(Key::from("alice").with_rest("/b"), receipt)
            .run(),
    );
    let receipt = refused(both.refund("alice", receipt).at(now).run());
    let receipt = refused(swapped.refund("alice", receipt).run());
    let receipt = refused(one.refund("alice", receipt).run());
    assert_eq!(both.peek("bob").run().unwrap().remaining(), 3);
    assert_eq!(both.peek("alice").at(now).run().unwrap().remaining(), 3);
    // Limits built again from the same values accept the receipt: it outlives the limiter.
    let again = RateLimiter::new(&store, limits()).unwrap();
    assert_eq!(again.refund("alice", receipt).run().unwrap().remaining(), 8);
    // Moving bytes from one part of a key to the other makes another key.
    let parts = Key::from("ab").with_rest("c");
    let receipt = one.check(parts).run().unwrap().into_receipt().unwrap();
    let receipt = refused(one.refund(Key::from("a").with_rest("bc"), receipt).run());
    assert!(one.refund(parts, receipt).run().is_ok());
}

#[test]
fn a_store_that_is_cleared_has_room_again() {
    let store = MemoryStore::builder()
        .max_keys(100)
        .clock(ManualClock::new())
        .build();
    let [log, _] = limits();
    let limiter = RateLimiter::new(&store, [log]).unwrap();
    let now = Timestamp::from_micros(5_000_000).unwrap();
    let keys: Vec<String> = (0..50).map(|key| key.to_string()).collect();
    for _ in 0..3 {
        for key in &keys {
            assert_eq!(limiter.check(key).run().unwrap().remaining(), 9);
            assert_eq!(limiter.check(key).at(now).run().unwrap().remaining(), 9);
        }
        assert!(limiter.check("one more").run().is_err());
        assert_eq!(store.clear(), 100);
        assert!(store.is_empty());
    }
}

/// Up to four limits are decided in another way than more, and known keys in another than new ones.
#[test]
fn any_number_of_limits_is_decided_alike() {
    for count in 1..=6 {
        let limits = (0..count).map(|number| {
            let log = SlidingLog::new(Quota::per_minute(3 + number)).unwrap();
            Limit::new(&format!("log-{number}"), log).unwrap()
        });
        let limiter = limiter(&limits.collect::<Vec<_>>());
        let remaining = || -> Vec<u64> {
            let peek = limiter.peek("k").run().unwrap();
            peek.verdicts()
                .map(|(_, verdict)| verdict.remaining())
                .collect()
        };
        for left in [2, 1, 0] {
            let decision = limiter.check("k").run().unwrap();
            assert!(decision.is_allowed(), "{count} limits");
            assert_eq!((decision.remaining(), decision.consumed()), (left, 1));
            let each = (left..left + u64::from(count)).collect::<Vec<_>>();
            let verdicts = decision.verdicts();
            let told: Vec<u64> = verdicts.map(|(_, verdict)| verdict.remaining()).collect();
            assert_eq!((told, remaining()), (each.clone(), each));
            // The receipt is for this key alone.
            let receipt = decision.into_receipt().unwrap();
            let refused = limiter.refund("other", receipt).run().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Malformed);
            let receipt = refused.into_receipt().unwrap();
            limiter.refund("k", receipt).run().unwrap();
            assert_eq!(remaining()[0], left + 1, "{count} limits");
            assert!(limiter.check("k").run().unwrap().is_allowed());
        }
        let denied = limiter.check("k").run().unwrap();
        assert!(denied.is_denied());
        assert_eq!((denied.remaining(), denied.consumed()), (0, 0));
        assert_eq!(remaining(), (0..u64::from(count)).collect::<Vec<_>>());
    }
}

#[test]
fn a_store_without_room_for_all_limits_of_a_key_is_full() {
    let store = MemoryStore::builder().max_keys(1).build();
    let limiter = RateLimiter::new(store, limits()).unwrap();
    let error = limiter.check("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(limiter.store().is_empty());
}

#[test]
fn no_limit_is_counted_twice_in_one_call() {
    for count in 2..=5 {
        let distinct: Vec<Limit> = (0..count)
            .map(|number| {
                let log = SlidingLog::new(Quota::per_minute(9)).unwrap();
                Limit::new(&format!("log-{number}"), log).unwrap()
            })
            .collect();
        let limiter = limiter(&distinct);
        assert!(limiter.check("k").run().unwrap().is_allowed());
        for twice in 1..count {
            for first in 0..twice {
                let mut limits = distinct.clone();
                limits[twice] = limits[first].clone();
                let checks = limits.iter().map(|limit| Check::new(limit, "k", 1));
                let request = Request::new(Operation::Consume, checks);
                let error = limiter.store().decide_now(&request).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Malformed);
                let mut verdicts = vec![Verdict::allow(99, 99); count];
                let consumed =
                    limiter
                        .store()
                        .consume_all_now(&limits, Key::from("k"), 1, &mut verdicts);
                assert_eq!(consumed.unwrap_err().kind(), ErrorKind::Malformed);
            }
        }
        assert_eq!(limiter.peek("k").run().unwrap().remaining(), 8);
    }
}

#[test]
fn another_number_of_verdicts_than_of_limits_is_an_error() {
    let limits = ["a", "b", "c", "d", "e"].map(|name| format!("{name}=gcra:10/1h"));
    let limits = limits.map(|text| text.parse::<Limit>().unwrap());
    for count in 1..=5 {
        for verdicts in (0..=6).filter(|&verdicts| verdicts != count) {
            let store = MemoryStore::new();
            let mut verdicts = vec![Verdict::allow(99, 99); verdicts];
            let error = store
                .consume_all_now(&limits[..count], Key::from("k"), 1, &mut verdicts)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol);
        }
    }
}

#[test]
fn verdicts_that_a_call_overwrites_may_be_any() {
    let limits = ["a", "b", "c", "d", "e"].map(|name| format!("{name}=gcra:10/1h"));
    let limits = limits.map(|text| text.parse::<Limit>().unwrap());
    for count in 1..=5 {
        let limits = &limits[..count];
        let limiter = limiter(limits);
        assert!(limiter.check("k").run().unwrap().is_allowed());
        let mut verdicts = vec![Verdict::allow(99, 99).with_delay(Wait::NEVER); count];
        let mut fingerprint = Fingerprint::new(0);
        for (cost, is_allowed, remaining) in [(100, false, 9), (2, true, 7)] {
            let store = limiter.store();
            fingerprint = store
                .consume_all_now(limits, Key::from("k"), cost, &mut verdicts)
                .unwrap();
            for verdict in &verdicts {
                assert_eq!(verdict.is_allowed(), is_allowed);
                assert_eq!((verdict.capacity(), verdict.remaining()), (10, remaining));
                assert_eq!(verdict.delay(), Wait::ZERO);
            }
        }
        let receipt = Verdicts::new(fingerprint, verdicts).into_receipt().unwrap();
        let given_back = limiter.refund("k", receipt).run().unwrap();
        assert_eq!(given_back.remaining(), 9, "{count} limits");
    }
}
