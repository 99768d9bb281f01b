//! `Call`, `Refund` and `Reset`: calls to a limiter, which do nothing until they are awaited or
//! run.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::decision::{Decision, Receipt, Verdicts};
use crate::error::{ErrorKind, StoreError};
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
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Call<'l, 'k, S> {
    limiter: &'l RateLimiter<S>,
    operation: Operation<'k>,
    key: Key<'k>,
    cost: u64,
    at: Option<Timestamp>,
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
            operation,
            key,
            cost,
            at: None,
        }
    }

    /// Sets the cost, 1 by default. For [`take_up_to`](RateLimiter::take_up_to), sets the most to
    /// take.
    ///
    /// A cost of zero is always allowed and consumes nothing. A cost above a limit's capacity is
    /// always denied.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
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
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Returns the parts of this call.
    pub(crate) fn into_parts(self) -> CallParts<'l, 'k, S> {
        let Self {
            limiter,
            operation,
            key,
            cost,
            at,
        } = self;
        CallParts {
            limiter,
            operation,
            key,
            cost,
            at,
        }
    }

    /// Converts this call into a request, so that checks of other keys can be added.
    #[inline]
    #[must_use]
    pub fn into_request(self) -> Request<'k>
    where
        'l: 'k,
    {
        let checks = checks(self.limiter.limits(), self.key, self.cost);
        Request::of_parts(self.operation, checks, self.at)
    }
}

impl<'l, S: SyncStore> Call<'l, '_, S> {
    /// Decides this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    // Always inlined: the caller knows the operation and whether `at` is set, so the match folds
    // away.
    #[inline(always)]
    pub fn run(self) -> Result<Decision<'l>, StoreError> {
        match (self.limiter.limits(), self.operation, self.at) {
            (limits @ [limit], Operation::Consume, None) => consume(
                limits,
                self.limiter.store(),
                Check::new(limit, self.key, self.cost),
            ),
            _ => self.run_request(),
        }
    }

    fn run_request(self) -> Result<Decision<'l>, StoreError> {
        let limiter = self.limiter;
        let checks = checks(limiter.limits(), self.key, self.cost);
        let request = Request::of_parts(self.operation, Checks::borrowed(&checks), self.at);
        Decision::new(limiter.limits(), limiter.store().decide_now(&request)?)
    }
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

impl<'l: 'k, 'k, S: Store> IntoFuture for Call<'l, 'k, S> {
    type Output = Result<Decision<'l>, StoreError>;
    type IntoFuture = Deciding<'l, 'k>;

    #[inline]
    fn into_future(self) -> Deciding<'l, 'k> {
        let limiter = self.limiter;
        Deciding {
            limits: limiter.limits(),
            verdicts: limiter.store().decide(self.into_request()),
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
}

impl<S> fmt::Debug for Call<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("operation", &self.operation)
            .field("limits", &self.limiter.limits())
            .field("key", &self.key)
            .field("cost", &self.cost)
            .field("at", &self.at)
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
        self.call.cost = cost;
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
        self.call.operation = Operation::Reserve { max_delay };
        self.call
    }
}

impl<S> fmt::Debug for Reserve<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("limits", &self.call.limiter.limits())
            .field("key", &self.call.key)
            .field("cost", &self.call.cost)
            .finish_non_exhaustive()
    }
}

/// The future of a [`Call`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Deciding<'l, 'k> {
    limits: &'l [Limit],
    verdicts: Boxed<'k, Result<Verdicts, StoreError>>,
}

impl<'l> Future for Deciding<'l, '_> {
    type Output = Result<Decision<'l>, StoreError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let limits = self.limits;
        let verdicts = self.verdicts.as_mut().poll(context);
        verdicts.map(|verdicts| Decision::new(limits, verdicts?))
    }
}

impl fmt::Debug for Deciding<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deciding")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A pending refund, made by [`RateLimiter::refund`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return a [`RefundError`], which holds the receipt if nothing was given
/// back.
///
/// - [`Malformed`](ErrorKind::Malformed): the receipt is from another key, another limit or the
///   other clock.
/// - [`Unsupported`](ErrorKind::Unsupported): on a server, a
///   [`SlidingLog`](crate::algorithm::SlidingLog) holds more than 2,000 entries before the refunded
///   one and more than 2,000 after it. The call then counts until it leaves the window.
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

    fn request(&self) -> Request<'_> {
        let checks = checks(self.limiter.limits(), self.key, 0);
        Request::of_parts(Operation::Refund(&self.receipt), checks, self.at)
    }

    fn finish(self, verdicts: Result<Verdicts, StoreError>) -> Result<Refunded<'l>, RefundError> {
        verdicts
            .and_then(|verdicts| Decision::new(self.limiter.limits(), verdicts))
            .map(Refunded)
            .map_err(|error| RefundError::new(error, self.receipt))
    }
}

