//! `Lazy` connects when it is asked, by one caller at a time.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Builder;
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

/// Before it has a store, it says what no store supports.
#[tokio::test]
async fn it_says_what_can_never_work_before_it_has_connected() {
    let store = Lazy::new(async || Ok::<MemoryStore, _>(MemoryStore::new()));
    let limiter = RateLimiter::new(store, ["a=sliding-log:5/1h"]).unwrap();
    for connected in [false, true] {
        let reserve = limiter.reserve("k").within(Duration::from_secs(1));
        let calls = [
            limiter.block("k").supported(),
            reserve.supported(),
            limiter.peek("k").cost_of("b", 1).supported(),
        ];
        assert!(calls.iter().all(Result::is_err), "{connected}: {calls:?}");
        assert!(limiter.check("k").id("1").supported().is_ok());
        let _ = limiter.store().connect().await.unwrap();
    }
}

#[tokio::test]
async fn callers_wait_together_for_one_attempt_also_if_its_first_one_goes_away() {
    let (attempts, connected) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (tried, wakes) = (Arc::clone(&attempts), Arc::clone(&connected));
    let store = Lazy::new(move || {
        let attempt = tried.fetch_add(1, Ordering::Relaxed);
        let connected = Arc::clone(&wakes);
        async move {
            connected.notified().await;
            match attempt {
                0 => Err(StoreError::new(ErrorKind::Unavailable, "no server")),
                _ => Ok(MemoryStore::new()),
            }
        }
    });
    let limiter = RateLimiter::new(store, ["a=gcra:5/1h"]).unwrap();
    let calls = || {
        [(); 3].map(|()| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.check("alice").await.map(drop) })
        })
    };
    for (attempt, expected) in [Some(ErrorKind::Unavailable), None].into_iter().enumerate() {
        let [first, second, third] = calls();
        tokio::task::yield_now().await;
        first.abort();
        assert!(first.await.is_err());
        connected.notify_one();
        for waits in [second, third] {
            let error = waits.await.unwrap().err();
            assert_eq!(error.map(|error| error.kind()), expected);
        }
        assert_eq!(attempts.load(Ordering::Relaxed), attempt + 1);
    }
}

#[tokio::test]
async fn a_caller_that_is_not_polled_keeps_no_error_for_others() {
    let attempts = AtomicUsize::new(0);
    let store = Lazy::new(|| {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            match attempt {
                0 => Err(StoreError::new(ErrorKind::Unavailable, "no server")),
                _ => Ok(MemoryStore::new()),
            }
        }
    });
    let mut left = pin!(store.connect());
    let mut context = Context::from_waker(Waker::noop());
    assert!(left.as_mut().poll(&mut context).is_pending());
    assert!(store.connect().await.is_err());
    assert!(store.connect().await.is_ok());
    assert!(left.await.is_err());
}

/// Its sockets and timers may stand still with its runtime.
#[test]
fn callers_of_another_runtime_connect_by_themselves() {
    let attempts = AtomicUsize::new(0);
    let store = Lazy::new(|| {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            if attempt == 0 {
                std::future::pending::<()>().await;
            }
            Ok(MemoryStore::new())
        }
    });
    let runtime = || Builder::new_current_thread().build().unwrap();
    let (idle, other) = (runtime(), runtime());
    let mut left = pin!(store.connect());
    let mut context = Context::from_waker(Waker::noop());
    idle.block_on(async { assert!(left.as_mut().poll(&mut context).is_pending()) });
    assert!(other.block_on(store.connect()).is_ok());
}

#[tokio::test]
async fn a_panic_is_an_error_of_one_attempt() {
    let attempts = AtomicUsize::new(0);
    let store = Lazy::new(|| {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            assert_ne!(attempt, 0, "no address");
            Ok(MemoryStore::new())
        }
    });
    let (first, second) = tokio::join!(store.connect(), store.connect());
    for failed in [first, second] {
        assert_eq!(failed.err().unwrap().kind(), ErrorKind::Unavailable);
    }
    assert!(store.connect().await.is_ok());
}
