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
        // The earlier one is dropped after the state is unlocked.
        let (other, _earlier) = {
            let mut state = lock(&self.0.state);
            // If many calls get the error together, one of them makes the new manager.
            let earlier = if state.made == made {
                if made.elapsed() < PAUSE {
                    return None;
                }
                let client = self.0.client.clone();
                let other = ConnectionManager::new_lazy_with_config(client, settings::manager());
                state.made = Instant::now();
                Some(mem::replace(&mut state.manager, other.ok()?))
            } else {
                None
            };
            (state.manager.clone(), earlier)
        };
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use tokio::task::JoinSet;
    use tokio::time::sleep;
    use tollgate_testkit::FakeServer;

    use super::*;

    #[test]
    fn a_manager_recovers_from_some_errors_by_itself() {
        let io = |kind| RedisError::from(io::Error::from(kind));
        for (error, expected) in [
            (io(io::ErrorKind::BrokenPipe), false),
            (io(io::ErrorKind::ConnectionRefused), false),
            (
                (ErrorKind::Server(ServerErrorKind::ExecAbort), "").into(),
                false,
            ),
            ((ErrorKind::AuthenticationFailed, "").into(), true),
            ((ErrorKind::Parse, "").into(), true),
        ] {
            assert_eq!(is_final(&error), expected, "{error}");
        }
    }

    /// A server that rejects clients while `is_closed`.
    fn door(is_closed: &Arc<AtomicBool>) -> FakeServer {
        let is_closed = Arc::clone(is_closed);
        FakeServer::start(move |words| match &*words[0] {
            "HELLO" if is_closed.load(Ordering::SeqCst) => "-WRONGPASS no\r\n".into(),
            "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
            "NOISE" => "?\r\n".into(),
            _ => "+OK\r\n".into(),
        })
    }

    async fn connect(server: &FakeServer) -> ServerConnection {
        let url = format!(
            "redis://:secret@127.0.0.1:{}/?protocol=resp3",
            server.port()
        );
        let client = Client::open(url).unwrap();
        ServerConnection::new(client).await.unwrap()
    }

    async fn call(connection: &ServerConnection, name: &str) -> RedisResult<()> {
        let mut connection = connection.clone();
        redis::cmd(name).query_async(&mut connection).await
    }

    /// Makes the server reject the client, and waits until a call says so.
    async fn reject(connection: &ServerConnection, server: &FakeServer, is_closed: &AtomicBool) {
        is_closed.store(true, Ordering::SeqCst);
        server.cut();
        let begun = Instant::now();
        while !call(connection, "PING")
            .await
            .is_err_and(|error| is_final(&error))
        {
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "it is not rejected"
            );
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn a_client_that_is_let_in_again_finds_out_at_its_next_call() {
        let is_closed = Arc::default();
        let server = door(&is_closed);
        let connection = connect(&server).await;
        for _ in 0..2 {
            reject(&connection, &server, &is_closed).await;
            is_closed.store(false, Ordering::SeqCst);
            sleep(PAUSE).await;
            call(&connection, "PING").await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_is_rejected_does_not_ask_with_every_call() {
        let is_closed = Arc::default();
        let server = door(&is_closed);
        let connection = connect(&server).await;
        reject(&connection, &server, &is_closed).await;
        let before = server.count("HELLO");
        let begun = Instant::now();
        while begun.elapsed() < 3 * PAUSE {
            call(&connection, "PING").await.unwrap_err();
            sleep(Duration::from_millis(1)).await;
        }
        let asked = server.count("HELLO") - before;
        assert!((1..=4).contains(&asked), "{asked} times");

        // Nor do many calls at once.
        sleep(PAUSE).await;
        let before = server.count("HELLO");
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let connection = connection.clone();
            calls.spawn(async move { call(&connection, "PING").await });
        }
        while let Some(outcome) = calls.join_next().await {
            outcome.unwrap().unwrap_err();
        }
        let asked = server.count("HELLO") - before;
        assert!((1..=3).contains(&asked), "{asked} times");
    }

    /// All of them wait for one connection, and then for one more.
    #[tokio::test]
    async fn calls_that_are_rejected_together_share_the_next_attempt() {
        let is_closed = Arc::new(AtomicBool::new(false));
        let server = FakeServer::start({
            let is_closed = Arc::clone(&is_closed);
            move |words| match &*words[0] {
                "HELLO" if is_closed.load(Ordering::SeqCst) => {
                    thread::sleep(PAUSE);
                    "-WRONGPASS no\r\n".into()
                }
                "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
                _ => "+OK\r\n".into(),
            }
        });
        let connection = connect(&server).await;
        reject(&connection, &server, &is_closed).await;
        sleep(PAUSE).await;
        let before = server.count("HELLO");
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let connection = connection.clone();
            calls.spawn(async move { call(&connection, "PING").await });
        }
        while let Some(outcome) = calls.join_next().await {
            outcome.unwrap().unwrap_err();
        }
        let asked = server.count("HELLO") - before;
        assert!((1..=4).contains(&asked), "{asked} times");
    }

    #[tokio::test]
    async fn what_may_have_been_run_is_not_sent_again() {
        let server = door(&Arc::default());
        let connection = connect(&server).await;
        sleep(PAUSE).await;
        call(&connection, "NOISE").await.unwrap_err();
        assert_eq!(server.count("NOISE"), 1);
        call(&connection, "PING").await.unwrap();
    }
}