impl<'l, S: SyncStore> Refund<'l, '_, S> {
    /// Runs this refund without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's error, with the receipt if nothing was given back.
    pub fn run(self) -> Result<Refunded<'l>, RefundError> {
        let verdicts = self.limiter.store().decide_now(&self.request());
        self.finish(verdicts)
    }
}

impl<'l: 'k, 'k, S: Store> IntoFuture for Refund<'l, 'k, S> {
    type Output = Result<Refunded<'l>, RefundError>;
    type IntoFuture = Boxed<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let verdicts = self.limiter.store().decide(self.request()).await;
            self.finish(verdicts)
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

/// What a refund leaves: the decision of a call that costs nothing. It need not be read.
///
/// # Examples
///
/// ```
/// #![deny(unused_must_use)]
/// # use std::error::Error;
/// # use tollgate_core::{RateLimiter, Receipt, SyncStore};
/// # fn example(limiter: &RateLimiter<impl SyncStore>, receipts: [Receipt; 2]) -> Result<(), Box<dyn Error>> {
/// # let [first, second] = receipts;
/// limiter.refund("alice", first).run()?;
/// let left = limiter.refund("alice", second).run()?.remaining();
/// assert_eq!(limiter.peek("alice").run()?.remaining(), left);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Eq, PartialEq)]
pub struct Refunded<'l>(Decision<'l>);

impl<'l> Deref for Refunded<'l> {
    type Target = Decision<'l>;

    fn deref(&self) -> &Decision<'l> {
        &self.0
    }
}

/// The error of a refund, with the receipt if nothing was given back.
#[derive(Debug)]
pub struct RefundError {
    error: StoreError,
    receipt: Option<Box<Receipt>>,
}

impl RefundError {
    fn new(error: StoreError, receipt: Receipt) -> Self {
        let nothing_happened = match error.kind() {
            ErrorKind::Full
            | ErrorKind::Malformed
            | ErrorKind::Unavailable
            | ErrorKind::Unsupported => true,
            ErrorKind::Misconfigured | ErrorKind::Protocol | ErrorKind::Unknown => false,
        };
        Self {
            error,
            receipt: nothing_happened.then(|| Box::new(receipt)),
        }
    }

    /// Returns the receipt if nothing was given back, or `None` if something may have been.
    ///
    /// If [the error is retryable](StoreError::is_retryable), retry the refund with this receipt.
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

impl fmt::Display for RefundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for RefundError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl From<RefundError> for StoreError {
    fn from(error: RefundError) -> Self {
        error.error
    }
}

/// A pending reset, made by [`RateLimiter::reset`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return the store's errors. After [`Unknown`](ErrorKind::Unknown), reset
/// again.
#[must_use = "a reset does nothing until it is awaited, or ended by `run`"]
pub struct Reset<'l, 'k, S> {
    limiter: &'l RateLimiter<S>,
    key: Key<'k>,
}

impl<'l, 'k, S> Reset<'l, 'k, S> {
    #[inline]
    pub(crate) fn new(limiter: &'l RateLimiter<S>, key: Key<'k>) -> Self {
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
        let checks = checks(self.limiter.limits(), self.key, 0);
        self.limiter.store().reset_now(&checks)
    }
}

impl<'l: 'k, 'k, S: Store> IntoFuture for Reset<'l, 'k, S> {
    type Output = Result<(), StoreError>;
    type IntoFuture = Boxed<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let checks = checks(self.limiter.limits(), self.key, 0);
        self.limiter.store().reset(checks)
    }
}

impl<S> fmt::Debug for Reset<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reset")
            .field("limits", &self.limiter.limits())
            .field("key", &self.key)
            .finish()
    }
}

#[inline(always)]
fn checks<'c>(limits: &'c [Limit], key: Key<'c>, cost: u64) -> Checks<'c> {
    limits
        .iter()
        .map(|limit| Check::new(limit, key, cost))
        .collect()
}
