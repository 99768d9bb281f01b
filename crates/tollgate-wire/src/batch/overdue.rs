//! `watch`: a thread that wakes callers at their deadlines if the senders of their calls do not.
//!
//! A sender ends the calls of its batch at their deadlines. But it is a task, and needs the timers of its
//! runtime: if nobody drives that runtime, or other tasks keep all its threads, it does not run.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use super::calls::Batch;

/// Fewer batches than this are not searched for those that have ended.
const FEW: usize = 64;

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    batches: Vec::new(),
    most: FEW,
    earliest: None,
    wakes_at: None,
    is_running: false,
});
/// Wakes the thread.
static CHANGED: Condvar = Condvar::new();

struct Watched {
    batches: Vec<(Weak<Batch>, Clock)>,
    /// How many batches there may be before those that have ended are dropped.
    most: usize,
    /// The earliest deadline of a batch that was added since the thread last looked.
    earliest: Option<(Instant, Clock)>,
    /// When the thread wakes by itself.
    wakes_at: Option<Instant>,
    is_running: bool,
}

/// The clock of a runtime.
type Clock = fn() -> Instant;

fn lock() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the callers of a batch at their deadlines, of which `first` is the earliest, if its sender does not.
/// `now` is the time of the runtime that polls the calls.
pub(super) fn watch(batch: &Arc<Batch>, first: Instant, now: Clock) {
    let mut watched = lock();
    if watched.batches.len() >= watched.most {
        watched
            .batches
            .retain(|(batch, _)| batch.strong_count() > 0);
        watched.most = FEW.max(2 * watched.batches.len());
    }
    watched.batches.push((Arc::downgrade(batch), now));
    if watched
        .earliest
        .is_none_or(|(earliest, _)| first < earliest)
    {
        watched.earliest = Some((first, now));
    }
    if !watched.is_running {
        let thread = thread::Builder::new().name("tollgate-overdue".to_owned());
        // Without a thread, senders are left to end calls.
        watched.is_running = thread.spawn(wake_overdue).is_ok();
    } else if watched.wakes_at.is_none_or(|wakes_at| first < wakes_at) {
        CHANGED.notify_one();
    }
}

/// Wakes callers at their deadlines, for ever.
fn wake_overdue() {
    let mut batches = Vec::new();
    loop {
        let mut next = None;
        // Without the lock: whoever is woken may add a batch, or drop a call of one.
        batches.retain(|(batch, now): &(Weak<Batch>, Clock)| {
            let wake = || batch.upgrade()?.wake_overdue(now());
            // A waker that is dropped may panic.
            let due = catch_unwind(AssertUnwindSafe(wake)).unwrap_or_default();
            next = earlier(next, due.map(|due| (due, *now)));
            due.is_some()
        });
        let mut watched = lock();
        watched.batches.append(&mut batches);
        next = earlier(next, watched.earliest.take());
        watched.wakes_at = next.map(|(due, _)| due);
        let mut watched = match next {
            Some((due, now)) => {
                let left = due.saturating_duration_since(now());
                let woken = CHANGED.wait_timeout(watched, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => CHANGED
                .wait(watched)
                .unwrap_or_else(PoisonError::into_inner),
        };
        watched.earliest = None;
        batches = mem::take(&mut watched.batches);
    }
}

fn earlier(
    one: Option<(Instant, Clock)>,
    other: Option<(Instant, Clock)>,
) -> Option<(Instant, Clock)> {
    one.into_iter().chain(other).min_by_key(|(due, _)| *due)
}
