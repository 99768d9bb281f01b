//! `Verdicts`: what each limit of a request said.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use super::fingerprint::Fingerprint;
use super::receipt::{Consumed, Receipt};
use super::source::Source;
use crate::algorithm::Reserved;
use crate::error::{ErrorKind, StoreError};
use crate::one_or_many::OneOrMany;
use crate::time::{Timestamp, Wait};
use crate::verdict::Verdict;

/// A longer age counts as an hour.
const LONGEST_AGE_US: u32 = 3_600_000_000;

/// The verdicts on a [`Request`](crate::store::Request), in the order of its checks.
///
/// Stores return this. A [`RateLimiter`](crate::RateLimiter) returns a
/// [`Decision`](crate::Decision), which also
/// knows the limits.
///
/// A request is decided all-or-nothing: it is allowed only if every limit allows it. A denied
/// request consumes nothing, except that limits which count denied calls count it.
///
/// # Examples
///
/// ```
/// use tollgate_core::FixedWindow;
/// use tollgate_core::store::{State, Check, Request};
/// use tollgate_core::{Limit, Quota, Timestamp};
///
/// let limit = Limit::new("login", FixedWindow::aligned(Quota::per_minute(2)))?;
/// let request = Request::consume(Check::new(&limit, "alice", 2));
/// let mut states = [State::default()];
/// let verdicts = request.decide_on(&mut states, Timestamp::UNIX_EPOCH);
/// assert!(verdicts.is_allowed());
/// assert_eq!((verdicts.remaining(), verdicts.capacity()), (0, 2));
/// assert_eq!(verdicts.reset_after().as_secs_ceil(), Some(60));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[must_use = "verdicts limit nothing unless the program reads them: call `is_allowed` or `is_denied`"]
pub struct Verdicts {
    /// Whether the call is allowed; of limits in shadow, it may also be what they say.
    pub(crate) allowed: bool,
    pub(crate) verdicts: OneOrMany<Verdict>,
    pub(crate) fingerprint: Fingerprint,
    /// Of a reservation that starts later: what each limit recorded.
    pub(crate) reserved: Option<Box<OneOrMany<Reserved>>>,
    pub(crate) source: Source,
    /// In microseconds, in four bytes, since verdicts are moved often.
    pub(crate) age_us: u32,
}

impl Verdicts {
    /// Returns the verdicts on a request with this `fingerprint`: allowed if all of them allow it,
    /// denied if there are none.
    ///
    /// For stores that get their verdicts from elsewhere; [`Request::decide_on`] makes its own.
    ///
    /// [`Request::decide_on`]: crate::store::Request::decide_on
    #[inline(always)]
    pub fn new(fingerprint: Fingerprint, verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        Self::of(fingerprint, verdicts.into_iter().collect())
    }

    /// See [`Verdicts::new`].
    #[inline(always)]
    pub(crate) fn of(fingerprint: Fingerprint, verdicts: OneOrMany<Verdict>) -> Self {
        Self {
            allowed: all_allowed(&verdicts),
            verdicts,
            fingerprint,
            reserved: None,
            source: Source::Store,
            age_us: 0,
        }
    }

    /// Returns the verdicts on a request with one check and this `fingerprint`.
    // Always inlined: otherwise the space for several verdicts is copied, too.
    #[inline(always)]
    pub fn of_one(fingerprint: Fingerprint, verdict: Verdict) -> Self {
        Self {
            allowed: verdict.allowed,
            verdicts: OneOrMany::One(verdict),
            fingerprint,
            reserved: None,
            source: Source::Store,
            age_us: 0,
        }
    }

    /// Returns the fingerprint and the only verdict.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] unless there is exactly one verdict.
    #[inline]
    pub fn into_one(self) -> Result<(Fingerprint, Verdict), StoreError> {
        match *self.verdicts {
            [verdict] => Ok((self.fingerprint, verdict)),
            ref verdicts => Err(other_number(1, verdicts.len())),
        }
    }

