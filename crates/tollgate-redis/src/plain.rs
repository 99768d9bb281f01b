//! The store that runs no scripts.

use std::fmt;
use std::sync::LazyLock;
use std::time::Instant;

use async_trait::async_trait;
use redis::aio::ConnectionLike;
use redis::{FromRedisValue, ParsingError, RedisError, RedisResult, Value};
use tollgate_core::wire::{self, Command, Engine, Failure, Options, Transact};
use tollgate_core::{Checks, ErrorKind, Limit, Request, Store, StoreError, Verdicts};

use crate::engine::RedisEngine;
use crate::failure;

/// A [`Store`] for servers on which scripts may not run: fixed windows, one at a time, by the
/// server's clock, each decision one transaction of plain commands.
///
/// Its counters are its own: it shares none with a [`RedisStore`](crate::RedisStore).
/// An aligned window is exact; an anchored one begins with the millisecond after its first call,
/// and cannot be refunded. It needs Redis 7.0 or later, or Valkey, and one server, not a cluster.
pub struct PlainStore<C>(wire::PlainStore<RedisEngine<C>>);

impl<C> PlainStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Returns a store that is to serve `limits`, through `connection`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] when plain commands cannot serve one of `limits`, all of which
    /// are named with the reason, or when `connection` is that of a cluster;
    /// [`ErrorKind::Misconfigured`] when `options` ask for the caller's clock.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_core::algorithm::FixedWindow;
    /// use tollgate_core::{Limit, Quota};
    /// use tollgate_redis::redis::Client;
    /// use tollgate_redis::{Options, PlainStore, settings};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::open("redis://127.0.0.1:6379")?;
    /// let config = settings::connection();
    /// let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    /// let hourly = Limit::new("hourly", FixedWindow::aligned(Quota::per_hour(20)))?;
    /// let store = PlainStore::new(connection, Options::new(), &[hourly])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(connection: C, options: Options, limits: &[Limit]) -> Result<Self, StoreError> {
        let engine = RedisEngine::new(connection, options.deadline(), None);
        if engine.is_clustered() {
            return Err(StoreError::new(
                ErrorKind::Unsupported,
                "the store without scripts is for one server: use the store with scripts",
            ));
        }
        wire::PlainStore::new(engine, options, limits).map(Self)
    }

    /// Returns what this store sends its commands through.
    pub fn connection(&self) -> &C {
        self.0.engine().connection()
    }
}

/// Returns why a transaction was not run: what the server said of the first command that it refused,
/// unless that is a command, or a form of one, that it does not know.
fn refused(error: RedisError) -> Failure {
    let errors = error.clone().into_server_errors();
    let first = errors.as_deref().and_then(<[_]>::first);
    match first {
        Some((_, said)) if said.code() != "ERR" => {
            let details = said.details().unwrap_or_default();
            Failure::refused(format!("{} {details}", said.code()), error)
        }
        _ => failure::of(error),
    }
}

/// What a command replied, as numbers.
struct Numbers(Vec<Option<i64>>);

impl FromRedisValue for Numbers {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        if let Ok(number) = Option::<i64>::from_redis_value_ref(&value) {
            return Ok(Self(vec![number]));
        }
        Vec::from_redis_value(value).map(Self)
    }
}

impl<C> Transact for RedisEngine<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn transact(&self, commands: &[Command]) -> Result<Vec<Vec<Option<i64>>>, Failure> {
        let mut transaction = redis::pipe();
        // Each command's error by itself, or redis-rs would make one of its own of them.
        transaction.atomic().ignore_errors();
        for command in commands {
            let mut sent = redis::Cmd::new();
            for word in command.words() {
                sent.arg(word.as_slice());
            }
            transaction.add_command(sent);
        }
        let mut connection = self.connection().clone();
        let replies = transaction.query_async::<Vec<RedisResult<Numbers>>>(&mut connection);
        let replies = replies.await.map_err(refused)?;
        let numbers = replies.into_iter().map(|reply| match reply {
            Ok(Numbers(numbers)) => Ok(numbers),
            Err(error) => Err(failure::of(error)),
        });
        numbers.collect()
    }

    fn monotonic_us(&self) -> u64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C> Store for PlainStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.0.decide(&request).await
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(&checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        self.0.supports(request)
    }
}

/// Leaves the connection out, which need not be printable.
impl<C> fmt::Debug for PlainStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainStore").finish_non_exhaustive()
    }
}
