//! `Sender`: a task that sends the batches of a queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{FEW, LEAST_TO_SPLIT, Queue, Traffic};
use crate::batch::calls::Batch;

/// The task that sends the batches of a queue, one after the other, while there are any.
pub(in crate::batch) struct Sender {
    queue: Arc<Queue>,
    /// The number of calls in its batch in flight, if there is one.
    calls: Option<usize>,
    has_ended: bool,
}

impl Sender {
    /// Returns a sender, which the queue has counted already.
    pub(in crate::batch) fn of(queue: Arc<Queue>) -> Self {
        Self {
            queue,
            calls: None,
            has_ended: false,
        }
    }

    /// Returns another sender of the same queue, which has counted it already.
    pub(in crate::batch) fn another(&self) -> Self {
        Self::of(Arc::clone(&self.queue))
    }

    /// Returns whether another sender has no batch in flight: it is about to send one, or waits for its
    /// callers' next calls.
    pub(in crate::batch) fn is_another_idle(&self) -> bool {
        let traffic = self.queue.lock();
        traffic.busy < traffic.senders
    }

    /// Notes the reply to its batch: if only a few calls are left in flight, new ones are sent singly
    /// again.
    pub(in crate::batch) fn replied(&self) {
        let traffic = self.queue.lock();
        let in_flight = traffic.alone + traffic.out + traffic.waiting_calls();
        if traffic.gap.is_some() && in_flight <= FEW {
            self.queue.all_wait.store(false, Ordering::Relaxed);
        }
    }

    /// Replaces this sender with a new one if its batch was large: at least 33 calls, and more than twice
    /// all others in flight or waiting.
    pub(in crate::batch) fn hand_over(&mut self) -> Option<Self> {
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

    /// Notes that its batch is `answered`. Returns whether to wait for the answered callers' next calls:
    /// they must be batched anyway, and will probably fit into the batch that is waiting, of at most
    /// `most` limits.
    pub(in crate::batch) fn rest(&mut self, answered: &Batch, most: usize, now: Instant) -> bool {
        if self.has_ended {
            return false;
        }
        let queue = Arc::clone(&self.queue);
        let mut traffic = queue.lock();
        self.set_out(&mut traffic, None);
        let first = traffic.waiting.front();
        let fits = first.is_none_or(|first| first.work() + answered.work() <= most);
        // A surplus sender ends before its callers are woken; otherwise their calls would raise the limit
        // and keep it alive.
        let all_wait = self.queue.all_wait.load(Ordering::Relaxed);
        all_wait && fits && !traffic.has_too_many_senders(now)
    }

    /// Returns the first batch that waits, and whether another sender must be started for the next one.
    /// If no batch waits, or if there are too many senders, ends this one and returns `None`.
    pub(in crate::batch) fn next(&mut self, now: Instant) -> Option<(Arc<Batch>, bool)> {
        if self.has_ended {
            return None;
        }
        let queue = Arc::clone(&self.queue);
        let mut traffic = queue.lock();
        // A surplus sender leaves the rest to the others.
        let is_needed = !traffic.has_too_many_senders(now);
        let Some(next) = is_needed.then(|| traffic.take_first()).flatten() else {
            self.end(&mut traffic);
            return None;
        };
        self.set_out(&mut traffic, Some(next.calls()));
        traffic.left = Some(now);
        Some((next, traffic.needs_sender(now)))
    }

    /// Sets the number of calls in its batch in flight.
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

/// Ends the sender, also if its runtime ends. Then calls that wait fail: their futures may have moved to
/// another runtime.
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
