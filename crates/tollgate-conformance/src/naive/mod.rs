//! `Naive`: each algorithm defined a second time, from the list of all counted calls.
//!
//! It shares nothing with the state machines of `tollgate-core`: it keeps no counters and knows no
//! formula for waits. Each definition computes what remains at an instant from everything counted
//! so far, and waits are found by search. It is slow, and meant to be obviously right.

mod blocks;
mod calendar;
mod definitions;
mod starts;

use tollgate_core::store::{Prefetch, Verdict};
use tollgate_core::{Algorithm, Limit};

pub(crate) use blocks::Blocks;
pub(crate) use calendar::Calendar;
use definitions::{Definition, Event, Kind};
pub(crate) use starts::{Cost, Starts};

/// Larger debts are not compared: a count ends near 2^53, and not after the same unit in every store.
const MOST_OWED: i128 = 1 << 52;

/// The expected answer of a limit to a call; times are in microseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// Whether the call is admitted.
    pub allowed: bool,
    /// What the call consumed.
    pub consumed: i128,
    /// The instant at which the call was counted, or `None` if it consumed nothing.
    pub counted_at: Option<i128>,
    /// The largest cost that would be admitted next.
    pub remaining: i128,
    /// What was used above the capacity; zero unless the call is a peek or changes what a key may do.
    pub owed: i128,
    /// How long until the same call is admitted; `None` means never.
    pub retry_after: Option<i128>,
    /// How long until everything remains.
    pub reset_after: i128,
}

impl From<&Verdict> for Answer {
    fn from(verdict: &Verdict) -> Self {
        let counted_at = i128::from(verdict.decided_at().as_micros());
        Self {
            allowed: verdict.is_allowed(),
            consumed: verdict.consumed().into(),
            counted_at: (verdict.consumed() > 0).then_some(counted_at),
            remaining: verdict.remaining().into(),
            owed: i128::from(verdict.owed()).min(MOST_OWED),
            retry_after: verdict.retry_after().as_micros().map(i128::from),
            reset_after: verdict
                .reset_after()
                .as_micros()
                .map_or(i128::MAX, i128::from),
        }
    }
}

/// One limit for one key, as the list of all its counted calls.
#[derive(Clone, Debug)]
pub struct Naive {
    definition: Definition,
    counts_denied: bool,
    events: Vec<Event>,
}

impl Naive {
    /// Returns `limit` with no call counted yet, or `None` if its algorithm has no second definition,
    /// or only one for smaller quotas.
    #[must_use]
    pub fn of(limit: &Limit) -> Option<Self> {
        let algorithm = limit.algorithm();
        let quota = algorithm.quota();
        let (amount, window) = (i128::from(quota.amount()), i128::from(quota.window_us()));
        let kind = match algorithm {
            Algorithm::FixedWindow(machine) if machine.is_anchored() => Kind::Anchored,
            Algorithm::FixedWindow(_) => Kind::Aligned,
            Algorithm::Gcra(machine) => Kind::Bucket {
                burst: machine.burst().into(),
            },
            Algorithm::SlidingBuckets(machine) => Kind::Buckets {
                bucket: quota.window_us().div_ceil(machine.buckets()).into(),
                buckets: machine.buckets().into(),
            },
            // If a window is counted in coarser steps, it is stricter than its definition.
            Algorithm::SlidingCounter(_) if amount * window >= 1 << 53 => return None,
            Algorithm::SlidingCounter(_) => Kind::Counter,
            Algorithm::SlidingLog(_) => Kind::Log,
            Algorithm::CalendarWindow(machine) => Kind::Calendar(Calendar::of(machine)),
            _ => return None,
        };
        Some(Self {
            definition: Definition {
                kind,
                amount,
                window,
            },
            counts_denied: algorithm.counts_denied(),
            events: Vec::new(),
        })
    }

    /// Consumes `cost` at `now`.
    pub fn consume(&mut self, now: u64, cost: u64) -> Answer {
        let allowed = self.admits(now, cost);
        if allowed || self.counts_denied {
            self.count(now, cost);
        }
        let (now, cost) = (i128::from(now), i128::from(cost));
        self.answer(now, if allowed { cost } else { 0 }, allowed, cost)
    }

    /// Returns whether a call of `cost` is admitted at `now`, without the search for waits.
    #[must_use]
    pub fn admits(&self, now: u64, cost: u64) -> bool {
        i128::from(cost) <= self.remaining(now.into())
    }

    /// Counts a call of `cost` at `now`, whether it is admitted or not: for calls that several limits
    /// decide together.
    pub fn count(&mut self, now: u64, cost: u64) {
        if cost > 0 {
            self.definition
                .count(&mut self.events, now.into(), cost.into());
        }
    }

