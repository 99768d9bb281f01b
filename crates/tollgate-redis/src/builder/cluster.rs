//! `connect_cluster`: stores on a Redis cluster.

use redis::ProtocolVersion;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;

use super::refused::refused;
use super::{RedisStoreBuilder, greet, speaking};
use crate::cluster::Importers;
use crate::connection::{self, Address};
use crate::engine::RedisEngine;
use crate::redis_store::RedisStore;

impl RedisStore<ClusterConnection> {
    /// Connects to the cluster that the nodes at `urls` belong to, and returns a store on it, with
    /// the default options and [settings](crate#settings) for a rate limiter.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a URL is not valid, the nodes refuse its user or password,
    /// or a certificate is refused; [`ErrorKind::Unavailable`] if no node can be reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    ///
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let nodes = ["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"];
    /// let store = RedisStore::connect_cluster(nodes).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_cluster<U: Address>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Self, StoreError> {
        RedisStore::builder().connect_cluster(urls).await
    }
}

impl RedisStoreBuilder {
    /// Connects to the cluster that the nodes at `urls` belong to, and returns a store on it.
    ///
    /// Set certificates with [`certificates`](Self::certificates): for clusters, redis-rs ignores
    /// those in a `ConnectionInfo`.
    ///
    /// # Errors
    ///
    /// The same as [`RedisStore::connect_cluster`], and [`ErrorKind::Misconfigured`] if an option
    /// is not valid, or if there are certificates and a URL is not `rediss://`.
    pub async fn connect_cluster<U: Address>(
        mut self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<RedisStore<ClusterConnection>, StoreError> {
        let nodes: Result<Vec<_>, _> = urls.into_iter().map(|url| self.address(url)).collect();
        let nodes = nodes?;
        let options = self.options?;
        let connect = |protocol| {
            let builder = ClusterClientBuilder::new(nodes.iter().cloned());
            let builder = connection::cluster(builder, protocol, options.deadline());
            #[cfg(feature = "tls-rustls")]
            let builder = match &self.certificates {
                Some(certificates) => builder.certs(certificates.0.clone()),
                None => builder,
            };
            async move {
                let connection = builder.build()?.get_async_connection().await?;
                Ok((connection, protocol))
            }
        };
        let (connection, protocol) = greet(self.protocol, &nodes, connect).await?;
        // The client has one password and one kind of TLS for all nodes: those of the first.
        let importers = nodes
            .first()
            .map(|node| Importers::new(speaking(protocol, node)));
        let engine = RedisEngine::new(connection, options.deadline(), importers);
        Ok(RedisStore::of(engine.at_home(), options))
    }

    /// Connects the client that `client` builds to its cluster, and returns a store on it: for what
    /// [`connect_cluster`](Self::connect_cluster) does not set, such as a password for all nodes.
    ///
    /// The client gets the [settings](crate#settings) for a rate limiter. The most important is that it
    /// sends no call again by itself. It speaks RESP3, unless [`protocol`](Self::protocol) says
    /// otherwise. While a slot moves to a node that has none yet, calls for its keys fail as
    /// [`ErrorKind::Unavailable`], because the store does not know how to greet that node.
    ///
    /// # Errors
    ///
    /// The same as [`RedisStore::connect_cluster`], and [`ErrorKind::Misconfigured`] if an option
    /// is not valid.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    /// use tollgate_redis::redis::cluster::ClusterClientBuilder;
    ///
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let client = ClusterClientBuilder::new(["redis://10.0.0.1:6379"]).password("secret");
    /// let store = RedisStore::builder().connect_cluster_with(client).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_cluster_with(
        self,
        client: ClusterClientBuilder,
    ) -> Result<RedisStore<ClusterConnection>, StoreError> {
        let options = self.options?;
        let protocol = self.protocol.unwrap_or(ProtocolVersion::RESP3);
        let client = connection::cluster(client, protocol, options.deadline()).build();
        let connection = match client {
            Ok(client) => client.get_async_connection().await,
            Err(error) => Err(error),
        };
        let connection = connection.map_err(|error| refused(&[], error))?;
        let engine = RedisEngine::new(connection, options.deadline(), None);
        Ok(RedisStore::of(engine.at_home(), options))
    }
}
