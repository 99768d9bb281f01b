//! What calls cost, and what becomes of them if the database or their callers fail.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{advance, sleep, timeout};
use tollgate_cas::{
    CasStore, Change, ErrorKind, RateLimiter, Row, Rows, Snapshot, StoreError, Timestamp,
};

use super::{Held, make};

const MS: Duration = Duration::from_millis(1);

/// A table a millisecond away, which counts its calls.
#[derive(Default)]
struct Table {
    rows: Held,
    reads: AtomicUsize,
    replaces: AtomicUsize,
    /// The most rows that were read at once.
    most: AtomicUsize,
    /// Whether reads, and changes, are answered.
    is_deaf: Mutex<(bool, bool)>,
    /// How many more changes others are faster than.
    faster: AtomicUsize,
    /// The next change is not answered, but made: now, and again when a test says so.
    loses: Mutex<bool>,
    lost: Mutex<Vec<Change>>,
    /// How many reads fail after that.
    down: AtomicUsize,
    /// By how much the clock was stepped, in microseconds.
    stepped: AtomicU64,
    sweeps: AtomicUsize,
}

#[async_trait]
impl Rows for Table {
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(keys.len(), Ordering::SeqCst);
        let is_deaf = self.is_deaf.lock().unwrap().0;
        if is_deaf {
            pending::<()>().await;
        }
        sleep(MS).await;
        let is_lost = !self.lost.lock().unwrap().is_empty();
        if is_lost && self.down.load(Ordering::SeqCst) > 0 {
            let _ = self.down.fetch_sub(1, Ordering::SeqCst);
            return Err(StoreError::new(ErrorKind::Unavailable, "down"));
        }
        let rows = self.rows.lock().unwrap();
        let rows = keys.iter().map(|key| rows.get(key).cloned()).collect();
        let stepped = self.stepped.load(Ordering::SeqCst);
        let now = Timestamp::saturating_from_micros(1_800_000_000_000_000 + stepped);
        Ok(Snapshot { rows, now })
    }

    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError> {
        self.replaces.fetch_add(1, Ordering::SeqCst);
        let is_deaf = self.is_deaf.lock().unwrap().1;
        if is_deaf {
            pending::<()>().await;
        }
        let less = |faster: usize| faster.checked_sub(1);
        let faster = self
            .faster
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if faster.is_ok() {
            return Ok(false);
        }
        sleep(MS).await;
        let loses = std::mem::take(&mut *self.loses.lock().unwrap());
        if loses {
            *self.lost.lock().unwrap() = changes.to_vec();
        }
        let made = make(&self.rows, changes);
        if loses {
            sleep(10 * MS).await;
            return Err(StoreError::new(ErrorKind::Unknown, "lost"));
        }
        Ok(made)
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        self.sweeps.fetch_add(1, Ordering::SeqCst);
        pending().await
    }
}

impl Table {
    /// Returns how many reads and changes there were since this was last asked.
    fn counts(&self) -> (usize, usize) {
        let of = |count: &AtomicUsize| count.swap(0, Ordering::SeqCst);
        (of(&self.reads), of(&self.replaces))
    }
}

type Limiter = RateLimiter<CasStore<Arc<Table>>>;

