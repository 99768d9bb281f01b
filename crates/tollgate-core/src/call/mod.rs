//! Calls to a limiter, which do nothing until they are awaited or run: `Call` and `Reserve` here,
//! the others in modules of their own.

mod change;
mod costs;
mod id;
mod settle;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use change::{Adjust, BlockCall, Reset};
pub use costs::Costs;
pub use id::CallId;
pub use settle::{Left, Settle, SettleError};

use crate::decision::{Decision, Verdicts};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::limiter::RateLimiter;
use crate::request::{Check, Checks, Operation, Request};
use crate::store::{Boxed, Store, SyncStore};
use crate::time::Timestamp;

/// A pending check, peek, reservation or take.
///
/// Made by [`RateLimiter::check`], [`RateLimiter::peek`], [`RateLimiter::reserve`] and
/// [`RateLimiter::take_up_to`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return the store's errors. A denied call is a decision, not an error.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, the call may or may not have been counted.
///
/// `C` is the cost: a number for all limits, or [`Costs`] after [`cost_of`](Self::cost_of).
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Call<'l, 'k, S, C = u64> {
    limiter: &'l RateLimiter<S>,
    asked: Asked<'k, C>,
}

impl<'l, 'k, S> Call<'l, 'k, S> {
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

    /// Returns the parts of this call.
    pub(crate) fn into_parts(self) -> CallParts<'l, 'k, S> {
        let Asked {
            operation,
            key,
            cost,
            at,
            id,
        } = self.asked;
        CallParts {
            limiter: self.limiter,
            operation,
            key,
            cost,
            at,
            id,
        }
    }

    /// Converts this call into a request, so that checks of other keys can be added.
    #[inline]
    #[must_use]
    pub fn into_request(self) -> Request<'k>
    where
        'l: 'k,
    {
        let checks = Checks::of_key(self.limiter.limits(), self.asked.key, self.asked.cost);
        self.asked.request(checks)
    }
}

impl<'k, S, C> Call<'_, 'k, S, C> {
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
    pub fn at(mut self, now: Timestamp) -> Self {
        self.asked.at = Some(now);
        self
    }

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
    #[inline]
    pub fn id(mut self, id: impl Into<CallId<'k>>) -> Self {
        self.asked.id = Some(id.into());
        self
    }
}

impl<'l, S: SyncStore> Call<'l, '_, S> {
    /// Decides this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    // Always inlined: the caller knows the operation and whether `at` is set, so the match folds
    // away. Taken apart, because a call whose address is passed on would be written to memory first.
    #[inline(always)]
    pub fn run(self) -> Result<Decision<'l>, StoreError> {
        decide_now(self.limiter.limits(), self.limiter.store(), self.asked)
    }
}

/// What a call asks of a limiter.
#[derive(Clone, Copy)]
struct Asked<'k, C = u64> {
    operation: Operation<'k>,
    key: Key<'k>,
    cost: C,
    at: Option<Timestamp>,
    id: Option<CallId<'k>>,
}

/// What a call costs: one number for all limits, or [`Costs`].
trait Charge: Sized {
    /// Returns the check of each of `limits`.
    fn checks<'c>(&self, limits: &'c [Limit], key: Key<'c>) -> Result<Checks<'c>, StoreError>;

    /// Decides an awaited call on a store that need not wait.
    fn decide_in_place<'l>(
        limits: &'l [Limit],
        store: &dyn SyncStore,
        asked: &Asked<'_, Self>,
    ) -> Result<Decision<'l>, StoreError>;
}

impl Charge for u64 {
    #[inline(always)]
    fn checks<'c>(&self, limits: &'c [Limit], key: Key<'c>) -> Result<Checks<'c>, StoreError> {
        Ok(Checks::of_key(limits, key, *self))
    }

    // The store is known only at run time: it writes its result where it is wanted, because
    // returning it through memory takes longer than deciding.
    #[inline(always)]
    fn decide_in_place<'l>(
        limits: &'l [Limit],
        store: &dyn SyncStore,
        asked: &Asked<'_>,
    ) -> Result<Decision<'l>, StoreError> {
        match asked {
            Asked {
                operation: Operation::Consume,
                key,
                cost,
                at: None,
                id: None,
            } => Decision::written(limits, |verdicts| {
                store.consume_all_now(limits, *key, *cost, verdicts)
            }),
            _ => decide_request(limits, store, *asked),
        }
    }
}

