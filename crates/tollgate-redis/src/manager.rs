//! A connection to one server, which is made again whatever ended it.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{Client, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};

use crate::lock::lock;
use crate::settings;

/// How long a refusal stands before a call asks again: a server that lets nobody in is not to be
/// asked for each call.
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

    /// Takes another manager in place of the one that was made at `made`, should `error` be its
    /// last word.
    fn judge(&self, error: &RedisError, made: Instant) {
        // After these a manager connects again by itself.
        if error.is_io_error() || made.elapsed() < PAUSE {
            return;
        }
        let config = settings::manager();
        let Ok(other) = ConnectionManager::new_lazy_with_config(self.0.client.clone(), config)
        else {
            return;
        };
        let mut state = lock(&self.0.state);
        if state.made == made {
            state.made = Instant::now();
            let earlier = mem::replace(&mut state.manager, other);
            drop(state);
            drop(earlier);
        }
    }
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (mut manager, made) = self.manager();
            // What a server answers to a command is a value here, so an error is the connection's.
            let reply = manager.req_packed_command(cmd).await;
            reply.inspect_err(|error| self.judge(error, made))
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
            replies.inspect_err(|error| self.judge(error, made))
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
