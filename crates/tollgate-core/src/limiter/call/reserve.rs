//! `Reserve`: a reservation, before its longest delay is known.

use std::fmt;
use std::time::Duration;

use super::{Call, Consume};
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::store::Operation;

/// A call to reserve a start, made by [`RateLimiter::reserve`], which still needs its longest delay:
/// set it with [`within`](Self::within), which returns the [`Call`].
#[must_use = "a reservation does nothing until `within` sets its longest delay, and it is awaited or run"]
pub struct Reserve<'l, 'k, S> {
    call: Call<'l, 'k, S, Consume>,
}

impl<'l, 'k, S> Reserve<'l, 'k, S> {
    #[inline]
    pub(crate) fn new(limiter: &'l RateLimiter<S>, key: Key<'k>) -> Self {
        Self {
            call: Call::new(limiter, Operation::Consume, key, 1),
        }
    }

    /// Sets the cost, 1 by default. A cost above a limit's capacity is always denied.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.call.asked.cost = cost;
        self
    }

    /// Sets the longest delay to accept, in whole microseconds. Without a delay
    /// ([`Duration::ZERO`]), the call is decided as a [check](RateLimiter::check) is.
    ///
    /// There is no default, because it bounds the queue: of `N` per `T`, about `N * max_delay / T`
    /// calls can wait at a time. A delay that could not be counted exactly is denied, whatever is
    /// set here: that is one of 285 years if `N` divides `T`, and of
    /// `285 years * gcd(N, T) / N` otherwise.
    #[inline]
    pub fn within(mut self, max_delay: Duration) -> Call<'l, 'k, S, Consume> {
        self.call.asked.operation = Operation::Reserve { max_delay };
        self.call
    }
}

impl<S> fmt::Debug for Reserve<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("limits", &self.call.limiter.limits())
            .field("key", &self.call.asked.key)
            .field("cost", &self.call.asked.cost)
            .finish_non_exhaustive()
    }
}
