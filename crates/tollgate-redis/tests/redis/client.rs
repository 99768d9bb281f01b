//! How these tests connect.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_redis::redis::aio::MultiplexedConnection;
use tollgate_redis::redis::{Client, ClientTlsConfig, ConnectionInfo, TlsCertificates};
use tollgate_redis::{RedisStoreBuilder, StoreError, connection};
use tollgate_scenarios::Connected;
use tollgate_testkit::{Authority, Identity};
use tollgate_wire::Options;

/// Connects as the builder of a store does.
pub(crate) struct Redis {
    pub(crate) batched: bool,
}

#[async_trait]
impl tollgate_scenarios::Client for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn is_batched(&self) -> bool {
        self.batched
    }

    async fn server(&self, url: &str, options: Options) -> Result<Connected, StoreError> {
        let builder = RedisStoreBuilder::from(options);
        Ok(Arc::new(builder.connect(url).await?))
    }

    async fn trusting(
        &self,
        url: &str,
        authority: &Authority,
        identity: Option<&Identity>,
        options: Options,
    ) -> Result<Connected, StoreError> {
        let builder = RedisStoreBuilder::from(options);
        let info = with(url, authority, identity);
        Ok(Arc::new(builder.connect(info).await?))
    }

    async fn cluster(&self, urls: &[String], options: Options) -> Result<Connected, StoreError> {
        let builder = RedisStoreBuilder::from(options);
        Ok(Arc::new(builder.connect_cluster(urls.to_vec()).await?))
    }

    async fn sentinels(
        &self,
        urls: &[String],
        name: &str,
        options: Options,
    ) -> Result<Connected, StoreError> {
        let builder = RedisStoreBuilder::from(options);
        let store = builder.connect_sentinel(urls.to_vec(), name).await?;
        Ok(Arc::new(store))
    }
}

/// Connects as a program does that brings a connection.
pub(crate) async fn multiplexed(url: String) -> MultiplexedConnection {
    let client = Client::open(url).unwrap();
    let config = connection::multiplexed();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

pub(crate) fn certificates(authority: &Authority, identity: Option<&Identity>) -> TlsCertificates {
    TlsCertificates {
        client_tls: identity.map(|identity| ClientTlsConfig {
            client_cert: identity.certificate().into(),
            client_key: identity.key().into(),
        }),
        root_cert: Some(authority.pem().into()),
    }
}

/// Returns the connection info for `url` with these certificates.
pub(crate) fn with(
    url: &str,
    authority: &Authority,
    identity: Option<&Identity>,
) -> ConnectionInfo {
    let client = Client::build_with_tls(url, certificates(authority, identity));
    client.unwrap().get_connection_info().clone()
}