    /// Returns the answer to a peek at `cost`.
    pub fn peek(&self, now: u64, cost: u64) -> Answer {
        let (now, cost) = (i128::from(now), i128::from(cost));
        Answer {
            owed: self.owed(now),
            ..self.answer(now, 0, cost <= self.remaining(now), cost)
        }
    }

    /// Consumes as much as remains at `now`, up to `most`.
    pub fn take_up_to(&mut self, now: u64, most: u64) -> Answer {
        let left = u64::try_from(self.remaining(i128::from(now))).unwrap_or(u64::MAX);
        // If nothing remains, this acts like a call of cost 1.
        self.consume(now, left.min(most).max(u64::from(most > 0)))
    }

    /// Consumes `cost` at `now`, and units ahead.
    pub fn prefetch(&mut self, now: u64, cost: u64, ahead: Prefetch) -> Answer {
        let (at, within) = (i128::from(now), ahead.within().as_micros());
        let within = i128::try_from(within).unwrap_or(i128::MAX);
        let left = self.definition.left_ahead(&self.events, at, within).max(0);
        let units = i128::from(ahead.most()).min(left / i128::from(ahead.parts()));
        let own = i128::from(cost);
        if own == 0 || units <= own {
            return self.consume(now, cost);
        }
        self.definition
            .count_ahead(&mut self.events, at, within, (own, units));
        self.answer(at, units, true, own)
    }

    /// Refunds, at `now`, a call that consumed `cost` and was counted at `at`.
    pub fn refund(&mut self, now: u64, at: u64, cost: u64) -> Answer {
        let now = i128::from(now);
        self.definition
            .refund(&mut self.events, now, at.into(), cost.into());
        self.after(now)
    }

    /// Settles at `cost`, at `now`, a call that consumed `was` and was counted at `at`.
    pub fn settle(&mut self, now: u64, at: u64, was: u64, cost: u64) -> Answer {
        if cost < was {
            return self.refund(now, at, was - cost);
        }
        if cost > was {
            let (now, more) = (i128::from(now), i128::from(cost - was));
            self.definition.count(&mut self.events, now, more);
        }
        self.after(now.into())
    }

    /// Charges `cost` at `now`: counts it, whether it fits or not.
    pub fn charge(&mut self, now: u64, cost: u64) -> Answer {
        self.count(now, cost);
        self.after(now.into())
    }

    /// Gives back, at `now`, the newest `cost` units that still count.
    pub fn give(&mut self, now: u64, cost: u64) -> Answer {
        let now = i128::from(now);
        let given = self.definition.give(&mut self.events, now, cost.into());
        Answer {
            consumed: given,
            counted_at: (given > 0).then_some(now),
            ..self.after(now)
        }
    }

    /// Lowers what remains at `now` to at most `remaining`.
    pub fn lower(&mut self, now: u64, remaining: u64) -> Answer {
        let now = i128::from(now);
        let beyond = self.remaining(now) - i128::from(remaining);
        if beyond > 0 {
            self.definition.count(&mut self.events, now, beyond);
        }
        self.after(now)
    }

    fn answer(&self, now: i128, consumed: i128, allowed: bool, cost: i128) -> Answer {
        let capacity = self.definition.capacity();
        Answer {
            allowed,
            consumed,
            counted_at: self
                .events
                .last()
                .filter(|_| consumed > 0)
                .map(|event| event.starts),
            remaining: self.remaining(now),
            owed: 0,
            retry_after: match (allowed, cost <= capacity) {
                (true, _) => Some(0),
                (false, true) => Some(self.wait(now, cost)),
                (false, false) => None,
            },
            reset_after: self.wait(now, capacity),
        }
    }

    /// Returns what remains at `now`, after a change.
    fn after(&self, now: i128) -> Answer {
        Answer {
            owed: self.owed(now),
            ..self.answer(now, 0, true, 0)
        }
    }

    fn owed(&self, now: i128) -> i128 {
        (-self.left(now)).clamp(0, MOST_OWED)
    }

    fn remaining(&self, now: i128) -> i128 {
        self.left(now).max(0)
    }

    fn left(&self, now: i128) -> i128 {
        let now = self.definition.clamp(&self.events, now);
        self.definition.left(&self.events, now)
    }

    /// Searches for the shortest wait after which `cost` is left.
    fn wait(&self, now: i128, cost: i128) -> i128 {
        if self.left(now) >= cost {
            return 0;
        }
        let mut enough = 1;
        while self.left(now + enough) < cost {
            enough *= 2;
        }
        let mut too_little = enough / 2;
        while enough - too_little > 1 {
            let middle = too_little + (enough - too_little) / 2;
            if self.left(now + middle) >= cost {
                enough = middle;
            } else {
                too_little = middle;
            }
        }
        enough
    }
}
