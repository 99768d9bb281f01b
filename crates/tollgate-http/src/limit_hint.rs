//! `LimitHint`: what a response says about one limit.

use std::sync::Arc;
use std::time::Duration;

/// What a response says about one limit, as [`Hints::limits`](crate::Hints::limits) lists them. Every part may be missing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LimitHint {
    /// Shared, since a field may have thousands of limits of one name.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) amount: Option<u64>,
    pub(crate) window: Option<Duration>,
    pub(crate) remaining: Option<u64>,
    pub(crate) reset_after: Option<Duration>,
    /// Whether nothing remains if the request was refused; if not, it was not counted.
    pub(crate) may_be_used_up: bool,
}

impl LimitHint {
    /// Returns the limit's name: the policy's, or what its headers have beside the usual words, such
    /// as `tokens`.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns how much is allowed in a window.
    #[must_use]
    pub fn amount(&self) -> Option<u64> {
        self.amount
    }

    /// Returns the length of the window.
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// Returns how much is left, rounded down; `None` also if the service says `-1`, by which some mean
    /// that they did not count the request.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// Returns how long, from the response on, no more than what remains may be used.
    #[must_use]
    pub fn reset_after(&self) -> Option<Duration> {
        self.reset_after
    }

    /// Returns whether it says anything.
    pub(crate) fn is_of_use(&self) -> bool {
        self.amount.is_some() || self.remaining.is_some() || self.reset_after.is_some()
    }
}
