//! `Settle`: a pending settlement, and the error of it and of a refund.

use std::error::Error;
use std::fmt;

use super::call::Charge;
use super::{Costs, Left};
use crate::contract::{Boxed, Store, SyncStore};
use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::store::{Operation, Receipt, Request, Verdicts};
use crate::time::Timestamp;

/// A pending settlement, made by [`RateLimiter::settle`]. End it with `.await` or
/// [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return a [`SettleError`], which holds the receipt if nothing was changed.
///
/// - [`Malformed`](ErrorKind::Malformed): the receipt is from another key, another limit or the
///   other clock.
/// - [`Full`](ErrorKind::Full): more is to be counted for a key that the store has no room for.
/// - [`Unsupported`](ErrorKind::Unsupported): on a server, a
///   [`SlidingLog`](crate::SlidingLog) holds more than 2,000 entries before the entry of
///   the call and more than 2,000 after it, or several hold as many together. The call then counts
///   until it leaves the window.
#[must_use = "a settlement does nothing until it is awaited, or ended by `run`"]
pub struct Settle<'l, 'k, S> {
    limiter: &'l RateLimiter<S>,
    key: Key<'k>,
    receipt: Receipt,
    /// What the call turned out to cost.
    cost: u64,
    /// Set if a limit has a cost of its own.
    costs: Option<Costs>,
    at: Option<Timestamp>,
}

impl<'l, 'k, S> Settle<'l, 'k, S> {
    #[inline]
    pub(crate) fn new(
        limiter: &'l RateLimiter<S>,
        key: Key<'k>,
        receipt: Receipt,
        cost: u64,
    ) -> Self {
        Self {
            limiter,
            key,
            receipt,
            cost,
            costs: None,
            at: None,
        }
    }

    /// Sets the instant to decide at. Set it if and only if the call that consumed had one.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Settles at another cost for the limit called `name`. All other limits are settled at the
    /// cost that was passed to [`settle`](RateLimiter::settle).
    ///
    /// # Errors
    ///
    /// If no limit of the limiter has this name, the settlement fails with
    /// [`ErrorKind::Malformed`], and the error lists the names and holds the receipt.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use tollgate_core::{RateLimiter, SyncStore};
    ///
    /// // With the limits "requests=sliding-log:60/1m" and "tokens=sliding-log:1000/1m".
    /// fn complete(limiter: &RateLimiter<impl SyncStore>) -> Result<(), Box<dyn Error>> {
    ///     let decision = limiter.check("alice").cost_of("tokens", 800).run()?;
    ///     let receipt = decision.into_receipt().ok_or("denied")?;
    ///     // It was one request, and took 335 tokens.
    ///     let left = limiter.settle("alice", receipt, 1).cost_of("tokens", 335).run()?;
    ///     let remaining = |name| left.decision().verdict(name).map(|verdict| verdict.remaining());
    ///     assert_eq!(remaining("requests"), Some(59));
    ///     assert_eq!(remaining("tokens"), Some(665));
    ///     Ok(())
    /// }
    /// ```
    pub fn cost_of(mut self, name: &str, cost: u64) -> Self {
        let (limits, same) = (self.limiter.limits(), self.cost);
        let costs = self.costs.get_or_insert_with(|| Costs::same(limits, same));
        costs.set(limits, name, cost);
        self
    }

    fn request(&self) -> Result<Request<'_>, StoreError> {
        let checks = match &self.costs {
            None => self.cost.checks(&self.limiter.shared.limits, self.key)?,
            Some(costs) => costs.checks(&self.limiter.shared.limits, self.key)?,
        };
        let operation = Operation::Settle(&self.receipt);
        Ok(Request::of_parts(operation, checks, self.at))
    }
}

/// Returns what remains after the store's answer to a refund or a settlement of `receipt`, to a call of
/// `limiter`, which is in the zone of the call.
pub(super) fn finish<'l, S>(
    limiter: &'l RateLimiter<S>,
    key: Key<'_>,
    receipt: Receipt,
    verdicts: Result<Verdicts, StoreError>,
) -> Result<Left<'l>, SettleError> {
    if verdicts.is_ok() {
        limiter.given_back(key);
    }
    verdicts
        .and_then(|verdicts| Left::new(&limiter.shared.limits, verdicts))
        .map_err(|error| SettleError::new(error, receipt))
}

impl<S: Store> Settle<'_, '_, S> {
    /// Returns the error that this call fails with whatever was counted, if there is one:
    /// [`Call::supported`](super::Call::supported).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported), with what to do instead, or
    /// [`Malformed`](ErrorKind::Malformed).
    pub fn supported(&self) -> Result<(), StoreError> {
        self.request()?.supported_by(self.limiter.store())
    }
}

impl<'l, S: SyncStore> Settle<'l, '_, S> {
    /// Runs this settlement without waiting.
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

impl<'l: 'k, 'k, S: Store> IntoFuture for Settle<'l, 'k, S> {
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

impl<S> fmt::Debug for Settle<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settle")
            .field("limits", &self.limiter.limits())
            .field("key", &self.key)
            .field("receipt", &self.receipt)
            .field("cost", &self.cost)
            .field("costs", &self.costs)
            .field("at", &self.at)
            .finish()
    }
}

/// The error of a refund or settlement, with the receipt if nothing was changed.
#[derive(Debug)]
pub struct SettleError {
    error: StoreError,
    receipt: Option<Box<Receipt>>,
}

impl SettleError {
    /// Returns the error of a refund or a settlement with `receipt`, for crates that make such calls. It
    /// keeps the receipt if an error of this kind means that nothing was changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::call::SettleError;
    /// use tollgate_core::{ErrorKind, Receipt, StoreError};
    ///
    /// fn not_sent(receipt: Option<Receipt>) -> SettleError {
    ///     let error = StoreError::new(ErrorKind::Malformed, "no limit `tokns` counts calls here");
    ///     SettleError::new(error, receipt) // `into_receipt` returns it.
    /// }
    /// assert_eq!(not_sent(None).kind(), ErrorKind::Malformed);
    /// ```
    #[must_use]
    pub fn new(error: StoreError, receipt: impl Into<Option<Receipt>>) -> Self {
        let nothing_happened = match error.kind() {
            ErrorKind::Full
            | ErrorKind::Malformed
            | ErrorKind::Unavailable
            | ErrorKind::Unsupported => true,
            ErrorKind::Misconfigured | ErrorKind::Protocol | ErrorKind::Unknown => false,
        };
        Self {
            error,
            receipt: receipt.into().filter(|_| nothing_happened).map(Box::new),
        }
    }

    /// Returns the receipt if nothing was changed, or `None` if something may have been.
    ///
    /// If [the error is retryable](StoreError::is_retryable), retry with this receipt.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt.map(|receipt| *receipt)
    }

    /// Returns the underlying error.
    #[must_use]
    pub fn error(&self) -> &StoreError {
        &self.error
    }

    /// Returns the kind of the underlying error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for SettleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl From<SettleError> for StoreError {
    fn from(error: SettleError) -> Self {
        error.error
    }
}
