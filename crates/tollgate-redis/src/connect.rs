//! Connections that are a store's own, with the settings that a rate limiter needs.

use redis::{ErrorKind as RedisErrorKind, IntoConnectionInfo, ProtocolVersion, RedisError};
use tollgate_core::wire::Options;
use tollgate_core::{ErrorKind, StoreError};

#[cfg(feature = "cluster")]
use crate::engine::RedisEngine;
#[cfg(feature = "cluster")]
use crate::importers::Importers;
use crate::settings;
use crate::store::RedisStore;

#[cfg(feature = "connection-manager")]
impl RedisStore<redis::aio::ConnectionManager> {
    /// Connects to the server at `url` and returns a store on it, with the
    /// [settings](settings::manager) that a rate limiter needs.
    ///
    /// A connection that is lost is made again in the background.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if `url` is none, or the server refuses its user or password;
    /// [`ErrorKind::Unavailable`] if there is no server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::{Options, RedisStore};
    ///
    /// # async fn example() -> Result<(), tollgate_core::StoreError> {
    /// let store = RedisStore::connect("redis://127.0.0.1:6379", Options::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(
        url: impl IntoConnectionInfo,
        options: Options,
    ) -> Result<Self, StoreError> {
        let client = redis::Client::open(with_resp3(url)?).map_err(refused)?;
        let manager = redis::aio::ConnectionManager::new_with_config(client, settings::manager());
        let manager = manager.await.map_err(refused)?;
        Ok(Self::with_options(manager, options))
    }
}

#[cfg(feature = "cluster")]
impl RedisStore<redis::cluster_async::ClusterConnection> {
    /// Connects to the cluster of which `urls` are some nodes and returns a store on it, with the
    /// [settings](settings::cluster) that a rate limiter needs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a URL is none, or the nodes refuse its user or password;
    /// [`ErrorKind::Unavailable`] if none of them is there.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::{Options, RedisStore};
    ///
    /// # async fn example() -> Result<(), tollgate_core::StoreError> {
    /// let nodes = ["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"];
    /// let store = RedisStore::connect_cluster(nodes, Options::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_cluster<U: IntoConnectionInfo>(
        urls: impl IntoIterator<Item = U>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let nodes: Result<Vec<_>, _> = urls.into_iter().map(with_resp3).collect();
        let nodes = nodes?;
        let builder = redis::cluster::ClusterClientBuilder::new(nodes.iter().cloned());
        let client = settings::cluster(builder, &options).build();
        let connection = client.map_err(refused)?.get_async_connection().await;
        let engine = RedisEngine::new(connection.map_err(refused)?, options.deadline());
        // The client has one password and one kind of TLS for all nodes: those of the first.
        Ok(match nodes.into_iter().next() {
            Some(node) => Self::of(engine.with_importers(Importers::new(node)), options),
            None => Self::of(engine, options),
        })
    }
}

#[cfg(feature = "sentinel")]
impl RedisStore<crate::SentinelConnection> {
    /// Connects to the primary that the Sentinels at `urls` call `service`, and returns a store on
    /// it, with the settings that a rate limiter needs.
    ///
    /// For a server that asks for a password or TLS, make a
    /// [`SentinelConnection`](crate::SentinelConnection) of your own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a URL is none or a password is refused;
    /// [`ErrorKind::Unavailable`] if no Sentinel is there, or none knows a primary of `service`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::{Options, RedisStore};
    ///
    /// # async fn example() -> Result<(), tollgate_core::StoreError> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let store = RedisStore::connect_sentinel(sentinels, "mymaster", Options::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_sentinel<U: IntoConnectionInfo>(
        urls: impl IntoIterator<Item = U>,
        service: &str,
        options: Options,
    ) -> Result<Self, StoreError> {
        use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};

        let sentinels: Result<Vec<_>, _> = urls.into_iter().map(with_tcp).collect();
        let node = SentinelNodeConnectionInfo::default()
            .set_tcp_settings(settings::tcp())
            .set_redis_connection_info(
                redis::RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3),
            );
        let service = service.to_owned();
        let client =
            SentinelClient::build(sentinels?, service, Some(node), SentinelServerType::Master);
        let connection = crate::SentinelConnection::new(client.map_err(refused)?).await;
        Ok(Self::with_options(connection.map_err(refused)?, options))
    }
}

#[cfg(any(feature = "cluster", feature = "connection-manager"))]
fn with_resp3(url: impl IntoConnectionInfo) -> Result<redis::ConnectionInfo, StoreError> {
    let info = with_tcp(url)?;
    let redis = info.redis_settings().clone();
    Ok(info.set_redis_settings(redis.set_protocol(ProtocolVersion::RESP3)))
}

fn with_tcp(url: impl IntoConnectionInfo) -> Result<redis::ConnectionInfo, StoreError> {
    let info = url.into_connection_info().map_err(refused)?;
    Ok(info.set_tcp_settings(settings::tcp()))
}

/// Returns why there is no connection.
fn refused(error: RedisError) -> StoreError {
    let settled = matches!(
        error.kind(),
        RedisErrorKind::AuthenticationFailed
            | RedisErrorKind::Client
            | RedisErrorKind::EmptySentinelList
            | RedisErrorKind::InvalidClientConfig
            | RedisErrorKind::RESP3NotSupported
    ) || matches!(error.code(), Some("NOAUTH" | "NOPERM" | "WRONGPASS"));
    if settled {
        let message = format!("the server cannot be used with these settings ({error})");
        StoreError::new(ErrorKind::Misconfigured, message).with_source(error)
    } else {
        StoreError::new(ErrorKind::Unavailable, "no connection to the server").with_source(error)
    }
}
