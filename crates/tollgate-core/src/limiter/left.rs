//! `Left`: what remains after a call that gave back or counted.

use crate::decision::Decision;
use crate::error::StoreError;
use crate::limit::Limits;
use crate::store::Verdicts;

/// What remains after a refund, a settlement, a charge or [`lower`](crate::RateLimiter::lower), as the
/// decision of a call of cost zero. It need not be read.
///
/// # Examples
///
/// ```
/// #![deny(unused_must_use)]
/// # use std::error::Error;
/// # use tollgate_core::{RateLimiter, Receipt, SyncStore};
/// # fn example(limiter: &RateLimiter<impl SyncStore>, receipts: [Receipt; 2]) -> Result<(), Box<dyn Error>> {
/// # let [first, second] = receipts;
/// limiter.refund("alice", first).run()?;
/// let left = limiter.refund("alice", second).run()?.remaining();
/// assert_eq!(limiter.peek("alice").run()?.remaining(), left);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Eq, PartialEq)]
pub struct Left<'l>(Decision<'l>);

impl<'l> Left<'l> {
    pub(super) fn new(limits: &'l Limits, verdicts: Option<Verdicts>) -> Result<Self, StoreError> {
        let verdicts = verdicts.ok_or_else(StoreError::another_answer)?;
        Decision::new(limits, verdicts).map(Self)
    }

    /// Returns the decision of a call of cost zero: each limit, and what remains of it.
    pub fn decision(&self) -> &Decision<'l> {
        &self.0
    }

    /// Returns the verdicts without the limits; they borrow nothing.
    pub fn into_verdicts(self) -> Verdicts {
        self.0.into_verdicts()
    }

    /// Returns how many units more have been used than each limit allows, at most; see
    /// [`Verdict::owed`](crate::store::Verdict::owed).
    #[must_use]
    pub fn owed(&self) -> u64 {
        let of_each = self.0.verdicts().map(|(_, verdict)| verdict.owed());
        of_each.max().unwrap_or(0)
    }

    /// Returns the largest cost that all limits would allow now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.0.remaining()
    }
}
