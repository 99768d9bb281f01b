//! The store: what core makes of an engine, on a connection of redis-rs.

use std::fmt;

use async_trait::async_trait;
use redis::aio::ConnectionLike;
use tollgate_core::wire::{Options, WireStore};
use tollgate_core::{Checks, Request, Store, StoreError, Verdicts};

use crate::engine::RedisEngine;

/// A [`Store`] on Redis or Valkey, through any connection of redis-rs that can be cloned.
///
/// Each call is one `EVALSHA`, sent once: a call whose outcome is not known is reported as such,
/// never sent again.
pub struct RedisStore<C>(WireStore<RedisEngine<C>>);

impl<C> RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Returns a store that sends its commands through `connection`, with the default [`Options`].
    ///
    /// The connection's own [settings](crate::settings) matter.
    /// It MUST NOT send a command again by itself: a cluster's connection does, unless its client
    /// was built with [`settings::cluster`](crate::settings) or `retries(0)`, and then a call can
    /// be counted twice.
    ///
    /// A `ClusterConnection` is known by its type; one within a type of your own is taken for a
    /// connection to one server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::redis::Client;
    /// use tollgate_redis::{RedisStore, settings};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::open("redis://127.0.0.1:6379")?;
    /// let config = settings::connection();
    /// let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    /// let store = RedisStore::new(connection);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(connection: C) -> Self {
        Self::with_options(connection, Options::default())
    }

    /// Returns a store that sends its commands through `connection`, as [`new`](Self::new) does.
    pub fn with_options(connection: C, options: Options) -> Self {
        let engine = RedisEngine::new(connection, options.deadline(), None);
        Self::of(engine, options)
    }

    pub(crate) fn of(engine: RedisEngine<C>, options: Options) -> Self {
        Self(WireStore::new(engine, options))
    }

    /// Returns what core makes of the connection.
    pub(crate) fn wire(&self) -> &WireStore<RedisEngine<C>> {
        &self.0
    }

    /// Returns what this store sends its commands through.
    pub fn connection(&self) -> &C {
        self.0.engine().connection()
    }

    /// Returns how keys are named, time is told, and how long a decision may take.
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
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.0.decide(&request).await
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(&checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        self.0.supports(request)
    }
}

/// Leaves the connection out, which need not be printable.
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
