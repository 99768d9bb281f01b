//! `Queue`: the calls that wait to be sent in a batch, and how many senders there are.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use foldhash::fast::{FixedState, RandomState};
use smallvec::SmallVec;

use super::call::BatchedCall;
use super::calls::{Batch, Member};

/// So many calls may be in flight before later ones wait for each other.
const MOST_ALONE: usize = 16;
/// If at most so many calls are in flight when a reply comes, later ones are sent by themselves again.
const FEW: usize = 8;
/// The most batches that are sent at once.
const MOST_AT_ONCE: usize = 2;
/// The fewest calls of a batch whose callers' next calls are split among two.
const LEAST_TO_SPLIT: usize = 33;
/// The most calls, and the most batches, that are on their way at a time.
const MOST: usize = 64;

/// The queues of a store that calls and senders use at present.
///
/// Each runtime has queues of its own, so that no call depends on another runtime, which may stand
/// still or end.
#[derive(Clone)]
pub(crate) struct Queues {
    table: Arc<Mutex<Table>>,
    gap: Option<Duration>,
}

type Table = HashMap<Name, Weak<Queue>, RandomState>;

/// The id of a runtime, and in a cluster the partition: a script takes keys of one slot.
type Name = SmallVec<[u8; 32]>;

impl Queues {
    /// Returns the queues of a store whose calls wait if others are on their way, unless the last of
    /// them left as long ago as the `gap`; without one, they always wait.
    pub(crate) fn new(gap: Option<Duration>) -> Self {
        Self {
            table: Arc::default(),
            gap,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the queue of the calls that a runtime polls, and in a cluster, that have this partition.
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

/// Shows the queues without their names, which are keys.
impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shown when the table is not locked any more: the last user of a queue locks it.
        let queues: Vec<_> = self.lock().values().map(Weak::upgrade).collect();
        f.debug_struct("Queues")
            .field("count", &queues.len())
            .field("in_use", &queues.iter().flatten().collect::<Vec<_>>())
            .finish()
    }
}

/// The calls that may go together: those that one runtime polls, and in a cluster have one hash slot.
pub(super) struct Queue {
    name: Name,
    queues: Queues,
    /// Whether every call that is made waits for a batch, to be read without the lock.
    all_wait: AtomicBool,
    traffic: Mutex<Traffic>,
}

/// Shows numbers only, because calls hold keys.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let traffic = self.lock();
        let [alone, senders, batches, keys] = [
            traffic.alone,
            traffic.senders,
            traffic.waiting.len(),
            traffic.latest.len(),
        ];
        // A writer may take long, or use the queue.
        drop(traffic);
        f.debug_struct("Queue")
            .field("alone", &alone)
            .field("senders", &senders)
            .field("batches", &batches)
            .field("keys", &keys)
            .finish()
    }
}

/// Nobody uses the queue any more, so it leaves the table, unless a new one has its place already.
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
    /// How long a call that left makes later ones wait. Without one, all wait.
    gap: Option<Duration>,
    /// How many calls are on their way by themselves.
    alone: usize,
    senders: usize,
    /// How many senders have a batch on its way.
    busy: usize,
    /// How many calls those batches have.
    out: usize,
    /// Numbered in order of arrival; only the last one has room.
    waiting: VecDeque<Arc<Batch>>,
    /// The number of the first one.
    first: u64,
    /// The last group that waits and has a limit and a key of this hash, which is random already.
    latest: HashMap<u64, Position, FixedState>,
    /// When the last call or batch left.
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

    /// Returns whether a call goes by itself, and must [leave](Self::leave); others wait.
    pub(super) fn enter(&self, now: Instant) -> bool {
        // Under load, the call is spared a lock.
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

    /// A call that went by itself is over.
    pub(super) fn leave(&self) {
        self.lock().alone -= 1;
    }

    /// Adds a call to those that wait. Returns its place in a batch, and whether a sender must be
    /// started.
    pub(super) fn add(&self, call: &mut BatchedCall<'_>, now: Instant) -> (Member, bool) {
        let mut traffic = self.lock();
        let member = match traffic.join(call) {
            Some(member) => member,
            None => {
                // Naming the keys takes long, so others need not wait for it.
                drop(traffic);
                call.pack();
                traffic = self.lock();
                let joined = traffic.join(call);
                joined.unwrap_or_else(|| traffic.add(call))
            }
        };
        self.all_wait.store(true, Ordering::Relaxed);
        (member, traffic.needs_sender(now))
    }
}

