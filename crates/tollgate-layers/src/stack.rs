//! `usual`: the layers that most stores on a server need.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Begun, Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError};

use crate::breaker::Breaker;
use crate::deny_cache::DenyCache;
use crate::fallback::{AllowAll, Fallback};
use crate::forward::{decide_by_begin, forward};
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
pub fn usual<S: Store + 'static, L: Store + 'static>(store: S, instead: L) -> Usual<S, L> {
    Usual::of(Arc::new(store), Arc::new(instead), Options::default())
}

/// The usual layers around a store, made by [`usual`].
///
/// Set options before the first call, in any order: each makes the layers anew, which forget what they know.
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
///     .prefetch(Duration::from_millis(200))
///     .slow_after(Duration::from_millis(50))
///     .fail_on([ErrorKind::Misconfigured]);
/// let limiter = RateLimiter::new(store, ["api=gcra:100/1s"])?;
/// assert!(limiter.check("alice").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
pub struct Usual<S, L = AllowAll> {
    store: Arc<S>,
    instead: Arc<L>,
    options: Options,
    layers: Layers<S, L>,
}

type Layers<S, L> = Observed<Prefetch<Fallback<DenyCache<Breaker<Arc<S>>>, Arc<L>>>>;

#[derive(Default)]
struct Options {
    slow_after: Option<Duration>,
    retry_every: Option<Duration>,
    max_age: Option<Duration>,
    fail_on: Vec<ErrorKind>,
    prefetch: Duration,
}

impl<S: Store + 'static, L: Store + 'static> Usual<S, L> {
    fn of(store: Arc<S>, instead: Arc<L>, options: Options) -> Self {
        let mut breaker = Breaker::new(Arc::clone(&store));
        if let Some(slow_after) = options.slow_after {
            breaker = breaker.slow_after(slow_after);
        }
        if let Some(retry_every) = options.retry_every {
            breaker = breaker.retry_every(retry_every);
        }
        let mut cache = DenyCache::new(breaker);
        if let Some(max_age) = options.max_age {
            cache = cache.max_age(max_age);
        }
        let fallback = Fallback::to(cache, Arc::clone(&instead));
        let fallback = fallback.fail_on(options.fail_on.iter().copied());
        Self {
            store,
            instead,
            layers: Observed::new(Prefetch::new(fallback, options.prefetch)),
            options,
        }
    }

    /// Makes the layers anew, with a changed option.
    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        Self::of(self.store, self.instead, self.options)
    }

    /// Sets how long a call to the store may take before it counts as failed; see
    /// [`Breaker::slow_after`].
    #[must_use]
    pub fn slow_after(self, slow_after: Duration) -> Self {
        self.with(|options| options.slow_after = Some(slow_after))
    }

    /// Sets how long after a failure the store is asked again; see [`Breaker::retry_every`].
    #[must_use]
    pub fn retry_every(self, retry_every: Duration) -> Self {
        self.with(|options| options.retry_every = Some(retry_every))
    }

    /// Sets how long a denial is remembered at most; see [`DenyCache::max_age`].
    #[must_use]
    pub fn max_age(self, max_age: Duration) -> Self {
        self.with(|options| options.max_age = Some(max_age))
    }

    /// Leaves errors of these kinds to the caller; see [`Fallback::fail_on`].
    #[must_use]
    pub fn fail_on(self, kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.with(|options| options.fail_on.extend(kinds))
    }

    /// Admits most calls of busy keys by units that the store has counted ahead, and that are used `within`
    /// this time, such as 200 ms; see [`Prefetch`]. Zero, the default, asks for none.
    #[must_use]
    pub fn prefetch(self, within: Duration) -> Self {
        self.with(|options| options.prefetch = within)
    }

    /// Gives back all units in hand, before a process ends; see [`Prefetch::give_back`].
    pub async fn give_back(&self) {
        self.layers.inner().give_back().await;
    }
}

#[async_trait]
impl<S: Store + 'static, L: Store + 'static> Store for Usual<S, L> {
    decide_by_begin!();

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        self.layers.begin(request)
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.layers.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.layers.supports(request)
    }
}

forward!(Usual<S, L>, layers);

impl<S: fmt::Debug, L: fmt::Debug> fmt::Debug for Usual<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Usual").field(&self.layers).finish()
    }
}
