//! `Lazy`: a store that connects when it is first asked.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use tokio::runtime::{self, Handle};
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, Key, Store, StoreError, lease, schedule};

use crate::sync::Mutex;

/// An attempt to connect, for which any number of callers wait.
type Attempt = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// A store that is made when it is first asked, so that a service starts although its server is
/// down.
///
/// Until there is a connection, the callers of a runtime wait together for one attempt at a time, and
/// share its error. It goes on while one of them waits, whoever goes away. Put the store into a
/// [`Breaker`](crate::Breaker), so that not every call tries, and into a
/// [`Fallback`](crate::Fallback), which decides meanwhile. Wrong settings are found when a call
/// connects, too: see what [`connect`](Self::connect) returns at the start.
///
/// Before it has connected, [`supported`](tollgate_core::call::Call::supported) finds what no store could
/// decide, such as a block without a limit that blocks, and not what this one cannot: keys of several slots
/// in a cluster, or a call with an id on a store that keeps no answers. Ask again once it has connected, or
/// ask after [`connect`](Self::connect).
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
    store: Arc<OnceLock<S>>,
    attempt: Mutex<Option<Begun>>,
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
            store: Arc::default(),
            attempt: Mutex::default(),
        }
    }

    /// Returns the store, after connecting if that has not happened.
    ///
    /// # Errors
    ///
    /// What `connect` returned, to all who waited for that attempt.
    pub async fn connect<C>(&self) -> Result<&S, StoreError>
    where
        S: Store + 'static,
        F: Fn() -> C + Sync,
        C: Future<Output = Result<S, StoreError>> + Send + 'static,
    {
        loop {
            if let Some(store) = self.store.get() {
                return Ok(store);
            }
            if let Some(attempt) = self.attempt() {
                attempt.await?;
            }
        }
    }

    /// Returns the attempt for which others wait, or a new one; `None` if one has just succeeded.
    fn attempt<C>(&self) -> Option<Shared<Attempt>>
    where
        S: Store + 'static,
        F: Fn() -> C,
        C: Future<Output = Result<S, StoreError>> + Send + 'static,
    {
        // The sockets and timers of an attempt are its runtime's, which may stand still or end.
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        let mut begun = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let here = begun.as_ref().filter(|begun| begun.runtime == runtime);
        let waited_for = here.and_then(|begun| begun.attempt.upgrade());
        // The error of one that has ended is for those who waited for it.
        if let Some(goes_on) = waited_for.filter(|attempt| attempt.peek().is_none()) {
            return Some(goes_on);
        }
        if self.store.get().is_some() {
            return None;
        }
        let (store, connecting) = (Arc::clone(&self.store), (self.connect)());
        let new = async move {
            let connected = AssertUnwindSafe(connecting).catch_unwind().await;
            let connected = connected.unwrap_or_else(|_| Err(panicked()))?;
            let _ = store.set(connected);
            Ok(())
        };
        let new = new.boxed().shared();
        *begun = new.downgrade().map(|attempt| Begun { runtime, attempt });
        Some(new)
    }
}

/// An attempt, and the runtime on which it began.
struct Begun {
    runtime: Option<runtime::Id>,
    attempt: WeakShared<Attempt>,
}

/// A panic is an error for all who wait: otherwise, it would be one for each caller from then on.
fn panicked() -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "the function that connects to the store has panicked: see its message",
    )
}

#[async_trait]
impl<S, F, C> Store for Lazy<S, F>
where
    S: Store + 'static,
    F: Fn() -> C + Send + Sync,
    C: Future<Output = Result<S, StoreError>> + Send + 'static,
{
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.connect().await?.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.connect().await?.reset(checks).await
    }

    // Before it is connected, it is known what no store supports.
    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        match self.store.get() {
            Some(store) => store.supports(request),
            None => request.split_id()?.1.validate_operation(),
        }
    }
}

#[async_trait]
impl<S, F, C> lease::Store for Lazy<S, F>
where
    S: Store + lease::Store + 'static,
    F: Fn() -> C + Send + Sync,
    C: Future<Output = Result<S, StoreError>> + Send + 'static,
{
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.connect().await?.lease(request).await
    }

    async fn reset_leases<'a>(
        &'a self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.connect().await?.reset_leases(terms, key).await
    }
}

#[async_trait]
impl<S, F, C> schedule::Store for Lazy<S, F>
where
    S: Store + schedule::Store + 'static,
    F: Fn() -> C + Send + Sync,
    C: Future<Output = Result<S, StoreError>> + Send + 'static,
{
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.connect().await?.schedule(request).await
    }

    async fn reset_schedule<'a>(
        &'a self,
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
