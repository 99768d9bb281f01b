//! The second oracle: each algorithm defined again, from the list of what it admitted.
//!
//! Nothing here is shared with the core: no state machine, no incremental counters, no formula for
//! a wait. Each definition says what remains at an instant, given everything counted so far; a wait
//! is then searched for. It is slow, and meant to be obviously right.

mod definitions;

use tollgate_core::Limit;
use tollgate_core::algorithm::Algorithm;

use definitions::{Definition, Event};

/// What a limit should say of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) consumed: u128,
    /// When it was counted; nothing where it was not.
    pub(crate) counted_at: Option<u128>,
    pub(crate) remaining: u128,
    /// `None` for never.
    pub(crate) retry_after: Option<u128>,
    pub(crate) reset_after: u128,
}

/// One limit for one key, as everything that was counted for it.
#[derive(Clone, Debug)]
pub(crate) struct Naive {
    definition: Definition,
    counts_denied: bool,
    events: Vec<Event>,
}

impl Naive {
    /// Returns the definition of `limit`, if there is one.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let algorithm = limit.algorithm();
        let quota = algorithm.quota();
        let (amount, window) = (u128::from(quota.amount()), u128::from(quota.window_us()));
        let definition = match algorithm {
            Algorithm::FixedWindow(machine) if machine.is_anchored() => {
                Definition::Anchored { amount, window }
            }
            Algorithm::FixedWindow(_) => Definition::Aligned { amount, window },
            Algorithm::Gcra(machine) => Definition::Bucket {
                burst: u128::from(machine.burst()),
                amount,
                window,
            },
            Algorithm::SlidingBuckets(machine) => Definition::Buckets {
                amount,
                bucket: window.div_ceil(u128::from(machine.buckets())),
                buckets: u128::from(machine.buckets()),
            },
            // A window counted in coarser steps is only ever stricter than its definition.
            Algorithm::SlidingCounter(_) if amount * window >= 1 << 53 => return None,
            Algorithm::SlidingCounter(_) => Definition::Counter { amount, window },
            Algorithm::SlidingLog(_) => Definition::Log { amount, window },
            _ => return None,
        };
        Some(Self {
            definition,
            counts_denied: algorithm.counts_denied(),
            events: Vec::new(),
        })
    }

    /// Consumes `cost` at `now`.
    pub(crate) fn consume(&mut self, now: u64, cost: u64) -> Answer {
        let (now, cost) = (u128::from(now), u128::from(cost));
        let allowed = cost <= self.remaining(now);
        if allowed || self.counts_denied {
            self.count(now, cost);
        }
        self.answer(now, if allowed { cost } else { 0 }, allowed, cost)
    }

    /// Looks at what consuming `cost` at `now` would say.
    pub(crate) fn peek(&self, now: u64, cost: u64) -> Answer {
        let (now, cost) = (u128::from(now), u128::from(cost));
        self.answer(now, 0, cost <= self.remaining(now), cost)
    }

    /// Takes as much as there is at `now`, at most `most`.
    pub(crate) fn take_up_to(&mut self, now: u64, most: u64) -> Answer {
        let left = u64::try_from(self.remaining(u128::from(now))).unwrap_or(u64::MAX);
        // Where there is nothing to take, it is as a call of one unit.
        self.consume(now, left.min(most).max(u64::from(most > 0)))
    }

    /// Returns whether giving back is to forget what was counted, and no more than that.
    ///
    /// It is not for a bucket, which has leaked since; for an anchored window, whose first call
    /// holds its place; and for a log of attempts, which remembers only the newest of them.
    pub(crate) fn forgets_refunds(&self) -> bool {
        match self.definition {
            Definition::Anchored { .. } | Definition::Bucket { .. } => false,
            Definition::Log { .. } => !self.counts_denied,
            Definition::Aligned { .. }
            | Definition::Buckets { .. }
            | Definition::Counter { .. } => true,
        }
    }

    /// Returns how many events were counted, so that one can be given back.
    pub(crate) fn counted(&self) -> usize {
        self.events.len()
    }

    /// Gives back the event at `index`.
    pub(crate) fn refund(&mut self, now: u64, index: usize) -> Answer {
        self.events[index].amount = 0;
        self.answer(u128::from(now), 0, true, 0)
    }

    fn answer(&self, now: u128, consumed: u128, allowed: bool, cost: u128) -> Answer {
        let capacity = self.definition.capacity();
        Answer {
            allowed,
            consumed,
            counted_at: self
                .events
                .last()
                .filter(|_| consumed > 0)
                .map(|event| event.at),
            remaining: self.remaining(now),
            retry_after: match (allowed, cost <= capacity) {
                (true, _) => Some(0),
                (false, true) => Some(self.wait(now, cost)),
                (false, false) => None,
            },
            reset_after: self.wait(now, capacity),
        }
    }

    fn count(&mut self, now: u128, cost: u128) {
        if cost > 0 {
            let at = self.definition.clamp(&self.events, now);
            let amount = self.definition.weight(cost);
            self.events.push(Event { at, amount });
        }
    }

    fn remaining(&self, now: u128) -> u128 {
        let now = self.definition.clamp(&self.events, now);
        self.definition.remaining(&self.events, now)
    }

    /// Searches for the least wait after which `cost` remains.
    fn wait(&self, now: u128, cost: u128) -> u128 {
        if self.remaining(now) >= cost {
            return 0;
        }
        let mut enough = 1;
        while self.remaining(now + enough) < cost {
            enough *= 2;
        }
        let mut too_little = enough / 2;
        while enough - too_little > 1 {
            let middle = too_little + (enough - too_little) / 2;
            if self.remaining(now + middle) >= cost {
                enough = middle;
            } else {
                too_little = middle;
            }
        }
        enough
    }
}
