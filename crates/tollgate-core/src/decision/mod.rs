//! `Decision`: whether a call may go ahead, and what each limit said.

mod compact;

use std::fmt;
use std::task::Poll;
use std::time::Duration;

use compact::Compact;

use crate::error::StoreError;
use crate::limit::{Limit, Limits};
use crate::store::verdicts::other_number;
use crate::store::{Fingerprint, Receipt, Source, States, Verdicts};
use crate::time::{Timestamp, Wait};
use crate::verdict::Verdict;

/// The result of a call to a [`RateLimiter`](crate::RateLimiter): allowed or denied, and each
/// limit's verdict.
///
/// It borrows the limits from the limiter instead of copying them.
/// [`into_receipt`](Self::into_receipt) and [`permit`](Self::permit) return values that borrow
/// nothing.
#[must_use = "a decision limits nothing unless the program reads it: call `is_allowed`, `is_denied` or `permit`"]
pub struct Decision<'l> {
    limits: &'l Limits,
    verdicts: Compact,
}

// What is called for one limit is inlined, and passes on only copies of what a decision consists of.
// So the compiler keeps that in registers, also if the decision is moved.
impl<'l> Decision<'l> {
    /// Returns the decision for a store's `verdicts` on `limits`, for a store that overrides
    /// [`consume_now`](crate::SyncStore::consume_now).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`](crate::ErrorKind::Protocol) if there are not as many verdicts as limits.
    #[inline]
    pub fn new(limits: &'l Limits, verdicts: Verdicts) -> Result<Self, StoreError> {
        if verdicts.verdicts.len() != limits.len() {
            return Err(other_number(limits.len(), verdicts.verdicts.len()));
        }
        let short = Compact::short(limits, &verdicts);
        let verdicts = short.unwrap_or_else(|| Compact::Any(Box::new(verdicts)));
        Ok(Self { limits, verdicts })
    }

    /// Returns the same decision without a copy of the verdicts, or `None` if that is not possible.
    #[inline(always)]
    pub(crate) fn short(limits: &'l Limits, verdicts: &Verdicts) -> Option<Self> {
        let is_of_limits = verdicts.verdicts.len() == limits.len();
        let verdicts = is_of_limits.then(|| Compact::short(limits, verdicts))??;
        Some(Self { limits, verdicts })
    }

    /// Returns the decision on `limits` for what a store's future returned.
    #[inline]
    pub(crate) fn of_polled(
        limits: &'l Limits,
        polled: Poll<Result<Verdicts, StoreError>>,
    ) -> Poll<Result<Self, StoreError>> {
        polled.map(|verdicts| Self::new(limits, verdicts?))
    }

    /// Returns the decision for a store's `verdict` on `limits`, which must hold one limit.
    #[inline(always)]
    pub(crate) fn of_one(limits: &'l Limits, fingerprint: Fingerprint, verdict: Verdict) -> Self {
        let verdicts = Compact::of_one(fingerprint, verdict);
        Self { limits, verdicts }
    }

    /// See [`inside::consume_few`](crate::inside::consume_few).
    #[inline(always)]
    pub(crate) fn consume_few<const N: usize>(
        limits: &'l Limits,
        each: &[Limit; N],
        fingerprint: Fingerprint,
        cost: u64,
        states: &mut impl States,
        now: Timestamp,
    ) -> Option<Self> {
        let verdicts = Compact::consume_few(each, fingerprint, cost, states, now)?;
        Some(Self { limits, verdicts })
    }

    /// See [`inside::remade`](crate::inside::remade).
    #[inline(always)]
    pub(crate) fn remade(self) -> Self {
        let Self { limits, verdicts } = self;
        Self { limits, verdicts }
    }

