//! `RedisStore`: a store on Redis or Valkey through redis-rs.

use std::fmt;
use std::sync::Arc;

use tollgate_wire::{Options, WireStore};

use crate::connection::{Connection, ServerConnection, ToOneServer};
use crate::engine::RedisEngine;

/// A [`Store`](tollgate_core::Store) on Redis or Valkey, through a [`Connection`] of redis-rs.
///
/// Each call is one `EVALSHA`, sent once. A call whose outcome is unknown fails with
/// [`ErrorKind::Unknown`](tollgate_core::ErrorKind::Unknown), and is never sent again.
///
/// A clone is a handle on the same store, for a limiter, leases and an `Outbound` on one connection.
pub struct RedisStore<C = ServerConnection>(Arc<WireStore<RedisEngine<C>>>);

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
        Self(Arc::new(WireStore::new(engine, options)))
    }

    /// Returns the store that this wraps.
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

tollgate_wire::__decides!(RedisStore<C: Connection> .wire());
tollgate_wire::__plans_and_leases!(RedisStore<C: Connection> .wire());

impl<C> Clone for RedisStore<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
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
