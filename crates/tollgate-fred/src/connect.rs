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
use tollgate_core::wire::{NoConnection, Options};

use crate::clients::Clients;
use crate::settings;
use crate::store::{FredStore, follows_nothing};

/// How long to wait before a client that has stopped is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

impl FredStore<Client> {
    /// Connects to `url` and returns a store on it, with the settings that a rate limiter needs.
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
    /// use tollgate_fred::{FredStore, Options};
    ///
    /// # async fn example() -> Result<(), tollgate_core::StoreError> {
    /// let store = FredStore::connect("redis://127.0.0.1:6379", Options::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str, options: Options) -> Result<Self, StoreError> {
        Self::connect_with(&settings::builder(url, &options)?, options).await
    }

    /// Connects what `builder` builds as [`connect`](FredStore::connect) does.
    ///
    /// `builder` is to come from [`settings::builder`], which shows how to add certificates.
    ///
    /// # Errors
    ///
    /// As [`connect`](FredStore::connect), and as [`with_options`](FredStore::with_options).
    pub async fn connect_with(builder: &Builder, options: Options) -> Result<Self, StoreError> {
        let client = builder.build().map_err(refused)?;
        follows_nothing(&client)?;
        open(client, options).await
    }
}

impl FredStore<Pool> {
    /// Connects to `url` as [`connect`](FredStore::connect) does, `size` times.
    ///
    /// One client carries all calls of a process at once; two gain little, and more gain nothing
    /// that has been measured.
    ///
    /// # Errors
    ///
    /// As [`connect`](FredStore::connect); [`ErrorKind::Misconfigured`] if `size` is 0.
    pub async fn connect_pool(
        url: &str,
        size: usize,
        options: Options,
    ) -> Result<Self, StoreError> {
        let builder = settings::builder(url, &options)?;
        open(builder.build_pool(size).map_err(refused)?, options).await
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
