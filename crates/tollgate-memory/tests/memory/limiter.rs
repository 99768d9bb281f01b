//! `RateLimiter` over a `MemoryStore`, at the store's time and at the caller's.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::call::{Left, SettleError};
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{
    ErrorKind, Gcra, Key, Limit, Quota, RateLimiter, SlidingLog, SyncStore, Timestamp,
};
use tollgate_memory::{Clock, ManualClock, MemoryStore};

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

/// Makes a call, awaited or run, at the caller's instant if there is one.
macro_rules! made {
    ($call:expr, $at:expr, $is_awaited:expr) => {{
        match ($at, $is_awaited) {
            (Some(now), true) => $call.at(now).await.unwrap(),
            (Some(now), false) => $call.at(now).run().unwrap(),
            (None, true) => $call.await.unwrap(),
            (None, false) => $call.run().unwrap(),
        }
    }};
}

#[tokio::test]
async fn every_call_can_be_awaited_or_run_and_counts_on_one_clock() {
    let now = Timestamp::from_micros(5_000_000).unwrap();
    for (count, left) in [(1, 10), (2, 8)] {
        let limiter = limiter(&limits()[..count]);
        for (at, is_awaited) in [
            (None, false),
            (None, true),
            (Some(now), false),
            (Some(now), true),
        ] {
            let first = made!(limiter.check("k").cost(5), at, is_awaited);
            let receipt = first.into_receipt().unwrap();
            assert!(made!(limiter.peek("k").cost(left - 5), at, is_awaited).is_allowed());
            assert!(made!(limiter.peek("k").cost(left - 4), at, is_awaited).is_denied());
            let taken = made!(limiter.take_up_to("k", 100), at, is_awaited);
            assert_eq!(taken.consumed(), left - 5);
            let denied = made!(limiter.check("k"), at, is_awaited);
            assert!(denied.is_denied());
            if let Some(now) = at {
                assert_eq!(denied.binding().1.decided_at(), now);
            }
            let peek = made!(limiter.peek("k"), at, is_awaited);
            assert_eq!(peek.retry_after(), denied.retry_after());
            let given_back = made!(limiter.refund("k", receipt), at, is_awaited);
            assert_eq!(given_back.remaining(), 5);
            // On the other clock, nothing is counted.
            let other = at.is_none().then_some(now);
            assert_eq!(
                made!(limiter.peek("k"), other, is_awaited).remaining(),
                left
            );
            match is_awaited {
                true => limiter.reset("k").await.unwrap(),
                false => limiter.reset("k").run().unwrap(),
            }
            assert_eq!(made!(limiter.peek("k"), at, is_awaited).remaining(), left);
        }
    }
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
            }
        }
        assert_eq!(limiter.peek("k").run().unwrap().remaining(), 8);
    }
}

#[test]
fn each_limit_counts_a_call_at_its_own_latest_instant() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::builder().clock(clock.clone()).build());
    let limits = ["a", "b", "c", "d"].map(|name| format!("{name}=gcra:10/1h"));
    let together = RateLimiter::new(Arc::clone(&store), &limits).unwrap();
    let alone = RateLimiter::new(store, &limits[2..3]).unwrap();
    assert!(together.check("k").run().unwrap().is_allowed());
    let before = clock.now();
    clock.advance(Duration::from_secs(1));
    assert!(alone.check("k").run().unwrap().is_allowed());
    clock.set(before);
    let decision = together.check("k").run().unwrap();
    let said = |name| {
        let verdict = decision.verdict(name).unwrap();
        (
            verdict.remaining(),
            verdict.consumed(),
            verdict.decided_at(),
        )
    };
    assert_eq!(said("b"), (8, 1, before));
    assert_eq!(
        said("c"),
        (7, 1, before.saturating_add(Duration::from_secs(1)))
    );
}
