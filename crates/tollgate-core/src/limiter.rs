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
///
/// A decision that nobody reads limits nothing, so the compiler warns about it:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use tollgate_core::{RateLimiter, Store, StoreError};
/// async fn admit(limiter: &RateLimiter<impl Store>, ip: &str) -> Result<(), StoreError> {
///     limiter.check(ip).await?;
///     Ok(())
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

/// A limiter whose calls are decided at the caller's instant, made by [`RateLimiter::at`].
#[derive(Debug)]
pub struct LimiterAt<'l, S> {
    limiter: &'l RateLimiter<S>,
    now: Timestamp,
}

impl<S> Clone for LimiterAt<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for LimiterAt<'_, S> {}

impl<S> RateLimiter<S> {
    /// Returns this limiter with calls decided at `now`, in place of the store's own clock; see
    /// [`Request::at`] for what that asks of callers.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore, Timestamp};
    /// # fn replay(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// let then = Timestamp::saturating_from_micros(1_431_857_103_000_000);
    /// let decision = limiter.at(then).check_now("83.149.9.216")?;
    /// assert_eq!(decision.verdicts()[0].decided_at(), then);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at(&self, now: Timestamp) -> LimiterAt<'_, S> {
        LimiterAt { limiter: self, now }
    }

    #[inline]
    fn target(&self) -> (&Self, Option<Timestamp>) {
        (self, None)
    }
}

impl<S> LimiterAt<'_, S> {
    fn target(&self) -> (&RateLimiter<S>, Option<Timestamp>) {
        (self.limiter, Some(self.now))
    }
}

/// How a limiter asks its store, with and without waiting.
macro_rules! ask {
    ([$($asynch:tt)*] $ask:ident $decide:ident [$($wait:tt)*]) => {
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
    };
}

impl<S: Store> RateLimiter<S> {
    ask!([async] ask decide [.await]);
}

impl<S: SyncStore> RateLimiter<S> {
    ask!([] ask_now decide_now []);
}

/// What may be asked of a limiter.
macro_rules! calls {
    ([$($asynch:tt)*] $ask:ident $reset:ident [$($wait:tt)*]:
     $check:ident $check_n:ident $peek:ident $peek_n:ident $take_up_to:ident $refund:ident $forget:ident) => {
        /// Decides a call of cost 1 for `key`.
        ///
        /// # Errors
        ///
        /// Those of the store; that the call is denied is not one of them.
        #[inline]
        pub $($asynch)* fn $check<'k>(&self, key: impl Into<Key<'k>> + Send) -> Result<Decision, StoreError> {
            let (limiter, at) = self.target();
            limiter.$ask(Operation::Consume, key.into(), 1, at)$($wait)*
        }

        /// Decides a call of `cost` for `key`: all of it, or nothing.
        ///
        /// A cost of zero is always allowed and consumes nothing.
        ///
        /// # Errors
        ///
        /// Those of the store.
        #[inline]
        pub $($asynch)* fn $check_n<'k>(&self, key: impl Into<Key<'k>> + Send, cost: u64) -> Result<Decision, StoreError> {
            let (limiter, at) = self.target();
            limiter.$ask(Operation::Consume, key.into(), cost, at)$($wait)*
        }

        /// Returns the decision that a call of cost 1 for `key` would get now, and consumes nothing.
        ///
        /// It is denied when the call would be. As nothing was consumed,
        /// [`remaining`](Decision::remaining) is what is left before that call.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $peek<'k>(&self, key: impl Into<Key<'k>> + Send) -> Result<Decision, StoreError> {
            let (limiter, at) = self.target();
            limiter.$ask(Operation::Peek, key.into(), 1, at)$($wait)*
        }

        /// Returns the decision that a call of `cost` for `key` would get now, and consumes nothing.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $peek_n<'k>(&self, key: impl Into<Key<'k>> + Send, cost: u64) -> Result<Decision, StoreError> {
            let (limiter, at) = self.target();
            limiter.$ask(Operation::Peek, key.into(), cost, at)$($wait)*
        }

        /// Takes as much as there is for `key`, at most `most`; [`Decision::granted`] says how much.
        ///
        /// Denied only if there is nothing to take, as a call of cost 1 would be.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $take_up_to<'k>(&self, key: impl Into<Key<'k>> + Send, most: u64) -> Result<Decision, StoreError> {
            let (limiter, at) = self.target();
            limiter.$ask(Operation::TakeUpTo, key.into(), most, at)$($wait)*
        }

        /// Gives back what `receipt` proves was consumed for `key`, as far as it is still counted.
        ///
        /// What time has already given back is not given twice, so the calls that were kept stay
        /// within the limit's bound. Give a receipt back once: a second time would return what
        /// others have consumed. A receipt that was given for another key, another limit or the
        /// other clock is [`ErrorKind::Malformed`](crate::ErrorKind::Malformed), and nothing
        /// changes; see [`Receipt`] for one from before a reset. After an error that is
        /// [retryable](StoreError::is_retryable) nothing was given back, and it may be tried again.
        ///
        /// # Errors
        ///
        /// Those of the store. On a server, a refund of a [`SlidingLog`] that holds more than 2,000
        /// calls before the refunded one and more than 2,000 after it is
        /// [`Unsupported`](crate::ErrorKind::Unsupported): nothing is given back, to any limit, and
        /// the call counts until it leaves the window.
        ///
        /// [`SlidingLog`]: crate::algorithm::SlidingLog
        pub $($asynch)* fn $refund<'k>(&self, key: impl Into<Key<'k>> + Send, receipt: &Receipt) -> Result<Decision, StoreError> {
            let (limiter, at) = self.target();
            limiter.$ask(Operation::Refund(receipt), key.into(), 0, at)$($wait)*
        }

        /// Forgets what was consumed for `key`, by whichever clock; each limit by itself.
        ///
        /// # Errors
        ///
        /// Those of the store.
        pub $($asynch)* fn $forget<'k>(&self, key: impl Into<Key<'k>> + Send) -> Result<(), StoreError> {
            let (limiter, _) = self.target();
            let checks: SmallVec<[Check<'_>; INLINE]> = limiter.checks(key.into(), 0).collect();
            limiter.store.$reset(&checks)$($wait)*
        }
    };
}

impl<S: Store> RateLimiter<S> {
    calls!([async] ask reset [.await]: check check_n peek peek_n take_up_to refund reset);
}

/// The same calls from code that does not wait.
impl<S: SyncStore> RateLimiter<S> {
    calls!([] ask_now reset_now []: check_now check_n_now peek_now peek_n_now take_up_to_now refund_now reset_now);
}

/// The calls of a limiter, at the caller's instant.
impl<S: Store> LimiterAt<'_, S> {
    calls!([async] ask reset [.await]: check check_n peek peek_n take_up_to refund reset);
}

/// The same calls from code that does not wait.
impl<S: SyncStore> LimiterAt<'_, S> {
    calls!([] ask_now reset_now []: check_now check_n_now peek_now peek_n_now take_up_to_now refund_now reset_now);
}
