//! Connections that are a store's own, with the settings that a rate limiter needs.

use std::future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fred::clients::{Client, Pool};
use fred::error::{Error, ErrorKind as FredErrorKind};
use fred::interfaces::ClientLike;
use fred::types::{Builder, ConnectHandle};
use tokio::task::JoinHandle;
use tokio::time;
#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;
use tollgate_core::wire::{Clock, NoConnection, Options};

use crate::clients::Clients;
use crate::settings;
use crate::store::{FredStore, follows_nothing};

/// How long to wait before a client that has stopped is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

impl FredStore<Client> {
    /// Connects to `url` and returns a store on it, with the default [`Options`] and the settings
    /// that a rate limiter needs.
    ///
    /// `url` is as fred takes it: `redis://host:port`, `redis-cluster://host:port?node=host:port`
    /// or `redis-sentinel://host:port?sentinelServiceName=name`, with `rediss` for TLS.
    /// With `rediss`, the system says which authorities are trusted; for others, and for a
    /// certificate of your own, see [`settings::builder`].
    /// The connections end when the store is dropped, or this future is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if `url` is none, the server refuses its user or password, or a
    /// certificate is refused; [`ErrorKind::Unavailable`] if there is no server, or no Sentinel that
    /// lets this client in, for a reason that fred does not tell.
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
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Returns what sets up a store and connects it.
    pub fn builder() -> FredStoreBuilder {
        FredStoreBuilder(Ok(Options::new()))
    }
}

/// Sets up a [`FredStore`], and connects it.
///
/// What is not set is as in [`Options::new`]. What is set wrongly is an error of the method that
/// connects.
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
    /// Sets everything that [`Options`] hold, in place of what was set before.
    pub fn options(self, options: Options) -> Self {
        Self(Ok(options))
    }

    /// Sets what every key begins with, so that several uses of one server keep apart: 1 to 64
    /// ASCII letters, digits, `-`, `_`, `.` or `:`. The default is `tollgate`.
    pub fn prefix(self, prefix: &str) -> Self {
        Self(self.0.and_then(|options| options.with_prefix(prefix)))
    }

    /// Sets how long a decision may take, with everything that belongs to it. The default is
    /// 500 ms.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self(self.0.map(|options| options.with_deadline(deadline)))
    }

    /// Sets whose clock decides. The default is the server's.
    pub fn clock(self, clock: Clock) -> Self {
        Self(self.0.map(|options| options.with_clock(clock)))
    }

    /// Sets how much longer than it is needed a state is kept that was written at a caller's
    /// instant, as [`Options::with_caller_slack`] explains. The default is ten minutes.
    pub fn caller_slack(self, slack: Duration) -> Self {
        Self(self.0.map(|options| options.with_caller_slack(slack)))
    }

    /// Hashes every key with `secret`, as [`Options::with_hashed_keys`] explains.
    pub fn hashed_keys(self, secret: [u8; 16]) -> Self {
        Self(self.0.map(|options| options.with_hashed_keys(secret)))
    }

    /// Hashes long keys with `secret`, as [`Options::with_hashed_long_keys`] explains.
    pub fn hashed_long_keys(self, secret: [u8; 16]) -> Self {
        Self(self.0.map(|options| options.with_hashed_long_keys(secret)))
    }

    /// Connects to `url`, and returns a store on it.
    ///
    /// # Errors
    ///
    /// As [`FredStore::connect`]; [`ErrorKind::Misconfigured`] if this was set up wrongly.
    pub async fn connect(self, url: &str) -> Result<FredStore, StoreError> {
        let options = self.0?;
        let builder = settings::builder(url, &options)?;
        Self(Ok(options)).connect_with(&builder).await
    }

    /// Connects to `url`, `size` times.
    ///
    /// One client carries all calls of a process at once; two gain little, and more gain nothing
    /// that has been measured.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); [`ErrorKind::Misconfigured`] if `size` is 0.
    pub async fn connect_pool(self, url: &str, size: usize) -> Result<FredStore<Pool>, StoreError> {
        let options = self.0?;
        let builder = settings::builder(url, &options)?;
        open(builder.build_pool(size).map_err(refused)?, options).await
    }

    /// Connects what `builder` builds.
    ///
    /// `builder` is to come from [`settings::builder`], which shows how to add certificates.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and as [`FredStore::new`].
    pub async fn connect_with(self, builder: &Builder) -> Result<FredStore, StoreError> {
        let options = self.0?;
        let client = builder.build().map_err(refused)?;
        follows_nothing(&client)?;
        open(client, options).await
    }
}

/// A client's task, which is started again when it stops by itself, and ends with this.
#[derive(Debug)]
pub(crate) struct Connection(JoinHandle<()>);

impl Connection {
    async fn open(client: &Client) -> Result<Self, Error> {
        // Not `init`: were this future dropped while that waits, fred's task would go on for ever.
        let mut connected = pin!(client.wait_for_connect());
        // It hears only of what happens from here on.
        let first = future::poll_fn(|context| Poll::Ready(connected.as_mut().poll(context))).await;
        let task = Task(client.connect());
        match first {
            Poll::Ready(already) => already?,
            Poll::Pending => connected.await?,
        }
        Ok(Self(tokio::spawn(keep(client.clone(), task))))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// fred's task, which would go on without anyone to wait for it.
struct Task(ConnectHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Keeps `client` running until someone calls its `quit`.
///
/// fred's task ends on some failures that pass, such as a queue that is full at the moment when
/// the connection is lost, and then nothing would connect the client again.
async fn keep(client: Client, mut task: Task) {
    loop {
        match (&mut task.0).await {
            Ok(Ok(())) => return,
            Err(error) if error.is_cancelled() => return,
            Ok(Err(_)) | Err(_) => {}
        }
        time::sleep(RESTART_PAUSE).await;
        task = Task(client.connect());
    }
}

async fn open<C: Clients>(clients: C, options: Options) -> Result<FredStore<C>, StoreError> {
    let mut connections = Vec::with_capacity(clients.all().len());
    for client in clients.all() {
        let connection = Connection::open(client).await;
        connections.push(connection.map_err(refused)?);
    }
    Ok(FredStore::of(clients, options, connections))
}

/// What fred says of what went wrong.
///
/// It is looked for in the details: fred has one kind of error for all that goes wrong with
/// Sentinels and what is behind them, and another for all that goes wrong with sockets, TLS
/// included.
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

/// Returns what to tell a caller for whom no connection was opened.
pub(crate) fn refused(error: Error) -> StoreError {
    let other = match error.kind() {
        FredErrorKind::Auth => NoConnection::WrongPassword,
        FredErrorKind::Config | FredErrorKind::InvalidArgument | FredErrorKind::Url => {
            NoConnection::UnusableSettings
        }
        _ => NoConnection::Unreachable,
    };
    let told = NoConnection::told(error.details(), &WORDS);
    told.unwrap_or(other).error(error)
}
