//! `Lower`, `BlockCall` and `Reset`: calls that change what a key may do, and consume nothing.

use std::fmt;
use std::future::ready;
use std::time::Duration;

use super::Left;
use super::call::Charge;
use crate::algorithm::BlockSpan;
use crate::contract::{Boxed, Store, SyncStore};
use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::limit::Limit;
use crate::limiter::RateLimiter;
use crate::store::{Check, Checks, Operation, Request};
use crate::time::{Timestamp, Wait};

/// A pending [`RateLimiter::lower`], which lowers what remains for a key. End it with `.await` or
/// [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return the store's errors. After [`Unknown`](crate::ErrorKind::Unknown),
/// repeat the call: once or twice makes no difference.
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Lower<'l, 'k, S> {
    limiter: &'l RateLimiter<S>,
    key: Key<'k>,
    remaining: u64,
    at: Option<Timestamp>,
}

impl<'l, 'k, S> Lower<'l, 'k, S> {
    #[inline]
    pub(crate) fn new(limiter: &'l RateLimiter<S>, key: Key<'k>, remaining: u64) -> Self {
        Self {
            limiter,
            key,
            remaining,
            at: None,
        }
    }

    /// Sets the instant to decide at, instead of the store's own clock. See [`Request::at`] for its
    /// restrictions.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    fn request(&self) -> Result<Request<'_>, StoreError> {
        let checks = self
            .remaining
            .checks(&self.limiter.shared.limits, self.key)?;
        Ok(Request::of_parts(Operation::Lower, checks, self.at))
    }
}

impl<S: Store> Lower<'_, '_, S> {
    /// Returns the error that this call fails with whatever was counted, if there is one:
    /// [`Call::supported`](super::Call::supported).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with what to do instead.
    pub fn supported(&self) -> Result<(), StoreError> {
        self.request()?.supported_by(self.limiter.store())
    }
}

impl<'l, S: SyncStore> Lower<'l, '_, S> {
    /// Runs this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    pub fn run(self) -> Result<Left<'l>, StoreError> {
        let verdicts = self.limiter.store().decide_now(&self.request()?)?;
        Left::new(&self.limiter.shared.limits, verdicts)
    }
}

impl<'l: 'k, 'k, S: Store> IntoFuture for Lower<'l, 'k, S> {
    type Output = Result<Left<'l>, StoreError>;
    type IntoFuture = Boxed<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let verdicts = self.limiter.store().decide(self.request()?).await?;
            Left::new(&self.limiter.shared.limits, verdicts)
        })
    }
}

impl<S> fmt::Debug for Lower<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lower")
            .field("limits", &self.limiter.limits())
            .field("key", &self.key)
            .field("remaining", &self.remaining)
            .field("at", &self.at)
            .finish()
    }
}

/// A pending block, made by [`RateLimiter::block`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return the store's errors, and
/// [`Unsupported`](crate::ErrorKind::Unsupported) if no limit can block, or only limits in
/// [shadow](crate::Limit::shadow), which deny nobody. After [`Unknown`](crate::ErrorKind::Unknown), block again:
/// once or twice makes no difference.
#[must_use = "a block does nothing until it is awaited, or ended by `run`"]
pub struct BlockCall<'l, 'k, S> {
    limiter: &'l RateLimiter<S>,
    key: Key<'k>,
    span: BlockSpan,
    at: Option<Timestamp>,
}

impl<'l, 'k, S> BlockCall<'l, 'k, S> {
    #[inline]
    pub(crate) fn new(limiter: &'l RateLimiter<S>, key: Key<'k>) -> Self {
        Self {
            limiter,
            key,
            span: BlockSpan::Usual,
            at: None,
        }
    }

    /// Blocks until `instant`, by the store's clock.
    pub fn until(mut self, instant: Timestamp) -> Self {
        self.span = BlockSpan::Until(instant);
        self
    }

    /// Blocks for `time` from now on, by the store's clock, rounded up to microseconds.
    pub fn lasting(mut self, time: Duration) -> Self {
        self.span = BlockSpan::Lasting(time);
        self
    }

