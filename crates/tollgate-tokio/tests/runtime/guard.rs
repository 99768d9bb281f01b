//! A guard renews its lease, releases it, and reports its loss before anyone else can hold it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::{Instant, advance, sleep, timeout};
use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{self, ConcurrencyLimiter};
use tollgate_core::{ErrorKind, Key, StoreError, Timestamp};
use tollgate_memory::{Clock, ManualClock, MemoryStore};
use tollgate_tokio::LeaseGuard;

use crate::clock::TokioClock;
use crate::{arrives, paused};

pub(crate) const TTL: Duration = Duration::from_secs(30);
const US: Duration = Duration::from_micros(1);

/// A store whose calls fail, hang, wait or lose their replies while a test says so.
pub(crate) struct Troubled {
    pub(crate) store: MemoryStore,
    fails: AtomicBool,
    hangs: AtomicBool,
    loses: AtomicUsize,
    /// How many calls fail before they reach the store, although the caller cannot know.
    drops: AtomicUsize,
    /// Whether the next call waits for `arrive`.
    pub(crate) delays: AtomicBool,
    /// Whether the answer to the next call waits for `arrive`.
    pub(crate) answers_late: AtomicBool,
    pub(crate) arrive: Notify,
    pub(crate) calls: AtomicUsize,
}

impl Troubled {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::builder().clock(TokioClock::new()).build(),
            fails: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            loses: AtomicUsize::new(0),
            drops: AtomicUsize::new(0),
            answers_late: AtomicBool::new(false),
            delays: AtomicBool::new(false),
            arrive: Notify::new(),
            calls: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl lease::Store for Troubled {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::new(ErrorKind::Unavailable, "down"));
        }
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.delays.swap(false, Ordering::SeqCst) {
            self.arrive.notified().await;
        }
        if self.drops.load(Ordering::SeqCst) > 0 {
            return arrives(Ok(lease::Answer::Released(false)), &self.drops);
        }
        let answer = self.store.lease_now(&request);
        if self.answers_late.swap(false, Ordering::SeqCst) {
            self.arrive.notified().await;
        }
        arrives(answer, &self.loses)
    }

    async fn reset_leases<'a>(
        &'a self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.store.reset_leases_now(terms, key)
    }
}

pub(crate) fn limiter(store: &Arc<Troubled>, amount: u64) -> ConcurrencyLimiter<Arc<Troubled>> {
    ConcurrencyLimiter::new(Arc::clone(store), "uploads", amount, TTL).unwrap()
}

/// Acquires a lease for "alice".
pub(crate) async fn acquire<S>(limiter: &ConcurrencyLimiter<S>) -> LeaseGuard
where
    S: lease::Store + 'static,
{
    LeaseGuard::acquire(limiter, "alice")
        .await
        .unwrap()
        .unwrap()
}

/// Returns a store, the limiter of one lease on it, and the guard that holds that.
async fn held() -> (Arc<Troubled>, ConcurrencyLimiter<Arc<Troubled>>, LeaseGuard) {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    let guard = acquire(&limiter).await;
    (store, limiter, guard)
}

