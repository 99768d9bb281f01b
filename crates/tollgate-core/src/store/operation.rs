//! `Operation`: what a request does with its checks.

use std::time::Duration;

use super::receipt::Receipt;
use crate::algorithm::BlockSpan;
use crate::time::{LONGEST_AHEAD_US, micros_ceil};

/// What a request does with its checks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Blocks the keys, if the algorithm of every limit
    /// [can](crate::Algorithm::can_block). Decides as a peek afterwards would.
    Block(BlockSpan),
    /// Counts every cost, whether it fits or not: it has been used already. Always allowed.
    ///
    /// Only if the cost of every check, and the debt that it makes, is at most
    /// [`MAX_EXACT`](crate::store::MAX_EXACT).
    Charge,
    /// Consumes every cost, or nothing.
    Consume,
    /// Decides as [`Operation::Consume`] would, but consumes nothing and is not counted as an
    /// attempt.
    Peek,
    /// Consumes every cost, or nothing, as [`Operation::Consume`] does; and if it fits, and all costs are
    /// equal, consumes more units ahead, for calls that a process admits without asking the store.
    /// [`Request::granted`](super::Request::granted) says how many, and for how long.
    Prefetch(Prefetch),
    /// Gives back the newest units without a receipt: as many as the cost of each check, but no more than the
    /// limit holds. Always allowed.
    ///
    /// What is consumed, in the verdicts, is what was given back; no receipt is for it.
    Give,
    /// Lowers what remains to at most the cost of each check, and changes nothing where less remains
    /// already. Always allowed.
    Lower,
    /// Gives back what a request with the same limits and keys consumed. The costs are ignored.
    Refund(&'a Receipt),
    /// Consumes every cost for a call that starts now or after a delay, at most `max_delay`, or
    /// consumes nothing. Sub-microseconds are ignored.
    ///
    /// Only if the algorithm of every limit [can reserve](crate::Algorithm::can_reserve).
    Reserve {
        /// The longest delay that is accepted.
        max_delay: Duration,
    },
    /// Corrects what a request with the same limits and keys consumed to the costs of the checks:
    /// gives back what it consumed beyond them, or counts the rest, whether it fits or not. Always
    /// allowed.
    Settle(&'a Receipt),
    /// Consumes the same cost from every limit: as much as all of them allow, at most the smallest
    /// cost of the checks.
    TakeUpTo,
}

impl Operation<'_> {
    /// Returns whether it decides a call: consumes for it, or says whether it would be allowed. Others correct
    /// what a call consumed, by its receipt, or change what is held of the keys.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::store::Operation;
    ///
    /// assert!(Operation::Peek.decides_a_call());
    /// assert!(!Operation::Lower.decides_a_call());
    /// ```
    #[must_use]
    pub fn decides_a_call(self) -> bool {
        match self {
            Self::Consume
            | Self::Peek
            | Self::Prefetch(_)
            | Self::Reserve { .. }
            | Self::TakeUpTo => true,
            Self::Block(_)
            | Self::Charge
            | Self::Give
            | Self::Lower
            | Self::Refund(_)
            | Self::Settle(_) => false,
        }
    }
}

/// How many units a process asks for ahead, and for how long: see [`Operation::Prefetch`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prefetch {
    pub(crate) most: u64,
    pub(crate) within_us: u32,
    parts: u32,
}

impl Prefetch {
    /// No units ahead.
    pub const NOTHING: Self = Self {
        most: 0,
        within_us: 0,
        parts: 1,
    };

    /// Returns that at most `most` units, including the cost of the call, are to be used within `within`,
    /// which is rounded up to microseconds; more than an hour counts as an hour.
    #[must_use]
    pub fn new(most: u64, within: Duration) -> Self {
        let within_us = u32::try_from(micros_ceil(within))
            .map_or(LONGEST_AHEAD_US, |us| us.min(LONGEST_AHEAD_US));
        Self {
            most,
            within_us,
            parts: 1,
        }
    }

    /// Takes at most one of `parts` equal parts of what is left, so that other processes find some, too.
    /// Zero counts as one.
    #[must_use]
    pub fn one_of(mut self, parts: u32) -> Self {
        self.parts = parts.max(1);
        self
    }

    /// Returns how many units are to be used at most, including the cost of the call.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns within which time they are to be used.
    #[must_use]
    pub fn within(&self) -> Duration {
        Duration::from_micros(self.within_us.into())
    }

    /// Returns into how many equal parts what is left is divided, of which one is taken at most.
    #[must_use]
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// Returns how many units are granted if `left` are left, or `None` if there are none beyond the `cost`
    /// of the call.
    pub(crate) fn grant(&self, cost: u64, left: u64) -> Option<u64> {
        let units = self.most.min(left / u64::from(self.parts));
        (cost > 0 && units > cost).then_some(units)
    }
}
