//! `Operation`: what a request does with its checks.

use std::time::Duration;

use super::receipt::Receipt;
use crate::algorithm::BlockSpan;

/// What a request does with its checks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Blocks the keys, if the algorithm of every limit
    /// [can](crate::Algorithm::can_block). Decides as a peek afterwards would.
    Block(BlockSpan),
    /// Consumes every cost, or nothing.
    Consume,
    /// Decides as [`Operation::Consume`] would, but consumes nothing and is not counted as an
    /// attempt.
    Peek,
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