/// Advances the clock in steps that let the background task run.
async fn pass(time: Duration) {
    let steps = 300;
    for _ in 0..steps {
        advance(time / steps).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_lease_is_renewed_for_as_long_as_the_guard_lives() {
    let (_, limiter, guard) = held().await;
    for _ in 0..10 {
        pass(TTL).await;
        assert!(guard.is_held());
        let denied = LeaseGuard::acquire(&limiter, "alice");
        let denied = denied.await.unwrap().unwrap_err();
        assert_eq!((denied.held(), denied.amount()), (1, 1));
    }
    drop(guard);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_no_more_often_than_needed() {
    let (store, _, _guard) = held().await;
    pass(10 * TTL).await;
    let calls = store.calls.load(Ordering::SeqCst);
    let holds = (28..=32).contains(&calls);
    assert!(holds, "{calls} calls in ten times to live");
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_the_store() {
    let store = Troubled::new();
    let limiter = limiter(&store, 3);
    let guard = LeaseGuard::acquire(&limiter, "alice");
    let guard = guard.weight(2).await.unwrap().unwrap();
    assert_eq!(guard.lease().weight(), 2);
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 2);
    assert!(guard.release().await.unwrap());
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 0);
    let guard = acquire(&limiter).await;
    limiter.reset("alice").await.unwrap();
    assert!(!guard.release().await.unwrap());
    let guard = acquire(&limiter).await;
    store.fails.store(true, Ordering::SeqCst);
    let found = guard.release().await.unwrap_err().kind();
    assert_eq!(found, ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_not_there_to_be_released() {
    let (store, _, guard) = held().await;
    store.fails.store(true, Ordering::SeqCst);
    pass(2 * TTL).await;
    let asked = store.calls.load(Ordering::SeqCst);
    assert!(!guard.release().await.unwrap());
    assert_eq!(store.calls.load(Ordering::SeqCst), asked);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_told_before_anyone_else_can_hold_it() {
    for hangs in [false, true] {
        let (store, limiter, guard) = held().await;
        let ends = guard.lease().expires_at();
        let trouble = if hangs { &store.hangs } else { &store.fails };
        trouble.store(true, Ordering::SeqCst);
        let told = timeout(2 * TTL, guard.lost()).await;
        assert!(told.is_ok(), "the holder was not told");
        let other = store.store.lease_now(&lease::Request::new(
            limiter.terms(),
            "alice",
            lease::Operation::Acquire {
                id: b"other",
                weight: 1,
            },
        ));
        // At this very instant, nobody else gets it yet.
        let lease::Answer::Acquired(acquisition) = other.unwrap() else {
            panic!("another answer");
        };
        let holds = !acquisition.is_granted();
        assert!(holds, "told too late: it ended at {ends:?}");
        assert!(!guard.is_held());
        assert_eq!(guard.deadline(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_no_lease() {
    let (store, _, guard) = held().await;
    pass(TTL / 4).await;
    store.fails.store(true, Ordering::SeqCst);
    pass(TTL / 2).await;
    store.fails.store(false, Ordering::SeqCst);
    pass(2 * TTL).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn protected_work_is_dropped_when_the_lease_is_lost() {
    let (store, _, guard) = held().await;
    let done = guard.protect(async {
        sleep(3 * TTL).await;
        7
    });
    assert_eq!(done.await, Ok(7));
    store.fails.store(true, Ordering::SeqCst);
    let lost = guard.protect(sleep(3 * TTL)).await;
    assert!(lost.is_err(), "it ran without a lease");
    // Work that is ready is not run without a lease either.
    assert!(guard.protect(std::future::ready(1)).await.is_err());
}

/// A limiter and a guard in real time, with a short time to live.
async fn short() -> (ConcurrencyLimiter<MemoryStore>, LeaseGuard) {
    let ttl = Duration::from_millis(60);
    let limiter = ConcurrencyLimiter::new(MemoryStore::new(), "uploads", 1, ttl).unwrap();
    let guard = LeaseGuard::acquire(&limiter, "alice").await.unwrap();
    (limiter, guard.unwrap())
}

/// Keeps the thread, so that the background task does not run, until the lease is over.
fn block() {
    std::thread::sleep(Duration::from_millis(120));
}

#[tokio::test]
async fn protected_work_is_not_begun_once_the_time_is_over() {
    let (_, guard) = short().await;
    block();
    let begun = AtomicBool::new(false);
    let work = async { begun.store(true, Ordering::SeqCst) };
    assert!(guard.protect(work).await.is_err());
    assert!(!begun.into_inner(), "it ran without a lease");
}

#[tokio::test]
async fn protected_work_that_blocks_beyond_the_lease_is_not_done() {
    let (limiter, guard) = short().await;
    let work = async {
        block();
        limiter.acquire("alice", "other").run().unwrap()
    };
    assert!(guard.protect(work).await.is_err());
    assert!(
        !limiter
            .acquire("alice", "third")
            .run()
            .unwrap()
            .is_granted()
    );
}

#[tokio::test]
async fn protected_work_is_not_woken_once_the_time_is_over() {
    let (_, guard) = short().await;
    let (wake, woken) = tokio::sync::oneshot::channel();
    let ran = AtomicBool::new(false);
    let work = async {
        woken.await.unwrap();
        ran.store(true, Ordering::SeqCst);
    };
    let blocking = async {
        block();
        wake.send(()).unwrap();
    };
    let (done, ()) = tokio::join!(guard.protect(work), blocking);
    assert!(done.is_err());
    assert!(!ran.into_inner(), "it ran without a lease");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_takes_no_second_place() {
    let store = Troubled::new();
    let limiter = limiter(&store, 2);
    store.loses.store(2, Ordering::SeqCst);
    let guard = acquire(&limiter).await;
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 1);
    assert!(guard.is_held());
    store.loses.store(3, Ordering::SeqCst);
    let error = LeaseGuard::acquire(&limiter, "alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_believes_in_nothing() {
    let (_, _, guard) = held().await;
    let deadline = guard.deadline().unwrap();
    let left = deadline - Instant::now();
    assert_eq!(left, TTL - TTL / 1_000);
    // No task runs meanwhile, as if the process had been stopped.
    let _ = advance(left - US).now_or_never();
    assert!(guard.is_held());
    let _ = advance(US).now_or_never();
    assert_eq!(Instant::now(), deadline);
    assert!(!guard.is_held());
    assert_eq!(guard.deadline(), Some(deadline));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_until_its_deadline_and_not_from_then_on() {
    for early in [US, Duration::ZERO] {
        let (store, _, guard) = held().await;
        let deadline = guard.deadline().unwrap();
        // The background task runs for the first time then, although it wanted to run earlier.
        let late = deadline - early;
        advance(late - Instant::now()).await;
        assert_eq!(Instant::now(), late);
        tokio::task::yield_now().await;
        let renewed = (early > Duration::ZERO).then(|| late + TTL - TTL / 1_000);
        assert_eq!(guard.deadline(), renewed);
        // It asks for nothing that it would not use.
        let calls = store.calls.load(Ordering::SeqCst);
        assert_eq!(calls, 1 + usize::from(renewed.is_some()));
    }
}

/// The background task is not run between the end of the lease and the answer to a renewal.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_is_never_held_again() {
    for early in [US, Duration::ZERO] {
        let (store, limiter, guard) = held().await;
        let deadline = guard.deadline().unwrap();
        store.delays.store(true, Ordering::SeqCst);
        advance(TTL / 2).await;
        tokio::task::yield_now().await;
        let found = store.calls.load(Ordering::SeqCst);
        assert_eq!(found, 2, "a renewal is on its way");
        let late = deadline - early;
        let _ = advance(late - Instant::now()).now_or_never();
        assert_eq!(guard.is_held(), early > Duration::ZERO);
        store.arrive.notify_one();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(guard.is_held(), early > Duration::ZERO);
        assert_eq!(guard.deadline().is_some(), early > Duration::ZERO);
        // What nobody holds is free for others, long before it ends by itself.
        let held = limiter.peek("alice").await.unwrap().held();
        assert_eq!(held, u64::from(early > Duration::ZERO));
    }
}

/// The store executes a renewal in time, and answers it too late.
#[tokio::test(start_paused = true)]
async fn renewal_that_is_answered_too_late_is_given_back() {
    let (store, limiter, guard) = held().await;
    let deadline = guard.deadline().unwrap();
    store.answers_late.store(true, Ordering::SeqCst);
    advance(TTL / 2).await;
    tokio::task::yield_now().await;
    advance(deadline - Instant::now()).await;
    timeout(US, guard.lost()).await.expect("the time is over");
    // By the store's clock, the lease lasts for another half of its time to live.
    sleep(TTL / 1_000).await;
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 1);
    store.arrive.notify_one();
    sleep(US).await;
    assert!(!guard.is_held());
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 0);
}

/// The same if nobody ever learns what the store did.
#[tokio::test(start_paused = true)]
async fn renewal_whose_reply_was_lost_is_given_back() {
    let (store, limiter, guard) = held().await;
    store.loses.store(1_000, Ordering::SeqCst);
    timeout(TTL, guard.lost()).await.expect("the time is over");
    store.loses.store(0, Ordering::SeqCst);
    // The last renewal was up to a twentieth of the time ago.
    sleep(TTL / 100).await;
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 0);
}

/// The same if later renewals certainly did nothing.
#[tokio::test(start_paused = true)]
async fn renewal_whose_reply_was_lost_is_given_back_whatever_failed_after_it() {
    let (store, _, guard) = held().await;
    let deadline = guard.deadline().unwrap();
    store.loses.store(1, Ordering::SeqCst);
    sleep(TTL / 3).await;
    assert_eq!(store.loses.load(Ordering::SeqCst), 0);
    store.fails.store(true, Ordering::SeqCst);
    sleep(deadline - Instant::now() - TTL / 100).await;
    let calls = store.calls.load(Ordering::SeqCst);
    assert!(calls > 3, "{calls} calls");
    timeout(TTL, guard.lost()).await.expect("the time is over");
    sleep(US).await;
    assert_eq!(store.calls.load(Ordering::SeqCst), calls + 1);
}

/// The guard counts from the question: the store may have decided at once, and answered late.
#[tokio::test(start_paused = true)]
async fn lease_is_counted_from_the_question() {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    let asked = Instant::now();
    store.answers_late.store(true, Ordering::SeqCst);
    let acquiring = tokio::spawn({
        let limiter = limiter.clone();
        async move { LeaseGuard::acquire(&limiter, "alice").await }
    });
    sleep(TTL / 4).await;
    store.arrive.notify_one();
    let guard = acquiring.await.unwrap().unwrap().unwrap();
    assert_eq!(Instant::now(), asked + TTL / 4);
    assert_eq!(guard.deadline(), Some(asked + TTL - TTL / 1_000));
}

#[tokio::test(start_paused = true)]
async fn repeated_acquisition_asks_for_the_same_weight() {
    let store = Troubled::new();
    let limiter = limiter(&store, 3);
    store.drops.store(1, Ordering::SeqCst);
    let guard = LeaseGuard::acquire(&limiter, "alice").weight(2).await;
    let guard = guard.unwrap().unwrap();
    assert_eq!(store.calls.load(Ordering::SeqCst), 2);
    assert_eq!(guard.lease().weight(), 2);
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 2);
}

/// After the store's clock has stepped back, the guard relies on a time to live, and renews as often
/// as ever.
#[tokio::test(start_paused = true)]
async fn clock_that_stepped_back_makes_no_lease_longer() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::builder().clock(clock.clone()).build());
    let limiter = ConcurrencyLimiter::new(store, "uploads", 1, TTL).unwrap();
    let before = LeaseGuard::acquire(&limiter, "alice").await.unwrap();
    before.unwrap().release().await.unwrap();
    let hour = Duration::from_secs(3_600);
    clock.set(Timestamp::from_micros(clock.now().as_micros() - 3_600_000_000).unwrap());
    let guard = acquire(&limiter).await;
    let lasts = TTL - TTL / 1_000;
    assert_eq!(guard.deadline(), Some(Instant::now() + lasts));
    assert!(guard.lease().expires_at() > clock.now().saturating_add(hour));
    // It is renewed after a third, and learns that it was reset.
    limiter.reset("alice").await.unwrap();
    let told = timeout(TTL * 2 / 5, guard.lost()).await;
    assert!(told.is_ok(), "it was not renewed");
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_certainly_failed_is_not_repeated() {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    store.fails.store(true, Ordering::SeqCst);
    let error = LeaseGuard::acquire(&limiter, "alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(store.calls.load(Ordering::SeqCst), 1);
}

/// Returns a runtime, and a guard that was acquired on it.
fn guard_of_a_runtime() -> (Runtime, Arc<Troubled>, LeaseGuard) {
    let runtime = paused();
    let (store, _, guard) = runtime.block_on(held());
    (runtime, store, guard)
}

#[test]
fn a_guard_outlives_its_runtime() {
    let (runtime, _, guard) = guard_of_a_runtime();
    drop(runtime);
    assert!(guard.is_held());
    drop(guard);
}

#[test]
fn nobody_knows_of_a_release_whose_runtime_has_ended() {
    for begins in [false, true] {
        let (runtime, store, guard) = guard_of_a_runtime();
        let mut release = Box::pin(guard.release());
        if begins {
            store.hangs.store(true, Ordering::SeqCst);
            let answer = runtime.block_on(async { timeout(TTL / 10, &mut release).await });
            assert!(answer.is_err(), "{answer:?}");
        }
        assert_eq!(store.calls.load(Ordering::SeqCst), 1 + usize::from(begins));
        drop(runtime);
        let error = release.now_or_never().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown);
        assert!(error.to_string().contains("the runtime ended"), "{error}");
    }
}
