//! What nine widely used rate limiters (the originals) get wrong, and what the store does instead.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{
    Algorithm, FixedWindow, Limit, Quota, RateLimiter, SlidingBuckets, SlidingLog,
};
use tollgate_core::{Timestamp, schedule::Schedule};
use tollgate_redis::redis::aio::MultiplexedConnection;
use tollgate_redis::redis::{self, FromRedisValue, RedisResult, ToRedisArgs};
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_scenarios::published::{self, MOST_PER_DAY, MOST_PER_HOUR, MOST_PER_SECOND};
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

use crate::client::multiplexed;

/// The start of a day, as a time that callers pass.
const START_MS: u64 = 1_700_006_400_000;
const START_S: u64 = START_MS / 1_000;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

type Store = RedisStore<MultiplexedConnection>;

/// A server for an original, with the keys `original` and `counts`, and for this library.
struct Place {
    connection: MultiplexedConnection,
    _server: Server,
}

impl Place {
    async fn new() -> Self {
        let server = Server::start(Flavor::System);
        Self {
            connection: multiplexed(server.url()).await,
            _server: server,
        }
    }

    fn store(&self) -> Store {
        let options = Options::default().with_deadline(Duration::from_secs(10));
        RedisStoreBuilder::from(options)
            .over(self.connection.clone())
            .unwrap()
    }

    fn limiter(&self, algorithm: impl Into<Algorithm>) -> RateLimiter<Store> {
        let limit = Limit::new("calls", algorithm).unwrap();
        RateLimiter::new(self.store(), [limit]).unwrap()
    }

    /// Returns a limiter that admits `most` calls in any `seconds`.
    fn strict(&self, most: u64, seconds: u64) -> RateLimiter<Store> {
        let quota = Quota::new(most, Duration::from_secs(seconds)).unwrap();
        self.limiter(SlidingLog::new(quota).unwrap())
    }

    /// Sends a command, and returns the server's reply.
    async fn ask<T: FromRedisValue>(&mut self, name: &str, arguments: impl ToRedisArgs) -> T {
        let mut command = redis::cmd(name);
        command.arg(arguments);
        command.query_async(&mut self.connection).await.unwrap()
    }

    /// Returns how many of the calls an original admits.
    async fn admitted<T>(
        &mut self,
        calls: impl IntoIterator<Item = T>,
        original: impl AsyncFn(&mut MultiplexedConnection, T) -> RedisResult<bool>,
    ) -> usize {
        let mut admitted = 0;
        for call in calls {
            admitted += usize::from(original(&mut self.connection, call).await.unwrap());
        }
        admitted
    }
}

/// Calls at each of the instants, and returns how many were admitted.
async fn admitted_by(limiter: &RateLimiter<Store>, millis: impl IntoIterator<Item = u64>) -> usize {
    let mut admitted = 0;
    for now in millis {
        let decision = limiter.check("key").at(at_ms(now)).await;
        admitted += usize::from(decision.unwrap().is_allowed());
    }
    admitted
}

fn at_ms(millis: u64) -> Timestamp {
    Timestamp::from_micros(millis * 1_000).unwrap()
}

#[tokio::test]
async fn denied_calls_keep_a_caller_denied() {
    let mut place = Place::new().await;
    // One call a second for ten minutes, at five a minute.
    let calls = (0..600).map(|second| START_MS + 1_000 * second);
    let original = place.admitted(calls.clone(), async |connection, now| {
        published::sorted_set_in_transaction(connection, "original", now, 60, 5).await
    });
    assert_eq!(original.await, 5);
    assert_eq!(admitted_by(&place.strict(5, 60), calls).await, 50);
}

