//! `Call`: a call to a concurrency limiter, which does nothing until it is awaited or run.

use std::fmt;
use std::marker::PhantomData;

use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::lease::ConcurrencyLimiter;
use crate::lease::answer::{Acquisition, Answer, Lease, Occupancy};
use crate::lease::request::{Operation, Request};
use crate::lease::store::{Store, SyncStore};
use crate::store::BoxFuture;
use crate::time::Timestamp;

/// A pending call to a [`ConcurrencyLimiter`], which answers with an `A`.
///
/// End it with `.await`, or with [`run`](Self::run) on a store that need not wait.
///
/// # Errors
///
/// Awaiting and running return the store's errors, and [`Malformed`](ErrorKind::Malformed) for a
/// lease that is renewed or released under another key, or with another limiter, than it was
/// acquired with. A lease that was denied or lost is an answer, not an error.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, a lease may or may not have been acquired. Acquire
/// again with the same id, or let it end by itself.
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Call<'l, 'k, S, A> {
    limiter: &'l ConcurrencyLimiter<S>,
    request: Request<'k>,
    /// Whether the lease to renew or to release is of another limiter or key.
    is_misplaced: bool,
    answer: PhantomData<fn() -> A>,
}

impl<'l, 'k, S, A> Call<'l, 'k, S, A> {
    pub(super) fn new(limiter: &'l ConcurrencyLimiter<S>, request: Request<'k>) -> Self {
        Self {
            limiter,
            request,
            is_misplaced: false,
            answer: PhantomData,
        }
    }

    /// Makes this a call that renews or releases `lease`.
    pub(super) fn of_lease(mut self, lease: &Lease) -> Self {
        let name = self.limiter.terms().name();
        self.is_misplaced = lease.is_of_another(name, self.request.key());
        self
    }

    /// Sets the instant to decide at, instead of the store's own clock. See
    /// [`Request::at`](crate::store::Request::at) for its restrictions.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.request = self.request.at(now);
        self
    }

    /// Converts this call into a request.
    #[must_use]
    pub fn into_request(self) -> Request<'k> {
        self.request
    }
}

impl<S> Call<'_, '_, S, Acquisition> {
    /// Sets the weight, 1 by default: how much of the amount the lease takes.
    ///
    /// A weight above the amount is always denied.
    pub fn weight(mut self, of: u64) -> Self {
        if let Operation::Acquire { weight, .. } = self.request.operation_mut() {
            *weight = of;
        }
        self
    }
}

impl<S: SyncStore, A: FromAnswer> Call<'_, '_, S, A> {
    /// Decides this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    pub fn run(self) -> Result<A, StoreError> {
        if self.is_misplaced {
            return Err(misplaced());
        }
        let key = self.request.key();
        let answer = self.limiter.store().lease_now(&self.request)?;
        answered(self.limiter, key, answer)
    }
}

#[cold]
fn misplaced() -> StoreError {
    StoreError::new(
        ErrorKind::Malformed,
        "this lease is for another limiter or key: renew and release it with those it was acquired with",
    )
}

/// Returns what a store's answer says to the caller.
fn answered<S, A: FromAnswer>(
    limiter: &ConcurrencyLimiter<S>,
    key: Key<'_>,
    answer: Answer,
) -> Result<A, StoreError> {
    if matches!(answer, Answer::Released(true)) {
        limiter.given_back(key);
    }
    let answer = answer.of_key(limiter.terms(), key);
    A::of(answer).ok_or_else(StoreError::another_answer)
}

impl<'l: 'k, 'k, S: Store, A: FromAnswer + 'k> IntoFuture for Call<'l, 'k, S, A> {
    type Output = Result<A, StoreError>;
    type IntoFuture = BoxFuture<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            limiter, request, ..
        } = self;
        if self.is_misplaced {
            return Box::pin(async { Err(misplaced()) });
        }
        let key = request.key();
        let answer = limiter.store().lease(request);
        Box::pin(async move { answered(limiter, key, answer.await?) })
    }
}

impl<S, A> fmt::Debug for Call<'_, '_, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// A pending reset, made by [`ConcurrencyLimiter::reset`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return the store's errors. After
/// [`Unknown`](crate::ErrorKind::Unknown), reset again.
#[must_use = "a reset does nothing until it is awaited, or ended by `run`"]
pub struct Reset<'l, 'k, S> {
    limiter: &'l ConcurrencyLimiter<S>,
    key: Key<'k>,
}

impl<'l, 'k, S> Reset<'l, 'k, S> {
    pub(super) fn new(limiter: &'l ConcurrencyLimiter<S>, key: Key<'k>) -> Self {
        Self { limiter, key }
    }
}

impl<S: SyncStore> Reset<'_, '_, S> {
    /// Runs this reset without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    pub fn run(self) -> Result<(), StoreError> {
        let terms = self.limiter.terms();
        self.limiter.store().reset_leases_now(terms, self.key)?;
        self.limiter.given_back(self.key);
        Ok(())
    }
}

impl<'l: 'k, 'k, S: Store> IntoFuture for Reset<'l, 'k, S> {
    type Output = Result<(), StoreError>;
    type IntoFuture = BoxFuture<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { limiter, key } = self;
        let reset = limiter.store().reset_leases(limiter.terms(), key);
        Box::pin(async move {
            reset.await?;
            limiter.given_back(key);
            Ok(())
        })
    }
}

impl<S> fmt::Debug for Reset<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reset")
            .field("limiter", &self.limiter.terms().name())
            .field("key", &self.key)
            .finish()
    }
}

/// What a call to a concurrency limiter can answer: an [`Acquisition`], a lease that was renewed
/// or lost (`Option<Lease>`), whether a lease was still held (`bool`), or an [`Occupancy`].
#[doc(hidden)]
pub trait FromAnswer: Sized + Send {
    /// Converts the store's answer, if it is of the right kind.
    #[doc(hidden)]
    fn of(answer: Answer) -> Option<Self>;
}

macro_rules! from_answer {
    ($($answer:ident => $type:ty,)+) => {$(
        impl FromAnswer for $type {
            fn of(answer: Answer) -> Option<Self> {
                match answer {
                    Answer::$answer(found) => Some(found),
                    _ => None,
                }
            }
        }
    )+};
}

from_answer! {
    Acquired => Acquisition,
    Occupied => Occupancy,
    Released => bool,
    Renewed => Option<Lease>,
}
