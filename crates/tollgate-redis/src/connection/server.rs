//! `ServerConnection`: a connection to one server that always reconnects.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{
    Client, Cmd, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, RedisFuture, RedisResult,
    ServerErrorKind, Value,
};
use tollgate_core::StoreError;
use tollgate_core::wire::Failure;

use super::builder::RedisStoreBuilder;
use super::lock::lock;
use super::refused::refused;
use crate::failure;
use crate::settings;
use crate::store::RedisStore;

impl RedisStore<ServerConnection> {
    /// Connects to the server at `url` and returns a store on it, with the default
    /// [`Options`](crate::Options) and [settings](settings::manager) for a rate limiter.
    ///
    /// A lost connection is made again in the background. While the server rejects the client, such
    /// as during a password change, calls keep trying to connect.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`](tollgate_core::ErrorKind::Misconfigured) if `url` is not valid,
    /// the server refuses its user or password, or a certificate is refused;
    /// [`ErrorKind::Unavailable`](tollgate_core::ErrorKind::Unavailable) if the server cannot be
    /// reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::RedisStore;
    ///
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: impl IntoConnectionInfo) -> Result<Self, StoreError> {
        RedisStore::builder().connect(url).await
    }
}

impl RedisStoreBuilder {
    /// Connects to the server at `url`, and returns a store on it.
    ///
    /// # Errors
    ///
    /// The same as [`RedisStore::connect`], and
    /// [`ErrorKind::Misconfigured`](tollgate_core::ErrorKind::Misconfigured) if an option is not
    /// valid, or if there are certificates and the URL is not `rediss://`.
    pub async fn connect(
        self,
        url: impl IntoConnectionInfo,
    ) -> Result<RedisStore<ServerConnection>, StoreError> {
        let client = Client::open(self.resp3_address(url)?).map_err(refused)?;
        let options = self.options?;
        let connection = ServerConnection::new(client).await.map_err(refused)?;
        Ok(RedisStore::with_options(connection, options))
    }
}

/// The least time between attempts to connect while the server rejects this client, so that not
/// every call asks it.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection to one server that reconnects when it is lost.
///
/// It wraps a `ConnectionManager` of redis-rs, which never tries again once the server has rejected
/// the client, such as during a password change. Here, calls keep trying.
#[derive(Clone)]
pub struct ServerConnection(Arc<Shared>);

struct Shared {
    client: Client,
    state: Mutex<State>,
}

struct State {
    manager: ConnectionManager,
    /// When the manager was made, which also identifies it.
    made: Instant,
}

impl ServerConnection {
    /// Connects to the server of `client`, with [settings](settings::manager) for a rate limiter.
    ///
    /// Use [`settings::tcp`] and RESP3 for the client. With RESP3, it notices a lost connection
    /// before the next call does.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or rejects the client.
    pub async fn new(client: Client) -> RedisResult<Self> {
        let manager = ConnectionManager::new_with_config(client.clone(), settings::manager());
        let state = State {
            manager: manager.await?,
            made: Instant::now(),
        };
        Ok(Self(Arc::new(Shared {
            client,
            state: Mutex::new(state),
        })))
    }

    fn manager(&self) -> (ConnectionManager, Instant) {
        let state = lock(&self.0.state);
        (state.manager.clone(), state.made)
    }

    /// Replaces the manager made at `made` if it would answer all further calls with the error in
    /// `outcome`. Returns the new one if nothing was sent, to try the call again.
    ///
    /// The error may be old, and its cause fixed since.
    fn another<T>(&self, outcome: &RedisResult<T>, made: Instant) -> Option<ConnectionManager> {
        let error = outcome.as_ref().err().filter(|error| is_final(error))?;
        let mut state = lock(&self.0.state);
        let mut earlier = None;
        // If many calls get the error together, one of them makes the new manager.
        if state.made == made {
            if made.elapsed() < PAUSE {
                return None;
            }
            let client = self.0.client.clone();
            let other = ConnectionManager::new_lazy_with_config(client, settings::manager());
            earlier = Some(mem::replace(&mut state.manager, other.ok()?));
            state.made = Instant::now();
        }
        let other = state.manager.clone();
        drop(state);
        drop(earlier);
        was_not_sent(error).then_some(other)
    }
}

/// Returns whether a manager answers all further calls with `error` too.
fn is_final(error: &RedisError) -> bool {
    // After an I/O error, a manager reconnects by itself. A server's error to a single command
    // arrives here as a value. To a command of a transaction it arrives as an error, but the
    // connection is fine.
    !error.is_io_error() && error.kind() != ErrorKind::Server(ServerErrorKind::ExecAbort)
}

/// Returns whether the final `error` comes from connecting.
fn was_not_sent(error: &RedisError) -> bool {
    let failure = failure::of(error.clone());
    matches!(failure, Failure::NotSent(_) | Failure::Refused { .. })
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (mut manager, made) = self.manager();
            let reply = manager.req_packed_command(cmd).await;
            match self.another(&reply, made) {
                Some(mut other) => other.req_packed_command(cmd).await,
                None => reply,
            }
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let (mut manager, made) = self.manager();
            let replies = manager.req_packed_commands(cmd, offset, count).await;
            match self.another(&replies, made) {
                Some(mut other) => other.req_packed_commands(cmd, offset, count).await,
                None => replies,
            }
        })
    }

    fn get_db(&self) -> i64 {
        lock(&self.0.state).manager.get_db()
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConnection").finish_non_exhaustive()
    }
}
