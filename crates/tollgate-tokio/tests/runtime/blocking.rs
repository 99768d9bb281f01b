//! `Blocking` around stores that never answer, panic, or are called from everywhere.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::Barrier;
use tokio::time::sleep;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, Key, RateLimiter, Store, StoreError};
use tollgate_memory::MemoryStore;
use tollgate_tokio::Blocking;

/// Answers a call for `together` once two are waiting, and one for `late` when the thread is free again; panics for
/// `panics`, and never answers for `silent`.
struct Slow {
    store: MemoryStore,
    together: Barrier,
}

#[async_trait]
impl Store for Slow {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        // Tasks run on the thread of the store, and wake the caller from there.
        let task = tokio::spawn(sleep(Duration::from_millis(1)));
        task.await
            .map_err(|_| StoreError::new(ErrorKind::Unavailable, "ended"))?;
        let key = request.checks()[0].key();
        if key == Key::from("together") {
            self.together.wait().await;
        }
        if key == Key::from("late") {
            // Keeps the thread busy; the answer then needs some more turns.
            let _ = tokio::spawn(async { thread::sleep(Duration::from_millis(300)) }).await;
            for _ in 0..5 {
                let _ = tokio::spawn(sleep(Duration::from_millis(1))).await;
            }
        }
        assert_ne!(key, Key::from("panics"), "on purpose");
        if key == Key::from("silent") {
            std::future::pending().await
        }
        self.store.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

fn limiter(deadline: Duration) -> RateLimiter<Blocking<Slow>> {
    let (store, together) = (MemoryStore::new(), Barrier::new(2));
    let store = Blocking::connect(async { Ok(Slow { store, together }) }).unwrap();
    RateLimiter::new(store.deadline(deadline), ["api=sliding-log:1/1h"]).unwrap()
}

#[test]
fn calls_of_several_threads_are_in_flight_together() {
    let limiter = limiter(Duration::from_secs(60));
    let admitted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let decision = limiter.check("together").run().unwrap();
                admitted.fetch_add(decision.is_allowed().into(), Ordering::SeqCst)
            });
        }
    });
    assert_eq!(admitted.into_inner(), 1);
    limiter.reset("together").run().unwrap();
    assert!(limiter.check("other").run().unwrap().is_allowed());
}

#[test]
fn a_store_that_does_not_answer_fails_the_call_and_a_panic_no_other_call() {
    let limiter = limiter(Duration::from_millis(50));
    let error = limiter.check("silent").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert_eq!(
        error.to_string(),
        "the store did not answer within 50ms: the call may have been counted"
    );
    let panics = AssertUnwindSafe(|| limiter.check("panics").run().is_ok());
    assert!(catch_unwind(panics).is_err());
    let limiter = limiter.clone();
    assert!(limiter.check("alice").run().unwrap().is_allowed());
}

#[test]
fn a_program_that_is_late_itself_still_gets_the_answer() {
    let limiter = limiter(Duration::from_millis(50));
    assert!(limiter.check("late").run().unwrap().is_allowed());
}

/// In a task, Tokio makes futures yield after some calls. Nothing else may run meanwhile here.
#[tokio::test(flavor = "current_thread")]
async fn calls_in_async_code_block_and_end() {
    let limiter = limiter(Duration::from_secs(60));
    let denied = (0..300).filter(|_| limiter.check("alice").run().unwrap().is_denied());
    assert_eq!(denied.count(), 299);
    assert!(limiter.check("bob").await.unwrap().is_allowed());
    drop(limiter);
}

#[test]
fn a_store_that_cannot_be_made_is_an_error() {
    let refused = StoreError::new(ErrorKind::Misconfigured, "no such user");
    let connecting = async { Err::<MemoryStore, _>(refused) };
    let error = Blocking::connect(connecting).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

#[test]
fn the_thread_ends_when_the_store_is_dropped() {
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let store = Blocking::connect(async {
        // Dropped with the runtime.
        tokio::spawn(async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        });
        Ok(MemoryStore::new())
    });
    let begun = Instant::now();
    drop(store.unwrap());
    let _ = end.recv_timeout(Duration::from_secs(60)).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(60));
}
