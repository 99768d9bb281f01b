//! What threads share, in thousands of the orders in which they may take turns.

use std::sync::Arc;
use std::time::Duration;

use shuttle::future::{block_on, spawn};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::{Config, Runner, thread};
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError};
use tollgate_memory::{ManualClock, MemoryStore};

use crate::limits::{LimitSet, Limits};

use crate::breaker::Breaker;
use crate::deny_cache::DenyCache;
use crate::lazy::Lazy;

const ORDERS: usize = 10_000;
/// Unoptimized code needs more than the default.
const STACK: usize = 1 << 20;

pub(crate) fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK;
    Runner::new(RandomScheduler::new(ORDERS), config).run(test);
}

/// A store that yields before and after each call, and counts how many are made at a time.
struct Yields {
    store: MemoryStore,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    calls: AtomicUsize,
    fails: bool,
}

impl Yields {
    fn new(fails: bool) -> Self {
        Self {
            store: MemoryStore::builder().clock(ManualClock::new()).build(),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            fails,
        }
    }
}

#[async_trait::async_trait]
impl Store for Yields {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        shuttle::future::yield_now().await;
        let verdicts = self.store.decide(request).await;
        shuttle::future::yield_now().await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        if self.fails {
            let kind = ErrorKind::Unavailable;
            return Err(StoreError::new(kind, "it fails"));
        }
        verdicts
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        shuttle::future::yield_now().await;
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

#[test]
fn a_denial_from_before_a_reset_is_not_remembered() {
    check(|| {
        let cache = DenyCache::new(Yields::new(false)).clock(ManualClock::new());
        let limiter = RateLimiter::new(cache, ["a=sliding-log:1/1h"]).unwrap();
        assert!(
            block_on(limiter.check("k").into_future())
                .unwrap()
                .is_allowed()
        );
        let checks = thread::spawn({
            let limiter = limiter.clone();
            move || {
                block_on(limiter.check("k").into_future())
                    .unwrap()
                    .is_denied()
            }
        });
        block_on(limiter.reset("k").into_future()).unwrap();
        // It was denied, so it came before the reset.
        if checks.join().unwrap() {
            let decision = block_on(limiter.check("k").into_future()).unwrap();
            assert!(decision.is_allowed(), "{decision:?}");
        }
    });
}

#[test]
fn one_caller_at_a_time_tries_a_store_that_failed() {
    check(|| {
        let store = Arc::new(Yields::new(true));
        let clock = ManualClock::new();
        let breaker = Breaker::new(Arc::clone(&store)).clock(clock.clone());
        let limiter = RateLimiter::new(breaker, ["a=sliding-log:1/1h"]).unwrap();
        block_on(async {
            for _ in 0..3 {
                assert!(limiter.check("k").await.is_err());
            }
            assert!(limiter.store().is_open());
            clock.advance(Duration::from_secs(1));
            store.most_at_once.store(0, Ordering::SeqCst);
            let callers: Vec<_> = (0..4)
                .map(|_| {
                    let limiter = limiter.clone();
                    spawn(async move { limiter.check("k").await.is_err() })
                })
                .collect();
            for caller in callers {
                assert!(caller.await.unwrap());
            }
        });
        assert_eq!(store.most_at_once.load(Ordering::SeqCst), 1);
        assert_eq!(store.calls.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn limiters_have_the_limits_that_were_put_into_force_last() {
    check(|| {
        let set = |amount: u64| {
            let text = format!("gcra:{amount}/1m");
            LimitSet::new().with("a", [text]).unwrap()
        };
        let limits = Limits::new(set(1));
        let store = Arc::new(MemoryStore::new());
        let before = limits.on(Arc::clone(&store));
        let threads: Vec<_> = [2, 3]
            .map(|amount| {
                let (limits, set) = (limits.clone(), set(amount));
                thread::spawn(move || drop(limits.replace(set).unwrap()))
            })
            .into();
        let after = limits.on(store);
        for thread in threads {
            thread.join().unwrap();
        }
        let set = limits.set();
        for limiters in [before, after] {
            let limiter = limiters.get("a").unwrap().unwrap();
            assert_eq!(limiter.limits(), set.get("a").unwrap());
        }
    });
}

#[test]
fn one_caller_at_a_time_connects() {
    check(|| {
        let connecting = Arc::new(AtomicUsize::new(0));
        let lazy = Arc::new(Lazy::new({
            let connecting = Arc::clone(&connecting);
            move || {
                let connecting = Arc::clone(&connecting);
                async move {
                    assert_eq!(connecting.fetch_add(1, Ordering::SeqCst), 0);
                    shuttle::future::yield_now().await;
                    Ok(MemoryStore::new())
                }
            }
        }));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let lazy = Arc::clone(&lazy);
                thread::spawn(move || block_on(lazy.connect()).is_ok())
            })
            .collect();
        let connected = threads.into_iter().filter_map(|thread| thread.join().ok());
        assert!(connected.filter(|is| *is).count() >= 1);
        assert_eq!(connecting.load(Ordering::SeqCst), 1);
    });
}
