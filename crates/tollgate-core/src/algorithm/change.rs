//! `BlockSpan` and `Change`: what calls other than consuming ones do to a state.

use std::time::Duration;

use crate::time::Timestamp;

/// How long a key is blocked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "a limit, an instant and a time are all that can say it"
)]
pub enum BlockSpan {
    /// As long as the limit says; a key that is blocked already stays as it is.
    Usual,
    /// Until this instant, unless it is blocked for longer already.
    Until(Timestamp),
    /// This long from the decision on, rounded up to microseconds, unless it is blocked for longer
    /// already.
    Lasting(Duration),
}

/// How a refund or a settlement changes what one limit counts.
#[expect(
    clippy::exhaustive_enums,
    reason = "only the crates of this workspace see it"
)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// Counts this much more now; zero changes nothing.
    Count(u64),
    /// Gives back this much of what was counted at the instant `at`.
    GiveBack {
        /// How much.
        amount: u64,
        /// When it was counted.
        at: Timestamp,
    },
}
