//! `Naive`: the second oracle, which defines each algorithm again from the list of its admitted
//! calls.
//!
//! It shares nothing with the core: no state machine, no incremental counters, no formula for
//! waits. Each definition computes what remains at an instant from everything counted so far, and
//! waits are found by search. It is slow, and meant to be obviously right.

mod definitions;

use tollgate_core::Limit;
use tollgate_core::algorithm::Algorithm;

use definitions::{Definition, Event};

/// The expected answer of a limit to a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) consumed: u128,
    /// The instant at which the call was counted, or `None` if it was not.
    pub(crate) counted_at: Option<u128>,
    pub(crate) remaining: u128,
    /// `None` means never.
    pub(crate) retry_after: Option<u128>,
    pub(crate) reset_after: u128,
}

/// One limit for one key, as the list of all its counted calls.
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
            // If a window is counted in coarser steps, it is stricter than its definition.
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

    /// Returns the answer to a peek at `cost`.
    pub(crate) fn peek(&self, now: u64, cost: u64) -> Answer {
        let (now, cost) = (u128::from(now), u128::from(cost));
        self.answer(now, 0, cost <= self.remaining(now), cost)
    }

    /// Takes as much as remains at `now`, up to `most`.
    pub(crate) fn take_up_to(&mut self, now: u64, most: u64) -> Answer {
        let left = u64::try_from(self.remaining(u128::from(now))).unwrap_or(u64::MAX);
        // If nothing remains, this acts like a call of cost 1.
        self.consume(now, left.min(most).max(u64::from(most > 0)))
    }

    /// Returns whether a refund only has to remove the call from the list.
    ///
    /// That is not so for a token bucket, which has refilled since; for an anchored window, whose
    /// first call still determines its start; and for a log that counts denied calls, which keeps
    /// only the newest.
    pub(crate) fn forgets_refunds(&self) -> bool {
        match self.definition {
            Definition::Anchored { .. } | Definition::Bucket { .. } => false,
            Definition::Log { .. } => !self.counts_denied,
            Definition::Aligned { .. }
            | Definition::Buckets { .. }
            | Definition::Counter { .. } => true,
        }
    }

    /// Returns the number of counted calls; a refund names one by index.
    pub(crate) fn counted(&self) -> usize {
        self.events.len()
    }

    /// Refunds the call at `index`.
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

    /// Searches for the shortest wait after which `cost` remains.
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
