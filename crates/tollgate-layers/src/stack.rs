//! `usual`: the layers that most stores on a server need.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{BoxFuture, Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError};

use crate::breaker::Breaker;
use crate::deny_cache::DenyCache;
use crate::fallback::{AllowAll, Fallback};
use crate::observed::Observed;
use crate::prefetch::Prefetch;

/// Wraps `store` in the usual layers, in the order that makes sense, with their defaults: what failed is
/// left alone, what was denied is remembered, `instead` decides while the store cannot, and all of
/// it is observed.
///
/// `instead` is [`AllowAll`] to allow what the store cannot decide, or a store, such as a
/// [`Share`](crate::Share) of one in memory.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use tollgate_layers::{Share, usual};
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::new();
/// let local = Share::new(MemoryStore::new(), NonZeroU32::new(10).unwrap());
/// let limiter = RateLimiter::new(usual(redis, local), ["api=gcra:100/1s"])?;
/// assert!(limiter.check("alice").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
pub fn usual<S: Store + 'static, L>(store: S, instead: L) -> Usual<S, L> {
    Usual {
        layers: Observed::new(Fallback::to(DenyCache::new(Breaker::new(store)), instead)),
    }
}

/// The usual layers around a store, made by [`usual`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_layers::{AllowAll, usual};
/// use tollgate_memory::{ErrorKind, MemoryStore, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::new();
/// let store = usual(redis, AllowAll)
///     .slow_after(Duration::from_millis(50))
///     .fail_on([ErrorKind::Misconfigured]);
/// let limiter = RateLimiter::new(store, ["api=gcra:100/1s"])?;
/// assert!(limiter.check("alice").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Usual<S, L = AllowAll> {
    layers: Observed<Fallback<Cached<S>, L>>,
}

/// What is inside the fallback.
type Cached<S> = DenyCache<Breaker<S>>;

impl<S, L> Usual<S, L> {
    /// Sets how long a call to the store may take before it counts as failed; see
    /// [`Breaker::slow_after`].
    #[must_use]
    pub fn slow_after(self, slow_after: Duration) -> Self {
        self.breaker(|breaker| breaker.slow_after(slow_after))
    }

    /// Sets how long after a failure the store is asked again; see [`Breaker::retry_every`].
    #[must_use]
    pub fn retry_every(self, retry_every: Duration) -> Self {
        self.breaker(|breaker| breaker.retry_every(retry_every))
    }

    /// Sets how long a denial is remembered at most; see [`DenyCache::max_age`].
    #[must_use]
    pub fn max_age(self, max_age: Duration) -> Self {
        self.deny_cache(|cache| cache.max_age(max_age))
    }

    /// Leaves errors of these kinds to the caller; see [`Fallback::fail_on`].
    #[must_use]
    pub fn fail_on(self, kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.fallback(|fallback| fallback.fail_on(kinds))
    }

    /// Admits most calls of busy keys by units that the store has counted ahead, and that are used `within`
    /// this time; see [`Prefetch`]. Set it last.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_layers::{AllowAll, usual};
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redis = MemoryStore::new();
    /// let store = usual(redis, AllowAll).prefetch(Duration::from_millis(200));
    /// let limiter = RateLimiter::new(store, ["api=gcra:100/1s"])?;
    /// assert!(limiter.check("alice").await?.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn prefetch(
        self,
        within: Duration,
    ) -> Observed<Prefetch<Fallback<DenyCache<Breaker<S>>, L>>>
    where
        S: Store + 'static,
        L: Store + 'static,
    {
        Observed::new(Prefetch::new(self.layers.into_inside(), within))
    }

    fn fallback(
        self,
        change: impl FnOnce(Fallback<Cached<S>, L>) -> Fallback<Cached<S>, L>,
    ) -> Self {
        Self {
            layers: self.layers.map_inside(change),
        }
    }

    fn deny_cache(self, change: impl FnOnce(Cached<S>) -> Cached<S>) -> Self {
        self.fallback(|fallback| fallback.map_inside(change))
    }

    fn breaker(self, change: impl FnOnce(Breaker<S>) -> Breaker<S>) -> Self {
        self.deny_cache(|cache| cache.map_inside(change))
    }
}

#[async_trait]
impl<S: Store, L: Store> Store for Usual<S, L> {
    fn decide<'a: 'f, 'f>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'f, Result<Verdicts, StoreError>> {
        self.layers.decide(request)
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.layers.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.layers.supports(request)
    }
}

crate::forward::forward!(Usual<S, L>, layers);
