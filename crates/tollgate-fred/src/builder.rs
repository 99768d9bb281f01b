//! `FredStoreBuilder`: sets up a store, and connects it.

use fred::clients::{Client, Pool};
use fred::error::{Error, ErrorKind as FredErrorKind};
use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::Server;
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;
use tollgate_wire::Options;
use tollgate_wire::inside::NoConnection;

use crate::connection::{self, Address, Clients, Connection};
use crate::fred_store::{FredStore, follows_nothing};

impl FredStore<Client> {
    /// Connects to `url` and returns a store on it, with the default options and settings for a
    /// rate limiter.
    ///
    /// `url` is `redis://host:port`, `redis-cluster://host:port?node=host:port` or
    /// `redis-sentinel://host:port?sentinelServiceName=name`, as in fred, with `rediss` for TLS.
    /// Another scheme, or a parameter that fred would ignore, is an error. It can also be a
    /// [`Config`](fred::types::config::Config). TLS trusts the certificate authorities that the
    /// system trusts. For others, and for a client certificate, see
    /// [`FredStoreBuilder::client_builder`].
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
        Options::new().into()
    }
}

/// Sets up a [`FredStore`], and connects it.
///
/// The method that connects, or that makes a store on clients of yours, returns an error if an option
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

/// Starts with `options`, for a program that has those of `tollgate-wire`.
impl From<Options> for FredStoreBuilder {
    fn from(options: Options) -> Self {
        Self(Ok(options))
    }
}

impl FredStoreBuilder {
    tollgate_wire::__sets_options!();

    fn set(self, with: impl FnOnce(Options) -> Result<Options, StoreError>) -> Self {
        Self(self.0.and_then(with))
    }

    /// Connects to `url`, and returns a store on it.
    ///
    /// # Errors
    ///
    /// The same as [`FredStore::connect`], and [`ErrorKind::Misconfigured`] if an option is not
    /// valid.
    pub async fn connect(self, url: impl Address) -> Result<FredStore, StoreError> {
        let options = self.0?;
        let builder = connection::builder(url, options.deadline())?;
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
        let builder = connection::builder(url, options.deadline())?;
        let pool = builder.build_pool(size);
        open(pool.map_err(|error| refused(&[], error))?, options).await
    }

    /// Returns a builder of fred for a client or a pool at `address`, which has the
    /// [settings](crate#settings) for a store with this deadline. Set it up further, and give it to
    /// [`connect_with`](Self::connect_with).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if an option is not valid, or if fred does not accept
    /// the text of an address, or would not do what it says: if its scheme or a parameter is not one
    /// that fred knows, or if it asks for TLS and this program was built without. fred would ignore
    /// that, connect in the clear, and send the password in it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_fred::FredStore;
    ///
    /// let builder = FredStore::builder().client_builder("redis://127.0.0.1:6379")?;
    /// assert_eq!(builder.get_connection_config().max_command_attempts, 1);
    /// # Ok::<(), tollgate_core::StoreError>(())
    /// ```
    ///
    /// With TLS and a certificate authority that the system does not know, here through `rustls`:
    ///
    /// ```no_run
    /// # #[cfg(any(feature = "enable-rustls", feature = "enable-rustls-ring"))]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use rustls::pki_types::CertificateDer;
    /// use rustls::pki_types::pem::PemObject;
    /// use rustls::{ClientConfig, RootCertStore};
    /// use tollgate_fred::fred::types::config::TlsConnector;
    /// use tollgate_fred::FredStore;
    ///
    /// let mut roots = RootCertStore::empty();
    /// for certificate in CertificateDer::pem_file_iter("authority.pem")? {
    ///     roots.add(certificate?)?;
    /// }
    /// let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    /// let store = FredStore::builder().prefix("shop");
    /// let mut client = store.client_builder("rediss://:secret@10.0.0.1:6379")?;
    /// client.with_config(|config| config.tls = Some(TlsConnector::from(tls).into()));
    /// let store = store.connect_with(&client).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_builder(&self, address: impl Address) -> Result<Builder, StoreError> {
        let options = self.0.clone()?;
        connection::builder(address, options.deadline())
    }

    /// Connects the client that `builder` builds, and returns a store on it.
    ///
    /// `builder` should come from [`client_builder`](Self::client_builder), which shows how to add
    /// certificates.
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

    /// Returns a store that sends its commands through `clients`, which the caller connects, and keeps
    /// connected.
    ///
    /// # Errors
    ///
    /// The same as [`FredStore::new`], and [`ErrorKind::Misconfigured`] if an option is not valid.
    pub fn over<C: Clients>(self, clients: C) -> Result<FredStore<C>, StoreError> {
        follows_nothing(&clients)?;
        Ok(FredStore::of(clients, self.0?, Vec::new()))
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
