//! `connect_sentinel`: stores on the primary that Sentinels name.

use redis::RedisConnectionInfo;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;

use super::{RedisStoreBuilder, greet};
use crate::connection::{Address, SentinelConnection, tcp};
use crate::redis_store::RedisStore;

impl RedisStore<SentinelConnection> {
    /// Connects to the primary that the Sentinels at `urls` call `service`, and returns a store on
    /// it, with the default options and settings for a rate limiter.
    ///
    /// A password or TLS in `urls` applies only to the Sentinels. If the primary requires either,
    /// make a [`SentinelConnection`] of your own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a URL is not valid, or a password or a certificate is
    /// refused; [`ErrorKind::Unavailable`] if no Sentinel can be reached, or none knows a primary
    /// of `service`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    ///
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let store = RedisStore::connect_sentinel(sentinels, "mymaster").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_sentinel<U: Address>(
        urls: impl IntoIterator<Item = U>,
        service: &str,
    ) -> Result<Self, StoreError> {
        RedisStore::builder().connect_sentinel(urls, service).await
    }
}

impl RedisStoreBuilder {
    /// Connects to the primary that the Sentinels at `urls` call `service`, and returns a store on
    /// it.
    ///
    /// # Errors
    ///
    /// The same as [`RedisStore::connect_sentinel`], and [`ErrorKind::Misconfigured`] if an option
    /// is not valid, or if there are certificates and a URL is not `rediss://`.
    pub async fn connect_sentinel<U: Address>(
        mut self,
        urls: impl IntoIterator<Item = U>,
        service: &str,
    ) -> Result<RedisStore<SentinelConnection>, StoreError> {
        let sentinels: Result<Vec<_>, _> = urls.into_iter().map(|url| self.address(url)).collect();
        let sentinels = sentinels?;
        let options = self.options?;
        let connect = |protocol| {
            let redis = RedisConnectionInfo::default().set_protocol(protocol);
            let node = SentinelNodeConnectionInfo::default()
                .set_tcp_settings(tcp())
                .set_redis_connection_info(redis);
            let primary = SentinelServerType::Master;
            // Without other features of redis-rs, this must be a `String`.
            let service = service.to_owned();
            let client = SentinelClient::build(sentinels.clone(), service, Some(node), primary);
            async move { SentinelConnection::new(client?).await }
        };
        let connection = greet(self.protocol, &sentinels, connect).await?;
        Ok(RedisStore::over(connection, options))
    }
}