#[tokio::test]
async fn calls_of_one_millisecond_count_once() {
    let mut place = Place::new().await;
    let calls = [START_MS; 1_000];
    let original = place.admitted(calls, async |connection, now| {
        published::sorted_set_in_script(connection, "original", now, 60, 5).await
    });
    assert_eq!(original.await, 1_000);
    assert_eq!(admitted_by(&place.strict(5, 60), calls).await, 5);
    // It counts before it trims: a call that has left the window counts once more.
    let calls = [0, 10, 20, 30, 40, 62].map(|after| START_MS + DAY_MS + after * 1_000);
    let original = place.admitted(calls, async |connection, now| {
        published::sorted_set_in_script(connection, "spread", now, 60, 5).await
    });
    assert_eq!(original.await, 5);
    assert_eq!(admitted_by(&place.strict(5, 60), calls).await, 6);
}

#[tokio::test]
async fn a_call_that_one_window_denies_counts_in_the_others() {
    let mut place = Place::new().await;
    // Ten calls a second for a minute, at three a second and twenty a minute.
    let calls = (0..600).map(|call| START_MS + 100 * call);
    let original = place.admitted(calls.clone(), async |connection, now| {
        let windows = [(1, 3), (60, 20)];
        published::counters_of_windows(connection, "original", now / 1_000, &windows).await
    });
    assert_eq!(original.await, 6);
    let limits = ["second=fixed-window:3/1s", "minute=fixed-window:20/1m"];
    let limiter = RateLimiter::new(place.store(), limits).unwrap();
    assert_eq!(admitted_by(&limiter, calls).await, 20);
}

#[tokio::test]
async fn a_read_before_the_count_admits_every_racer() {
    let mut place = Place::new().await;
    let connection = &mut place.connection;
    // All fifty callers read before the first of them writes.
    let mut read = Vec::new();
    for _ in 0..50 {
        let counted = published::counter_of_a_second_reads(connection, "original", START_S).await;
        read.push(counted.unwrap());
    }
    let original = place.admitted(read, async |connection, counted| {
        published::counter_of_a_second_writes(connection, "original", START_S, counted).await
    });
    assert_eq!(original.await, 50);
    let limiter = place.strict(MOST_PER_SECOND, 1);
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let limiter = limiter.clone();
        calls.spawn(async move {
            limiter
                .check("key")
                .at(at_ms(START_MS))
                .await
                .unwrap()
                .consumed()
        });
    }
    let admitted: u64 = calls.join_all().await.into_iter().sum();
    assert_eq!(admitted, MOST_PER_SECOND);
}

#[tokio::test]
async fn a_schedule_ignores_the_day_before() {
    let mut place = Place::new().await;
    let now = START_MS - DAY_MS;
    let midnight = START_MS + DAY_MS;
    let minutes = |apart: u64, count: u64| {
        let first = midnight - apart * MINUTE_MS * count / 2;
        (0..count).map(move |number| first + apart * MINUTE_MS * number)
    };
    // Twelve within twelve minutes, and twenty within four hours.
    for (index, (apart, count, original, planned)) in [
        (1, 12, 2 * (MOST_PER_HOUR + 1), MOST_PER_HOUR),
        (12, 20, 2 * MOST_PER_DAY, MOST_PER_DAY),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("original-{index}");
        let accepted = place.admitted(minutes(apart, count), async |connection, time| {
            published::schedule(connection, &key, time, now).await
        });
        assert_eq!(accepted.await, original);
        let schedule = Schedule::new(place.store(), "messages", ["1/1m", "5/1h", "10/1d"]);
        let schedule = schedule.unwrap();
        let mut kept = 0;
        for (id, time) in minutes(apart, count).enumerate() {
            let id = id.to_string();
            let call = schedule.add(&key, &id, at_ms(time));
            kept += usize::from(call.at(at_ms(now)).await.unwrap().is_planned());
        }
        assert_eq!(kept, planned);
    }
    // It reads before it writes, so two callers take the same minute; and it accepts every time that has passed.
    let [mut one, mut other] = [0, 1].map(|_| place.connection.clone());
    let both = tokio::join!(
        published::schedule(&mut one, "racers", midnight, now),
        published::schedule(&mut other, "racers", midnight + 1_000, now),
    );
    assert_eq!((both.0.unwrap(), both.1.unwrap()), (true, true));
    let late = place.admitted([now - 1; 100], async |connection, time| {
        published::schedule(connection, "late", time, now).await
    });
    assert_eq!(late.await, 100);
}

