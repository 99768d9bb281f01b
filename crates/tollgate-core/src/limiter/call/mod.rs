//! `Call`: a pending check, peek, reservation or take.

mod asked;
mod costs;
mod deciding;
mod kind;
mod reserve;

use std::fmt;
use std::marker::PhantomData;

pub(in crate::limiter) use asked::Charge;
use asked::{Asked, decide_now};
pub use costs::Costs;
pub use deciding::Deciding;
pub use kind::{Check, Consume, Consumes, Kind, Peek};
pub use reserve::Reserve;

use crate::call_id::CallId;
use crate::contract::{Store, SyncStore};
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::store::{Checks, Operation, Request};
use crate::time::Timestamp;

/// A pending check, peek, reservation or take.
///
/// Made by [`RateLimiter::check`], [`RateLimiter::peek`], [`RateLimiter::reserve`] and
/// [`RateLimiter::take_up_to`]. End it with `.await` or [`run`](Self::run), which return a
/// `Result<Decision, StoreError>`.
///
/// # Errors
///
/// Awaiting and running return the store's errors. A denied call is a decision, not an error.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, the call may or may not have been counted.
///
/// # Type parameters
///
/// - `S` is the store.
/// - `V` marks what the call is, and so what can be set: `call::Check` for a check, which may also
///   wait; `call::Consume` for a call that is decided once; `call::Peek` for one that consumes nothing.
/// - `C` is the cost: a number for all limits, or [`Costs`] after [`cost_of`](Self::cost_of).
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Call<'l, 'k, S, V, C = u64> {
    limiter: &'l RateLimiter<S>,
    asked: Asked<'k, C>,
    kind: PhantomData<fn() -> V>,
}

impl<'l, 'k, S, V> Call<'l, 'k, S, V> {
    #[inline(always)]
    pub(crate) fn new(
        limiter: &'l RateLimiter<S>,
        operation: Operation<'k>,
        key: Key<'k>,
        cost: u64,
    ) -> Self {
        Self {
            limiter,
            asked: Asked {
                operation,
                key,
                cost,
                at: None,
                id: None,
            },
            kind: PhantomData,
        }
    }

    /// Sets the cost, 1 by default. For [`take_up_to`](RateLimiter::take_up_to), sets the most to
    /// take.
    ///
    /// A cost of zero is always allowed and consumes nothing. A cost above a limit's capacity is
    /// always denied.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.asked.cost = cost;
        self
    }

    /// Converts this call into a request, so that checks of other keys can be added.
    #[inline]
    #[must_use]
    pub fn into_request(self) -> Request<'k>
    where
        'l: 'k,
    {
        let limits = self.limiter.limits();
        let checks = Checks::of_key(limits, self.asked.key, self.asked.cost);
        self.asked.request(checks)
    }
}

impl<'l, 'k, S, V: Kind, C> Call<'l, 'k, S, V, C> {
    /// Returns the limiter that is called.
    ///
    /// For code that makes the call itself: [`into_request`](Call::into_request) says what to ask
    /// the limiter's [store](RateLimiter::store).
    #[must_use]
    pub fn limiter(&self) -> &'l RateLimiter<S> {
        self.limiter
    }

    /// Sets the instant to decide at, instead of the store's own clock. See [`Request::at`] for its
    /// restrictions.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore, Timestamp};
    /// # fn replay(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// let then = Timestamp::saturating_from_micros(1_431_857_103_000_000);
    /// let decision = limiter.check("83.149.9.216").at(then).run()?;
    /// assert_eq!(decision.binding().1.decided_at(), then);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn at(mut self, now: Timestamp) -> Call<'l, 'k, S, V::Once, C> {
        self.asked.at = Some(now);
        self.of_kind()
    }

    #[inline(always)]
    fn of_kind<K>(self) -> Call<'l, 'k, S, K, C> {
        Call {
            limiter: self.limiter,
            asked: self.asked,
            kind: PhantomData,
        }
    }
}

