//! `RedisStore`: a store on Redis or Valkey through redis-rs.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{Key, Store, StoreError, SyncStore, lease, schedule};
use tollgate_wire::{Options, WireStore};

use crate::connection::{Connection, ServerConnection, ToOneServer};
use crate::engine::RedisEngine;

/// A [`Store`] on Redis or Valkey, through a [`Connection`] of redis-rs.
///
/// Each call is one `EVALSHA`, sent once. A call whose outcome is unknown fails with
/// [`ErrorKind::Unknown`](tollgate_core::ErrorKind::Unknown), and is never sent again.
pub struct RedisStore<C = ServerConnection>(WireStore<RedisEngine<C>>);

impl<C: ToOneServer> RedisStore<C> {
    /// Returns a store that sends its commands through `connection`, with the default options.
    /// [`RedisStoreBuilder::over`](crate::RedisStoreBuilder::over) sets others.
    ///
    /// Use [settings](crate::connection) for a rate limiter. For a cluster, give the builder of a client
    /// to [`RedisStoreBuilder::connect_cluster_with`](crate::RedisStoreBuilder::connect_cluster_with).
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
    ///
    /// A connection to a cluster may be one that sends a call again that was counted already, so a store
    /// does not take it:
    ///
    /// ```compile_fail,E0277
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisStore, redis::cluster::ClusterClient};
    /// let client = ClusterClient::new(["redis://10.0.0.1:6379"])?;
    /// let store = RedisStore::new(client.get_async_connection().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(connection: C) -> Self {
        Self::over(connection, Options::default())
    }

    /// Returns a store like [`new`](Self::new), with `options`.
    pub(crate) fn over(connection: C, options: Options) -> Self {
        let engine = RedisEngine::new(connection, options.deadline(), None);
        Self::of(engine, options)
    }
}

impl<C: Connection> RedisStore<C> {
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
impl<C: Connection> Store for RedisStore<C> {
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
impl<C: Connection> schedule::Store for RedisStore<C> {
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
impl<C: Connection> lease::Store for RedisStore<C> {
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
impl<C: Connection> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}
