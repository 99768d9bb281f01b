//! Many threads at once: no limit is exceeded, no call is lost, and no threads deadlock.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
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

/// Composites lock the same shards in every order: a lock cycle would hang the test.
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
    // Over all keys, each admitted composite has consumed four units of each limit.
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

/// A clock that pauses a thread at a given reading, until another thread is done.
struct Interrupting {
    clock: ManualClock,
    /// How many readings remain, including the interrupted one; 0 interrupts none.
    readings: AtomicU64,
    /// Gets a message when a thread is interrupted, and when its call has ended.
    stopped: (Sender<()>, Mutex<Receiver<()>>),
    /// Gets a message when the thread may go on.
    done: (Sender<()>, Mutex<Receiver<()>>),
}

struct Shared(Arc<Interrupting>);

impl Clock for Shared {
    fn now(&self) -> Timestamp {
        let now = self.0.clock.now();
        let left = self.0.readings.load(Ordering::SeqCst);
        if left > 0 && self.0.readings.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.stopped.0.send(()).unwrap();
            // The other thread finishes quickly, unless it waits for a lock that this one holds.
            let done = self.0.done.1.lock().unwrap();
            let _ = done.recv_timeout(Duration::from_millis(50));
        }
        now
    }
}

impl Interrupting {
    fn new(max_keys: usize) -> (Arc<Self>, MemoryStore) {
        let channel = || {
            let (sender, receiver) = mpsc::channel();
            (sender, Mutex::new(receiver))
        };
        let clock = Arc::new(Self {
            clock: ManualClock::new(),
            readings: AtomicU64::new(0),
            stopped: channel(),
            done: channel(),
        });
        let store = MemoryStore::builder()
            .max_keys(max_keys)
            .clock(Shared(clock.clone()))
            .build();
        (clock, store)
    }

    /// Interrupts `late` at the given reading of the clock, and runs `meanwhile` then. If `late`
    /// reads the clock less often, runs `meanwhile` after it.
    fn interrupt<L: Send, M>(
        &self,
        reading: u64,
        late: impl FnOnce() -> L + Send,
        meanwhile: impl FnOnce() -> M,
    ) -> (L, M) {
        self.readings.store(reading, Ordering::SeqCst);
        thread::scope(|scope| {
            let late = scope.spawn(|| {
                let late = late();
                self.stopped.0.send(()).unwrap();
                late
            });
            self.stopped.1.lock().unwrap().recv().unwrap();
            // No further readings are interrupted, even if `late` ended without an interruption.
            self.readings.store(0, Ordering::SeqCst);
            let meanwhile = meanwhile();
            self.done.0.send(()).unwrap();
            (late.join().unwrap(), meanwhile)
        })
    }
}

/// A log of five a second, alone and beside another limit.
fn logs() -> [Vec<Limit>; 2] {
    let log = Limit::new("log", SlidingLog::new(Quota::per_second(5)).unwrap()).unwrap();
    let other = Limit::new("other", Gcra::new(Quota::per_second(100)).unwrap()).unwrap();
    [vec![log.clone()], vec![log, other]]
}

fn decided_at(decision: &Decision<'_>) -> Timestamp {
    decision.binding().1.decided_at()
}

/// A call reads the clock within a key's window. Before it looks up the key, the window ends, and
/// the key's state is dropped.
#[test]
fn an_interrupted_call_gets_no_second_window() {
    for limits in logs() {
        let (interrupting, store) = Interrupting::new(1_000);
        let limiter = RateLimiter::new(&store, limits).unwrap();
        let first = limiter.check("k").cost(5).run().unwrap();
        assert!(first.is_allowed());
        interrupting.clock.advance(Duration::from_micros(999_999));
        let (late, ()) = interrupting.interrupt(
            1,
            || limiter.check("k").cost(5).run().unwrap(),
            || {
                interrupting.clock.advance(Duration::from_micros(1));
                store.sweep();
            },
        );
        let apart = decided_at(&late).saturating_duration_since(decided_at(&first));
        assert!(
            late.is_denied() || apart >= Duration::from_secs(1),
            "ten within a second: {late:?}"
        );
    }
}

/// Two calls use a new key. After one has read the clock, the other consumes all of the key's
/// window, and its state is dropped when the window is over.
#[test]
fn an_interrupted_call_for_a_new_key_gets_no_second_window() {
    for (limits, reading) in logs()
        .into_iter()
        .flat_map(|log| [(log.clone(), 1), (log, 2)])
    {
        let (interrupting, store) = Interrupting::new(1_000);
        let limiter = RateLimiter::new(&store, limits).unwrap();
        let (late, early) = interrupting.interrupt(
            reading,
            || limiter.check("k").cost(5).run().unwrap(),
            || {
                let early = limiter.check("k").cost(5).run().unwrap();
                interrupting.clock.advance(Duration::from_secs(1));
                store.sweep();
                early
            },
        );
        let apart = decided_at(&early).saturating_duration_since(decided_at(&late));
        let apart = apart.max(decided_at(&late).saturating_duration_since(decided_at(&early)));
        assert!(
            early.is_denied() || late.is_denied() || apart >= Duration::from_secs(1),
            "ten within a second: {early:?}, {late:?}"
        );
    }
}

/// A call with a caller's instant finds no room, and reads the store's clock to search for some.
/// Just then other keys are reset, and another call inserts the same key.
#[test]
fn a_concurrently_inserted_key_is_not_inserted_twice() {
    for limits in logs() {
        let (interrupting, store) = Interrupting::new(2 * limits.len());
        let limiter = RateLimiter::new(&store, limits).unwrap();
        for key in ["a", "b"] {
            assert!(limiter.check(key).run().unwrap().is_allowed());
        }
        let call = || {
            let call = limiter.check("k").cost(5).at(Timestamp::UNIX_EPOCH);
            call.run().unwrap()
        };
        let (late, early) = interrupting.interrupt(1, call, || {
            limiter.reset("a").run().unwrap();
            limiter.reset("b").run().unwrap();
            call()
        });
        assert!(
            early.is_allowed() && late.is_denied(),
            "{early:?}, {late:?}"
        );
        assert_eq!(2 * store.len(), store.max_keys());
    }
}

/// As before, but the other call takes the last room. The first call needs none: the key exists.
#[test]
fn a_concurrently_inserted_last_key_is_found() {
    for limits in logs() {
        let (interrupting, store) = Interrupting::new(limits.len());
        let limiter = RateLimiter::new(&store, limits).unwrap();
        assert!(limiter.check("a").run().unwrap().is_allowed());
        let call = || limiter.check("k").cost(5).at(Timestamp::UNIX_EPOCH).run();
        let (late, early) = interrupting.interrupt(1, call, || {
            limiter.reset("a").run().unwrap();
            call()
        });
        assert!(early.unwrap().is_allowed());
        assert!(late.unwrap().is_denied());
        assert_eq!(store.len(), store.max_keys());
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
