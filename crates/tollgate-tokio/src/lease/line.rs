//! `Lines`: who waits for the leases of which key in this process, and what it is about to release.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tollgate_core::Key;
use tollgate_core::call::Companion;
use tollgate_core::lease::{ConcurrencyLimiter, NoLease};

use crate::key::OwnedKey;
use crate::queue::{Class, Queue, Ticket};

/// The lines of a limiter and of all its clones.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<OwnedKey, Line>>);

/// What this process does with the leases of one key.
#[derive(Default)]
struct Line {
    /// Whoever waits, by number.
    waiting: BTreeMap<u64, Arc<Notify>>,
    /// The order in which they are served. Only the first one asks the store.
    queue: Queue,
    /// The releases that have begun and not ended.
    releasing: BTreeSet<u64>,
    /// Acquisitions that wait until all releases before a number have ended.
    after: BTreeMap<u64, Vec<oneshot::Sender<()>>>,
    /// The number of the next one who waits, or of the next release.
    next: u64,
    /// The latest denial.
    denied: Option<NoLease>,
}

impl Line {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn first(&self) -> Option<u64> {
        self.queue.first().map(|(number, _)| number)
    }

    fn wake_first(&self) {
        if let Some(first) = self.first().and_then(|first| self.waiting.get(&first)) {
            // If it is asking just now, it asks once more.
            first.notify_one();
        }
    }

    /// Changes who is next, and wakes the next one if it is another one than before.
    fn reorder(&mut self, change: impl FnOnce(&mut Queue)) {
        let first = self.first();
        change(&mut self.queue);
        if first.is_some() && first != self.first() {
            self.wake_first();
        }
    }

    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.releasing.is_empty() && self.after.is_empty()
    }
}

/// What a limiter keeps for its clones.
#[derive(Default)]
struct Shared(Arc<Lines>);

impl Companion for Shared {
    fn given_back(&self, key: Key<'_>) {
        let lines = self.0.lock();
        if !lines.is_empty()
            && let Some(line) = lines.get(&OwnedKey::from(key))
        {
            line.wake_first();
        }
    }
}

impl Lines {
    /// Returns the lines of `limiter`.
    pub(super) fn of<S>(limiter: &ConcurrencyLimiter<S>) -> Arc<Self> {
        Arc::clone(&limiter.companion(Shared::default).0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnedKey, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the line of `key`, and forgets it if nothing is left in it.
    fn change<T>(&self, key: &OwnedKey, change: impl FnOnce(&mut Line) -> T) -> T {
        let mut lines = self.lock();
        if let Some(line) = lines.get_mut(key) {
            let changed = change(line);
            if line.is_over() {
                lines.remove(key);
            }
            return changed;
        }
        let mut line = Line::default();
        let changed = change(&mut line);
        if !line.is_over() {
            lines.insert(key.clone(), line);
        }
        changed
    }

    /// Says that a lease of `key` is about to be released.
    pub(super) fn release(self: &Arc<Self>, key: &OwnedKey) -> Release {
        let number = self.change(key, |line| {
            let number = line.number();
            line.releasing.insert(number);
            number
        });
        Release {
            lines: Arc::clone(self),
            key: key.clone(),
            number,
        }
    }

    /// Returns what ends once all releases for `key` that have begun until now have ended, or `None`
    /// if there are none.
    pub(super) fn releases(&self, key: &OwnedKey) -> Option<oneshot::Receiver<()>> {
        self.change(key, |line| {
            if line.releasing.is_empty() {
                return None;
            }
            let (ended, end) = oneshot::channel();
            line.after.entry(line.next).or_default().push(ended);
            Some(end)
        })
    }

    /// Goes to the end of its flow in the line of `key`, or returns `None` if `most` wait there already.
    pub(super) fn enter(
        self: &Arc<Self>,
        key: &OwnedKey,
        class: Class,
        weight: u64,
        most: usize,
    ) -> Option<Place> {
        let wake = Arc::new(Notify::new());
        let ticket = self.change(key, |line| {
            if line.waiting.len() >= most {
                return None;
            }
            let ticket = Ticket::new(line.number(), class, weight);
            line.waiting.insert(ticket.number(), Arc::clone(&wake));
            line.reorder(|queue| queue.enter(&ticket, weight.into()));
            Some(ticket)
        })?;
        Some(Place {
            lines: Arc::clone(self),
            key: key.clone(),
            ticket,
            wake,
            is_granted: false,
        })
    }
}

/// A release that has begun; dropping this ends it.
pub(super) struct Release {
    lines: Arc<Lines>,
    key: OwnedKey,
    number: u64,
}

impl Drop for Release {
    fn drop(&mut self) {
        let ended = self.lines.change(&self.key, |line| {
            line.releasing.remove(&self.number);
            let first = line.releasing.first().copied().unwrap_or(line.next);
            let later = line.after.split_off(&(first + 1));
            std::mem::replace(&mut line.after, later)
        });
        for waiting in ended.into_values().flatten() {
            // It may have gone.
            let _ = waiting.send(());
        }
    }
}

/// A place in a line; dropping this leaves it, and hands the turn on.
pub(super) struct Place {
    lines: Arc<Lines>,
    key: OwnedKey,
    ticket: Ticket,
    wake: Arc<Notify>,
    is_granted: bool,
}

impl Place {
    /// Returns whether it is this one's turn to ask the store.
    pub(super) fn is_first(&self) -> bool {
        let number = self.ticket.number();
        let first = self.lines.change(&self.key, |line| line.first());
        first == Some(number)
    }

    /// Leaves the line with a lease.
    pub(super) fn granted(mut self) {
        self.is_granted = true;
    }

    /// Waits until it may be this one's turn, or until a lease of the key was given back.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Keeps a denial for all who wait.
    pub(super) fn denied(&self, denied: NoLease) {
        self.lines
            .change(&self.key, |line| line.denied = Some(denied));
    }

    /// Returns the latest denial of this line.
    pub(super) fn last_denial(&self) -> Option<NoLease> {
        self.lines.change(&self.key, |line| line.denied)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lines.change(&self.key, |line| {
            line.reorder(|queue| {
                if self.is_granted {
                    queue.take(&mut self.ticket);
                    queue.done(&self.ticket);
                } else {
                    queue.leave(&self.ticket);
                }
            });
            line.waiting.remove(&self.ticket.number());
            if line.waiting.is_empty() {
                line.denied = None;
            }
        });
    }
}
