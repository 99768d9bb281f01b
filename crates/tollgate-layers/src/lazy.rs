//! `Lazy`: a store that connects when it is first asked.

use std::fmt;
use std::sync::OnceLock;

use async_trait::async_trait;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, Key, Store, StoreError, lease, schedule};

use crate::sync::{AtomicBool, Ordering};

/// A store that is made when it is first asked, so that a service starts although its server is
/// down.
///
/// Until there is a connection, one caller at a time connects, and the others fail at once with
/// [`ErrorKind::Unavailable`]: put it into a [`Breaker`](crate::Breaker), so that not every call
/// tries, and into a [`Fallback`](crate::Fallback), which decides meanwhile. Wrong settings are found
/// when a call connects, too: see what [`connect`](Self::connect) returns at the start.
///
/// # Examples
///
/// ```
/// use tollgate_layers::{AllowAll, Lazy, usual};
/// use tollgate_redis::{ErrorKind, RateLimiter, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // There is no server.
/// let redis = Lazy::new(|| RedisStore::connect("redis://127.0.0.1:1"));
/// match redis.connect().await {
///     Err(error) if error.kind() == ErrorKind::Unavailable => {
///         eprintln!("starting without the server: {error}");
///     }
///     // Settings that are wrong now are wrong later, too.
///     connected => drop(connected?),
/// }
/// let limiter = RateLimiter::new(usual(redis, AllowAll), ["api=gcra:100/1s"])?;
/// assert!(limiter.check("alice").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
pub struct Lazy<S, F> {
    connect: F,
    store: OnceLock<S>,
    is_connecting: AtomicBool,
}

impl<S, F> Lazy<S, F> {
    /// Returns a store that is made by `connect`, which is called until it succeeds.
    pub fn new<C>(connect: F) -> Self
    where
        F: Fn() -> C,
        C: Future<Output = Result<S, StoreError>>,
    {
        Self {
            connect,
            store: OnceLock::new(),
            is_connecting: AtomicBool::new(false),
        }
    }

    /// Returns the store, after connecting if that has not happened.
    ///
    /// # Errors
    ///
    /// What `connect` returned, and [`ErrorKind::Unavailable`] while another caller connects.
    pub async fn connect<C>(&self) -> Result<&S, StoreError>
    where
        S: Send + Sync,
        F: Fn() -> C + Sync,
        C: Future<Output = Result<S, StoreError>> + Send,
    {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        if self.is_connecting.swap(true, Ordering::Acquire) {
            return Err(StoreError::new(
                ErrorKind::Unavailable,
                "there is no connection yet, and another call is making one: try again",
            ));
        }
        let _turn = Turn(&self.is_connecting);
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = (self.connect)().await?;
        Ok(self.store.get_or_init(|| store))
    }
}

/// Leaves the turn to connect to the next caller, also if this one goes away.
struct Turn<'l>(&'l AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[async_trait]
impl<S, F, C> Store for Lazy<S, F>
where
    S: Store,
    F: Fn() -> C + Send + Sync,
    C: Future<Output = Result<S, StoreError>> + Send,
{
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.connect().await?.decide(request).await
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.connect().await?.reset(checks).await
    }

    fn answers_instead(&self) -> bool {
        self.store.get().is_some_and(Store::answers_instead)
    }

    // Before it is connected, no request is known to be unsupported.
    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        self.store.get().is_none_or(|store| store.supports(request))
    }
}

#[async_trait]
impl<S, F, C> lease::Store for Lazy<S, F>
where
    S: lease::Store,
    F: Fn() -> C + Send + Sync,
    C: Future<Output = Result<S, StoreError>> + Send,
{
    async fn lease<'a>(&self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.connect().await?.lease(request).await
    }

    async fn reset_leases<'a>(
        &self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.connect().await?.reset_leases(terms, key).await
    }
}

#[async_trait]
impl<S, F, C> schedule::Store for Lazy<S, F>
where
    S: schedule::Store,
    F: Fn() -> C + Send + Sync,
    C: Future<Output = Result<S, StoreError>> + Send,
{
    async fn schedule<'a>(
        &self,
        request: &schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.connect().await?.schedule(request).await
    }

    async fn reset_schedule<'a>(
        &self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.connect().await?.reset_schedule(terms, key).await
    }
}

impl<S: fmt::Debug, F> fmt::Debug for Lazy<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy")
            .field("store", &self.store.get())
            .finish_non_exhaustive()
    }
}