impl<'k, C> Asked<'k, C> {
    /// Returns the request for `checks`, one of each limit.
    fn request<'c>(&self, checks: Checks<'c>) -> Request<'c>
    where
        'k: 'c,
    {
        Request::of_parts(self.operation, checks, self.at).with_id(self.id)
    }
}

/// Decides a call without waiting.
#[inline(always)]
fn decide_now<'l>(
    limits: &'l [Limit],
    store: &impl SyncStore,
    asked: Asked<'_>,
) -> Result<Decision<'l>, StoreError> {
    let Asked {
        operation,
        key,
        cost,
        at,
        id,
    } = asked;
    match (limits, operation, at, id) {
        (limits @ [limit], Operation::Consume, None, None) => {
            consume(limits, store, Check::new(limit, key, cost))
        }
        (limits, Operation::Consume, None, None) => consume_all(limits, store, key, cost),
        _ => decide_request(limits, store, asked),
    }
}

/// Decides any call, as a request.
#[inline(never)]
fn decide_request<'l>(
    limits: &'l [Limit],
    store: &(impl SyncStore + ?Sized),
    asked: Asked<'_>,
) -> Result<Decision<'l>, StoreError> {
    let checks = Checks::of_key(limits, asked.key, asked.cost);
    let request = asked.request(Checks::borrowed(&checks));
    Decision::new(limits, store.decide_now(&request)?)
}

#[inline(always)]
fn decide_checks<'l, C: Charge>(
    limits: &'l [Limit],
    store: &(impl SyncStore + ?Sized),
    asked: &Asked<'_, C>,
) -> Result<Decision<'l>, StoreError> {
    let checks = asked.cost.checks(limits, asked.key)?;
    let request = asked.request(Checks::borrowed(&checks));
    Decision::new(limits, store.decide_now(&request)?)
}

/// Decides the most common call: a consume from one limit, at the store's own clock.
#[inline]
fn consume<'l>(
    limits: &'l [Limit],
    store: &impl SyncStore,
    check: Check<'_>,
) -> Result<Decision<'l>, StoreError> {
    let (fingerprint, verdict) = store.consume_now(check)?;
    Ok(Decision::of_one(limits, fingerprint, verdict))
}

/// Decides the most common call under several limits.
#[inline(never)]
fn consume_all<'l>(
    limits: &'l [Limit],
    store: &impl SyncStore,
    key: Key<'_>,
    cost: u64,
) -> Result<Decision<'l>, StoreError> {
    Decision::written(limits, |verdicts| {
        store.consume_all_now(limits, key, cost, verdicts)
    })
}

impl<'l: 'k, 'k, S: Store, C> IntoFuture for Call<'l, 'k, S, C>
where
    Deciding<'l, 'k, C>: Future<Output = Result<Decision<'l>, StoreError>>,
{
    type Output = Result<Decision<'l>, StoreError>;
    type IntoFuture = Deciding<'l, 'k, C>;

    #[inline]
    fn into_future(self) -> Deciding<'l, 'k, C> {
        Deciding {
            limits: self.limiter.limits(),
            store: self.limiter.store(),
            stage: Stage::Asked(self.asked),
        }
    }
}

/// The parts of a [`Call`], for crates that make calls of their own from it.
#[derive(Debug)]
#[allow(
    clippy::exhaustive_structs,
    reason = "only for the crates of this workspace"
)]
pub struct CallParts<'l, 'k, S> {
    /// The limiter that the call was made with.
    pub limiter: &'l RateLimiter<S>,
    /// The operation.
    pub operation: Operation<'k>,
    /// The key.
    pub key: Key<'k>,
    /// The cost.
    pub cost: u64,
    /// The caller's instant, or `None` for the store's clock.
    pub at: Option<Timestamp>,
    /// The id, if the call has one.
    pub id: Option<CallId<'k>>,
}

