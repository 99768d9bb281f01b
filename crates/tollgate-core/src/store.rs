//! `Store`: what a backend implements.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::decision::{Verdict, Verdicts};
use crate::error::StoreError;
use crate::fingerprint::Fingerprint;
use crate::request::{Check, Checks, Request};

/// The future of a store's method.
pub(crate) type Boxed<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// Decides requests against shared state, atomically.
///
/// Implement this to bring limits to another place; the crate `tollgate-conformance` checks it
/// with one line. Leases and schedules are separate traits: a store says what it can do by what it
/// implements. Stores wrap stores, so every method takes `&self` and is cheap to forward.
///
/// # Behavior
///
/// - A decision MUST be the one that [`Request::decide_on`] reaches on the same states at the same
///   instant (checked by `agrees_with_the_machine`).
/// - Concurrent requests MUST behave as if decided one after another (checked by
///   `admits_exactly_the_bound_under_concurrency`).
/// - A denied request and a peek MUST change nothing, except that limits which count denials count
///   the attempt (checked by `denied_calls_change_nothing` and `peek_changes_nothing`).
/// - A request of several checks MUST consume all of its costs or nothing (checked by
///   `is_all_or_nothing`).
/// - A request with [`Request::at`] MUST be decided at that instant (checked by
///   `decides_at_the_given_instant`), and any other at the store's own clock (checked by
///   `counts_at_its_own_clock`). Callers MUST NOT use one key with both.
/// - A request that is not [valid](Request::validate) MUST fail and change nothing (checked by
///   `malformed_requests_change_nothing`).
/// - A [`Receipt`](crate::Receipt) from before a reset MUST free nothing that was consumed after
///   it, where states know the instants of calls (checked by
///   `receipts_from_before_a_reset_free_nothing`).
/// - An error MUST NOT be returned for a call that is merely denied.
#[async_trait]
pub trait Store: Send + Sync {
    /// Decides `request`, all-or-nothing.
    ///
    /// # Errors
    ///
    /// An [`ErrorKind`](crate::ErrorKind) that says whether anything may have been consumed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is done, the request may or may not have been counted.
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError>;

    /// Forgets what was consumed of each limit by its key, by whichever clock; costs are ignored.
    ///
    /// # Behavior
    ///
    /// - What is forgotten MUST be as if it had never been (checked by `reset_forgets_everything`).
    /// - Several checks MAY be forgotten one after another: a request may be decided in between.
    ///
    /// # Errors
    ///
    /// An [`ErrorKind`](crate::ErrorKind) that says whether anything may have been forgotten.
    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError>;

    /// Returns whether this store can decide `request`, without deciding it.
    ///
    /// # Behavior
    ///
    /// - Where this is false, [`decide`](Self::decide) MUST fail with
    ///   [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported); where it is true, it MUST NOT
    ///   (checked by `says_what_it_supports`).
    fn supports<'a>(&self, request: &Request<'a>) -> bool;
}

/// A store that decides in this thread, without waiting for anything.
pub trait SyncStore: Store {
    /// Decides `request`, as [`Store::decide`] does.
    ///
    /// # Errors
    ///
    /// As [`Store::decide`].
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError>;

    /// Decides to consume from one limit, by the store's own clock: what nearly every call is.
    ///
    /// The same as [`decide_now`](Self::decide_now), for stores that can do this faster.
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    fn consume_now(&self, check: Check<'_>) -> Result<(Fingerprint, Verdict), StoreError> {
        self.decide_now(&Request::consume(check))?.into_one()
    }

    /// Forgets what was consumed, as [`Store::reset`] does.
    ///
    /// # Errors
    ///
    /// As [`Store::reset`].
    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError>;
}

macro_rules! forward {
    ($pointer:ty) => {
        // As `async_trait` would write it, but without a second box around the store's own.
        #[deny(clippy::missing_trait_methods)]
        impl<S: Store + ?Sized> Store for $pointer {
            fn decide<'a, 'store, 'call>(
                &'store self,
                request: Request<'a>,
            ) -> Boxed<'call, Result<Verdicts, StoreError>>
            where
                'a: 'call,
                'store: 'call,
                Self: 'call,
            {
                (**self).decide(request)
            }

            fn reset<'a, 'store, 'call>(
                &'store self,
                checks: Checks<'a>,
            ) -> Boxed<'call, Result<(), StoreError>>
            where
                'a: 'call,
                'store: 'call,
                Self: 'call,
            {
                (**self).reset(checks)
            }

            fn supports<'a>(&self, request: &Request<'a>) -> bool {
                (**self).supports(request)
            }
        }

        #[deny(clippy::missing_trait_methods)]
        impl<S: SyncStore + ?Sized> SyncStore for $pointer {
            #[inline]
            fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
                (**self).decide_now(request)
            }

            #[inline]
            fn consume_now(&self, check: Check<'_>) -> Result<(Fingerprint, Verdict), StoreError> {
                (**self).consume_now(check)
            }

            fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
                (**self).reset_now(checks)
            }
        }
    };
}

forward!(&S);
forward!(Arc<S>);
forward!(Box<S>);
