//! `Decision`: whether a call may go ahead, and what each limit said.

use std::fmt;
use std::task::Poll;
use std::time::Duration;

use crate::error::StoreError;
use crate::limit::Limit;
use crate::store::verdicts::other_number;
use crate::store::{Fingerprint, Receipt, Source, Verdicts};
use crate::time::Wait;
use crate::verdict::Verdict;

/// The result of a call to a [`RateLimiter`](crate::RateLimiter): allowed or denied, and each
/// limit's verdict.
///
/// It borrows the limits from the limiter instead of copying them.
/// [`into_receipt`](Self::into_receipt) and [`permit`](Self::permit) return values that borrow
/// nothing.
#[derive(Eq, PartialEq)]
#[must_use = "a decision limits nothing unless the program reads it: call `is_allowed`, `is_denied` or `permit`"]
pub struct Decision<'l> {
    limits: &'l [Limit],
    verdicts: Verdicts,
}

impl<'l> Decision<'l> {
    /// Returns the decision of a store that returned `verdicts` on `limits`, in the same order.
    ///
    /// For code that asks a store itself, as a [`RateLimiter`](crate::RateLimiter) does.
    ///
    /// # Errors
    ///
    /// [`Protocol`](crate::ErrorKind::Protocol) unless there is one verdict for each limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::store::{Request, Store};
    /// use tollgate_core::{Decision, RateLimiter, StoreError};
    ///
    /// /// Asks the store of `limiter`, as `limiter.check(key).await` does.
    /// async fn check<'l>(
    ///     limiter: &'l RateLimiter<impl Store>,
    ///     key: &str,
    /// ) -> Result<Decision<'l>, StoreError> {
    ///     let request = Request::consume_all(limiter.limits(), key, 1);
    ///     let verdicts = limiter.store().decide(request).await?;
    ///     Decision::new(limiter.limits(), verdicts)
    /// }
    /// ```
    #[inline]
    pub fn new(limits: &'l [Limit], verdicts: Verdicts) -> Result<Self, StoreError> {
        if verdicts.verdicts.len() != limits.len() {
            return Err(other_number(limits.len(), verdicts.verdicts.len()));
        }
        Ok(Self { limits, verdicts })
    }

    /// Returns the decision on `limits` for what a store's future returned.
    // Each arm makes what is returned, so that the verdicts are moved once.
    #[inline]
    pub(crate) fn of_polled(
        limits: &'l [Limit],
        polled: Poll<Result<Verdicts, StoreError>>,
    ) -> Poll<Result<Self, StoreError>> {
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(verdicts)) if verdicts.verdicts.len() == limits.len() => {
                Poll::Ready(Ok(Self { limits, verdicts }))
            }
            Poll::Ready(Ok(verdicts)) => {
                let found = verdicts.verdicts.len();
                Poll::Ready(Err(other_number(limits.len(), found)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }

    /// Returns the decision for a store's `verdict` on `limits`, which must hold one limit.
    #[inline(always)]
    pub(crate) fn of_one(limits: &'l [Limit], fingerprint: Fingerprint, verdict: Verdict) -> Self {
        Self {
            limits,
            verdicts: Verdicts::of_one(fingerprint, verdict),
        }
    }

    /// Returns the decision for a store's `verdicts` on `limits`, which must hold `N` limits.
    #[inline(always)]
    pub(crate) fn of_each<const N: usize>(
        limits: &'l [Limit; N],
        fingerprint: Fingerprint,
        verdicts: [Verdict; N],
    ) -> Self {
        Self {
            limits,
            verdicts: Verdicts::of_each(fingerprint, verdicts),
        }
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
        self.verdicts.is_denied()
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
        if self.verdicts.is_allowed() {
            Ok(())
        } else {
            Err(self.denied())
        }
    }

    #[cold]
    fn denied(&self) -> Denied {
        let (limit, verdict) = self.binding();
        Denied {
            limit: limit.clone(),
            verdict: *verdict,
        }
    }

    /// Returns the limit that determines the result, and its verdict.
    ///
    /// For a denied call this is the limit with the longest [`retry_after`](Verdict::retry_after);
    /// if waits are equal, a limit that denied the call comes before one that allowed it. For an
    /// allowed call it is the limit with the least [`remaining`](Verdict::remaining); for an allowed
    /// reservation, the one with the longest [`delay`](Verdict::delay) comes first. Among limits
    /// that are still equal, it is the first.
    #[must_use]
    pub fn binding(&self) -> (&'l Limit, &Verdict) {
        let index = self.verdicts.binding();
        (&self.limits[index], &self.verdicts.verdicts[index])
    }

    /// Returns each limit and its verdict, in the order of
    /// [`RateLimiter::limits`](crate::RateLimiter::limits).
    pub fn verdicts(&self) -> impl ExactSizeIterator<Item = (&'l Limit, &Verdict)> + Clone {
        self.limits.iter().zip(self.verdicts.as_slice())
    }

    /// Returns the verdict of the limit called `name`, or `None` if the limiter has no such limit.
    #[must_use]
    pub fn verdict(&self, name: &str) -> Option<&Verdict> {
        let mut verdicts = self.verdicts();
        let named = verdicts.find(|(limit, _)| limit.name() == name);
        named.map(|(_, verdict)| verdict)
    }

    /// Returns the capacity of the [binding](Self::binding) limit: the largest cost that it can
    /// ever admit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.verdicts.capacity()
    }

    /// Returns the largest cost that all limits would allow now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.verdicts.remaining()
    }

    /// Returns how long to wait until the same call is allowed, if nobody else calls: the longest
    /// wait of the limits, or zero if the call was allowed.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.verdicts.retry_after()
    }

    /// Returns how long to wait before the call starts: the delay of a
    /// [reservation](crate::RateLimiter::reserve) that was allowed, and zero for any other call.
    #[must_use]
    pub fn delay(&self) -> Wait {
        self.verdicts.delay()
    }

    /// Returns how long until every limit has its full capacity again, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Wait {
        self.verdicts.reset_after()
    }

    /// Returns the cost that was consumed from each limit: after
    /// [`take_up_to`](crate::RateLimiter::take_up_to), what was taken.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.verdicts.consumed()
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
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.verdicts.into_receipt()
    }

    /// Returns the verdicts without the limits; they borrow nothing.
    pub fn into_verdicts(self) -> Verdicts {
        self.verdicts
    }
}

impl fmt::Debug for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.is_allowed())
            .field("limits", &self.limits)
            .field("verdicts", &self.verdicts.as_slice())
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
        match self.verdict.retry_after().duration() {
            Some(wait) => write!(f, "limit `{name}`: retry in {wait:?}"),
            None => write!(
                f,
                "limit `{name}`: never allowed, because the cost exceeds the capacity of {}",
                self.verdict.capacity
            ),
        }
    }
}

impl std::error::Error for Denied {}
