//! What a store is to be like, before it connects.

#[cfg(feature = "tls-rustls")]
use std::fmt;
use std::time::Duration;

#[cfg(any(feature = "cluster", feature = "connection-manager"))]
use redis::ProtocolVersion;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, IntoConnectionInfo};
use tollgate_core::StoreError;
#[cfg(feature = "tls-rustls")]
use tollgate_core::wire::NoConnection;
use tollgate_core::wire::{Clock, Options};

use super::refused::refused;
use crate::settings;
use crate::store::RedisStore;

/// Sets up a [`RedisStore`], and connects it to one server, a cluster, or the primary that
/// Sentinels name.
///
/// What is not set is as in [`Options::new`]. What is set wrongly is an error of the method that
/// connects.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::RedisStore;
///
/// # #[cfg(feature = "connection-manager")]
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
    pub(super) options: Result<Options, StoreError>,
    #[cfg(feature = "tls-rustls")]
    pub(super) certificates: Option<Certificates>,
}

#[cfg(feature = "tls-rustls")]
pub(super) struct Certificates(pub(super) redis::TlsCertificates);

impl RedisStore<MultiplexedConnection> {
    /// Returns what sets up a store and connects it.
    pub fn builder() -> RedisStoreBuilder {
        RedisStoreBuilder {
            options: Ok(Options::new()),
            #[cfg(feature = "tls-rustls")]
            certificates: None,
        }
    }
}

impl RedisStoreBuilder {
    /// Sets everything that [`Options`] hold, in place of what was set before.
    pub fn options(mut self, options: Options) -> Self {
        self.options = Ok(options);
        self
    }

    /// Sets what every key begins with, so that several uses of one server keep apart: 1 to 64
    /// ASCII letters, digits, `-`, `_`, `.` or `:`. The default is `tollgate`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.options = self.options.and_then(|options| options.with_prefix(prefix));
        self
    }

    /// Sets how long a decision may take, with everything that belongs to it. The default is
    /// 500 ms.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set(|options| options.with_deadline(deadline))
    }

    /// Sets whose clock decides. The default is the server's.
    pub fn clock(self, clock: Clock) -> Self {
        self.set(|options| options.with_clock(clock))
    }

    /// Sets how much longer than it is needed a state is kept that was written at a caller's
    /// instant, as [`Options::with_caller_slack`] explains. The default is ten minutes.
    pub fn caller_slack(self, slack: Duration) -> Self {
        self.set(|options| options.with_caller_slack(slack))
    }

    /// Hashes every key with `secret`, as [`Options::with_hashed_keys`] explains.
    pub fn hashed_keys(self, secret: [u8; 16]) -> Self {
        self.set(|options| options.with_hashed_keys(secret))
    }

    /// Hashes long keys with `secret`, as [`Options::with_hashed_long_keys`] explains.
    pub fn hashed_long_keys(self, secret: [u8; 16]) -> Self {
        self.set(|options| options.with_hashed_long_keys(secret))
    }

    fn set(mut self, with: impl FnOnce(Options) -> Options) -> Self {
        self.options = self.options.map(with);
        self
    }

    /// Sets which authorities are trusted, and which certificate this client shows, over TLS.
    ///
    /// They are for the servers at the addresses that are connected to: Sentinels, but not what is
    /// behind them.
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

    /// Returns the address at `url`, with what its sockets and TLS need.
    pub(super) fn address(
        &self,
        url: impl IntoConnectionInfo,
    ) -> Result<ConnectionInfo, StoreError> {
        let info = url.into_connection_info().map_err(refused)?;
        #[cfg(feature = "tls-rustls")]
        let info = match &self.certificates {
            Some(Certificates(certificates)) => {
                let client = redis::Client::build_with_tls(info, certificates.clone());
                // What is wrong with certificates is an error of input and output to redis-rs.
                let client = client.map_err(|error| NoConnection::UnusableSettings.error(error))?;
                client.get_connection_info().clone()
            }
            None => info,
        };
        Ok(info.set_tcp_settings(settings::tcp()))
    }

    /// Returns the address at `url`, for a connection that is told at once when it is lost.
    #[cfg(any(feature = "cluster", feature = "connection-manager"))]
    pub(super) fn resp3_address(
        &self,
        url: impl IntoConnectionInfo,
    ) -> Result<ConnectionInfo, StoreError> {
        let info = self.address(url)?;
        let redis = info.redis_settings().clone();
        Ok(info.set_redis_settings(redis.set_protocol(ProtocolVersion::RESP3)))
    }
}

/// Leaves out what it holds: a private key may be among it.
#[cfg(feature = "tls-rustls")]
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}