    /// Marks the receipt of the verdicts, for a layer with several stores inside, which must give it
    /// back to the one that it is from. [`Receipt::marked`] with the same `mark` returns the receipt as
    /// that store gave it. Choose the mark at random, once for each store inside.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::store::{Check, Fingerprint, Request, State};
    /// use tollgate_core::{Limit, LimitError, Timestamp};
    ///
    /// let limit: Limit = "api=sliding-log:10/1m".parse()?;
    /// let request = Request::consume(Check::new(&limit, "alice", 3));
    /// let verdicts = request.decide_on(&mut State::default(), Timestamp::UNIX_EPOCH);
    /// let receipt = verdicts.marked(4711).into_receipt().unwrap();
    ///
    /// // The store refuses the receipt as it is marked, and accepts its own.
    /// let refund = Request::refund(&receipt, Check::new(&limit, "alice", 0));
    /// assert!(refund.validate(Fingerprint::of).is_err());
    /// let own = receipt.marked(4711);
    /// assert!(refund.with_receipt(&own).validate(Fingerprint::of).is_ok());
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn marked(mut self, mark: u64) -> Self {
        self.fingerprint = self.fingerprint.marked(mark);
        self
    }

    /// Changes each verdict's capacity, remaining and consumed cost to what `other` returns for it:
    /// for layers that change the costs of requests, by
    /// [`Request::map_costs`](super::Request::map_costs). What is owed is what was used beyond the capacity,
    /// both as changed, and at least one unit.
    pub fn map_costs(mut self, other: impl Fn(u64) -> u64) -> Self {
        for verdict in self.verdicts.iter_mut() {
            let used = verdict.capacity.saturating_add(verdict.owed());
            verdict.capacity = other(verdict.capacity);
            verdict.remaining = match verdict.owes {
                true => other(used).saturating_sub(verdict.capacity).max(1),
                false => other(verdict.remaining),
            };
            verdict.consumed = other(verdict.consumed);
        }
        self
    }

    /// Sets where the verdicts came from, for a layer that answers in the store's place.
    #[inline(always)]
    pub fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Sets how long ago the store was asked, for a layer that remembers its answers; more than an
    /// hour counts as an hour.
    #[inline(always)]
    pub fn with_age(mut self, age: Duration) -> Self {
        self.age_us =
            u32::try_from(age.as_micros()).map_or(LONGEST_AGE_US, |age| age.min(LONGEST_AGE_US));
        self
    }

