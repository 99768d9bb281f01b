//! What users hold: a store and the limits they ask it about.

use smallvec::SmallVec;

use crate::decision::{Decision, Receipt};
use crate::error::{LimitError, StoreError};
use crate::key::Key;
use crate::limit::Limit;
use crate::request::{Check, MAX_CHECKS, Operation, Request};
use crate::store::{Store, SyncStore};
use crate::time::Timestamp;

/// Limits that are asked about without allocating.
const INLINE: usize = 4;

/// Limits how often something may happen for a key: one or several limits on one store.
///
/// Several limits are one request, decided all-or-nothing. For limits on different keys, build a
/// [`Request`] and hand it to the store.
///
/// # When the store fails
///
/// A failure is an error, and what it means is the caller's to say, for there is no answer that is
/// right for everyone: `decision.is_ok_and(|d| d.is_allowed())` refuses when the store fails
/// (closed), `decision.map_or(true, |d| d.is_allowed())` lets the call pass (open).
///
/// # Examples
///
/// ```
/// use tollgate_core::algorithm::FixedWindow;
/// use tollgate_core::{Limit, Quota, RateLimiter, StoreError, SyncStore};
///
/// fn admit(store: impl SyncStore, ip: &str) -> Result<bool, StoreError> {
///     let limit = Limit::new("login", FixedWindow::aligned(Quota::per_minute(5))).unwrap();
///     let limiter = RateLimiter::new(store, [limit]).unwrap();
///     Ok(limiter.check_now(ip)?.is_allowed())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter<S> {
    store: S,
    limits: Box<[Limit]>,
}

impl<S> RateLimiter<S> {
    /// Returns a limiter that asks `store` about `limits`.
    ///
    /// # Errors
    ///
    /// [`LimitError::NoLimits`], [`LimitError::TooManyLimits`] (more than [`MAX_CHECKS`]), or
    /// [`LimitError::DuplicateLimit`] when two of them would share their state.
    pub fn new(store: S, limits: impl IntoIterator<Item = Limit>) -> Result<Self, LimitError> {
        let limits: Box<[Limit]> = limits.into_iter().collect();
        if limits.is_empty() {
            return Err(LimitError::NoLimits);
        }
        if limits.len() > MAX_CHECKS {
            return Err(LimitError::TooManyLimits {
                count: limits.len(),
                most: MAX_CHECKS,
            });
        }
        for (index, limit) in limits.iter().enumerate() {
            let same = |other: &Limit| other.identity() == limit.identity();
            if limits[..index].iter().any(same) {
                return Err(LimitError::DuplicateLimit {
                    name: limit.name().to_owned(),
                });
            }
        }
        Ok(Self { store, limits })
    }

    /// Returns the limits, in the order of every decision's verdicts.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the request that does `operation` at `cost` for `key`, to be given a time or
    /// further checks.
    #[must_use]
    pub fn request<'a>(
        &'a self,
        operation: Operation<'a>,
        key: impl Into<Key<'a>>,
        cost: u64,
    ) -> Request<'a> {
        Request::with_checks(operation, self.checks(key.into(), cost))
    }

    #[inline]
    fn checks<'a>(&'a self, key: Key<'a>, cost: u64) -> impl Iterator<Item = Check<'a>> {
        self.limits
            .iter()
            .map(move |limit| Check::new(limit, key, cost))
    }
}

macro_rules! calls {
    ([$($asynch:tt)*] $ask:ident $decide:ident $reset:ident [$($wait:tt)*]:
     $check:ident $check_n:ident $check_at:ident $peek:ident $take_up_to:ident $refund:ident $forget:ident) => {
        /// Asks the store about every limit.
        #[inline]
        $($asynch)* fn $ask(&self, operation: Operation<'_>, key: Key<'_>, cost: u64, at: Option<Timestamp>) -> Result<Decision, StoreError> {
            // One limit, as nearly always, needs no list.
            if let [limit] = &*self.limits {
                let request = Request::alone(operation, Check::new(limit, key, cost), at);
                return self.store.$decide(&request)$($wait)*;
            }
            let checks: SmallVec<[Check<'_>; INLINE]> = self.checks(key, cost).collect();
            let request = Request::together(operation, &checks, at);
            self.store.$decide(&request)$($wait)*
        }

        /// Decides a call of cost 1 for `key`.
        ///
        /// # Errors
        ///
        /// Those of the store; that the call is denied is not one of them.
        #[inline]
        pub $($asynch)* fn $check<'a>(&'a self, key: impl Into<Key<'a>> + Send) -> Result<Decision, StoreError> {
            self.$ask(Operation::Consume, key.into(), 1, None)$($wait)*
        }

        /// Decides a call of `cost` for `key`: all of it, or nothing.
        ///
        /// A cost of zero is always allowed and consumes nothing.
        ///
        /// # Errors
        ///
        /// Those of the store.
        #[inline]
        pub $($asynch)* fn $check_n<'a>(&'a self, key: impl Into<Key<'a>> + Send, cost: u64) -> Result<Decision, StoreError> {
            self.$ask(Operation::Consume, key.into(), cost, None)$($wait)*
        }

        /// Decides a call of `cost` for `key` at the caller's instant `now`; see [`Request::at`].
        ///
        /// # Errors
        ///
        /// Those of the store.
        #[inline]
        pub $($asynch)* fn $check_at<'a>(&'a self, key: impl Into<Key<'a>> + Send, cost: u64, now: Timestamp) -> Result<Decision, StoreError> {
            self.$ask(Operation::Consume, key.into(), cost, Some(now))$($wait)*
        }

        /// Says what is left for `key`, and consumes nothing.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $peek<'a>(&'a self, key: impl Into<Key<'a>> + Send) -> Result<Decision, StoreError> {
            self.$ask(Operation::Peek, key.into(), 0, None)$($wait)*
        }

        /// Takes as much as there is for `key`, at most `most`; [`Decision::granted`] says how much.
        ///
        /// Denied only if there is nothing to take, as a call of cost 1 would be.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $take_up_to<'a>(&'a self, key: impl Into<Key<'a>> + Send, most: u64) -> Result<Decision, StoreError> {
            self.$ask(Operation::TakeUpTo, key.into(), most, None)$($wait)*
        }

        /// Gives back what `receipt` proves was consumed for `key`, as far as it is still counted.
        ///
        /// What time has already given back is not given twice, so the calls that were kept stay
        /// within the limit's bound.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $refund<'a>(&'a self, key: impl Into<Key<'a>> + Send, receipt: Receipt) -> Result<Decision, StoreError> {
            self.$ask(Operation::Refund(&receipt), key.into(), 0, None)$($wait)*
        }

        /// Forgets what was consumed for `key`.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $forget<'a>(&'a self, key: impl Into<Key<'a>> + Send) -> Result<(), StoreError> {
            let checks: Vec<_> = self.checks(key.into(), 0).collect();
            self.store.$reset(&checks)$($wait)*
        }
    };
}

impl<S: Store> RateLimiter<S> {
    calls!([async] ask decide reset [.await]: check check_n check_at peek take_up_to refund reset);
}

/// The same calls from code that does not wait.
impl<S: SyncStore> RateLimiter<S> {
    calls!([] ask_now decide_now reset_now []: check_now check_n_now check_at_now peek_now take_up_to_now refund_now reset_now);
}
