//! A thread is stopped where it reads the clock, between two steps of its call, while another thread
//! makes calls: no call is decided on what has changed since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tollgate_core::lease::{ConcurrencyLimiter, Lease};
use tollgate_core::schedule::{Placement, Schedule};
use tollgate_core::{Decision, Gcra, Limit, Quota, RateLimiter, SlidingLog, Timestamp};
use tollgate_memory::{Clock, ManualClock, MemoryStore};

const SECOND: Duration = Duration::from_secs(1);

/// More readings than any call takes.
const READINGS: u64 = 6;

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
            let _ = done.recv_timeout(Duration::from_millis(200));
        }
        now
    }
}

/// Sends a message when a thread ends, even by a panic.
struct Ended<'s>(&'s Sender<()>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
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
                let _ended = Ended(&self.stopped.0);
                late()
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
            late.is_denied() || apart >= SECOND,
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
        .flat_map(|limits| (1..=READINGS).map(move |reading| (limits.clone(), reading)))
    {
        let (interrupting, store) = Interrupting::new(1_000);
        let limiter = RateLimiter::new(&store, limits).unwrap();
        let (late, early) = interrupting.interrupt(
            reading,
            || limiter.check("k").cost(5).run().unwrap(),
            || {
                let early = limiter.check("k").cost(5).run().unwrap();
                interrupting.clock.advance(SECOND);
                store.sweep();
                early
            },
        );
        let apart = decided_at(&early).saturating_duration_since(decided_at(&late));
        let apart = apart.max(decided_at(&late).saturating_duration_since(decided_at(&early)));
        assert!(
            early.is_denied() || late.is_denied() || apart >= SECOND,
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

/// Two calls with one id. The second comes while the first is being decided, before its answer is
/// kept.
#[test]
fn an_interrupted_call_with_an_id_is_counted_once() {
    for (limits, reading) in logs()
        .into_iter()
        .flat_map(|limits| (1..=READINGS).map(move |reading| (limits.clone(), reading)))
    {
        let (interrupting, store) = Interrupting::new(1_000);
        let limiter = RateLimiter::new(&store, limits).unwrap();
        let call = || limiter.check("k").id("one").run().unwrap();
        let (late, early) = interrupting.interrupt(reading, call, call);
        assert!(late.is_allowed(), "{late:?}");
        assert_eq!(late, early, "at reading {reading}");
        let left = limiter.peek("k").run().unwrap().remaining();
        assert_eq!(left, 4, "at reading {reading}");
    }
}

/// Two threads want the only lease. While one reads the clock, the other takes the lease, and its
/// time passes.
#[test]
fn an_interrupted_call_gets_no_lease_that_another_held() {
    for reading in 1..=2 {
        let (interrupting, store) = Interrupting::new(1_000);
        let workers = ConcurrencyLimiter::new(&store, "workers", 1, SECOND).unwrap();
        let acquire = |id| workers.acquire("k", id).run().unwrap().permit().ok();
        let (late, early) = interrupting.interrupt(
            reading,
            || acquire("late"),
            || {
                let early = acquire("early");
                interrupting
                    .clock
                    .advance(SECOND + Duration::from_micros(1));
                store.sweep();
                early
            },
        );
        let ends = |lease: &Lease| lease.expires_at();
        let overlaps = |one: &Lease, other: &Lease| {
            one.decided_at() < ends(other) && other.decided_at() < ends(one)
        };
        if let (Some(late), Some(early)) = (&late, &early) {
            assert!(!overlaps(late, early), "{late:?} and {early:?}");
        }
        assert!(late.is_some() || early.is_some());
    }
}

/// Two threads want the next free time of one event a second. While one reads the clock, the other
/// gets that time, and it passes.
#[test]
fn an_interrupted_call_plans_nothing_beside_an_event_that_is_over() {
    for reading in 1..=2 {
        let (interrupting, store) = Interrupting::new(1_000);
        let plans = Schedule::new(&store, "plans", ["1/1s"]).unwrap();
        let reserve = |id| {
            let placed = plans.reserve_next("k", id, Timestamp::UNIX_EPOCH).run();
            match placed.unwrap() {
                Placement::Planned { time, .. } => time,
                refused => panic!("there is always a free time: {refused:?}"),
            }
        };
        let (late, early) = interrupting.interrupt(
            reading,
            || reserve("late"),
            || {
                let early = reserve("early");
                interrupting.clock.advance(60 * SECOND);
                store.sweep();
                early
            },
        );
        let apart = late.max(early).saturating_duration_since(late.min(early));
        assert!(apart >= SECOND, "two within {apart:?}");
    }
}