impl<'l, 'k, S, V: Consumes, C> Call<'l, 'k, S, V, C> {
    /// Sets the id of the call: if it is repeated with the same id, for the same key, limits and
    /// cost, it gets the first answer and is not counted again.
    ///
    /// After [`Unknown`](crate::ErrorKind::Unknown), call again with the same id: the answer says
    /// what happened. [`CallId`] says which answers are kept and for how long, and can
    /// [repeat](CallId::repeated) a lost call by itself. An answer that is kept takes a key in the
    /// store, whose name does not contain the id. Both answers hold the same receipt: give back or
    /// settle one of them.
    ///
    /// With an id, the call fails with [`Malformed`](crate::ErrorKind::Malformed) if the id was used
    /// for another call, such as one with another cost, and with
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on a store that keeps no answers.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
    /// # fn admit(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// let first = limiter.check("alice").id("request-1").run()?;
    /// let again = limiter.check("alice").id("request-1").run()?;
    /// assert_eq!(first.remaining(), again.remaining());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A peek has no id, because repeating it changes nothing:
    ///
    /// ```compile_fail,E0599
    /// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
    /// # fn look(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
    /// limiter.peek("alice").id("request-1").run()?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn id(mut self, id: impl Into<CallId<'k>>) -> Call<'l, 'k, S, V::Once, C> {
        self.asked.id = Some(id.into());
        self.of_kind()
    }
}

impl<S: Store, V> Call<'_, '_, S, V> {
    /// Returns the error that this call fails with whatever was counted, if there is one. The store
    /// is not asked.
    ///
    /// For when a program starts, so that a call that can never work is found before it is needed:
    ///
    /// - a reservation under a limit other than [`Gcra`](crate::Gcra),
    /// - a [cost of its own](Call::cost_of) for a limit that the limiter does not have,
    /// - an [id](Self::id) on a store that keeps no answers,
    /// - a limit of which a process would admit less than the cost (`Share` of the crate
    ///   `tollgate-layers`).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) or [`Malformed`](crate::ErrorKind::Malformed),
    /// with what to do instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError};
    ///
    /// // With the limits "requests=sliding-log:60/1m" and "tokens=sliding-log:1000/1m".
    /// fn at_start(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    ///     limiter.check("any").cost_of("tokens", 1000).supported()?;
    ///     let error = limiter.check("any").cost_of("token", 1000).supported().unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::Malformed);
    ///     Ok(())
    /// }
    /// ```
    pub fn supported(&self) -> Result<(), StoreError> {
        self.asked
            .supported(&self.limiter.shared.limits, self.limiter.store())
    }
}

impl<'l, S: SyncStore, V> Call<'l, '_, S, V> {
    /// Decides this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    // Always inlined: the caller knows the operation and whether `at` is set, so the match folds
    // away. Taken apart, because a call whose address is passed on would be written to memory first.
    #[inline(always)]
    pub fn run(self) -> Result<Decision<'l>, StoreError> {
        decide_now(
            &self.limiter.shared.limits,
            self.limiter.store(),
            self.asked,
        )
    }
}

impl<'l: 'k, 'k, S: Store, V, C> IntoFuture for Call<'l, 'k, S, V, C>
where
    Deciding<'l, 'k, C>: Future<Output = Result<Decision<'l>, StoreError>>,
{
    type Output = Result<Decision<'l>, StoreError>;
    type IntoFuture = Deciding<'l, 'k, C>;

    #[inline]
    fn into_future(self) -> Deciding<'l, 'k, C> {
        Deciding::new(
            &self.limiter.shared.limits,
            self.limiter.store(),
            self.asked,
        )
    }
}

impl<S, V, C: fmt::Debug> fmt::Debug for Call<'_, '_, S, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("operation", &self.asked.operation)
            .field("limits", &self.limiter.limits())
            .field("key", &self.asked.key)
            .field("cost", &self.asked.cost)
            .field("at", &self.asked.at)
            .field("id", &self.asked.id)
            .finish()
    }
}
