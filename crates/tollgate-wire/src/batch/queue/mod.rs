//! `Queue`: the calls that wait for a batch, and the number of tasks that send batches.

mod sender;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use foldhash::fast::{FixedState, RandomState};
use smallvec::SmallVec;

use super::call::BatchedCall;
use super::calls::{Batch, Member};
use super::overdue;
use crate::engine::Runtime;

pub(super) use self::sender::Sender;

/// Up to this many calls in flight are sent singly; beyond it, new calls are batched.
const MOST_ALONE: usize = 16;
/// When a reply leaves no more than this many in flight, calls are sent singly again.
const FEW: usize = 8;
/// The most batches in flight while the server is busy.
const MOST_AT_ONCE: usize = 2;
/// A batch of at least this many calls may be handed over: its callers are then woken in two halves.
const LEAST_TO_SPLIT: usize = 33;
/// The most single calls and batches in flight at any time.
const MOST: usize = 64;

/// The queues of a store that are in use.
///
/// Each runtime has its own queues, so that no call depends on another runtime, which may stall or
/// end.
#[derive(Clone)]
pub(crate) struct Queues {
    table: Arc<Mutex<Table>>,
    gap: Option<Duration>,
}

type Table = HashMap<Name, Weak<Queue>, RandomState>;

/// The id of a runtime, and in a cluster also the partition, because a script takes keys of one slot.
type Name = SmallVec<[u8; 32]>;

impl Queues {
    /// Returns the queues of a store. Its calls are batched while others are in flight of which the last
    /// was sent less than `gap` ago; without a `gap`, all calls are batched.
    pub(crate) fn new(gap: Option<Duration>) -> Self {
        Self {
            table: Arc::default(),
            gap,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the queue for the calls of a runtime, and in a cluster, of one partition.
    pub(super) fn get(&self, runtime: u64, partition: &[u8]) -> Arc<Queue> {
        let mut name = Name::from(runtime.to_le_bytes().as_slice());
        name.extend_from_slice(partition);
        let mut table = self.lock();
        if let Some(queue) = table.get(&name).and_then(Weak::upgrade) {
            return queue;
        }
        let queue = Arc::new(Queue::new(name.clone(), self.clone()));
        table.insert(name, Arc::downgrade(&queue));
        queue
    }
}

/// Hides the names of the queues, which contain keys.
impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Show them after the lock is released: the last user of a queue locks the table.
        let queues: Vec<_> = self.lock().values().map(Weak::upgrade).collect();
        f.debug_struct("Queues")
            .field("count", &queues.len())
            .field("in_use", &queues.iter().flatten().collect::<Vec<_>>())
            .finish()
    }
}

/// The calls that may share a batch: those of one runtime, and in a cluster of one hash slot.
pub(super) struct Queue {
    name: Name,
    queues: Queues,
    /// Whether every new call is batched. Readable without the lock.
    all_wait: AtomicBool,
    traffic: Mutex<Traffic>,
}

/// Shows only numbers, because calls contain keys.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let traffic = self.lock();
        let [alone, senders, batches, keys] = [
            traffic.alone,
            traffic.senders,
            traffic.waiting.len(),
            traffic.latest.len(),
        ];
        // Formatting may take long, or lock the queue again.
        drop(traffic);
        f.debug_struct("Queue")
            .field("alone", &alone)
            .field("senders", &senders)
            .field("batches", &batches)
            .field("keys", &keys)
            .finish()
    }
}

/// Removes the queue from the table, unless a new one of its name is there already.
impl Drop for Queue {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let is_unused = |found: &Weak<Self>| found.strong_count() == 0;
        if queues.get(&self.name).is_some_and(is_unused) {
            queues.remove(&self.name);
        }
    }
}

#[derive(Default)]
struct Traffic {
    /// For how long after a call was sent, later ones may be batched. Without a gap, all are.
    gap: Option<Duration>,
    /// The number of calls in flight that were sent singly.
    alone: usize,
    senders: usize,
    /// The number of senders with a batch in flight.
    busy: usize,
    /// The number of calls in those batches.
    out: usize,
    /// Numbered in order of arrival; only the last one has room.
    waiting: VecDeque<Arc<Batch>>,
    /// The number of the first one.
    first: u64,
    /// The last group that waits and has a limit and a key of this hash, which is random already.
    latest: HashMap<u64, Position, FixedState>,
    /// When the last call or batch was sent.
    left: Option<Instant>,
}

/// A group of a batch, in order of arrival.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Position {
    batch: u64,
    group: usize,
}

