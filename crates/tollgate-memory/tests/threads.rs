//! Many threads at once: nothing over the bound, nothing lost, and no two wait for each other.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tollgate_core::algorithm::{FixedWindow, Gcra, SlidingLog};
use tollgate_core::{
    Check, Decision, Limit, Operation, Quota, RateLimiter, Request, SyncStore, Timestamp,
};
use tollgate_memory::{Clock, ManualClock, MemoryStore};

const THREADS: usize = 8;

#[test]
fn exactly_the_bound_is_admitted() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let limit = Limit::new("burst", Gcra::new(Quota::per_day(1_000)).unwrap()).unwrap();
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let request = Request::consume(Check::new(&limit, "k", 1));
                    let decision = store.decide_now(&request).unwrap();
                    admitted.fetch_add(decision.consumed(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 1_000);
}

/// Composites over the same shards in every order: a cycle of locks would hang the test.
#[test]
fn composites_over_several_shards_neither_deadlock_nor_tear() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let quota = Quota::per_day(2_000);
    let limits = [
        Limit::new("a", FixedWindow::aligned(quota)).unwrap(),
        Limit::new("b", Gcra::new(quota).unwrap()).unwrap(),
        Limit::new("c", SlidingLog::new(quota).unwrap()).unwrap(),
    ];
    let keys: Vec<String> = (0..16).map(|key| format!("key-{key}")).collect();
    let granted = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, limits, keys, granted) = (&store, &limits, &keys, &granted);
            scope.spawn(move || {
                for round in 0..1_500 {
                    let mut checks: Vec<_> = (0..limits.len())
                        .flat_map(|limit| (0..4).map(move |key| (limit, key)))
                        .map(|(limit, key)| {
                            Check::new(&limits[limit], keys[(key * 5 + thread) % 16].as_str(), 1)
                        })
                        .collect();
                    let turn = (thread + round) % checks.len();
                    checks.rotate_left(turn);
                    let request = Request::new(Operation::Consume, &checks);
                    granted.fetch_add(
                        store.decide_now(&request).unwrap().consumed(),
                        Ordering::Relaxed,
                    );
                }
            });
        }
    });
    // What was consumed of each limit, over all keys, is four for each admitted composite.
    for limit in &limits {
        let consumed: u64 = keys
            .iter()
            .map(|key| {
                let peek = Request::peek(Check::new(limit, key, 0));
                2_000 - store.decide_now(&peek).unwrap().remaining()
            })
            .sum();
        assert_eq!(consumed, 4 * granted.load(Ordering::Relaxed), "{limit}");
    }
}

/// A clock that one thread reads and is then interrupted, until the other has gone on.
struct Interrupted {
    clock: ManualClock,
    interrupts: AtomicBool,
    read: Barrier,
    resumed: Barrier,
}

struct Shared(Arc<Interrupted>);

impl Clock for Shared {
    fn now(&self) -> Timestamp {
        let now = self.0.clock.now();
        if self.0.interrupts.swap(false, Ordering::SeqCst) {
            self.0.read.wait();
            self.0.resumed.wait();
        }
        now
    }
}

/// The state of a key is dropped at the end of its window, while a call that has read the clock
/// within the window has not looked for the key yet.
#[test]
fn an_interrupted_call_gets_no_second_window() {
    let alone = |log: &Limit| vec![log.clone()];
    let beside = |log: &Limit| {
        let other = Gcra::new(Quota::per_second(100)).unwrap();
        vec![log.clone(), Limit::new("other", other).unwrap()]
    };
    let log = Limit::new("log", SlidingLog::new(Quota::per_second(5)).unwrap()).unwrap();
    for limits in [alone(&log), beside(&log)] {
        let start = Timestamp::saturating_from_micros(1_000_000_000);
        let interrupted = Arc::new(Interrupted {
            clock: ManualClock::at(start),
            interrupts: AtomicBool::new(false),
            read: Barrier::new(2),
            resumed: Barrier::new(2),
        });
        let store = MemoryStore::builder()
            .clock(Shared(interrupted.clone()))
            .build();
        let limiter = RateLimiter::new(&store, limits).unwrap();
        assert!(limiter.check("k").cost(5).run().unwrap().is_allowed());
        interrupted.clock.advance(Duration::from_micros(999_999));
        interrupted.interrupts.store(true, Ordering::SeqCst);
        thread::scope(|scope| {
            let late = scope.spawn(|| limiter.check("k").cost(5).run().unwrap());
            interrupted.read.wait();
            interrupted.clock.advance(Duration::from_micros(1));
            // If the call holds the lock while it is interrupted, there is nothing to sweep yet.
            let sweeps = scope.spawn(|| store.sweep());
            thread::sleep(Duration::from_millis(20));
            interrupted.resumed.wait();
            sweeps.join().unwrap();
            let late = late.join().unwrap();
            let at = late.binding().1.decided_at();
            let within = at.saturating_duration_since(start) < Duration::from_secs(1);
            assert!(late.is_denied() || !within, "ten within a second: {late:?}");
        });
    }
}

