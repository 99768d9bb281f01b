//! Which layers may be around which.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{ErrorKind, RateLimiter, Store};
use tollgate_layers::{AllowAll, Breaker, DenyCache, Fallback, Lazy, Observed, Share, usual};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};

fn store() -> MemoryStore {
    MemoryStore::new()
}

/// Returns the message of the panic of `make`.
fn refused<T>(make: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(make)).err().expect("a panic");
    let message = panic.downcast::<&str>().expect("a message without values");
    (*message).to_owned()
}

#[test]
fn a_breaker_sees_the_answers_of_the_store() {
    let inside: [Box<dyn Store>; 7] = [
        Box::new(DenyCache::new(store())),
        Box::new(Fallback::allow(store())),
        Box::new(Observed::new(Fallback::allow(store()))),
        Box::new(Share::new(DenyCache::new(store()), NonZeroU32::MIN)),
        Box::new(Arc::new(DenyCache::new(store()))),
        Box::new(usual(store(), AllowAll)),
        Box::new(Box::new(Fallback::allow(Breaker::new(store())))),
    ];
    for inside in inside {
        assert!(refused(|| Breaker::new(inside)).contains("put it around the breaker"));
    }
}

#[test]
fn a_cache_remembers_the_denials_of_the_store() {
    let fallback = Fallback::allow(store());
    assert!(refused(|| DenyCache::new(&fallback)).contains("put the fallback around the cache"));
    let cache = DenyCache::new(store());
    assert!(refused(|| DenyCache::with_capacity(&cache, 9)).contains("use one cache"));
}

#[tokio::test]
async fn a_store_that_is_connected_later_has_no_cache_or_fallback_inside() {
    let cached = Lazy::new(async || Ok(DenyCache::new(store())));
    let error = cached.connect().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let breaker = Breaker::new(Lazy::new(async || Ok(Fallback::allow(store()))));
    let limiter = RateLimiter::new(breaker, ["api=gcra:1/1s"]).unwrap();
    let error = limiter.check("alice").await.unwrap_err();
    let said = "put it around the `Lazy`";
    assert!(error.to_string().contains(said), "{error}");
}

#[tokio::test]
async fn options_of_the_usual_layers_reach_them() {
    let fails = FaultyStore::new(store(), [Fault::Fail(ErrorKind::Unavailable)]);
    let usual = usual(fails, AllowAll)
        .max_age(Duration::from_secs(7))
        .retry_every(Duration::from_millis(50))
        .slow_after(Duration::from_millis(50))
        .fail_on([ErrorKind::Unavailable]);
    assert!(format!("{usual:?}").contains("max_age: 7s"));
    let limiter = RateLimiter::new(usual, ["api=gcra:1/1s"]).unwrap();
    let error = limiter.check("alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn the_orders_that_make_sense_are_possible() {
    let observed = || Observed::new(store());
    let _ = Breaker::new(Share::new(observed(), NonZeroU32::MIN));
    let _ = DenyCache::new(Breaker::new(observed()));
    let _ = DenyCache::new(Lazy::new(async || Ok(store())));
    // A second server before the process decides by itself.
    let _ = Fallback::allow(Fallback::to(Breaker::new(store()), Breaker::new(store())));
    let _ = usual(Breaker::new(store()), usual(store(), AllowAll));
}
