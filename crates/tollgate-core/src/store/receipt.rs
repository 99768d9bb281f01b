//! `Receipt`: what a call consumed, to give it back.

use super::MAX_CHECKS;
use super::fingerprint::{Fingerprint, Sum};
use crate::algorithm::Reserved;
use crate::error::{ErrorKind, StoreError};
use crate::one_or_many::OneOrMany;
use crate::time::{MAX_EXACT, Timestamp};

/// The first byte of a receipt.
const VERSION: u8 = 1;

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

    /// Returns this receipt as bytes, for another process: one that finishes a job gives back, or settles, what
    /// the one that began it consumed.
    ///
    /// There is no second receipt by itself, but a message can come twice. Give its [id](crate::call::Change::id)
    /// to the refund or the settlement, which then counts once while the id is kept. A receipt of a store in
    /// memory, or through a layer that marks receipts, is for the same process only; any other refuses it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, Receipt, StoreError, SyncStore};
    ///
    /// fn accept(limiter: &RateLimiter<impl SyncStore>) -> Result<Option<Vec<u8>>, StoreError> {
    ///     let decision = limiter.check("alice").cost(3).run()?;
    ///     Ok(decision.into_receipt().map(|receipt| receipt.to_bytes()))
    /// }
    ///
    /// fn cancel(
    ///     limiter: &RateLimiter<impl SyncStore>,
    ///     job: &str,
    ///     receipt: &[u8],
    /// ) -> Result<(), StoreError> {
    ///     let receipt = Receipt::from_bytes(receipt)?;
    ///     limiter.refund("alice", receipt).id(job).run()?;
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let reserved = self
            .reserved
            .as_deref()
            .into_iter()
            .flat_map(|each| each.iter());
        let reserved = reserved.flat_map(|of| [of.start, of.at, of.before, of.unit, of.starts]);
        let consumed = self.consumed.iter();
        let consumed = consumed.flat_map(|consumed| [consumed.cost, consumed.at.as_micros()]);
        let count = u8::try_from(self.consumed.len()).unwrap_or(u8::MAX);
        let mut bytes = vec![VERSION, count];
        for number in [self.fingerprint.value()]
            .into_iter()
            .chain(consumed)
            .chain(reserved)
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let sum = Sum::of(&bytes).value();
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns the receipt that [`to_bytes`](Self::to_bytes) wrote. Whether it is for the limits, the key and the
    /// clock of a refund is found out as for every receipt.
    ///
    /// # Errors
    ///
    /// [`Malformed`](crate::ErrorKind::Malformed) if the bytes are damaged, are no receipt, or were written by a
    /// newer version of this crate.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let malformed = |what| Err(StoreError::new(ErrorKind::Malformed, what));
        let damaged = "these bytes are no receipt, or damaged: keep all that `to_bytes` returned";
        let Some((content, told)) = bytes.split_last_chunk() else {
            return malformed(damaged);
        };
        let (&[version, count], numbers) = match content.split_first_chunk() {
            Some(parts) if Sum::of(content).value() == u64::from_le_bytes(*told) => parts,
            _ => return malformed(damaged),
        };
        if version > VERSION {
            return malformed(
                "a newer version of tollgate wrote this receipt: update this program, too",
            );
        }
        let (numbers, rest) = numbers.as_chunks();
        let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        let count = usize::from(count);
        let left = numbers.len();
        let is_reserved = left == 1 + 7 * count;
        let fits = (1..=MAX_CHECKS).contains(&count) && (left == 1 + 2 * count || is_reserved);
        if version != VERSION || !fits || !rest.is_empty() {
            return malformed(damaged);
        }
        let mut next = || numbers.next().unwrap_or(0);
        let fingerprint = Fingerprint::new(next());
        let mut is_exact = true;
        let mut exact = |number: u64| {
            is_exact &= number <= MAX_EXACT;
            number.min(MAX_EXACT)
        };
        let consumed = OneOrMany::from_fn(count, |_| {
            let cost = next();
            Consumed::new(cost, Timestamp::saturating_from_micros(exact(next())))
        });
        let reserved = is_reserved.then(|| {
            Box::new(OneOrMany::from_fn(count, |_| Reserved {
                start: exact(next()),
                at: exact(next()),
                before: exact(next()),
                unit: exact(next()),
                starts: exact(next()),
            }))
        });
        if !is_exact {
            return malformed(damaged);
        }
        Ok(Self {
            consumed,
            fingerprint,
            reserved,
        })
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