#[tokio::test]
async fn a_counter_without_an_expiry_denies_for_ever() {
    let mut place = Place::new().await;
    // A restored backup or a stray `PERSIST` can leave a counter like this.
    let () = place.ask("SET", ("original", 5)).await;
    let original = place.admitted(0..10, async |connection, _| {
        published::counter_set_by_the_first(connection, "original", 1, 5).await
    });
    assert_eq!(original.await, 0);
    assert_eq!(place.ask::<i64>("TTL", "original").await, -1);

    // The state contains the window's end; the TTL only frees memory.
    let limiter = place.limiter(FixedWindow::anchored(Quota::per_second(5)));
    assert_eq!(admitted_by(&limiter, [START_MS; 5]).await, 5);
    let keys: Vec<String> = place.ask("KEYS", "tollgate:*").await;
    let () = place.ask("PERSIST", &keys).await;
    let calls = [START_MS + 999, START_MS + 1_000];
    assert_eq!(admitted_by(&limiter, calls).await, 1);
    assert!(place.ask::<i64>("PTTL", &keys).await > 0);
}

#[tokio::test]
async fn expired_seconds_are_not_removed() {
    let mut place = Place::new().await;
    let (now, _): (u64, u64) = place.ask("TIME", &[""; 0]).await;
    for second in now - 7_200..now - 7_100 {
        let () = place.ask("ZADD", ("original", second, second)).await;
        let () = place.ask("HINCRBY", ("counts", second, 1)).await;
    }
    let original = place.admitted([()], async |connection, ()| {
        published::counts_by_second(connection, "original", "counts", 60, 5).await
    });
    assert_eq!(original.await, 1);
    assert_eq!(place.ask::<u64>("ZCARD", "original").await, 101);
    assert_eq!(place.ask::<i64>("TTL", "original").await, -1);

    // One call now, and one a hundred windows later.
    let buckets = SlidingBuckets::new(Quota::per_minute(5), 10).unwrap();
    let limiter = place.limiter(buckets);
    let mut sizes = Vec::new();
    for window in [0, 100] {
        let found = admitted_by(&limiter, [START_MS + MINUTE_MS * window]).await;
        assert_eq!(found, 1);
        let keys: Vec<String> = place.ask("KEYS", "tollgate:*").await;
        sizes.push(place.ask::<u64>("STRLEN", &keys).await);
        assert!(place.ask::<i64>("PTTL", &keys).await > 0);
    }
    assert_eq!(sizes[0], sizes[1]);
}

#[tokio::test]
async fn calls_of_one_second_count_once() {
    let mut place = Place::new().await;
    // Ten calls a second for a minute, at a hundred a minute.
    let calls = (0..600).map(|call| START_MS + 100 * call);
    let original = place.admitted(calls.clone(), async |connection, now| {
        published::sorted_set_of_seconds(connection, "original", now / 1_000, 60, 100).await
    });
    assert_eq!(original.await, 600);
    assert_eq!(admitted_by(&place.strict(100, 60), calls).await, 100);
}

#[tokio::test]
async fn a_counter_of_denied_calls_outgrows_its_limit() {
    let mut place = Place::new().await;
    for (most, expected) in [(5, 5), (50, 0)] {
        let original = place.admitted(0..100, async |connection, _| {
            published::counter_in_transaction(connection, "original", 60, most).await
        });
        assert_eq!(original.await, expected);
        // The counter is past 50 already when the limit is raised.
        assert!(place.ask::<u64>("GET", "original").await > 50);
    }
    for (most, expected) in [(5, 5), (50, 45)] {
        let limiter = place.limiter(FixedWindow::anchored(Quota::per_minute(most)));
        assert_eq!(admitted_by(&limiter, [START_MS; 100]).await, expected);
    }
}