impl Queue {
    fn new(name: Name, queues: Queues) -> Self {
        let traffic = Traffic {
            gap: queues.gap,
            ..Traffic::default()
        };
        Self {
            name,
            queues,
            all_wait: AtomicBool::default(),
            traffic: traffic.into(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a new call is sent singly, and must then [leave](Self::leave); if not, it is batched.
    pub(super) fn enter(&self, now: Instant) -> bool {
        // Saves a lock under load.
        if self.all_wait.load(Ordering::Relaxed) {
            return false;
        }
        let mut traffic = self.lock();
        let most = traffic.most(MOST_ALONE, now);
        let is_alone = traffic.gap.is_some() && traffic.alone + traffic.out < most;
        if is_alone {
            traffic.alone += 1;
            traffic.left = Some(now);
        }
        is_alone
    }

    /// Notes that a call that was sent singly is over.
    pub(super) fn leave(&self) {
        self.lock().alone -= 1;
    }

    /// Adds a call to a batch. Returns its handle, and whether a sender must be started.
    pub(super) fn add(
        &self,
        call: &mut BatchedCall<'_>,
        runtime: &Runtime,
        now: Instant,
    ) -> (Member, bool) {
        let mut traffic = self.lock();
        let member = match traffic.join(call) {
            Some(member) => member,
            None => {
                // Packing writes the keys, which takes long, so it happens without the lock.
                drop(traffic);
                call.pack();
                traffic = self.lock();
                let joined = traffic.join(call);
                joined.unwrap_or_else(|| traffic.add(call, runtime))
            }
        };
        self.all_wait.store(true, Ordering::Relaxed);
        (member, traffic.needs_sender(now))
    }
}

impl Traffic {
    /// Returns the last waiting group that has a limit and key with one of these hashes.
    fn latest(&self, hashes: &[u64]) -> Option<Position> {
        let found = hashes.iter().filter_map(|hash| self.latest.get(hash));
        found.max().copied()
    }

    fn batch(&self, number: u64) -> Option<&Arc<Batch>> {
        let ahead = number.checked_sub(self.first)?;
        self.waiting.get(usize::try_from(ahead).ok()?)
    }

    /// Adds a call to equal ones that wait, unless another call that uses one of its states came after
    /// them: so all calls for a state are decided in the order in which they were made.
    fn join(&self, call: &mut BatchedCall<'_>) -> Option<Member> {
        let position = self.latest(&call.hashes)?;
        // If no sender is free, the first batch that waits may leave only after the deadline of its last
        // call, and the others after it. So it gets no younger calls.
        if self.senders >= MOST && self.batch(position.batch + 1).is_some() {
            return None;
        }
        self.batch(position.batch)?.join(call, position.group)
    }

    /// Adds a packed call to the last batch, or to a new one if that is full.
    fn add(&mut self, call: &mut BatchedCall<'_>, runtime: &Runtime) -> Member {
        let has_room = |last: &Arc<Batch>| last.has_room(call);
        let is_new = !self.waiting.back().is_some_and(has_room);
        if is_new {
            // No sender takes these if none runs.
            while self.waiting.front().is_some_and(|first| first.is_closed()) {
                self.take_first();
            }
            self.waiting.push_back(Batch::new());
        }
        let last = self.waiting.len() - 1;
        let number = self.first + u64::try_from(last).unwrap_or(u64::MAX);
        let (group, member) = self.waiting[last].add(call);
        if is_new {
            overdue::watch(&self.waiting[last], call.deadline, runtime.now);
        }
        let position = Position {
            batch: number,
            group,
        };
        for hash in &call.hashes {
            let before = self.latest.insert(*hash, position);
            if before.is_some_and(|before| before.batch == number) {
                self.waiting[last].share();
            }
        }
        member
    }

    /// Takes the first batch that waits.
    fn take_first(&mut self) -> Option<Arc<Batch>> {
        let batch = self.waiting.pop_front()?;
        let number = self.first;
        self.first += 1;
        if self.waiting.is_empty() {
            // No group waits any more.
            self.latest.clear();
            return Some(batch);
        }
        batch.for_each_hash(|hash| {
            if self.latest.get(&hash).is_some_and(|of| of.batch == number) {
                self.latest.remove(&hash);
            }
        });
        Some(batch)
    }

    /// Returns the in-flight limit: `at_once`, or [`MOST`] if nothing was sent for `gap`. A distant, idle
    /// server then delays nobody.
    fn most(&self, at_once: usize, now: Instant) -> usize {
        let left = self.left.map(|left| now.saturating_duration_since(left));
        match left.zip(self.gap) {
            Some((ago, gap)) if ago < gap => at_once,
            _ => MOST,
        }
    }

    /// Returns how many senders there may be.
    fn most_senders(&self, now: Instant) -> usize {
        match self.waiting.len() {
            0 | 1 => self.most(MOST_AT_ONCE, now),
            // The first batch is full, so it would gain nothing by waiting.
            _ => MOST,
        }
    }

    /// Returns how many calls wait.
    fn waiting_calls(&self) -> usize {
        self.waiting.iter().map(|batch| batch.calls()).sum()
    }

    fn has_too_many_senders(&self, now: Instant) -> bool {
        self.senders > self.most_senders(now)
    }

    /// Counts and requests a new sender if calls wait, all senders are busy, and the limit allows one
    /// more batch in flight.
    fn needs_sender(&mut self, now: Instant) -> bool {
        let all_are_busy = self.senders == self.busy;
        let needed =
            !self.waiting.is_empty() && all_are_busy && self.senders < self.most_senders(now);
        self.senders += usize::from(needed);
        needed
    }
}

#[cfg(test)]
mod tests;