/// Interrupts a thread at one of its readings, until another is done or waits for it.
struct Stalled {
    clock: ManualClock,
    /// How many readings it is until the interrupted one.
    readings: AtomicU64,
    read: Barrier,
    done: Mutex<Receiver<()>>,
}

struct SharedStalled(Arc<Stalled>);

impl Clock for SharedStalled {
    fn now(&self) -> Timestamp {
        let now = self.0.clock.now();
        let left = self.0.readings.load(Ordering::SeqCst);
        if left > 0 && self.0.readings.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.read.wait();
            // The other thread is done at once, unless it waits for a lock that this one holds.
            let _ = self
                .0
                .done
                .lock()
                .unwrap()
                .recv_timeout(Duration::from_millis(50));
        }
        now
    }
}

/// A key is new to two calls. While one has read the clock, the other consumes all of the key's
/// window, and its state is dropped when the window is over.
#[test]
fn a_call_for_a_new_key_reads_the_clock_with_its_lock_held() {
    let log = Limit::new("log", SlidingLog::new(Quota::per_second(5)).unwrap()).unwrap();
    let other = Limit::new("other", Gcra::new(Quota::per_second(100)).unwrap()).unwrap();
    for limits in [vec![log.clone()], vec![log, other]] {
        let (sender, done) = mpsc::channel();
        let stalled = Arc::new(Stalled {
            clock: ManualClock::new(),
            // A call reads the clock, looks for the key, and reads the clock again.
            readings: AtomicU64::new(2),
            read: Barrier::new(2),
            done: Mutex::new(done),
        });
        let store = MemoryStore::builder()
            .clock(SharedStalled(stalled.clone()))
            .build();
        let limiter = RateLimiter::new(&store, limits).unwrap();
        thread::scope(|scope| {
            let late = scope.spawn(|| limiter.check("k").cost(5).run().unwrap());
            stalled.read.wait();
            let early = limiter.check("k").cost(5).run().unwrap();
            stalled.clock.advance(Duration::from_secs(1));
            store.sweep();
            sender.send(()).unwrap();
            let late = late.join().unwrap();
            let at = |decision: &Decision<'_>| decision.binding().1.decided_at();
            let apart = at(&early).saturating_duration_since(at(&late));
            assert!(
                early.is_denied() || late.is_denied() || apart >= Duration::from_secs(1),
                "ten within a second: {early:?}, {late:?}"
            );
        });
    }
}

#[test]
fn a_full_store_is_never_overfilled() {
    let store = MemoryStore::builder()
        .max_keys(500)
        .clock(ManualClock::new())
        .build();
    let limit = Limit::new("once", FixedWindow::aligned(Quota::per_day(1))).unwrap();
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, limit, admitted) = (&store, &limit, &admitted);
            scope.spawn(move || {
                for key in 0..200 {
                    let key = format!("{thread}-{key}");
                    let request = Request::consume(Check::new(limit, &key, 1));
                    if store
                        .decide_now(&request)
                        .is_ok_and(|decision| decision.is_allowed())
                    {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(store.len() <= 500);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 500);
    assert_eq!(store.len(), 500);
}
