//! Connections that are a store's own, with the settings that a rate limiter needs.

#[cfg(feature = "cluster")]
use redis::cluster::ClusterClientBuilder;
use redis::{ErrorKind as RedisErrorKind, IntoConnectionInfo, ProtocolVersion, RedisError};
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;
use tollgate_core::wire::{NoConnection, Options};

#[cfg(feature = "cluster")]
use crate::engine::RedisEngine;
#[cfg(feature = "cluster")]
use crate::importers::Importers;
use crate::settings;
use crate::store::RedisStore;

#[cfg(feature = "connection-manager")]
impl RedisStore<crate::ServerConnection> {
    /// Connects to the server at `url` and returns a store on it, with the
    /// [settings](settings::manager) that a rate limiter needs.
    ///
    /// A connection that is lost is made again in the background; while the server refuses to let
    /// this client in, as for a password that is being changed, calls go on to try.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if `url` is none, the server refuses its user or password, or a
    /// certificate is refused; [`ErrorKind::Unavailable`] if there is no server.
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
    ///
    /// For certificates that the system does not know, see [the crate](crate#tls-and-passwords).
    pub async fn connect(
        url: impl IntoConnectionInfo,
        options: Options,
    ) -> Result<Self, StoreError> {
        let client = redis::Client::open(with_resp3(url)?).map_err(refused)?;
        let connection = crate::ServerConnection::new(client).await;
        Ok(Self::with_options(connection.map_err(refused)?, options))
    }
}

#[cfg(feature = "cluster")]
impl RedisStore<redis::cluster_async::ClusterConnection> {
    /// Connects to the cluster of which `urls` are some nodes and returns a store on it, with the
    /// [settings](settings::cluster) that a rate limiter needs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a URL is none, the nodes refuse its user or password, or a
    /// certificate is refused; [`ErrorKind::Unavailable`] if none of them is there.
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
        let builder = ClusterClientBuilder::new(nodes.iter().cloned());
        Self::open_cluster(builder, nodes, options).await
    }

    /// Does the same as [`connect_cluster`](Self::connect_cluster) over TLS, with certificates that
    /// the system does not know.
    ///
    /// A cluster's connections take them from nowhere else: those that a `ConnectionInfo` holds are
    /// forgotten by redis-rs.
    ///
    /// # Errors
    ///
    /// As [`connect_cluster`](Self::connect_cluster); [`ErrorKind::Misconfigured`] if a URL is not
    /// one of `rediss://`, and if `certificates` are none.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::redis::TlsCertificates;
    /// use tollgate_redis::{Options, RedisStore};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let certificates = TlsCertificates {
    ///     client_tls: None,
    ///     root_cert: Some(std::fs::read("authority.pem")?),
    /// };
    /// let nodes = ["rediss://:secret@10.0.0.1:6379", "rediss://:secret@10.0.0.2:6379"];
    /// let options = Options::default();
    /// let store = RedisStore::connect_cluster_with(certificates, nodes, options).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub async fn connect_cluster_with<U: IntoConnectionInfo>(
        certificates: redis::TlsCertificates,
        urls: impl IntoIterator<Item = U>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let with_certificates = |url| {
            let client = redis::Client::build_with_tls(with_resp3(url)?, certificates.clone());
            // What is wrong with certificates is an error of input and output to redis-rs.
            let client = client.map_err(|error| NoConnection::UnusableSettings.error(error))?;
            Ok(client.get_connection_info().clone())
        };
        let nodes: Result<Vec<_>, StoreError> = urls.into_iter().map(with_certificates).collect();
        let nodes = nodes?;
        let builder = ClusterClientBuilder::new(nodes.iter().cloned()).certs(certificates);
        Self::open_cluster(builder, nodes, options).await
    }

    async fn open_cluster(
        builder: ClusterClientBuilder,
        nodes: Vec<redis::ConnectionInfo>,
        options: Options,
    ) -> Result<Self, StoreError> {
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
    /// A password in `urls` is for the Sentinels, and so is TLS.
    /// For a server that asks for a password or TLS, make a
    /// [`SentinelConnection`](crate::SentinelConnection) of your own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a URL is none, or a password or a certificate is refused;
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

/// What redis-rs says of what went wrong.
///
/// It is looked for in the text, since that is all there is of what went wrong with a cluster, and
/// since redis-rs does not tell one end of a TLS session from another.
const WORDS: [(&str, NoConnection); 9] = [
    ("AuthenticationFailed", NoConnection::WrongPassword),
    (
        "invalid peer certificate",
        NoConnection::UntrustedCertificate,
    ),
    ("refused to switch database", NoConnection::UnusableSettings),
    ("received fatal alert", NoConnection::AlertedTls),
    ("received corrupt message", NoConnection::AlertedTls),
    ("timed out", NoConnection::NotGreeted),
    ("onnection reset", NoConnection::NotGreeted),
    ("roken pipe", NoConnection::NotGreeted),
    ("unexpected end of file", NoConnection::NotGreeted),
];

/// Returns why there is no connection.
fn refused(error: RedisError) -> StoreError {
    let is_settled = matches!(
        error.kind(),
        RedisErrorKind::Client
            | RedisErrorKind::EmptySentinelList
            | RedisErrorKind::InvalidClientConfig
            | RedisErrorKind::RESP3NotSupported
    );
    let other = if is_settled {
        NoConnection::UnusableSettings
    } else {
        NoConnection::Unreachable
    };
    // redis-rs writes the codes that it knows in words of its own.
    let text = match error.code() {
        Some(code) => format!("{code} {error}"),
        None => error.to_string(),
    };
    let told = NoConnection::told(&text, &WORDS);
    told.unwrap_or(other).error(error)
}
