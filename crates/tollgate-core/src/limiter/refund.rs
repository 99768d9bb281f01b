//! `Refund`: a pending refund.

use std::fmt;

use super::call::Charge;
use super::settle::finish;
use super::{Left, SettleError};
use crate::contract::{Boxed, Store, SyncStore};
use crate::error::StoreError;
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::store::{Operation, Receipt, Request};
use crate::time::Timestamp;

/// A pending refund, made by [`RateLimiter::refund`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return a [`SettleError`], which holds the receipt if nothing was changed.
///
/// - [`Malformed`](crate::ErrorKind::Malformed): the receipt is from another key, another limit or
///   the other clock.
/// - [`Unsupported`](crate::ErrorKind::Unsupported): on a server, a
///   [`SlidingLog`](crate::SlidingLog) holds more than 2,000 entries before the entry of the call
///   and more than 2,000 after it, or several hold as many together. The call then counts until it
///   leaves the window.
///
/// # Examples
///
/// A refund gives back everything, so it has no cost:
///
/// ```compile_fail,E0599
/// # use tollgate_core::{RateLimiter, Receipt};
/// # fn refunds<S>(limiter: &RateLimiter<S>, receipt: Receipt) {
/// let call = limiter.refund("alice", receipt).cost_of("tokens", 5);
/// # }
/// ```
#[must_use = "a refund does nothing until it is awaited, or ended by `run`"]
pub struct Refund<'l, 'k, S> {
    limiter: &'l RateLimiter<S>,
    key: Key<'k>,
    receipt: Receipt,
    at: Option<Timestamp>,
}

impl<'l, 'k, S> Refund<'l, 'k, S> {
    #[inline]
    pub(crate) fn new(limiter: &'l RateLimiter<S>, key: Key<'k>, receipt: Receipt) -> Self {
        Self {
            limiter,
            key,
            receipt,
            at: None,
        }
    }

    /// Sets the instant to decide at. Set it if and only if the call that consumed had one.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    fn request(&self) -> Result<Request<'_>, StoreError> {
        let checks = 0.checks(&self.limiter.shared.limits, self.key)?;
        let operation = Operation::Refund(&self.receipt);
        Ok(Request::of_parts(operation, checks, self.at))
    }
}

impl<S: Store> Refund<'_, '_, S> {
    /// Returns the error that this call fails with whatever was counted, if there is one:
    /// [`Call::supported`](super::Call::supported).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with what to do instead, or
    /// [`Malformed`](crate::ErrorKind::Malformed).
    pub fn supported(&self) -> Result<(), StoreError> {
        self.request()?.supported_by(self.limiter.store())
    }
}

impl<'l, S: SyncStore> Refund<'l, '_, S> {
    /// Runs this refund without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's error, with the receipt if nothing was changed.
    pub fn run(self) -> Result<Left<'l>, SettleError> {
        let request = self.request();
        let verdicts = request.and_then(|request| self.limiter.store().decide_now(&request));
        finish(self.limiter, self.key, self.receipt, verdicts)
    }
}

impl<'l: 'k, 'k, S: Store> IntoFuture for Refund<'l, 'k, S> {
    type Output = Result<Left<'l>, SettleError>;
    type IntoFuture = Boxed<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let verdicts = match self.request() {
                Ok(request) => self.limiter.store().decide(request).await,
                Err(error) => Err(error),
            };
            finish(self.limiter, self.key, self.receipt, verdicts)
        })
    }
}

impl<S> fmt::Debug for Refund<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refund")
            .field("limits", &self.limiter.limits())
            .field("key", &self.key)
            .field("receipt", &self.receipt)
            .field("at", &self.at)
            .finish()
    }
}
