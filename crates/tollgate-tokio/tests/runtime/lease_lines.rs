//! Acquisitions that wait: for their turn, for releases, and no longer than they should.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep};
use tollgate_core::lease::{self, ConcurrencyLimiter, NoLease};
use tollgate_memory::MemoryStore;
use tollgate_tokio::LeaseGuard;
use tollgate_tokio::lease::AcquireError;

use crate::guard::{TTL, Troubled, acquire, limiter};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

type Waiting = JoinHandle<Result<LeaseGuard, AcquireError>>;

/// Waits for a lease of this weight in a task, which has begun to when this returns.
async fn wait<S: lease::Store + 'static>(
    limiter: &ConcurrencyLimiter<S>,
    weight: u64,
    longest: Duration,
) -> Waiting {
    let limiter = limiter.clone();
    let waiting = tokio::spawn(async move {
        let call = LeaseGuard::acquire(&limiter, "alice").weight(weight);
        call.wait_up_to(longest).await
    });
    settle().await;
    waiting
}

/// Lets all tasks run for as long as they can without the clock.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn denied(outcome: Result<LeaseGuard, AcquireError>) -> NoLease {
    match outcome {
        Err(AcquireError::Denied(denied)) => denied,
        other => panic!("{other:?}"),
    }
}

/// A guard used like that of a mutex: each is given back before the next one is acquired.
#[test]
fn dropped_guards_are_given_back_before_the_next_acquisition() {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let one = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    for runtime in [threads.unwrap(), one.unwrap()] {
        runtime.block_on(async {
            let store = Arc::new(MemoryStore::new());
            let limiter = ConcurrencyLimiter::new(store, "uploads", 1, TTL).unwrap();
            let mut granted = 0;
            for turn in 0..100 {
                let acquired = LeaseGuard::acquire(&limiter, "alice").await.unwrap();
                granted += u32::from(acquired.is_ok());
                if let (Ok(guard), 0) = (acquired, turn % 2) {
                    guard.release().await.unwrap();
                }
            }
            assert_eq!(granted, 100);
        });
    }
}

/// What was dropped later than the acquisition began is not waited for, nor what was lost.
#[tokio::test(start_paused = true)]
async fn acquisition_waits_for_releases_that_have_begun_only() {
    let store = Troubled::new();
    let limiter = limiter(&store, 2);
    let (first, second) = (acquire(&limiter).await, acquire(&limiter).await);
    store.delays.store(true, Ordering::SeqCst);
    drop(first);
    settle().await;
    let acquiring = tokio::spawn({
        let limiter = limiter.clone();
        async move { LeaseGuard::acquire(&limiter, "alice").await }
    });
    settle().await;
    assert!(!acquiring.is_finished());
    store.arrive.notify_one();
    settle().await;
    assert!(acquiring.await.unwrap().unwrap().is_ok());
    // Another key waits for nothing.
    store.delays.store(true, Ordering::SeqCst);
    drop(second);
    settle().await;
    let other = LeaseGuard::acquire(&limiter, "bob");
    let other = other.into_future().now_or_never();
    assert!(other.is_none(), "it asks in a task of its own");
    settle().await;
    let found = limiter.peek("bob").await.unwrap().held();
    assert_eq!(found, 0, "and is given back");
}

#[tokio::test(start_paused = true)]
async fn first_come_is_first_served_whatever_the_weights() {
    let store = Troubled::new();
    let limiter = limiter(&store, 2);
    let (one, two) = (acquire(&limiter).await, acquire(&limiter).await);
    let heavy = wait(&limiter, 2, TTL).await;
    let light = wait(&limiter, 1, TTL).await;
    let began = Instant::now();
    drop(one);
    settle().await;
    assert!(!heavy.is_finished() && !light.is_finished());
    drop(two);
    settle().await;
    assert!(heavy.is_finished() && !light.is_finished());
    drop(heavy.await.unwrap().unwrap());
    settle().await;
    assert!(light.is_finished());
    // At once: no time has passed.
    assert_eq!(Instant::now(), began);
}