fn limiter(limits: &[&str]) -> (Arc<Table>, Limiter) {
    let table = Arc::new(Table::default());
    let store = CasStore::new(Arc::clone(&table)).deadline(100 * MS);
    (
        table,
        RateLimiter::new(store, limits.iter().copied()).unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_takes_one_round_trip_and_all_else_two() {
    let (table, limiter) = limiter(&["a=sliding-log:2/1m", "ban=block:1m"]);
    for counts in [(1, 1), (1, 1), (1, 0)] {
        let decision = limiter.check("alice").await.unwrap();
        assert_eq!(decision.is_allowed(), counts.1 == 1);
        assert_eq!(table.counts(), counts);
    }
    limiter.peek("alice").await.unwrap().permit().unwrap_err();
    assert_eq!(table.counts(), (1, 0));
    for counts in [(1, 1), (1, 0)] {
        let call = limiter.check("bob").id("order-1");
        call.await.unwrap().permit().unwrap();
        assert_eq!(table.counts(), counts);
    }
    limiter.reset("bob").await.unwrap();
    assert_eq!(table.counts(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_key_are_decided_together_and_exactly() {
    let (table, limiter) = limiter(&["a=sliding-log:700/1h"]);
    let mut calls = JoinSet::new();
    for _ in 0..1_000 {
        let limiter = limiter.clone();
        calls.spawn(async move { limiter.check("alice").await.unwrap().is_allowed() });
    }
    let allowed = calls.join_all().await.into_iter().filter(|is| *is).count();
    assert_eq!(allowed, 700);
    let (reads, replaces) = table.counts();
    assert!(reads <= 3 && replaces <= 2, "{reads}, {replaces}");
    // Each id has a row.
    let calls = (0..200_u8).map(|id| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            limiter
                .check("bob")
                .id(&[id][..])
                .await
                .unwrap()
                .is_allowed()
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
    let most = table.most.load(Ordering::SeqCst);
    assert!((50..=100).contains(&most), "{most}");
}

/// A caller that leaves is counted or not, and holds up nobody; one that is not polled neither.
#[tokio::test(start_paused = true)]
async fn callers_that_leave_or_stall_hold_up_nobody() {
    let (table, limiter) = limiter(&["a=sliding-log:100/1h"]);
    let mut stalled = Box::pin(limiter.check("alice").into_future());
    assert!(futures_poll(&mut stalled).await.is_none());
    let left = timeout(MS / 2, limiter.check("alice").into_future()).await;
    assert!(left.is_err());
    for _ in 0..10 {
        let decision = timeout(50 * MS, limiter.check("alice").into_future()).await;
        decision.unwrap().unwrap().permit().unwrap();
    }
    assert!(stalled.await.unwrap().is_allowed());
    let left = limiter.peek("alice").await.unwrap().remaining();
    assert!((88..=89).contains(&left), "{left}");
    let mut stalled = pin!(limiter.check("alice").into_future());
    begin(&mut stalled).await;
    // Each attempt would wait for the one that stalls, and others be faster meanwhile.
    table.faster.store(3, Ordering::SeqCst);
    let decision = timeout(60 * MS, limiter.check("alice").into_future()).await;
    decision.unwrap().unwrap().permit().unwrap();
}

#[test]
fn runtimes_that_end_or_rest_hold_up_nobody() {
    let (table, limiter) = limiter(&["a=sliding-log:100/1h"]);
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_time().start_paused(true);
    let [ends, rests, other] = [(); 3].map(|()| builder.build().unwrap());
    let check = || Box::pin(limiter.check("alice").into_future());
    // Its task is never polled.
    let mut call = check();
    ends.block_on(begin(&mut call));
    drop((call, ends));
    assert!(rests.block_on(check()).unwrap().is_allowed());
    // The runtime rests while rows are read, while a change is on its way, and while some are removed.
    for (is_deaf, kind) in [
        ((true, false), ErrorKind::Unavailable),
        ((false, true), ErrorKind::Unknown),
    ] {
        *table.is_deaf.lock().unwrap() = is_deaf;
        let mut first = check();
        let polled = rests.block_on(async { timeout(10 * MS, &mut first).await });
        assert!(polled.is_err());
        *table.is_deaf.lock().unwrap() = (false, false);
        assert!(other.block_on(check()).unwrap().is_allowed());
        assert_eq!(rests.block_on(first).unwrap_err().kind(), kind);
    }
    let mut first = check();
    assert!(rests.block_on(futures_poll(&mut first)).is_none());
    assert!(other.block_on(check()).unwrap().is_allowed());
    let decision = rests.block_on(first).unwrap();
    assert_eq!((decision.is_allowed(), decision.remaining()), (true, 95));
    for (runtime, later, sweeps) in [(rests, 0, 1), (other, 120, 2)] {
        runtime.block_on(advance(Duration::from_secs(later)));
        for _ in 0..2_000 {
            let peek = runtime.block_on(limiter.peek("alice").into_future());
            assert!(peek.unwrap().is_allowed());
        }
        assert_eq!(table.sweeps.load(Ordering::SeqCst), sweeps);
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_late_does_not_take_that_for_a_silent_database() {
    let (_, limiter) = limiter(&["a=sliding-log:100/1h"]);
    let late = limiter.clone();
    let call = tokio::spawn(async move { late.check("alice").await.map(|of| of.is_allowed()) });
    sleep(MS / 2).await;
    advance(300 * MS).await;
    assert!(call.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn only_so_much_is_told_and_done_as_is_so() {
    let (table, limiter) = limiter(&["a=sliding-log:100/1h"]);
    table.faster.store(usize::MAX, Ordering::SeqCst);
    let error = limiter.check("alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for _ in 0..2_000 {
        assert!(limiter.peek("alice").await.unwrap().is_allowed());
    }
    assert_eq!(table.sweeps.load(Ordering::SeqCst), 1);
}

/// A change whose reply is lost is found or unknown, whatever the clock does, and is not made late after another.
#[tokio::test(start_paused = true)]
async fn a_lost_change_counts_once_though_the_clock_steps_and_keys_are_reset() {
    let (table, limiter) = limiter(&["a=sliding-log:100/1h"]);
    let other = CasStore::new(Arc::clone(&table));
    let other = RateLimiter::new(other, ["a=sliding-log:100/1h"]).unwrap();
    *table.loses.lock().unwrap() = true;
    let late = limiter.clone();
    let call = tokio::spawn(async move { late.check("alice").await.map(|of| of.is_allowed()) });
    let same = limiter.clone();
    let peek = tokio::spawn(async move { same.peek("alice").await.map(|of| of.remaining()) });
    sleep(5 * MS).await;
    table.stepped.store(120_000_000, Ordering::SeqCst);
    other.check("alice").await.unwrap().permit().unwrap();
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
    // What changed nothing is decided again.
    assert_eq!(peek.await.unwrap().unwrap(), 98);
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 98);
    limiter.reset("alice").await.unwrap();
    let now = 1_800_000_120_000_000;
    table
        .rows
        .lock()
        .unwrap()
        .retain(|_, row| row.ends.as_micros() > now);
    assert!(
        !make(&table.rows, &table.lost.lock().unwrap()),
        "made again"
    );
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_lost_change_is_found_once_the_database_is_back() {
    let (table, limiter) = limiter(&["a=sliding-log:100/1h"]);
    for (down, kind) in [(5, None), (usize::MAX, Some(ErrorKind::Unknown))] {
        *table.loses.lock().unwrap() = true;
        table.lost.lock().unwrap().clear();
        table.down.store(down, Ordering::SeqCst);
        let call = limiter.check("alice").await;
        assert_eq!(call.err().map(|error| error.kind()), kind);
    }
    table.down.store(0, Ordering::SeqCst);
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 98);
}

/// Polls a future once, and nothing else.
async fn begin<F: Future + Unpin>(future: &mut F) {
    assert!(poll_fn(|at| Poll::Ready(pin!(&mut *future).poll(at).is_pending())).await);
}

/// Polls a future for a moment.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    timeout(Duration::ZERO, future).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_silent_is_an_error_in_time() {
    let (table, limiter) = limiter(&["a=sliding-log:100/1h"]);
    for (is_deaf, kind) in [
        ((true, false), ErrorKind::Unavailable),
        ((false, true), ErrorKind::Unknown),
    ] {
        *table.is_deaf.lock().unwrap() = is_deaf;
        let call = limiter.check("alice").into_future();
        let error = timeout(Duration::from_secs(1), call)
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        *table.is_deaf.lock().unwrap() = (false, false);
        limiter.check("alice").await.unwrap().permit().unwrap();
    }
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 98);
}

#[tokio::test(start_paused = true)]
async fn rows_that_no_store_wrote_are_errors_of_the_calls_that_need_them() {
    let (table, limiter) = limiter(&["a=sliding-log:100/1h", "b=sliding-log:900/1h"]);
    limiter.check("alice").await.unwrap().permit().unwrap();
    let rows = || table.rows.lock().unwrap();
    let whole = rows().values().next().unwrap().value.clone();
    let set = |value: &[u8]| {
        let values = |row: &mut Row| row.value = value.to_vec();
        rows().values_mut().for_each(values);
    };
    for length in 0..whole.len() {
        set(&whole[..length]);
        if let Err(error) = limiter.peek("alice").await {
            assert_eq!(error.kind(), ErrorKind::Protocol, "{length}: {error}");
        }
    }
    set(&[&[2], &whole[1..]].concat());
    let error = limiter.check("alice").await.unwrap_err();
    assert!(error.to_string().contains("newer version"), "{error}");
    // Nothing is reset if a row is damaged.
    set(&whole);
    let second = |value: &[u8]| rows().values_mut().nth(1).unwrap().value = value.to_vec();
    second(&[]);
    let error = limiter.reset("alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    second(&whole);
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 99);
    // Other calls of the batch are decided, also if a reply is lost.
    let call = |id| limiter.check("bob").id(id).into_future();
    call("x").await.unwrap().permit().unwrap();
    let damage = |(_, row): (_, &mut Row)| {
        row.value = b"other".to_vec();
        row.clone()
    };
    let damaged = rows()
        .iter_mut()
        .find(|(key, _)| key[0] == b'a')
        .map(damage);
    *table.loses.lock().unwrap() = true;
    let (x, y) = tokio::join!(call("x"), call("y"));
    assert_eq!(x.unwrap_err().kind(), ErrorKind::Protocol);
    assert_eq!(y.unwrap().remaining(), 98);
    assert!(rows().values().any(|row| Some(row) == damaged.as_ref()));
    assert_eq!(limiter.peek("bob").await.unwrap().remaining(), 98);
    // Nobody knows whether a change was made that something else has overwritten.
    *table.loses.lock().unwrap() = true;
    let late = limiter.clone();
    let call = tokio::spawn(async move { late.check("carol").await.map(|of| of.is_allowed()) });
    sleep(5 * MS).await;
    rows().values_mut().for_each(|row| row.version = 7);
    set(b"other");
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
}