impl Traffic {
    /// Returns the last group that waits and has one of the limits and keys with these hashes.
    fn latest(&self, hashes: &[u64]) -> Option<Position> {
        let found = hashes.iter().filter_map(|hash| self.latest.get(hash));
        found.max().copied()
    }

    fn batch(&self, number: u64) -> Option<&Arc<Batch>> {
        let ahead = number.checked_sub(self.first)?;
        self.waiting.get(usize::try_from(ahead).ok()?)
    }

    /// Adds a call to equal ones that wait, unless another call for one of its states came after them:
    /// then all calls for a state are still decided in the order in which they came.
    fn join(&self, call: &mut BatchedCall<'_>) -> Option<Member> {
        let position = self.latest(&call.hashes)?;
        // If no sender is free, the first batch that waits may leave only when its last call is late,
        // and the others after it. So it gets no younger calls.
        if self.senders >= MOST && self.batch(position.batch + 1).is_some() {
            return None;
        }
        self.batch(position.batch)?.join(call, position.group)
    }

    /// Adds a call that is packed to the last batch, or to a new one if that is full.
    fn add(&mut self, call: &mut BatchedCall<'_>) -> Member {
        let has_room = |last: &Arc<Batch>| last.has_room(call);
        if !self.waiting.back().is_some_and(has_room) {
            self.waiting.push_back(Batch::new());
        }
        let last = self.waiting.len() - 1;
        let number = self.first + u64::try_from(last).unwrap_or(u64::MAX);
        let (group, member) = self.waiting[last].add(call);
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
            // None of them waits any more.
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

    /// Returns how many may be on their way: so many as leave at once, or more if the last one left
    /// at least `gap` ago. So nothing waits for a server that is far away but not busy.
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
            // The first batch is full, so it gains nothing by waiting.
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

    /// Counts a new sender if calls wait, all senders are busy, and one more batch may leave.
    fn needs_sender(&mut self, now: Instant) -> bool {
        let all_are_busy = self.senders == self.busy;
        let needed =
            !self.waiting.is_empty() && all_are_busy && self.senders < self.most_senders(now);
        self.senders += usize::from(needed);
        needed
    }
}

/// A task that sends batches, one after the other, as long as there are any.
pub(super) struct Sender {
    queue: Arc<Queue>,
    /// How many calls its batch has that is on its way.
    calls: Option<usize>,
    has_ended: bool,
}

impl Sender {
    /// Returns a sender that the queue has counted.
    pub(super) fn of(queue: Arc<Queue>) -> Self {
        Self {
            queue,
            calls: None,
            has_ended: false,
        }
    }

    /// Returns another sender of the same queue, which has counted it.
    pub(super) fn another(&self) -> Self {
        Self::of(Arc::clone(&self.queue))
    }

    /// Returns whether another sender has no batch on its way: it is about to send one, or waits for
    /// what its callers call next.
    pub(super) fn is_another_idle(&self) -> bool {
        let traffic = self.queue.lock();
        traffic.busy < traffic.senders
    }

    /// Notes that there is a reply to its batch: if only a few calls are in flight, later ones are sent
    /// by themselves.
    pub(super) fn replied(&self) {
        let traffic = self.queue.lock();
        let in_flight = traffic.alone + traffic.out + traffic.waiting_calls();
        if traffic.gap.is_some() && in_flight <= FEW {
            self.queue.all_wait.store(false, Ordering::Relaxed);
        }
    }

