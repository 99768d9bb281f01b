//! Helpers for the tests: a server, unique keys, and many kinds of calls.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, ToRedisArgs};
use tokio::task::JoinSet;
use tollgate_core::schedule::Schedule;
use tollgate_core::{Algorithm, Limit, Quota, RateLimiter, SlidingLog, Store, Timestamp};
use tollgate_redis::{Options, PlainStore, RedisStore, connection, redis};
use tollgate_testkit::Flavor;
use tollgate_testkit::shared::{self, SharedServer};

/// The start of a day, as a time that callers pass.
pub(crate) const START_MS: u64 = 1_700_006_400_000;
pub(crate) const START_S: u64 = START_MS / 1_000;

/// A limiter of this library, on the same server as the original.
pub(crate) type Limiter = RateLimiter<RedisStore<MultiplexedConnection>>;

/// A schedule of this library, on the same server as the original.
pub(crate) type OwnSchedule = Schedule<RedisStore<MultiplexedConnection>>;

/// A connection to a server, with a unique name for this test's keys.
pub(crate) struct Place {
    pub(crate) connection: MultiplexedConnection,
    name: String,
    _server: SharedServer,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::on(Flavor::System).await
    }

    pub(crate) async fn on(flavor: Flavor) -> Self {
        let server = shared::standalone(flavor);
        let client = redis::Client::open(server.url()).unwrap();
        let config = connection::multiplexed();
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        Self {
            connection: connection.await.unwrap(),
            name: fresh_name(),
            _server: server,
        }
    }

    /// Returns a key for the original limiter.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:original:{name}", self.name)
    }

    pub(crate) fn limiter(&self, algorithm: impl Into<Algorithm>) -> Limiter {
        self.limiter_of([Limit::new("calls", algorithm).unwrap()])
    }

    pub(crate) fn limiter_of(&self, limits: impl IntoIterator<Item = Limit>) -> Limiter {
        let store = RedisStore::with_options(self.connection.clone(), self.options());
        RateLimiter::new(store, limits).unwrap()
    }

    /// Returns a schedule with these quotas.
    pub(crate) fn schedule(&self, quotas: impl IntoIterator<Item = &'static str>) -> OwnSchedule {
        let store = RedisStore::with_options(self.connection.clone(), self.options());
        Schedule::new(store, "messages", quotas).unwrap()
    }

    /// Returns a limiter that runs no scripts.
    pub(crate) fn plain(
        &self,
        algorithm: impl Into<Algorithm>,
    ) -> RateLimiter<PlainStore<MultiplexedConnection>> {
        let limits = [Limit::new("calls", algorithm).unwrap()];
        let store = PlainStore::new(self.connection.clone(), self.options(), &limits);
        RateLimiter::new(store.unwrap(), limits).unwrap()
    }

    /// Returns a limiter that admits `most` calls in any `seconds`.
    pub(crate) fn strict(&self, most: u64, seconds: u64) -> Limiter {
        self.limiter(log(most, seconds))
    }

    /// Returns the one key that this library's limiters or schedules have written.
    pub(crate) async fn own_key(&mut self) -> String {
        let pattern = format!("{}:own:*", self.name);
        let keys: Vec<String> = self.ask("KEYS", pattern).await;
        let [key] = <[String; 1]>::try_from(keys).unwrap();
        key
    }

    /// Sends a command, and returns the server's reply.
    pub(crate) async fn ask<T: FromRedisValue>(
        &mut self,
        name: &str,
        arguments: impl ToRedisArgs,
    ) -> T {
        let mut command = redis::cmd(name);
        command.arg(arguments);
        command.query_async(&mut self.connection).await.unwrap()
    }

    /// Returns the server's time in whole seconds.
    pub(crate) async fn now_s(&mut self) -> u64 {
        let time = redis::cmd("TIME").query_async(&mut self.connection).await;
        let (second, _): (u64, u64) = time.unwrap();
        second
    }

    /// Waits until `key` has expired.
    pub(crate) async fn wait_until_expired(&mut self, key: &str) {
        while self.ask::<u64>("EXISTS", key).await > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn options(&self) -> Options {
        // The deadline suffices on a machine that is busy with other tests.
        Options::default()
            .with_deadline(Duration::from_secs(10))
            .with_prefix(&format!("{}:own", self.name))
            .unwrap()
    }
}

/// Returns a name that is unique among all tests and runs.
pub(crate) fn fresh_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("recipe-{}-{}-{count}", process::id(), time.as_micros())
}

/// Returns a log that admits `most` units in any `seconds`.
pub(crate) fn log(most: u64, seconds: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(most, Duration::from_secs(seconds)).unwrap()).unwrap()
}

pub(crate) fn at_ms(millis: u64) -> Timestamp {
    Timestamp::from_micros(millis * 1_000).unwrap()
}

/// Makes `calls` calls in turn at the server's time, and returns how many were admitted.
pub(crate) async fn admitted(limiter: &RateLimiter<impl Store>, key: &str, calls: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..calls {
        admitted += u64::from(limiter.check(key).await.unwrap().is_allowed());
    }
    admitted
}

/// Calls at each of the instants, and returns how many were admitted.
pub(crate) async fn admitted_at(
    limiter: &Limiter,
    key: &str,
    millis: impl IntoIterator<Item = u64>,
) -> u64 {
    let mut admitted = 0;
    for now in millis {
        let decision = limiter.check(key).at(at_ms(now)).await;
        admitted += u64::from(decision.unwrap().is_allowed());
    }
    admitted
}

/// Makes `callers` calls at once, and returns how many were admitted.
pub(crate) async fn admitted_at_once(limiter: Limiter, callers: u64) -> u64 {
    let limiter = Arc::new(limiter);
    let mut calls = JoinSet::new();
    for _ in 0..callers {
        let limiter = Arc::clone(&limiter);
        calls.spawn(async move { limiter.check("key").await.unwrap().is_allowed() });
    }
    let answers = calls.join_all().await;
    answers.into_iter().map(u64::from).sum()
}
