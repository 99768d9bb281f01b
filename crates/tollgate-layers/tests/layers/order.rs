//! What layers learn from the answers of the layers inside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Checks, Fingerprint, Request, Source, Verdict, Verdicts};
use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError, Wait};
use tollgate_layers::{AllowAll, Breaker, DenyCache, Fallback, Usual, usual};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};

const DOWN: Fault = Fault::Fail(ErrorKind::Unavailable);

fn store() -> MemoryStore {
    MemoryStore::new()
}

/// Denies every call while it is on.
pub(crate) struct KillSwitch<S>(pub(crate) S, pub(crate) AtomicBool);

#[async_trait]
impl<S: Store> Store for KillSwitch<S> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        if !self.1.load(Ordering::Relaxed) {
            return self.0.decide(request).await;
        }
        let denied = request
            .checks()
            .iter()
            .map(|_| Verdict::deny(1, 0, Wait::NEVER));
        let verdicts = Verdicts::new(Fingerprint::new(0), denied);
        Ok(verdicts.with_source(Source::Layer))
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.0.supports(request)
    }
}

#[tokio::test]
async fn a_breaker_takes_the_answers_of_a_fallback_for_failures() {
    let down = FaultyStore::new(store(), [DOWN; 9]);
    let breaker = Breaker::new(Fallback::allow(down));
    let limiter = RateLimiter::new(&breaker, ["api=gcra:1/1s"]).unwrap();
    for _ in 0..3 {
        assert!(!breaker.is_open());
        assert!(limiter.check("k").await.unwrap().is_allowed());
    }
    assert!(breaker.is_open());
}

#[tokio::test]
async fn a_breaker_learns_nothing_from_what_the_store_was_not_asked() {
    let faults = [Fault::None, Fault::None, DOWN, DOWN, DOWN];
    let cached = DenyCache::new(FaultyStore::new(store(), faults));
    let switch = Arc::new(KillSwitch(cached, AtomicBool::new(false)));
    let breaker = Breaker::new(Arc::clone(&switch));
    let limiter = RateLimiter::new(&breaker, ["api=gcra:1/1h"]).unwrap();
    assert!(limiter.check("denied").await.unwrap().is_allowed());
    assert!(limiter.check("denied").await.unwrap().is_denied());
    for key in 0..3_u64 {
        for (is_on, source) in [(false, Source::Cache), (true, Source::Layer)] {
            switch.1.store(is_on, Ordering::Relaxed);
            let denied = limiter.check("denied").await.unwrap();
            assert_eq!(denied.source(), source);
        }
        switch.1.store(false, Ordering::Relaxed);
        assert!(!breaker.is_open());
        limiter.check(key).await.unwrap_err();
    }
    assert!(breaker.is_open());
}

#[tokio::test]
async fn a_cache_remembers_only_the_denials_of_the_store() {
    let down = FaultyStore::new(store(), [DOWN, DOWN]);
    let switch = KillSwitch(Fallback::to(down, store()), AtomicBool::new(true));
    let limiter = RateLimiter::new(DenyCache::new(&switch), ["api=gcra:1/1h"]).unwrap();
    assert!(limiter.check("k").await.unwrap().is_denied());
    switch.1.store(false, Ordering::Relaxed);
    for (is_allowed, source) in [
        (true, Source::Fallback),
        (false, Source::Fallback),
        (true, Source::Store),
        (false, Source::Store),
        (false, Source::Cache),
    ] {
        let decision = limiter.check("k").await.unwrap();
        assert_eq!(
            (decision.is_allowed(), decision.source()),
            (is_allowed, source)
        );
    }
}

/// In whatever order they are set.
#[tokio::test]
async fn options_of_the_usual_layers_reach_them() {
    const SET: [&str; 4] = [
        "slow_after: 50ms",
        "retry_every: 60ms",
        "max_age: 7s",
        "within: 8s",
    ];
    type Layers = Usual<FaultyStore<MemoryStore>>;
    let options: [fn(Layers) -> Layers; 5] = [
        |usual| usual.prefetch(Duration::from_secs(8)),
        |usual| usual.max_age(Duration::from_secs(7)),
        |usual| usual.retry_every(Duration::from_millis(60)),
        |usual| usual.slow_after(Duration::from_millis(50)),
        |usual| usual.fail_on([ErrorKind::Unavailable]),
    ];
    for first in 0..options.len() {
        let layers = usual(FaultyStore::new(store(), [DOWN]), AllowAll);
        let in_turn = options.iter().cycle().skip(first).take(options.len());
        let usual = in_turn.fold(layers, |layers, option| option(layers));
        let shown = format!("{usual:?}");
        assert!(SET.iter().all(|set| shown.contains(set)), "{shown}");
        let limiter = RateLimiter::new(usual, ["api=fixed-window:100/1h"]).unwrap();
        let error = limiter.check("alice").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let mut sources = Vec::new();
        for _ in 0..20 {
            sources.push(limiter.check("alice").await.unwrap().source());
        }
        assert!(sources.contains(&Source::Prefetched), "{sources:?}");
        limiter.store().give_back().await;
        assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 80);
    }
}
