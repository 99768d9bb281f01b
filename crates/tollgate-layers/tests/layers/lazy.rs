//! `Lazy` connects when it is asked, by one caller at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tollgate_core::{ErrorKind, RateLimiter, StoreError};
use tollgate_layers::Lazy;
use tollgate_memory::MemoryStore;

#[tokio::test]
async fn it_connects_until_that_succeeds() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let tried = Arc::clone(&attempts);
    let store = Lazy::new(move || {
        let attempt = tried.fetch_add(1, Ordering::Relaxed);
        async move {
            match attempt {
                0 => Err(StoreError::new(ErrorKind::Misconfigured, "no password")),
                _ => Ok(MemoryStore::new()),
            }
        }
    });
    let limiter = RateLimiter::new(store, ["a=gcra:5/1h"]).unwrap();
    let error = limiter.check("alice").await.unwrap_err();
    assert_eq!(error.to_string(), "no password");
    for left in [4, 3] {
        assert_eq!(limiter.check("alice").await.unwrap().remaining(), left);
    }
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn callers_do_not_wait_for_another_that_connects() {
    let connected = Arc::new(Notify::new());
    let wakes = Arc::clone(&connected);
    let store = Lazy::new(move || {
        let connected = Arc::clone(&wakes);
        async move {
            connected.notified().await;
            Ok(MemoryStore::new())
        }
    });
    let limiter = RateLimiter::new(store, ["a=gcra:5/1h"]).unwrap();
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check("alice").await.is_ok() }
    });
    tokio::task::yield_now().await;
    let error = limiter.check("alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // Whoever goes away leaves the turn to the next.
    first.abort();
    assert!(first.await.is_err());
    connected.notify_one();
    assert!(limiter.check("alice").await.unwrap().is_allowed());
}