    /// Sets the instant to decide at, instead of the store's own clock. See [`Request::at`] for its
    /// restrictions.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    fn request(&self) -> Result<Request<'_>, StoreError> {
        let limits = self.limiter.limits().iter();
        let check = |limit| Check::new(limit, self.key, 1);
        let blocks = limits.clone().filter(|limit| limit.algorithm().can_block());
        let blocks: Checks<'_> = blocks.map(check).collect();
        if let Some(first) = blocks.first()
            && blocks.iter().all(|block| block.limit().is_shadow())
        {
            return Err(only_in_shadow(first.limit()));
        }
        // A request of other limits is refused, with the reason.
        let checks = if blocks.is_empty() {
            limits.map(check).collect()
        } else {
            blocks
        };
        Ok(Request::of_parts(
            Operation::Block(self.span),
            checks,
            self.at,
        ))
    }
}

/// Returns the error of a block that would deny nobody.
#[cold]
fn only_in_shadow(limit: &Limit) -> StoreError {
    let name = limit.name();
    StoreError::new(
        ErrorKind::Unsupported,
        format!(
            "limit `{name}` is in shadow, so a block would deny nobody: leave out `shadow`, or add a \
             limit that denies, such as `ban=block:5m`"
        ),
    )
}

impl<S: Store> BlockCall<'_, '_, S> {
    /// Returns the error that this block fails with whatever was counted, if there is one:
    /// [`Call::supported`](super::Call::supported).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if no limit can block, or only limits in shadow,
    /// with what to do instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{ErrorKind, RateLimiter, Store};
    ///
    /// // With the limit "login=gcra:10/1m", and none that blocks.
    /// fn at_start(limiter: &RateLimiter<impl Store>) {
    ///     let error = limiter.block("any").supported().unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::Unsupported);
    ///     assert!(error.to_string().contains("`ban=block:5m`"));
    /// }
    /// ```
    pub fn supported(&self) -> Result<(), StoreError> {
        self.request()?.supported_by(self.limiter.store())
    }
}

impl<S: SyncStore> BlockCall<'_, '_, S> {
    /// Runs this block without waiting, and returns how long the key is blocked now.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    pub fn run(self) -> Result<Wait, StoreError> {
        let verdicts = self.limiter.store().decide_now(&self.request()?)?;
        Ok(verdicts.retry_after())
    }
}

impl<'l: 'k, 'k, S: Store> IntoFuture for BlockCall<'l, 'k, S> {
    type Output = Result<Wait, StoreError>;
    type IntoFuture = Boxed<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let verdicts = self.limiter.store().decide(self.request()?).await?;
            Ok(verdicts.retry_after())
        })
    }
}

impl<S> fmt::Debug for BlockCall<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCall")
            .field("limits", &self.limiter.limits())
            .field("key", &self.key)
            .field("span", &self.span)
            .field("at", &self.at)
            .finish()
    }
}

/// A pending reset, made by [`RateLimiter::reset`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return the store's errors. After [`Unknown`](crate::ErrorKind::Unknown),
/// reset again.
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

    fn checks(&self) -> Result<Checks<'k>, StoreError>
    where
        'l: 'k,
    {
        let checks = Checks::of_key(&self.limiter.shared.limits, self.key, 0);
        let request = Request::of_parts(Operation::Peek, checks.clone(), None);
        request.validate_checks().map(|()| checks)
    }
}

impl<S: SyncStore> Reset<'_, '_, S> {
    /// Runs this reset without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    pub fn run(self) -> Result<(), StoreError> {
        self.limiter.store().reset_now(&self.checks()?)?;
        self.limiter.given_back(self.key);
        Ok(())
    }
}

impl<'l: 'k, 'k, S: Store> IntoFuture for Reset<'l, 'k, S> {
    type Output = Result<(), StoreError>;
    type IntoFuture = Boxed<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let checks = match self.checks() {
            Ok(checks) => checks,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let forgotten = self.limiter.store().reset(checks);
        if self.limiter.shared.companions.is_empty() {
            return forgotten;
        }
        Box::pin(async move {
            forgotten.await?;
            self.limiter.given_back(self.key);
            Ok(())
        })
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