    /// Returns whether the call may go ahead.
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.verdicts.is_allowed()
    }

    /// Returns whether the call must not go ahead.
    #[inline]
    #[must_use]
    pub fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// Returns an error if the call was denied, for use with `?`.
    ///
    /// # Errors
    ///
    /// [`Denied`], which holds the binding limit and how long to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, SyncStore};
    ///
    /// fn login(limiter: &RateLimiter<impl SyncStore>, user: &str) -> Result<(), Box<dyn std::error::Error>> {
    ///     limiter.check(user).run()?.permit()?;
    ///     // ...
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn permit(&self) -> Result<(), Denied> {
        if self.is_allowed() {
            return Ok(());
        }
        let (limit, verdict) = self.binding();
        Err(Denied::new(limit, verdict))
    }

    /// Returns the limit that determines the result, and its verdict.
    ///
    /// For a denied call this is the limit with the longest [`retry_after`](Verdict::retry_after);
    /// if waits are equal, a limit that denied the call comes before one that allowed it. For an
    /// allowed call it is the limit with the least [`remaining`](Verdict::remaining); for an allowed
    /// reservation, the one with the longest [`delay`](Verdict::delay) comes first. Among limits
    /// that are still equal, it is the first.
    #[inline]
    #[must_use]
    pub fn binding(&self) -> (&'l Limit, Verdict) {
        let (index, verdict) = self.verdicts.binding(self.limits);
        (&self.limits[index], verdict)
    }

    /// Returns each limit and its verdict, in the order of
    /// [`RateLimiter::limits`](crate::RateLimiter::limits).
    pub fn verdicts(&self) -> impl ExactSizeIterator<Item = (&'l Limit, Verdict)> + Clone {
        let limits = self.limits.iter().enumerate();
        limits.map(|(index, limit)| (limit, self.verdicts.verdict(index, limit)))
    }

    /// Returns the verdict of the limit called `name`, or `None` if the limiter has no such limit.
    #[must_use]
    pub fn verdict(&self, name: &str) -> Option<Verdict> {
        let mut verdicts = self.verdicts();
        let named = verdicts.find(|(limit, _)| limit.name() == name);
        named.map(|(_, verdict)| verdict)
    }

    /// Returns the capacity of the [binding](Self::binding) limit: the largest cost that it can
    /// ever admit.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.verdicts.capacity(self.limits)
    }

    /// Returns the largest cost that all limits would allow now.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.verdicts.remaining(self.limits)
    }

    /// Returns how long to wait until the same call is allowed, if nobody else calls: the longest
    /// wait of the limits, or zero if the call was allowed.
    #[inline]
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.verdicts.retry_after(self.limits)
    }

    /// Returns how long to wait before the call starts: the delay of a
    /// [reservation](crate::RateLimiter::reserve) that was allowed, and zero for any other call.
    #[inline]
    #[must_use]
    pub fn delay(&self) -> Wait {
        self.verdicts.delay(self.limits)
    }

    /// Returns how long until every limit has its full capacity again, if nobody else calls.
    #[inline]
    #[must_use]
    pub fn reset_after(&self) -> Wait {
        self.verdicts.reset_after(self.limits)
    }

    /// Returns the cost that was consumed from each limit: after
    /// [`take_up_to`](crate::RateLimiter::take_up_to), what was taken.
    #[inline]
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.verdicts.consumed(self.limits)
    }

    /// Returns where the decision came from: the store, or a layer around it.
    #[must_use]
    pub fn source(&self) -> Source {
        self.verdicts.source()
    }

    /// Returns how old the knowledge behind the decision is: zero, unless it came from a cache.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.verdicts.age()
    }

    /// Returns the receipt that a refund needs, or `None` if nothing was consumed.
    #[inline]
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.verdicts.into_receipt(self.limits)
    }

    /// Returns the verdicts without the limits; they borrow nothing.
    pub fn into_verdicts(self) -> Verdicts {
        self.verdicts.into_verdicts(self.limits)
    }
}

/// Compares the limits and the verdicts, and ignores the receipt's fingerprint and the source.
impl PartialEq for Decision<'_> {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |verdicts: &Verdicts| {
            let same = |others: &Verdicts| verdicts == others;
            other.verdicts.with(other.limits, same)
        };
        self.limits == other.limits && self.verdicts.with(self.limits, is_same)
    }
}

impl Eq for Decision<'_> {}

impl fmt::Debug for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.is_allowed())
            .field("limits", &&**self.limits)
            .field(
                "verdicts",
                &self.verdicts().map(|(_, said)| said).collect::<Vec<_>>(),
            )
            .finish()
    }
}

/// A denied call, as an error: which limit denied it, and how long to wait.
///
/// # Examples
///
/// ```
/// use tollgate_core::{Denied, RateLimiter, SyncStore};
///
/// fn retry_after(limiter: &RateLimiter<impl SyncStore>, user: &str) -> Option<u64> {
///     let decision = limiter.check(user).run().ok()?;
///     let denied: Denied = decision.permit().err()?;
///     assert_eq!(denied.limit().name(), "login");
///     denied.retry_after().as_secs_ceil()
/// }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Denied {
    limit: Limit,
    verdict: Verdict,
}

impl Denied {
    #[cold]
    fn new(limit: &Limit, verdict: Verdict) -> Self {
        Self {
            limit: limit.clone(),
            verdict,
        }
    }

    /// Returns the limit that denied the call; the one with the longest wait, if several did.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns that limit's verdict.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns how long to wait until the same call is allowed, if nobody else calls.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.verdict.retry_after()
    }
}

/// Writes ``limit `login`: retry in 12.5s``.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.limit.name();
        match self.retry_after() {
            wait if !wait.is_never() => write!(f, "limit `{name}`: retry in {wait}"),
            _ => write!(
                f,
                "limit `{name}`: never allowed, because the cost exceeds the capacity of {}",
                self.verdict.capacity
            ),
        }
    }
}

impl std::error::Error for Denied {}
