//! A call for a key that is held allocates nothing, or one box if it is awaited on a store that may have
//! to wait.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use tollgate_core::store::{BoxFuture, Checks, Request, Verdicts};
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, Limit, Quota, RateLimiter, SlidingBuckets, SlidingCounter,
    SlidingLog, Store, StoreError, Timestamp,
};
use tollgate_memory::{ManualClock, MemoryStore};

fn algorithms() -> Vec<Algorithm> {
    let quota = Quota::per_second(50);
    vec![
        FixedWindow::aligned(quota).into(),
        FixedWindow::anchored(quota).count_denied().into(),
        Gcra::new(quota).unwrap().into(),
        SlidingBuckets::new(quota, 10).unwrap().into(),
        SlidingCounter::new(quota).unwrap().into(),
        SlidingLog::new(quota).unwrap().into(),
        SlidingLog::new(quota).unwrap().count_denied().into(),
    ]
}

/// Returns how many allocations a few seconds of calls make, admitted and denied.
fn allocations(limits: impl IntoIterator<Item = Limit>, key: &str) -> u64 {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = RateLimiter::new(store, limits).unwrap();
    let mut denied = 0;
    let mut calls = || {
        for _ in 0..300 {
            let peeked = limiter.peek(key).run().unwrap();
            let checked = limiter.check(key).run().unwrap();
            assert_eq!(peeked.is_denied(), checked.is_denied());
            denied += u64::from(checked.is_denied());
            clock.advance(Duration::from_millis(7));
        }
    };
    // Let every log grow to the full size of its quota.
    calls();
    let allocations = measure(calls).count_total;
    assert!(denied > 0, "some of the calls are to be denied");
    allocations
}

#[test]
fn a_call_about_one_limit_allocates_nothing() {
    for algorithm in algorithms() {
        let limit = Limit::new("one", algorithm).unwrap();
        for key in ["203.0.113.7", "a key that is too long to be held in place"] {
            assert_eq!(allocations([limit.clone()], key), 0, "{limit}");
        }
    }
}

#[test]
fn a_call_about_four_limits_allocates_nothing() {
    for four in algorithms().windows(4) {
        let limits = four
            .iter()
            .enumerate()
            .map(|(index, &algorithm)| Limit::new(&format!("limit-{index}"), algorithm).unwrap());
        assert_eq!(allocations(limits, "203.0.113.7"), 0, "{four:?}");
    }
}

#[test]
fn a_call_with_an_amount_of_its_own_allocates_nothing_once_it_is_known() {
    let limiter = RateLimiter::new(MemoryStore::new(), ["one=gcra:1/1s"]).unwrap();
    let calls = || {
        for amount in 1..=64 {
            let limiter = limiter.with_amount("one", amount).unwrap();
            limiter.check("k").run().map(drop).unwrap();
        }
    };
    calls();
    assert_eq!(measure(calls).count_total, 0);
}

/// A store that does not say that it need not wait.
struct Hidden(MemoryStore);

impl Store for Hidden {
    fn decide<'a: 'f, 'f>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'f, Result<Verdicts, StoreError>> {
        self.0.decide(request)
    }

    fn reset<'a: 'f, 'f>(&'a self, checks: Checks<'a>) -> BoxFuture<'f, Result<(), StoreError>> {
        self.0.reset(checks)
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.0.supports(request)
    }
}

#[test]
fn a_call_that_is_awaited_allocates_one_box_if_the_store_may_have_to_wait() {
    let limits = algorithms().into_iter().take(4).enumerate();
    let limits: Vec<Limit> = limits
        .map(|(index, algorithm)| Limit::new(&format!("limit-{index}"), algorithm).unwrap())
        .collect();
    let stores: [(Arc<dyn Store>, u64); 2] = [
        (Arc::new(MemoryStore::new()), 0),
        (Arc::new(Hidden(MemoryStore::new())), 1),
    ];
    for (store, boxes) in stores {
        for limits in [&limits[..1], &limits[..]] {
            let limiter = RateLimiter::new(Arc::clone(&store), limits.to_vec()).unwrap();
            let count = |call: &dyn Fn()| {
                call();
                measure(call).count_total
            };
            let now = Timestamp::UNIX_EPOCH;
            assert_eq!(count(&|| drop(done(limiter.check("k")))), boxes);
            let at = || drop(done(limiter.check("k").cost(2).at(now)));
            assert_eq!(count(&at), boxes);
            // A cost of its own for a limit takes another one.
            let costs = || drop(done(limiter.check("k").cost_of("limit-0", 2)));
            assert_eq!(count(&costs), boxes + 1);
            assert_eq!(count(&|| drop(done(limiter.peek("k")))), boxes);
            assert_eq!(count(&|| drop(done(limiter.take_up_to("k", 3)))), boxes);
            assert_eq!(count(&|| done(limiter.reset("other")).unwrap()), 2);
            assert_eq!(count(&|| drop(limiter.clone())), 0);
        }
    }
}

#[test]
fn a_future_that_has_completed_is_not_decided_again() {
    let limit = Limit::new("one", Gcra::new(Quota::per_minute(9)).unwrap()).unwrap();
    let limiter = RateLimiter::new(MemoryStore::new(), [limit]).unwrap();
    let mut future = limiter.check("k").into_future();
    let mut poll = || {
        let mut context = Context::from_waker(Waker::noop());
        pin!(&mut future).poll(&mut context).is_ready()
    };
    assert!(poll());
    assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    assert_eq!(limiter.peek("k").run().unwrap().remaining(), 8);
}

/// Returns the output of a call that completes when first polled.
fn done<C: IntoFuture>(call: C) -> C::Output {
    let mut future = pin!(call.into_future());
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a store in memory waits for nothing"),
    }
}
