//! `ServerConnection`: a connection to one server that always reconnects.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use tollgate_wire::Options;

use super::link::Link;
use crate::failure;
use crate::lock::lock;

/// A connection to one server that reconnects when it is lost.
///
/// It also connects again when the server says that it is a replica, has lost its primary, or is
/// loading its data, because its address may lead to another server by now; and on the runtime of
/// the call, when the runtime on which it connected has ended. No command is sent again.
#[derive(Clone)]
pub struct ServerConnection(Arc<Shared>);

struct Shared {
    client: Client,
    /// The deadline of calls. Connecting may take half of it, so that a call which waits for that
    /// is known not to have been sent.
    deadline: Duration,
    link: Mutex<Arc<Link>>,
}

impl ServerConnection {
    /// Connects to the server of `client`, with the settings of [`multiplexed`](super::multiplexed)
    /// and for calls with the default deadline.
    ///
    /// Use [`tcp`](super::tcp) and RESP3 for the client. With RESP3, it notices a lost connection
    /// before the next call is sent.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or rejects the client.
    pub async fn new(client: Client) -> RedisResult<Self> {
        Self::open(client, Options::default().deadline()).await
    }

    pub(crate) async fn open(client: Client, deadline: Duration) -> RedisResult<Self> {
        let link = Link::open(&client);
        link.connection().await?;
        Ok(Self(Arc::new(Shared {
            client,
            deadline,
            link: Mutex::new(Arc::new(link)),
        })))
    }

    /// Returns the current connection, or one that is being made.
    fn link(&self) -> Arc<Link> {
        let mut link = lock(&self.0.link);
        if link.is_over() {
            *link = Arc::new(Link::open(&self.0.client));
        }
        Arc::clone(&link)
    }

    async fn connected(&self) -> RedisResult<(MultiplexedConnection, Arc<Link>)> {
        let link = self.link();
        let connection = link.within(self.0.deadline / 2).await?;
        Ok((connection, link))
    }

    /// Takes note of a server's errors.
    fn note(&self, link: &Link, errors: impl IntoIterator<Item = RedisError>) {
        for error in errors {
            link.ended(&error, self.0.deadline);
        }
    }
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (mut connection, link) = self.connected().await?;
            let reply = connection.req_packed_command(cmd).await;
            match &reply {
                Ok(value) => self.note(&link, failure::within(value)),
                Err(error) => self.note(&link, [error.clone()]),
            }
            reply
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let (mut connection, link) = self.connected().await?;
            let replies = connection.req_packed_commands(cmd, offset, count).await;
            match &replies {
                Ok(values) => self.note(&link, values.iter().filter_map(failure::within)),
                Err(error) => self.note(&link, [error.clone()]),
            }
            replies
        })
    }

    fn get_db(&self) -> i64 {
        self.0.client.get_connection_info().redis_settings().db()
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConnection").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use tokio::task::JoinSet;
    use tokio::time::sleep;
    use tollgate_testkit::FakeServer;

    use super::super::link::PAUSE;
    use super::*;

    /// A server that rejects clients while `is_closed`, after a pause.
    fn door(is_closed: &Arc<AtomicBool>, pause: Duration) -> FakeServer {
        let is_closed = Arc::clone(is_closed);
        FakeServer::start(move |words| match &*words[0] {
            "HELLO" if is_closed.load(Ordering::SeqCst) => {
                thread::sleep(pause);
                "-WRONGPASS no\r\n".into()
            }
            "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
            "NOISE" => "?\r\n".into(),
            _ => "+OK\r\n".into(),
        })
    }

    async fn connect(server: &FakeServer) -> ServerConnection {
        let port = server.port();
        let url = format!("redis://:secret@127.0.0.1:{port}/?protocol=resp3");
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
            .is_err_and(|error| !error.is_io_error())
        {
            let holds = begun.elapsed() < Duration::from_secs(5);
            assert!(holds, "it is not rejected");
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn a_client_that_is_let_in_again_finds_out_at_its_next_call() {
        let is_closed = Arc::default();
        let server = door(&is_closed, Duration::ZERO);
        let connection = connect(&server).await;
        for _ in 0..2 {
            reject(&connection, &server, &is_closed).await;
            is_closed.store(false, Ordering::SeqCst);
            sleep(PAUSE).await;
            call(&connection, "PING").await.unwrap();
        }
    }

    /// Makes 20 calls at once, all of which fail, and returns how often they let the client connect.
    async fn fail_together(connection: &ServerConnection, server: &FakeServer) -> usize {
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
        server.count("HELLO") - before
    }

    #[tokio::test]
    async fn a_client_that_is_rejected_does_not_ask_with_every_call() {
        let is_closed = Arc::default();
        let server = door(&is_closed, Duration::ZERO);
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
        let asked = fail_together(&connection, &server).await;
        assert!((1..=3).contains(&asked), "{asked} times");
    }

    /// All of them wait for one connection, and then for one more.
    #[tokio::test]
    async fn calls_that_are_rejected_together_share_the_next_attempt() {
        let is_closed = Arc::default();
        let server = door(&is_closed, PAUSE);
        let connection = connect(&server).await;
        reject(&connection, &server, &is_closed).await;
        let asked = fail_together(&connection, &server).await;
        assert!((1..=4).contains(&asked), "{asked} times");
    }

    #[tokio::test]
    async fn what_may_have_been_run_is_not_sent_again() {
        let server = door(&Arc::default(), Duration::ZERO);
        let connection = connect(&server).await;
        sleep(PAUSE).await;
        call(&connection, "NOISE").await.unwrap_err();
        assert_eq!(server.count("NOISE"), 1);
        call(&connection, "PING").await.unwrap();
    }
}
