//! `connect`: stores on one server.

use std::slice;

use redis::Client;
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;

use super::{RedisStoreBuilder, greet, speaking};
use crate::connection::{Address, ServerConnection};
use crate::redis_store::RedisStore;

impl RedisStore<ServerConnection> {
    /// Connects to the server at `url` and returns a store on it, with the default
    /// options and [settings](crate::connection::multiplexed) for a rate limiter.
    ///
    /// If the connection is lost, the next call connects again. While the server rejects the client,
    /// such as during a password change, calls keep trying to connect. If the address leads to
    /// another server after a failover, but the old server keeps the connection, its answers tell:
    /// see [`ServerConnection`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if `url` is not valid,
    /// the server refuses its user or password, or a certificate is refused;
    /// [`ErrorKind::Unavailable`] if the server cannot be
    /// reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    ///
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: impl Address) -> Result<Self, StoreError> {
        RedisStore::builder().connect(url).await
    }
}

impl RedisStoreBuilder {
    /// Connects to the server at `url`, and returns a store on it.
    ///
    /// # Errors
    ///
    /// The same as [`RedisStore::connect`], and
    /// [`ErrorKind::Misconfigured`] if an option is not
    /// valid, or if there are certificates and the URL is not `rediss://`.
    pub async fn connect(
        mut self,
        url: impl Address,
    ) -> Result<RedisStore<ServerConnection>, StoreError> {
        let address = self.address(url)?;
        let options = self.options?;
        let deadline = options.deadline();
        let connect = |protocol| {
            let client = Client::open(speaking(protocol, &address));
            async move { ServerConnection::open(client?, deadline).await }
        };
        let connection = greet(self.protocol, slice::from_ref(&address), connect).await?;
        Ok(RedisStore::over(connection, options))
    }
}
