//! A connection to one server, which is made again whatever ended it.

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
    /// [`Options`](crate::Options) and the [settings](settings::manager) that a rate limiter needs.
    ///
    /// A connection that is lost is made again in the background; while the server refuses to let
    /// this client in, as for a password that is being changed, calls go on to try.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`](tollgate_core::ErrorKind::Misconfigured) if `url` is none, the
    /// server refuses its user or password, or a certificate is refused;
    /// [`ErrorKind::Unavailable`](tollgate_core::ErrorKind::Unavailable) if there is no server.
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
    /// As [`RedisStore::connect`];
    /// [`ErrorKind::Misconfigured`](tollgate_core::ErrorKind::Misconfigured) if this was set up
    /// wrongly, or with certificates for a URL other than one of `rediss://`.
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

/// How long a refusal stands, before the next call asks again and sends what it has if it is let in:
/// a server that lets nobody in is not to be asked for each call.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection to one server, which is made again when it is lost.
///
/// It is a `ConnectionManager` of redis-rs, but for one thing: once the server has answered that it
/// does not let this client in, as while a password is being changed, a manager never tries again.
/// Here, calls go on to try.
#[derive(Clone)]
pub struct ServerConnection(Arc<Shared>);

struct Shared {
    client: Client,
    state: Mutex<State>,
}

struct State {
    manager: ConnectionManager,
    /// When the manager was made, which also tells it from the one before.
    made: Instant,
}

impl ServerConnection {
    /// Connects to the server of `client`, with the [settings](settings::manager) that a rate
    /// limiter needs.
    ///
    /// The client is to use [`settings::tcp`] and RESP3, which notices a lost connection before a
    /// call does.
    ///
    /// # Errors
    ///
    /// If there is no server, or it lets nobody in.
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

    /// Takes another manager in place of the one that was made at `made`, should `outcome` be its
    /// last word, and returns it if nothing was sent.
    ///
    /// That word may be from long ago, and what ails a server may have been mended since.
    fn another<T>(&self, outcome: &RedisResult<T>, made: Instant) -> Option<ConnectionManager> {
        let error = outcome.as_ref().err().filter(|error| is_final(error))?;
        let mut state = lock(&self.0.state);
        let mut earlier = None;
        // Of many calls that are told so together, one makes another.
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

/// Returns whether a manager says `error` of each further call too.
fn is_final(error: &RedisError) -> bool {
    // After an error of input or output it connects again by itself.
    // What a server answers to a command is a value here, but to one of a transaction it is an
    // error, of a connection that is well.
    !error.is_io_error() && error.kind() != ErrorKind::Server(ServerErrorKind::ExecAbort)
}

/// Returns whether `error`, which is final, is a refusal to connect.
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
