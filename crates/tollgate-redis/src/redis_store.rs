//! `RedisStore`: a store on Redis or Valkey through redis-rs.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use redis::aio::ConnectionLike;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{Key, Store, StoreError, SyncStore, lease, schedule};
use tollgate_wire::{Options, WireStore};

use crate::connection::ServerConnection;
use crate::engine::RedisEngine;

/// A [`Store`] on Redis or Valkey, through any connection of redis-rs that can be cloned.
///
/// Each call is one `EVALSHA`, sent once. A call whose outcome is unknown fails with
/// [`ErrorKind::Unknown`](tollgate_core::ErrorKind::Unknown), and is never sent again.
pub struct RedisStore<C = ServerConnection>(WireStore<RedisEngine<C>>);

impl<C> RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Returns a store that sends its commands through `connection`, with the default [`Options`].
    ///
    /// Use [settings](crate::connection) for a rate limiter. The connection MUST NOT retry commands
    /// by itself, or a call can be counted twice. A cluster connection does, unless its client was
    /// built with [`connection::cluster`](crate::connection) or `retries(0)`.
    ///
    /// The store recognizes a `ClusterConnection` by its type. If you wrap it in a type of your
    /// own, the store takes it for a connection to one server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::redis::Client;
    /// use tollgate_redis::{RedisStore, connection};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::open("redis://127.0.0.1:6379")?;
    /// let config = connection::multiplexed();
    /// let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    /// let store = RedisStore::new(connection);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(connection: C) -> Self {
        Self::with_options(connection, Options::default())
    }

    /// Returns a store like [`new`](Self::new), with `options`.
    pub fn with_options(connection: C, options: Options) -> Self {
        let engine = RedisEngine::new(connection, options.deadline(), None);
        Self::of(engine, options)
    }

    pub(crate) fn of(engine: RedisEngine<C>, options: Options) -> Self {
        Self(WireStore::new(engine, options))
    }

    /// Returns the store that this wraps.
    #[cfg(feature = "operate")]
    pub(crate) fn wire(&self) -> &WireStore<RedisEngine<C>> {
        &self.0
    }

    /// Returns the connection of this store.
    pub fn connection(&self) -> &C {
        self.0.engine().connection()
    }

    /// Returns the options: key prefix, clock and deadline.
    pub fn options(&self) -> &Options {
        self.0.options()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C> Store for RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    // Written as `async_trait` would expand it, but without a second copy of the request.
    fn decide<'a, 'store, 'call>(
        &'store self,
        request: Request<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Verdicts, StoreError>> + Send + 'call>>
    where
        'a: 'call,
        'store: 'call,
        Self: 'call,
    {
        Box::pin(async move { self.0.execute(&request).await })
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(&checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.0.supports(request)
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        None
    }

    fn answers_instead(&self) -> bool {
        false
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C> schedule::Store for RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn schedule<'a>(
        &self,
        request: &schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.0.schedule(request).await
    }

    async fn reset_schedule<'a>(
        &self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.0.reset_schedule(terms, key).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C> lease::Store for RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn lease<'a>(&self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.0.lease(&request).await
    }

    async fn reset_leases<'a>(
        &self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.0.reset_leases(terms, key).await
    }
}

/// Leaves the connection out, because it may not implement `Debug`.
impl<C> fmt::Debug for RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}
