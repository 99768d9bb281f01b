//! `RedisStoreBuilder`: sets up a store, and connects it.

#[cfg(feature = "cluster")]
mod cluster;
mod refused;
#[cfg(feature = "sentinel")]
mod sentinel;
mod server;

use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, ProtocolVersion, RedisResult};
#[cfg(feature = "tls-rustls")]
use std::fmt;
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::{Limit, StoreError};
use tollgate_wire::Options;
#[cfg(feature = "tls-rustls")]
use tollgate_wire::inside::NoConnection;

use crate::connection::{self, Address, ToOneServer};
use crate::plain::PlainStore;
use crate::redis_store::RedisStore;
use refused::{invalid_address, refused, refuses_hello};

/// Sets up a [`RedisStore`], and connects it to one server, a cluster, or the primary that
/// Sentinels name.
///
/// The method that connects, or that makes a store on a connection of yours, returns an error if an
/// option is not valid.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::RedisStore;
///
/// # async fn example() -> Result<(), tollgate_redis::StoreError> {
/// let store = RedisStore::builder()
///     .prefix("shop")
///     .deadline(Duration::from_millis(50))
///     .connect("redis://127.0.0.1:6379")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct RedisStoreBuilder {
    options: Result<Options, StoreError>,
    protocol: Option<ProtocolVersion>,
    #[cfg(feature = "tls-rustls")]
    certificates: Option<Certificates>,
}

#[cfg(feature = "tls-rustls")]
struct Certificates(redis::TlsCertificates);

impl RedisStore<MultiplexedConnection> {
    /// Returns a builder that sets up a store and connects it.
    pub fn builder() -> RedisStoreBuilder {
        Options::new().into()
    }
}

/// Starts with `options`, for a program that has those of `tollgate-wire`.
impl From<Options> for RedisStoreBuilder {
    fn from(options: Options) -> Self {
        Self {
            options: Ok(options),
            protocol: None,
            #[cfg(feature = "tls-rustls")]
            certificates: None,
        }
    }
}

impl RedisStoreBuilder {
    tollgate_wire::__sets_options!();

    /// Sets the version of the protocol, whatever the address says. Without this, and without a
    /// `?protocol=` in the text of an address, the store speaks RESP3, which tells it at once that its
    /// connection is lost, and RESP2 with a server or a proxy that refuses `HELLO`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    /// use tollgate_redis::redis::ProtocolVersion;
    ///
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let builder = RedisStore::builder().protocol(ProtocolVersion::RESP2);
    /// let store = builder.connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn protocol(mut self, protocol: ProtocolVersion) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Returns a store that sends its commands through `connection`, which the caller has set up.
    ///
    /// The protocol and the certificates of the builder have no effect on it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if an option is not valid.
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
    /// let store = RedisStore::builder().prefix("shop").over(connection)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn over<C: ToOneServer>(self, connection: C) -> Result<RedisStore<C>, StoreError> {
        Ok(RedisStore::over(connection, self.options?))
    }

    /// Returns a store without scripts for `limits`, which sends its commands through `connection`.
    ///
    /// # Errors
    ///
    /// The same as [`PlainStore::new`], and [`ErrorKind::Misconfigured`] if an option is not valid or
    /// the clock is the caller's.
    pub fn plain<C: ToOneServer>(
        self,
        connection: C,
        limits: &[Limit],
    ) -> Result<PlainStore<C>, StoreError> {
        PlainStore::over(connection, self.options?, limits)
    }

    fn set(mut self, with: impl FnOnce(Options) -> Result<Options, StoreError>) -> Self {
        self.options = self.options.and_then(with);
        self
    }

    /// Sets the trusted certificate authorities and this client's certificate, for TLS.
    ///
    /// They apply to the servers at the URLs. With Sentinels, they do not apply to the primary.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    /// use tollgate_redis::redis::TlsCertificates;
    ///
    /// # #[cfg(feature = "cluster")]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let certificates = TlsCertificates {
    ///     client_tls: None,
    ///     root_cert: Some(std::fs::read("authority.pem")?),
    /// };
    /// let nodes = ["rediss://:secret@10.0.0.1:6379", "rediss://:secret@10.0.0.2:6379"];
    /// let store = RedisStore::builder().certificates(certificates).connect_cluster(nodes).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub fn certificates(mut self, certificates: redis::TlsCertificates) -> Self {
        self.certificates = Some(Certificates(certificates));
        self
    }

    /// Returns the address at `url`, with the settings of its sockets and of TLS, and speaks the
    /// protocol that it names, unless one was chosen before.
    fn address(&mut self, url: impl Address) -> Result<ConnectionInfo, StoreError> {
        let (info, protocol) = url.read().map_err(invalid_address)?;
        self.protocol = self.protocol.or(protocol);
        #[cfg(feature = "tls-rustls")]
        let info = match &self.certificates {
            Some(Certificates(certificates)) => {
                let client = redis::Client::build_with_tls(info, certificates.clone());
                // redis-rs reports invalid certificates as I/O errors.
                let client = client.map_err(|error| NoConnection::UnusableSettings.error(error))?;
                client.get_connection_info().clone()
            }
            None => info,
        };
        Ok(info.set_tcp_settings(connection::tcp()))
    }
}

/// Connects with the version of the protocol that was `chosen`, or else with RESP3, or with RESP2 if
/// the server refuses `HELLO`.
async fn greet<T, F>(
    chosen: Option<ProtocolVersion>,
    servers: &[ConnectionInfo],
    connect: impl Fn(ProtocolVersion) -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = RedisResult<T>>,
{
    let mut outcome = connect(chosen.unwrap_or(ProtocolVersion::RESP3)).await;
    if chosen.is_none() && outcome.as_ref().is_err_and(refuses_hello) {
        outcome = connect(ProtocolVersion::RESP2).await;
    }
    outcome.map_err(|error| refused(servers, error))
}

/// Returns `address` with the `protocol`.
fn speaking(protocol: ProtocolVersion, address: &ConnectionInfo) -> ConnectionInfo {
    let redis = address.redis_settings().clone();
    address
        .clone()
        .set_redis_settings(redis.set_protocol(protocol))
}

/// Leaves out the contents, which may include a private key.
#[cfg(feature = "tls-rustls")]
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn the_protocol_of_the_builder_comes_before_that_of_an_address() {
        let (resp2, resp3) = (ProtocolVersion::RESP2, ProtocolVersion::RESP3);
        for (chosen, url, expected) in [
            (None, "redis://h", None),
            (None, "redis://h?protocol=resp2", Some(resp2)),
            (Some(resp3), "redis://h?protocol=resp2", Some(resp3)),
            (Some(resp2), "redis://h", Some(resp2)),
        ] {
            let mut builder = RedisStore::builder();
            builder.protocol = chosen;
            builder.address(url).unwrap();
            assert_eq!(builder.protocol, expected, "{chosen:?} and {url}");
        }
    }
}