    /// Returns a sender in the place of this one, which ends, if its batch has many calls, and more than
    /// twice as many as are on their way or wait besides.
    pub(super) fn hand_over(&mut self) -> Option<Self> {
        let queue = Arc::clone(&self.queue);
        let mut traffic = queue.lock();
        let calls = self.calls.unwrap_or_default();
        let others = traffic.out - calls + traffic.waiting_calls();
        if calls < LEAST_TO_SPLIT || calls <= 2 * others {
            return None;
        }
        self.set_out(&mut traffic, None);
        self.has_ended = true;
        Some(self.another())
    }

    /// Notes that its batch is `answered`. Returns whether it waits for what those callers call next,
    /// because they cannot send it by themselves, and because that and what waits already are probably
    /// one batch, of at `most` so many limits.
    pub(super) fn rest(&mut self, answered: &Batch, most: usize, now: Instant) -> bool {
        if self.has_ended {
            return false;
        }
        let queue = Arc::clone(&self.queue);
        let mut traffic = queue.lock();
        self.set_out(&mut traffic, None);
        let first = traffic.waiting.front();
        let fits = first.is_none_or(|first| first.limits() + answered.limits() <= most);
        // A sender too many ends before its callers call. Otherwise it would find that more batches may
        // leave than before, and send one.
        let all_wait = self.queue.all_wait.load(Ordering::Relaxed);
        all_wait && fits && !traffic.has_too_many_senders(now)
    }

    /// Returns the first batch that waits, and whether another sender must be started for the
    /// next one. If nothing waits, or if there are too many senders, this one ends.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Arc<Batch>, bool)> {
        if self.has_ended {
            return None;
        }
        let queue = Arc::clone(&self.queue);
        let mut traffic = queue.lock();
        // If there are too many, the others send the rest.
        let is_needed = !traffic.has_too_many_senders(now);
        let Some(next) = is_needed.then(|| traffic.take_first()).flatten() else {
            self.end(&mut traffic);
            return None;
        };
        self.set_out(&mut traffic, Some(next.calls()));
        traffic.left = Some(now);
        Some((next, traffic.needs_sender(now)))
    }

    /// Notes how many calls its batch has that is on its way.
    fn set_out(&mut self, traffic: &mut Traffic, calls: Option<usize>) {
        traffic.busy =
            traffic.busy - usize::from(self.calls.is_some()) + usize::from(calls.is_some());
        traffic.out = traffic.out - self.calls.unwrap_or_default() + calls.unwrap_or_default();
        self.calls = calls;
    }

    fn end(&mut self, traffic: &mut Traffic) {
        if !self.has_ended {
            self.set_out(traffic, None);
            traffic.senders -= 1;
            if traffic.senders == 0 {
                self.queue.all_wait.store(false, Ordering::Relaxed);
            }
            self.has_ended = true;
        }
    }
}

/// The runtime may have ended. Its calls have ended with it, unless their futures were moved.
impl Drop for Sender {
    fn drop(&mut self) {
        let queue = Arc::clone(&self.queue);
        let mut traffic = queue.lock();
        self.end(&mut traffic);
        if traffic.senders == 0 {
            let mut waiting = Vec::new();
            while let Some(batch) = traffic.take_first() {
                waiting.push(batch);
            }
            drop(traffic);
            for batch in waiting {
                batch.finish();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::{Queue, Queues};

    /// While the last user of a queue waits for the table, the next user of its name makes a new one.
    #[test]
    fn a_queue_that_goes_leaves_the_one_that_took_its_place() {
        let queues = Queues::new(None);
        let old = queues.get(1, b"alice");
        let (name, seen) = (old.name.clone(), Arc::downgrade(&old));
        let new = Arc::new(Queue::new(name.clone(), queues.clone()));
        thread::scope(|scope| {
            let mut table = queues.lock();
            scope.spawn(move || drop(old));
            while seen.strong_count() > 0 {
                thread::yield_now();
            }
            table.insert(name, Arc::downgrade(&new));
        });
        assert!(Arc::ptr_eq(&queues.get(1, b"alice"), &new));
        drop(new);
        assert!(queues.lock().is_empty());
    }
}
