//! `FredStoreBuilder`: sets up a store, and connects it.

use std::time::Duration;

use fred::clients::{Client, Pool};
use fred::error::{Error, ErrorKind as FredErrorKind};
use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::Server;
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;
use tollgate_wire::{NoConnection, Options, TimeSource};

use crate::connection::{self, Address, Clients, Connection};
use crate::fred_store::{FredStore, follows_nothing};

impl FredStore<Client> {
    /// Connects to `url` and returns a store on it, with the default [`Options`] and settings for a
    /// rate limiter.
    ///
    /// `url` is `redis://host:port`, `redis-cluster://host:port?node=host:port` or
    /// `redis-sentinel://host:port?sentinelServiceName=name`, as in fred, with `rediss` for TLS.
    /// Another scheme, or a parameter that fred would ignore, is an error. It can also be a
    /// [`Config`](fred::types::config::Config). TLS trusts the certificate authorities that the
    /// system trusts. For others, and for a client certificate, see [`connection::builder`].
    /// Dropping the store, or this future, ends the connections.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if `url` is not valid, the server refuses its user or password,
    /// or a certificate is refused; [`ErrorKind::Unavailable`] if the server cannot be reached, or
    /// if no Sentinel accepts this client, for which fred gives no reason.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_fred::FredStore;
    ///
    /// # async fn example() -> Result<(), tollgate_fred::StoreError> {
    /// let store = FredStore::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: impl Address) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Returns a builder that sets up a store and connects it.
    pub fn builder() -> FredStoreBuilder {
        FredStoreBuilder(Ok(Options::new()))
    }
}

/// Sets up a [`FredStore`], and connects it.
///
/// Unset options are as in [`Options::new`]. The method that connects returns an error if an option
/// is not valid.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_fred::FredStore;
///
/// # async fn example() -> Result<(), tollgate_fred::StoreError> {
/// let store = FredStore::builder()
///     .prefix("shop")
///     .deadline(Duration::from_millis(50))
///     .connect("redis://127.0.0.1:6379")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct FredStoreBuilder(Result<Options, StoreError>);

impl FredStoreBuilder {
    /// Sets all [`Options`], in place of those set before.
    pub fn options(self, options: Options) -> Self {
        Self(Ok(options))
    }

    /// Sets the prefix of every key, so that several programs can share a server: 1 to 64 ASCII
    /// letters, digits, `-`, `_`, `.` or `:`. The default is `tollgate`.
    pub fn prefix(self, prefix: &str) -> Self {
        Self(self.0.and_then(|options| options.with_prefix(prefix)))
    }

