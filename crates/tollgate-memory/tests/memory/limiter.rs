//! `RateLimiter` over a `MemoryStore`, at the store's time and at the caller's.

use std::time::Duration;

use tollgate_core::call::{Left, SettleError};
use tollgate_core::{
    ErrorKind, Gcra, Key, Limit, LimitErrorKind, Quota, RateLimiter, SlidingLog, Timestamp,
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
fn each_verb_counts_for_the_key_of_each_limit() {
    let limits = ["a=sliding-log:9/1h", "b=sliding-log:9/1h", "ban=block:1m"];
    let limiter = RateLimiter::new(MemoryStore::new(), limits).unwrap();
    let used = || {
        let used = |key, name| {
            let peek = limiter.peek(key).run().unwrap();
            9 - peek.verdict(name).unwrap().remaining()
        };
        assert_eq!((used("alice", "b"), used("bob", "a")), (0, 0));
        (used("alice", "a"), used("bob", "b"))
    };
    let check = || limiter.check("alice").key_of("b", "bob");
    let receipt = check().cost(3).cost_of("b", 2).run().unwrap();
    assert_eq!(used(), (3, 2));
    let receipt = receipt.into_receipt().unwrap();
    // It is not of these keys.
    let error = limiter.settle("alice", receipt, 1).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let settle = limiter.settle("alice", error.into_receipt().unwrap(), 1);
    let _ = settle.key_of("b", "bob").run().unwrap();
    assert_eq!(used(), (1, 1));
    let taken = limiter.take_up_to("alice", 2).key_of("b", "bob");
    let receipt = taken.run().unwrap().into_receipt().unwrap();
    assert_eq!(used(), (3, 3));
    let _ = limiter.refund("alice", receipt).key_of("b", "bob").run();
    assert_eq!(used(), (1, 1));
    let _ = limiter.charge("alice").key_of("b", "bob").cost(4).run();
    assert_eq!(used(), (5, 5));
    let _ = limiter.give("alice").key_of("b", "bob").run().unwrap();
    assert_eq!(used(), (4, 4));
    let _ = limiter.lower("alice", 2).key_of("b", "bob").run().unwrap();
    assert_eq!(used(), (7, 7));
    let peek = limiter.peek("carol").key_of("b", "bob").run().unwrap();
    assert_eq!(peek.remaining(), 2);
    limiter.reset("alice").key_of("b", "bob").run().unwrap();
    assert_eq!(used(), (0, 0));

    limiter.block("alice").key_of("ban", "bob").run().unwrap();
    assert!(limiter.check("alice").run().unwrap().is_allowed());
    assert!(limiter.check("bob").run().unwrap().is_denied());
    assert!(check().key_of("ban", "bob").run().unwrap().is_denied());

    let error = check().key_of("c", "bob").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("`ban`"), "{error}");
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

#[test]
fn an_amount_comes_with_each_call_and_what_was_counted_stays() {
    for kind in [
        "gcra:1/1m",
        "sliding-log:1/1m",
        "sliding-buckets:1/1m,buckets=6",
        "sliding-counter:1/1m",
    ] {
        let limits = [format!("api={kind}"), "all=sliding-log:1000/1m".to_owned()];
        let limiter = RateLimiter::new(MemoryStore::new(), limits).unwrap();
        let check = |amount| {
            let limiter = limiter.with_amount("api", amount).unwrap();
            let decision = limiter.check("acme").run().unwrap();
            let left = |name| decision.verdict(name).unwrap().remaining();
            (decision.is_allowed(), left("api"), left("all"))
        };
        assert_eq!(check(100), (true, 99, 999), "{kind}");
        assert_eq!(check(200), (true, 198, 998), "{kind}");
        assert_eq!(check(2), (false, 0, 998), "{kind}");
        assert_eq!(check(5), (true, 2, 997), "{kind}");
        // Whatever was remembered lately, each limit gets its own amount.
        for amount in (0..130).chain([5, 69, 4]) {
            for (index, name) in ["api", "all"].into_iter().enumerate() {
                let limiter = limiter.with_amount(name, amount).unwrap();
                let mut capacities = [1, 1_000];
                capacities[index] = amount;
                let of_each = limiter.limits().iter();
                let of_each: Vec<u64> = of_each.map(|of| of.algorithm().capacity()).collect();
                assert_eq!(of_each, capacities, "{name} {amount}");
            }
        }
    }
}

#[test]
fn an_amount_without_a_limit_is_an_error_that_lists_the_names() {
    let limiter = RateLimiter::new(MemoryStore::new(), ["a=gcra:1/1m", "b=gcra:1/1s"]).unwrap();
    let error = |name, amount| limiter.with_amount(name, amount).unwrap_err();
    assert_eq!(error("c", 5).kind(), LimitErrorKind::Name);
    assert!(error("c", 5).to_string().contains("`a`, `b`"));
    assert_eq!(error("a", u64::MAX).kind(), LimitErrorKind::Amount);
}
