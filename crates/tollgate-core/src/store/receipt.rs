//! `Receipt`: what a call consumed, to give it back.

use super::fingerprint::Fingerprint;
use crate::algorithm::Reserved;
use crate::one_or_many::OneOrMany;
use crate::time::Timestamp;

/// Proof of what a call consumed, which can be refunded or settled once.
///
/// A refund or a settlement takes the receipt. There is no second one, except for a call that was
/// repeated with its [id](crate::CallId): a receipt cannot be cloned, and neither can
/// the [`Decision`](crate::Decision) or the [`Verdicts`](super::Verdicts) that it is made from.
///
/// ```compile_fail,E0599
/// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
/// # fn twice(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
/// let decision = limiter.check("alice").run()?;
/// let first = decision.clone().into_receipt();
/// let second = decision.into_receipt();
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
/// # fn twice(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
/// let verdicts = limiter.check("alice").run()?.into_verdicts();
/// let first = verdicts.clone().into_receipt();
/// let second = verdicts.into_receipt();
/// # Ok(())
/// # }
/// ```
///
/// A receipt belongs to the limits, the keys and the clock (the store's or the caller's) of the
/// request that consumed. Refunding it with any others fails with [`Malformed`](crate::ErrorKind::Malformed) and
/// changes nothing.
///
/// # After a reset
///
/// A reset forgets what a receipt would give back. If the receipt is refunded after all, it can
/// free units of calls made after the reset, depending on the algorithm:
///
/// - A sliding log and an anchored window compare instants: the receipt frees nothing, unless a
///   later call was recorded in the same microsecond as the refunded one.
/// - An aligned window, a sliding counter and sliding buckets cannot tell calls in one window or
///   bucket apart: the receipt frees units of later calls in the same one.
/// - GCRA keeps one debt for all calls: the receipt lowers it by the part of its cost that has not
///   leaked yet.
///
/// So drop the receipts of a key when you reset it.
#[derive(Debug, Eq, PartialEq)]
pub struct Receipt {
    pub(super) consumed: OneOrMany<Consumed>,
    pub(super) fingerprint: Fingerprint,
    /// Of a reservation that starts later: what each limit recorded.
    pub(super) reserved: Option<Box<OneOrMany<Reserved>>>,
}

impl Receipt {
    /// Returns the receipt of a decision on one limit.
    #[inline]
    pub(crate) fn of_one(fingerprint: Fingerprint, consumed: Consumed) -> Self {
        Self {
            consumed: OneOrMany::One(consumed),
            fingerprint,
            reserved: None,
        }
    }

    /// Returns the receipt of a decision on several limits, if anything was consumed from them.
    pub(crate) fn of_each(fingerprint: Fingerprint, consumed: OneOrMany<Consumed>) -> Option<Self> {
        let receipt = Self {
            consumed,
            fingerprint,
            reserved: None,
        };
        let mut each = receipt.consumed.iter();
        each.any(|consumed| consumed.cost > 0).then_some(receipt)
    }

    /// Returns what the limit at `index` recorded, if this is the receipt of a reservation that was
    /// to start later.
    pub(crate) fn reserved(&self, index: usize) -> Option<&Reserved> {
        self.reserved.as_deref()?.get(index)
    }

    /// Returns whether this receipt is from a decision with this `fingerprint`.
    pub(crate) fn has(&self, fingerprint: Fingerprint) -> bool {
        self.fingerprint == fingerprint
    }

    /// Returns this receipt as the store gave it, if a layer has [marked](super::Verdicts::marked) its
    /// verdicts with `mark`.
    ///
    /// For layers, which make the receipt for the store inside from the one that the caller brings
    /// back: give only one of the two back.
    #[must_use]
    pub fn marked(&self, mark: u64) -> Self {
        Self {
            consumed: self.consumed.clone(),
            fingerprint: self.fingerprint.marked(mark),
            reserved: self.reserved.clone(),
        }
    }

    /// Returns this receipt with what `other` returns for the cost that each limit consumed.
    ///
    /// For layers in whose store a unit costs something else than outside: see
    /// [`Request::map_costs`](super::Request::map_costs). Give only one of the two receipts back.
    #[must_use]
    pub fn map_costs(&self, other: impl Fn(u64) -> u64) -> Self {
        let mut receipt = self.marked(0);
        for consumed in receipt.consumed.iter_mut() {
            consumed.cost = other(consumed.cost);
        }
        receipt
    }

    /// Returns the fingerprint of the request that consumed.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns what was consumed from each limit, in the order of the request's checks.
    #[must_use]
    pub fn consumed(&self) -> &[Consumed] {
        &self.consumed
    }
}

/// The cost that a call consumed from one limit, and when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Consumed {
    pub(super) cost: u64,
    pub(super) at: Timestamp,
}

impl Consumed {
    #[inline]
    pub(crate) const fn new(cost: u64, at: Timestamp) -> Self {
        Self { cost, at }
    }

    /// Returns the cost that was consumed.
    #[must_use]
    pub fn cost(self) -> u64 {
        self.cost
    }

    /// Returns the instant at which the cost is counted: for a
    /// [reservation](crate::RateLimiter::reserve), when the call starts.
    #[must_use]
    pub fn at(self) -> Timestamp {
        self.at
    }
}