    /// Sets how long a decision may take, including loading scripts and following redirections. The
    /// default is 500 ms.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self(self.0.map(|options| options.with_deadline(deadline)))
    }

    /// Sets which clock decides. The default is the server's.
    pub fn time_source(self, source: TimeSource) -> Self {
        Self(self.0.map(|options| options.with_time_source(source)))
    }

    /// Sets the extra TTL of states written at a caller's instant; see
    /// [`Options::with_caller_slack`]. The default is ten minutes.
    pub fn caller_slack(self, slack: Duration) -> Self {
        Self(self.0.map(|options| options.with_caller_slack(slack)))
    }

    /// Hashes every key with `secret`; see [`Options::with_hashed_keys`].
    pub fn hashed_keys(self, secret: [u8; 16]) -> Self {
        Self(self.0.map(|options| options.with_hashed_keys(secret)))
    }

    /// Hashes long keys with `secret`; see [`Options::with_hashed_long_keys`].
    pub fn hashed_long_keys(self, secret: [u8; 16]) -> Self {
        Self(self.0.map(|options| options.with_hashed_long_keys(secret)))
    }

    /// Switches batches on or off; see [`Options::with_batches`]. They are off by default.
    pub fn batches(self, batches: bool) -> Self {
        Self(self.0.map(|options| options.with_batches(batches)))
    }

    /// Connects to `url`, and returns a store on it.
    ///
    /// # Errors
    ///
    /// The same as [`FredStore::connect`], and [`ErrorKind::Misconfigured`] if an option is not
    /// valid.
    pub async fn connect(self, url: impl Address) -> Result<FredStore, StoreError> {
        let options = self.0?;
        let builder = connection::builder(url, &options)?;
        Self(Ok(options)).connect_with(&builder).await
    }

    /// Connects a pool of `size` clients to `url`, and returns a store on it.
    ///
    /// One client carries all calls of a process at once. Two gain little, and more gained nothing
    /// in measurements.
    ///
    /// # Errors
    ///
    /// The same as [`connect`](Self::connect), and [`ErrorKind::Misconfigured`] if `size` is 0.
    pub async fn connect_pool(
        self,
        url: impl Address,
        size: usize,
    ) -> Result<FredStore<Pool>, StoreError> {
        let options = self.0?;
        let builder = connection::builder(url, &options)?;
        let pool = builder.build_pool(size);
        open(pool.map_err(|error| refused(&[], error))?, options).await
    }

    /// Connects the client that `builder` builds, and returns a store on it.
    ///
    /// `builder` should come from [`connection::builder`], which shows how to add certificates.
    ///
    /// # Errors
    ///
    /// The same as [`connect`](Self::connect) and [`FredStore::new`].
    pub async fn connect_with(self, builder: &Builder) -> Result<FredStore, StoreError> {
        let options = self.0?;
        let client = builder.build().map_err(|error| refused(&[], error))?;
        follows_nothing(&client)?;
        open(client, options).await
    }
}

async fn open<C: Clients>(clients: C, options: Options) -> Result<FredStore<C>, StoreError> {
    let mut connections = Vec::with_capacity(clients.all().len());
    for client in clients.all() {
        let connection = Connection::open(client).await;
        let servers = || client.client_config().server.hosts();
        connections.push(connection.map_err(|error| refused(&servers(), error))?);
    }
    Ok(FredStore::of(clients, options, connections))
}

/// Phrases in fred's errors, and what each means.
///
/// We search the details because fred has one kind of error for all problems with Sentinels and the
/// servers behind them, and another for all problems with sockets, including TLS.
const WORDS: [(&str, NoConnection); 8] = [
    ("InvalidCertificate", NoConnection::UntrustedCertificate),
    ("AlertReceived", NoConnection::AlertedTls),
    ("InvalidMessage", NoConnection::AlertedTls),
    ("all sentinel nodes", NoConnection::NoSentinel),
    ("timed out", NoConnection::NotGreeted),
    ("ConnectionReset", NoConnection::NotGreeted),
    ("BrokenPipe", NoConnection::NotGreeted),
    ("UnexpectedEof", NoConnection::NotGreeted),
];

/// Returns the store error for an error of connecting to `servers`.
pub(crate) fn refused(servers: &[Server], error: Error) -> StoreError {
    let other = match error.kind() {
        FredErrorKind::Auth => NoConnection::WrongPassword,
        FredErrorKind::Config | FredErrorKind::InvalidArgument | FredErrorKind::Url => {
            NoConnection::UnusableSettings
        }
        _ => NoConnection::Unreachable,
    };
    let told = NoConnection::told(error.details(), &WORDS);
    told.unwrap_or(other).error_of(servers, error)
}

#[cfg(test)]
mod tests {
    use tollgate_core::ErrorKind;

    use super::*;

    #[test]
    fn what_an_operator_can_mend_is_misconfigured() {
        for (kind, expected, words) in [
            (FredErrorKind::Auth, ErrorKind::Misconfigured, "password"),
            (FredErrorKind::Config, ErrorKind::Misconfigured, "settings"),
            (FredErrorKind::IO, ErrorKind::Unavailable, "running"),
        ] {
            let servers = [Server::new("10.0.0.1", 1)];
            let error = refused(&servers, Error::new(kind, "no"));
            assert!(error.to_string().starts_with("10.0.0.1:1: "), "{error}");
            assert_eq!(error.kind(), expected, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