/// A hundred wait for one place. Only the first one asks, and each is served as soon as the one
/// before it is done.
#[tokio::test(start_paused = true)]
async fn one_release_wakes_one_of_many() {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    let mut held = acquire(&limiter).await;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        waiting.push(wait(&limiter, 1, 100 * TTL).await);
    }
    // One acquisition was granted, and one was denied.
    assert_eq!(store.calls.load(Ordering::SeqCst), 2);
    for (turn, next) in waiting.into_iter().enumerate() {
        drop(held);
        settle().await;
        held = next.now_or_never().expect("it was woken").unwrap().unwrap();
        // The release, and the acquisition of the next one, whose successor asks once.
        let calls = store.calls.load(Ordering::SeqCst);
        assert!(calls <= 2 + 4 * (turn + 1), "{calls} calls after {turn}");
    }
}

/// Other processes hold the lease: it ends by itself, or is released without a word.
#[tokio::test(start_paused = true)]
async fn first_in_line_asks_when_a_lease_ends_and_once_a_second() {
    let store = Troubled::new();
    let (limiter, elsewhere) = (limiter(&store, 1), limiter(&store, 1));
    let ends = elsewhere.acquire("alice", "dead").await.unwrap();
    assert!(ends.is_granted());
    sleep(TTL - SECOND / 2).await;
    let waiting = wait(&limiter, 1, TTL).await;
    let began = Instant::now();
    let guard = waiting.await.unwrap().unwrap();
    let elapsed = began.elapsed();
    assert!(elapsed <= SECOND / 2 + 2 * MS, "{elapsed:?}");
    guard.release().await.unwrap();

    let held = elsewhere.acquire("alice", "other").await.unwrap();
    let lease = held.permit().unwrap();
    let waiting = wait(&limiter, 1, TTL).await;
    let calls = store.calls.load(Ordering::SeqCst);
    sleep(10 * SECOND + SECOND / 2).await;
    assert_eq!(store.calls.load(Ordering::SeqCst) - calls, 10);
    elsewhere.release("alice", &lease).await.unwrap();
    sleep(SECOND).await;
    assert!(waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn deadline_refuses_with_the_last_denial() {
    let store = Troubled::new();
    let limiter = limiter(&store, 3);
    let held = LeaseGuard::acquire(&limiter, "alice").weight(3).await;
    let held = held.unwrap().unwrap();
    let began = Instant::now();
    let first = wait(&limiter, 1, 5 * SECOND).await;
    let second = wait(&limiter, 1, 2 * SECOND).await;
    let denied_second = denied(second.await.unwrap());
    assert!(began.elapsed() <= 2 * SECOND + MS, "{:?}", began.elapsed());
    assert_eq!((denied_second.held(), denied_second.amount()), (3, 3));
    let denied_first = denied(first.await.unwrap());
    assert!(began.elapsed() <= 5 * SECOND + MS, "{:?}", began.elapsed());
    assert_eq!(denied_first.held(), 3);
    // What never fits does not wait, and no time to wait is one question.
    let heavy = LeaseGuard::acquire(&limiter, "alice");
    let heavy = heavy.weight(4).wait_up_to(TTL);
    let before = Instant::now();
    assert!(denied(heavy.await).ends_within().is_never());
    assert_eq!(Instant::now(), before);
    let calls = store.calls.load(Ordering::SeqCst);
    let at_once = LeaseGuard::acquire(&limiter, "alice").wait_up_to(Duration::ZERO);
    assert_eq!(denied(at_once.await).held(), 3);
    assert_eq!(store.calls.load(Ordering::SeqCst), calls + 1);
    drop(held);
    let at_once = LeaseGuard::acquire(&limiter, "alice").wait_up_to(Duration::ZERO);
    assert!(at_once.await.unwrap().is_held());
}

/// Whoever is not first asks at its deadline if the store has not answered the first one.
#[tokio::test(start_paused = true)]
async fn deadline_is_kept_while_the_first_one_has_no_answer() {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    store.delays.store(true, Ordering::SeqCst);
    let first = wait(&limiter, 1, TTL).await;
    let second = wait(&limiter, 1, 2 * SECOND).await;
    advance(2 * SECOND - MS).await;
    settle().await;
    assert!(!second.is_finished());
    advance(2 * MS).await;
    settle().await;
    assert!(second.is_finished() && !first.is_finished());
    assert!(second.await.unwrap().unwrap().is_held());
}

/// Whoever leaves takes no place along, wherever it stood, and the next one takes its turn.
#[tokio::test(start_paused = true)]
async fn callers_that_leave_hand_their_turn_on() {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    let held = acquire(&limiter).await;
    let first = wait(&limiter, 1, TTL).await;
    let middle = wait(&limiter, 1, TTL).await;
    let last = wait(&limiter, 1, TTL).await;
    middle.abort();
    // The first one leaves just when it was woken, before it asks, and the place goes to the last.
    drop(held);
    first.abort();
    settle().await;
    let held = last.now_or_never().expect("it was woken").unwrap().unwrap();
    held.release().await.unwrap();
    // One leaves after the store granted it a lease, and before it was told: that is given back.
    let elsewhere = self::limiter(&store, 1);
    let other = elsewhere.acquire("alice", "other").await.unwrap();
    let other = other.permit().unwrap();
    let leaves = wait(&limiter, 1, TTL).await;
    let stays = wait(&limiter, 1, TTL).await;
    elsewhere.release("alice", &other).await.unwrap();
    store.answers_late.store(true, Ordering::SeqCst);
    advance(SECOND).await;
    settle().await;
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 1);
    leaves.abort();
    settle().await;
    assert!(!stays.is_finished());
    let began = Instant::now();
    store.arrive.notify_one();
    settle().await;
    assert!(stays.is_finished());
    assert_eq!(Instant::now(), began);
    drop(stays.await.unwrap().unwrap());
    settle().await;
    assert_eq!(limiter.peek("alice").await.unwrap().held(), 0);
}

#[tokio::test(start_paused = true)]
async fn too_many_waiting_are_refused_at_once() {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    let held = acquire(&limiter).await;
    let waiting = [wait(&limiter, 1, TTL).await, wait(&limiter, 1, TTL).await];
    let calls = store.calls.load(Ordering::SeqCst);
    let acquire_one = || {
        LeaseGuard::acquire(&limiter, "alice")
            .wait_up_to(TTL)
            .most_waiting(2)
    };
    let error = acquire_one().await.unwrap_err();
    let holds = matches!(error, AcquireError::TooManyWaiting { most: 2 });
    assert!(holds, "{error}");
    assert_eq!(
        error.to_string(),
        "2 acquisitions wait for a lease of this key already: try again later, or let more of them \
         wait with `most_waiting`"
    );
    assert_eq!(store.calls.load(Ordering::SeqCst), calls);
    // Other keys have lines of their own, and whoever leaves makes room.
    let other = LeaseGuard::acquire(&limiter, "bob");
    let other = other.wait_up_to(TTL).most_waiting(1);
    assert!(other.await.is_ok());
    waiting[1].abort();
    settle().await;
    let third = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            let call = LeaseGuard::acquire(&limiter, "alice").wait_up_to(TTL);
            call.most_waiting(2).await
        }
    });
    settle().await;
    assert!(!third.is_finished());
    drop(held);
    settle().await;
    assert!(waiting[0].is_finished());
}

/// A release through the limiter itself, and a reset, wake the first in line, too.
#[tokio::test(start_paused = true)]
async fn releases_without_a_guard_and_resets_wake_the_first_in_line() {
    let store = Troubled::new();
    let limiter = limiter(&store, 1);
    let lease = limiter.acquire("alice", "by-hand").await.unwrap();
    let lease = lease.permit().unwrap();
    let waiting = wait(&limiter, 1, TTL).await;
    let began = Instant::now();
    limiter.release("alice", &lease).await.unwrap();
    settle().await;
    let _held = waiting.now_or_never().expect("it was woken");
    let _held = _held.unwrap().unwrap();
    let waiting = wait(&limiter, 1, TTL).await;
    limiter.reset("alice").await.unwrap();
    settle().await;
    assert!(waiting.is_finished());
    assert_eq!(Instant::now(), began);
}