    /// Returns where the verdicts came from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns how old the knowledge behind the verdicts is: zero, unless they came from a cache.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_micros(self.age_us.into())
    }

    /// Returns the fingerprint of the request.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns whether the call may go ahead.
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        // Limits in shadow are looked at here, not when the verdicts are made: that would take a
        // fifth of a decision.
        self.allowed || self.only_shadows_deny()
    }

    /// Returns whether there are limits in shadow, and all others allow the call.
    fn only_shadows_deny(&self) -> bool {
        match &self.verdicts {
            OneOrMany::One(only) => only.shadow,
            several => {
                several.iter().any(|verdict| verdict.shadow)
                    && several.iter().all(|v| v.allowed || v.shadow)
            }
        }
    }

    /// Returns whether the call must not go ahead.
    #[inline]
    #[must_use]
    pub fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// Returns each limit's verdict, in the order of the request's checks.
    #[must_use]
    pub fn as_slice(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Returns the verdicts that count: all but those of limits in shadow, or all if there are no
    /// others.
    fn counting(&self) -> impl Iterator<Item = &Verdict> {
        let all_in_shadow = self.verdicts.iter().all(|verdict| verdict.shadow);
        let counts = move |verdict: &&Verdict| all_in_shadow || !verdict.shadow;
        self.verdicts.iter().filter(counts)
    }

    /// Returns the index of the binding limit; see [`Decision::binding`](crate::Decision::binding).
    #[must_use]
    pub fn binding(&self) -> usize {
        let mut best = 0;
        for (index, verdict) in self.verdicts.iter().enumerate() {
            let held = &self.verdicts[best];
            let tighter = if verdict.shadow != held.shadow {
                held.shadow
            } else if self.is_allowed() {
                let tightness = |of: &Verdict| (of.delay(), Reverse(of.remaining()));
                tightness(verdict) > tightness(held)
            } else {
                (verdict.wait, !verdict.allowed) > (held.wait, !held.allowed)
            };
            if tighter {
                best = index;
            }
        }
        best
    }

    /// Returns the capacity of the binding limit: the largest cost that it can ever admit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.verdicts
            .get(self.binding())
            .map_or(0, Verdict::capacity)
    }

    /// Returns the largest cost that all limits would allow now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.counting().map(Verdict::remaining).min().unwrap_or(0)
    }

    /// Returns how long to wait until the same call is allowed, if nobody else calls: the longest
    /// wait of its limits, or zero if the call was allowed.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        if self.is_allowed() {
            return Wait::ZERO;
        }
        self.counting()
            .map(Verdict::retry_after)
            .max()
            .unwrap_or(Wait::ZERO)
    }

    /// Returns how long to wait before the call starts: the longest delay of the limits; see
    /// [`Decision::delay`](crate::Decision::delay).
    #[must_use]
    pub fn delay(&self) -> Wait {
        self.counting()
            .map(Verdict::delay)
            .max()
            .unwrap_or(Wait::ZERO)
    }

    /// Returns how long until every limit has its full capacity again, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Wait {
        self.counting()
            .map(Verdict::reset_after)
            .max()
            .unwrap_or(Wait::ZERO)
    }

    /// Returns the cost that was consumed from each limit; the smallest, if the costs differ.
    ///
    /// After [`take_up_to`](crate::RateLimiter::take_up_to) this is what was taken.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.counting().map(Verdict::consumed).min().unwrap_or(0)
    }

    /// Returns the receipt that a refund needs, or `None` if nothing was consumed.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt()
    }

    /// Returns the same verdicts, with the same receipt, for a store that keeps answers by
    /// [id](crate::CallId): it gives them only to repeated calls.
    pub fn again(&self) -> Self {
        Self {
            allowed: self.allowed,
            verdicts: self.verdicts.clone(),
            fingerprint: self.fingerprint,
            reserved: self.reserved.clone(),
            source: self.source,
            age_us: self.age_us,
        }
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        let starts = self.reserved.as_ref();
        let starts = starts.map_or(0, |starts| size_of_val(&**starts) + starts.heap_bytes());
        self.verdicts.heap_bytes() + starts
    }

    /// Returns the receipt and leaves the verdicts: only one of the two may be given to callers.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        let starts = self.reserved.as_deref();
        let start = |index: usize| {
            let reserved = starts.and_then(|starts| starts.get(index));
            reserved.map(|reserved| Timestamp::saturating_from_micros(reserved.start))
        };
        let consumed: OneOrMany<Consumed> = self
            .verdicts
            .iter()
            .enumerate()
            .map(|(index, verdict)| Consumed {
                cost: verdict.consumed,
                at: start(index).unwrap_or(verdict.at),
            })
            .collect();
        let receipt = Receipt::of_each(self.fingerprint, consumed)?;
        Some(Receipt {
            reserved: self.reserved.clone(),
            ..receipt
        })
    }
}

/// Compares the verdicts, and ignores the request's fingerprint and the source.
impl PartialEq for Verdicts {
    fn eq(&self, other: &Self) -> bool {
        (self.is_allowed(), &self.verdicts, &self.reserved)
            == (other.is_allowed(), &other.verdicts, &other.reserved)
    }
}

impl Eq for Verdicts {}

impl fmt::Debug for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdicts")
            .field("allowed", &self.is_allowed())
            .field("verdicts", &self.as_slice())
            .finish()
    }
}

/// Returns whether a request with these verdicts is allowed.
#[inline(always)]
pub(crate) fn all_allowed(verdicts: &[Verdict]) -> bool {
    !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.allowed)
}

#[cold]
pub(crate) fn other_number(limits: usize, verdicts: usize) -> StoreError {
    StoreError::new(
        ErrorKind::Protocol,
        format!(
            "the store answered for {verdicts} limits instead of {limits}: this is a bug in it"
        ),
    )
}