impl<S, C: fmt::Debug> fmt::Debug for Call<'_, '_, S, C> {
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

/// A call to reserve a start, made by [`RateLimiter::reserve`], which still needs its longest delay:
/// set it with [`within`](Self::within), which returns the [`Call`].
#[must_use = "a reservation does nothing until `within` sets its longest delay, and it is awaited or run"]
pub struct Reserve<'l, 'k, S> {
    call: Call<'l, 'k, S>,
}

impl<'l, 'k, S> Reserve<'l, 'k, S> {
    #[inline]
    pub(crate) fn new(limiter: &'l RateLimiter<S>, key: Key<'k>) -> Self {
        Self {
            call: Call::new(limiter, Operation::Consume, key, 1),
        }
    }

    /// Sets the cost, 1 by default. A cost above a limit's capacity is always denied.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.call.asked.cost = cost;
        self
    }

    /// Sets the longest delay to accept, in whole microseconds. Without a delay
    /// ([`Duration::ZERO`]), the call is decided as a [check](RateLimiter::check) is.
    ///
    /// There is no default, because it bounds the queue: of `N` per `T`, about `N * max_delay / T`
    /// calls can wait at a time. A delay that could not be counted exactly is denied, whatever is
    /// set here: that is one of 285 years if `N` divides `T`, and of
    /// `285 years * gcd(N, T) / N` otherwise.
    #[inline]
    pub fn within(mut self, max_delay: Duration) -> Call<'l, 'k, S> {
        self.call.asked.operation = Operation::Reserve { max_delay };
        self.call
    }
}

impl<S> fmt::Debug for Reserve<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("limits", &self.call.limiter.limits())
            .field("key", &self.call.asked.key)
            .field("cost", &self.call.asked.cost)
            .finish_non_exhaustive()
    }
}

/// The future of a [`Call`].
///
/// On a store that [need not wait](Store::as_sync), the call is decided when this is polled first.
#[must_use = "a future does nothing until it is awaited"]
pub struct Deciding<'l, 'k, C = u64> {
    limits: &'l [Limit],
    store: &'l dyn Store,
    stage: Stage<'k, C>,
}

/// How far a call is.
enum Stage<'k, C> {
    Asked(Asked<'k, C>),
    Sent(Boxed<'k, Result<Verdicts, StoreError>>),
    Over,
}

impl<'l: 'k, 'k, C> Deciding<'l, 'k, C> {
    /// Hands the call to a store that may have to wait.
    fn send(&mut self) -> Result<(), StoreError>
    where
        C: Charge,
    {
        if let Stage::Asked(asked) = &self.stage {
            let checks = asked.cost.checks(self.limits, asked.key)?;
            self.stage = Stage::Sent(self.store.decide(asked.request(checks)));
        }
        Ok(())
    }

    #[inline(always)]
    fn poll_stage(&mut self, context: &mut Context<'_>) -> Poll<Result<Decision<'l>, StoreError>>
    where
        C: Charge,
    {
        let limits = self.limits;
        if let Stage::Asked(asked) = &self.stage {
            if let Some(store) = self.store.as_sync() {
                let decision = C::decide_in_place(limits, store, asked);
                self.stage = Stage::Over;
                return Poll::Ready(decision);
            }
            if let Err(error) = self.send() {
                self.stage = Stage::Over;
                return Poll::Ready(Err(error));
            }
        }
        match &mut self.stage {
            Stage::Sent(verdicts) => Decision::of_polled(limits, verdicts.as_mut().poll(context)),
            Stage::Asked(_) | Stage::Over => {
                panic!("the future of a call was polled after it had completed")
            }
        }
    }
}

impl<'l: 'k, 'k> Future for Deciding<'l, 'k> {
    type Output = Result<Decision<'l>, StoreError>;

    /// # Panics
    ///
    /// If it is polled again after it has completed.
    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_stage(context)
    }
}

impl<'l: 'k, 'k> Future for Deciding<'l, 'k, Costs> {
    type Output = Result<Decision<'l>, StoreError>;

    /// # Panics
    ///
    /// If it is polled again after it has completed.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_stage(context)
    }
}

impl<C> fmt::Debug for Deciding<'_, '_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deciding")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
