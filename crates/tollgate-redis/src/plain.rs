//! `PlainStore`: a store without scripts, through redis-rs.

use std::fmt;
use std::sync::LazyLock;
use std::time::Instant;

use redis::{FromRedisValue, ParsingError, RedisError, RedisResult, Value};
#[cfg(doc)]
use tollgate_core::ErrorKind;
#[cfg(any(doc, test))]
use tollgate_core::Store;
use tollgate_core::{Limit, StoreError};
use tollgate_wire::inside::{self, Command, Transact};
use tollgate_wire::{Failure, Options};

use crate::connection::{Connection, ToOneServer};
use crate::engine::RedisEngine;
use crate::failure;

/// A [`Store`] for servers that do not allow scripts: fixed windows only, one limit per request, by
/// the server's clock. Each decision is one transaction of plain commands.
///
/// It shares no counters with a [`RedisStore`](crate::RedisStore). Aligned windows are exact as
/// long as the server's clock does not step. An anchored window starts with the millisecond after
/// its first call, and cannot be refunded. It needs Redis 7.0 or later, or Valkey, and a single
/// server, not a cluster.
pub struct PlainStore<C>(inside::PlainStore<RedisEngine<C>>);

impl<C: ToOneServer> PlainStore<C> {
    /// Returns a store for `limits` that sends its commands through `connection`, with the default
    /// options. [`RedisStoreBuilder::plain`](crate::RedisStoreBuilder::plain) sets others.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if plain commands cannot serve some of `limits`; the message names
    /// each with the reason.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::redis::Client;
    /// use tollgate_redis::{FixedWindow, Limit, PlainStore, Quota, connection};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::open("redis://127.0.0.1:6379")?;
    /// let config = connection::multiplexed();
    /// let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    /// let hourly = Limit::new("hourly", FixedWindow::aligned(Quota::per_hour(20)))?;
    /// let store = PlainStore::new(connection, &[hourly])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(connection: C, limits: &[Limit]) -> Result<Self, StoreError> {
        Self::over(connection, Options::new(), limits)
    }

    /// Returns a store like [`new`](Self::new), with `options`.
    pub(crate) fn over(
        connection: C,
        options: Options,
        limits: &[Limit],
    ) -> Result<Self, StoreError> {
        let engine = RedisEngine::new(connection, options.deadline(), None);
        inside::PlainStore::new(engine, options, limits).map(Self)
    }

    /// Returns the connection of this store.
    pub fn connection(&self) -> &C {
        self.0.engine().connection()
    }
}

/// Returns the error of the first command that Redis rejected while queueing the transaction. For
/// an unknown command or option, returns the transaction's own error.
fn refused(error: RedisError) -> Failure {
    let errors = error.clone().into_server_errors();
    let first = errors.as_deref().and_then(<[_]>::first);
    match first {
        Some((_, said)) if said.code() != "ERR" => Failure::refused(failure::line(said), error),
        _ => failure::of(error),
    }
}

/// The numbers in a command's reply.
struct Numbers(Vec<Option<i64>>);

impl FromRedisValue for Numbers {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        if let Ok(number) = Option::<i64>::from_redis_value_ref(&value) {
            return Ok(Self(vec![number]));
        }
        Vec::from_redis_value(value).map(Self)
    }
}

impl<C: Connection> Transact for RedisEngine<C> {
    async fn transact(&self, commands: &[Command]) -> Result<Vec<Vec<Option<i64>>>, Failure> {
        let mut transaction = redis::pipe();
        // Report each command's error by itself, instead of one combined error.
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

tollgate_wire::__decides!(PlainStore<C: ToOneServer> .0);

/// Leaves the connection out, because it may not implement `Debug`.
impl<C> fmt::Debug for PlainStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use tollgate_core::store::{Check, Request};
    use tollgate_core::{FixedWindow, Quota};
    use tollgate_testkit::FakeServer;

    use super::*;

    /// An unknown command means that the server is too old, and the other errors what they say.
    #[tokio::test]
    async fn the_first_error_of_a_transaction_is_reported_if_it_has_a_code() {
        for row in [
            "Unsupported, Redis 7.0: ERR unknown command 'PEXPIRETIME'",
            "Unsupported, Redis 7.0: ERR wrong number of arguments for 'pexpire' command",
            "Full, OOM command not: OOM command not allowed when used memory > 'maxmemory'.",
        ] {
            let (expected, refusal) = row.split_once(": ").unwrap();
            let (kind, said) = expected.split_once(", ").unwrap();
            let is_first = AtomicBool::new(true);
            let server = FakeServer::start(move |words| match words[0].as_str() {
                "MULTI" | "CLIENT" => "+OK\r\n".into(),
                "EXEC" => "-EXECABORT Transaction discarded because of previous errors.\r\n".into(),
                "TIME" => "+QUEUED\r\n".into(),
                _ if is_first.swap(false, Ordering::Relaxed) => format!("-{refusal}\r\n").into(),
                _ => "-NOPERM another error\r\n".into(),
            });
            let client = redis::Client::open(server.url()).unwrap();
            let connection = client.get_multiplexed_async_connection().await.unwrap();
            let store = PlainStore::new(connection, &[]).unwrap();
            let hourly = FixedWindow::aligned(Quota::per_hour(20));
            let limit = Limit::new("hourly", hourly).unwrap();
            let request = Request::consume(Check::new(&limit, "k", 1));
            let error = store.decide(request).await.unwrap_err();
            assert_eq!(format!("{:?}", error.kind()), kind, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[tokio::test]
    async fn the_local_clock_moves_on() {
        let server = FakeServer::start(|_| "+OK\r\n".into());
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let store = PlainStore::new(connection, &[]).unwrap();
        assert_eq!(format!("{store:?}"), "PlainStore { .. }");
        let engine = store.0.engine();
        let before = engine.monotonic_us();
        thread::sleep(Duration::from_millis(2));
        assert!(engine.monotonic_us() - before >= 2_000);
    }
}
