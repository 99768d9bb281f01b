//! `Verdict`: what one limit said.

use crate::time::{Timestamp, Wait};

/// One limit's verdict on a call.
///
/// The numbers describe the limit after the call: an allowed call has consumed its cost, and a
/// denied one has changed nothing, unless the limit counts denied calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verdict {
    pub(crate) allowed: bool,
    pub(crate) capacity: u64,
    /// The units that remain; if it owes any, those that it owes.
    pub(crate) remaining: u64,
    /// Set by peeks and changes only: calls that consume need not compute debts.
    pub(crate) owes: bool,
    /// How long until the limit allows the call; of an allowed reservation, how long until it
    /// starts.
    pub(crate) wait: Wait,
    /// Whether the call is an allowed reservation.
    pub(crate) starts_later: bool,
    pub(crate) reset_after: Wait,
    pub(crate) consumed: u64,
    pub(crate) at: Timestamp,
    /// Whether the limit is in shadow: it does not count for the request.
    pub(crate) shadow: bool,
}

impl Verdict {
    /// Returns the verdict of a limit with this `capacity` that allows a call and has `remaining`
    /// left after it.
    ///
    /// For stores that get their verdicts from elsewhere; the algorithms make their own.
    #[must_use]
    pub fn allow(capacity: u64, remaining: u64) -> Self {
        Self {
            allowed: true,
            capacity,
            remaining,
            owes: false,
            wait: Wait::ZERO,
            starts_later: false,
            reset_after: Wait::ZERO,
            consumed: 0,
            at: Timestamp::UNIX_EPOCH,
            shadow: false,
        }
    }

    /// Returns the verdict of a limit with this `capacity` and `remaining` left that denies a call
    /// until `retry_after` has passed.
    #[must_use]
    pub fn deny(capacity: u64, remaining: u64, retry_after: Wait) -> Self {
        Self {
            allowed: false,
            wait: retry_after,
            ..Self::allow(capacity, remaining)
        }
    }

    /// Sets how long until the limit has its full capacity again.
    #[must_use]
    pub fn with_reset_after(mut self, reset_after: Wait) -> Self {
        self.reset_after = reset_after;
        self
    }

    /// Sets how long this limit alone delays a [reservation](crate::RateLimiter::reserve) that it
    /// allows. A denied call has no delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Wait) -> Self {
        if self.allowed {
            self.wait = delay;
            self.starts_later = true;
        }
        self
    }

    /// Sets the cost that the call consumed, and the instant at which it is counted.
    #[must_use]
    pub fn with_consumed(mut self, cost: u64, at: Timestamp) -> Self {
        self.consumed = cost;
        self.at = at;
        self
    }

    /// Sets whether the limit is in [shadow](crate::Limit::shadow): the request does not depend on
    /// this verdict then.
    #[must_use]
    pub fn in_shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Returns whether the limit is in [shadow](crate::Limit::shadow).
    #[must_use]
    pub fn is_in_shadow(&self) -> bool {
        self.shadow
    }

    /// Returns whether this limit alone allows the call.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the largest cost that this limit can ever admit: the amount of its quota, or the
    /// burst of a token bucket.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the largest cost that this limit would allow now, rounded down.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if self.owes { 0 } else { self.remaining }
    }

    /// Returns how many units more have been used than the limit allows, rounded up:
    /// [charged](crate::RateLimiter::charge), or [settled](crate::RateLimiter::settle) above the estimate. Nothing
    /// remains while there are any.
    ///
    /// A peek tells it, and so does what changes the key, such as a charge; of other calls, it is zero. A
    /// [`SlidingLog`](crate::SlidingLog) remembers no debts.
    #[must_use]
    pub fn owed(&self) -> u64 {
        if self.owes { self.remaining } else { 0 }
    }

    /// Returns how long to wait until this limit allows the same call, if nobody else calls.
    ///
    /// The wait is exact: one microsecond earlier the limit still denies the call. It is
    /// [`Wait::NEVER`] if the cost exceeds the [`capacity`](Self::capacity). It can be more than
    /// zero even if this limit allowed the call: if another limit denied it, a limit that counts
    /// denied calls has counted it.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        if self.starts_later {
            Wait::ZERO
        } else {
            self.wait
        }
    }

    /// Returns how long this limit alone delays a [reservation](crate::RateLimiter::reserve) that
    /// was allowed; zero for other calls.
    #[must_use]
    pub fn delay(&self) -> Wait {
        if self.starts_later {
            self.wait
        } else {
            Wait::ZERO
        }
    }

    /// Returns how long until this limit has its full capacity again, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Wait {
        self.reset_after
    }

    /// Returns the cost that the call consumed from this limit; zero if it was denied.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Returns the instant of the decision, on the store's clock or the caller's.
    ///
    /// If the clock stepped back, this returns the latest instant recorded for the key, at which the call is
    /// counted. Of a verdict that a layer made, it is what [`with_consumed`](Self::with_consumed) set.
    #[must_use]
    pub fn decided_at(&self) -> Timestamp {
        self.at
    }
}
