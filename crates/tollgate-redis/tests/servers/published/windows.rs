//! Counters of windows that are aligned to the clock: several at once, or one for each second.

use std::time::Duration;

use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter};
use tollgate_redis::{Options, RedisStore, connection, redis};
use tollgate_testkit::{Flavor, Server};

use super::support::{Place, START_MS, START_S, admitted, admitted_at, admitted_at_once, log};
use tollgate_scenarios::published::{self, MOST_PER_SECOND};

#[tokio::test]
async fn windows_that_follow_the_clock_admit_twice_as_many() {
    let mut place = Place::new().await;
    let key = place.key("ip");
    // Fifty calls in the last second of a minute, and fifty in the first second of the next.
    let calls = (0..100).map(|call| START_MS + 59_000 + 20 * call);
    let mut by_original = 0;
    for now in calls.clone() {
        let connection = &mut place.connection;
        let windows = [(60, 20)];
        let admits = published::counters_of_windows(connection, &key, now / 1_000, &windows).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 40);

    // The store's aligned window admits as many: that is its bound. A log keeps to the limit.
    let aligned = place.limiter(FixedWindow::aligned(Quota::per_minute(20)));
    assert_eq!(admitted_at(&aligned, "key", calls.clone()).await, 40);
    assert_eq!(admitted_at(&place.strict(20, 60), "key", calls).await, 20);
}

#[tokio::test]
async fn a_call_that_one_window_denies_counts_in_the_others() {
    let mut place = Place::new().await;
    let key = place.key("ip");
    // A hundred calls a second for a minute, at three a second and twenty a minute.
    let calls = (0..6_000).map(|call| START_MS + 10 * call);
    let mut by_original = 0;
    for now in calls.clone() {
        let connection = &mut place.connection;
        let windows = [(1, 3), (60, 20)];
        let admits = published::counters_of_windows(connection, &key, now / 1_000, &windows).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 3);

    let limiter = place.limiter_of([
        Limit::new("second", FixedWindow::aligned(Quota::per_second(3))).unwrap(),
        Limit::new("minute", FixedWindow::aligned(Quota::per_minute(20))).unwrap(),
    ]);
    assert_eq!(admitted_at(&limiter, "key", calls).await, 20);
}

#[tokio::test]
async fn a_counter_outlives_its_window() {
    let mut place = Place::new().await;
    let key = place.key("ip");
    let admits =
        published::counters_of_windows(&mut place.connection, &key, START_S, &[(60, 20)]).await;
    assert!(admits.unwrap());
    let counter = published::window_key(&key, 60, START_S);
    let left = place.ask::<i64>("TTL", counter).await;
    assert!((170..=180).contains(&left), "{left}");

    let limiter = place.limiter(FixedWindow::anchored(Quota::per_minute(20)));
    assert_eq!(admitted(&limiter, "key", 1).await, 1);
    let own = place.own_key().await;
    let left = place.ask::<i64>("PTTL", own).await;
    assert!(left <= 60_001, "{left}");
}

#[tokio::test]
async fn clocks_that_differ_have_a_window_each() {
    let mut place = Place::new().await;
    let key = place.key("ip");
    let mut by_original = 0;
    // Two callers at one instant; the clock of one is a minute fast.
    for now in [START_S, START_S + 60] {
        for _ in 0..30 {
            let connection = &mut place.connection;
            let windows = [(60, 20)];
            let admits = published::counters_of_windows(connection, &key, now, &windows).await;
            by_original += u64::from(admits.unwrap());
        }
    }
    assert_eq!(by_original, 40);

    assert_eq!(admitted(&place.strict(20, 60), "key", 60).await, 20);
}

#[tokio::test]
async fn a_limit_compared_with_the_count_before_admits_one_more() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let counter = published::second_key(&ip, START_S);
    // The first call, but without a TTL: on a slow machine, the counter could expire during the
    // test.
    let () = place.ask("SET", (&counter, 1)).await;
    let mut by_original = 1;
    for _ in 1..20 {
        let connection = &mut place.connection;
        let read = published::counter_of_a_second_reads(connection, &ip, START_S).await;
        let admits =
            published::counter_of_a_second_writes(connection, &ip, START_S, read.unwrap()).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, MOST_PER_SECOND + 1);

    let limiter = place.limiter(log(MOST_PER_SECOND, 1));
    let calls = [START_MS; 20];
    assert_eq!(admitted_at(&limiter, "key", calls).await, MOST_PER_SECOND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_before_the_count_admits_every_racer() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let connection = &mut place.connection;
    let mut read = Vec::new();
    for _ in 0..50 {
        let counted = published::counter_of_a_second_reads(connection, &ip, START_S).await;
        read.push(counted.unwrap());
    }
    let mut by_original = 0;
    for counted in read {
        let admits = published::counter_of_a_second_writes(connection, &ip, START_S, counted).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 50);

    let limiter = place.strict(MOST_PER_SECOND, 60);
    assert_eq!(admitted_at_once(limiter, 50).await, MOST_PER_SECOND);
}

#[tokio::test]
async fn a_counter_that_expires_between_two_commands_stays() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let counter = published::second_key(&ip, START_S);
    let () = place.ask("SET", (&counter, 1)).await;
    let connection = &mut place.connection;
    let read = published::counter_of_a_second_reads(connection, &ip, START_S).await;
    let () = place.ask("PEXPIRE", (&counter, 1)).await;
    place.wait_until_expired(&counter).await;
    let connection = &mut place.connection;
    let admits =
        published::counter_of_a_second_writes(connection, &ip, START_S, read.unwrap()).await;
    assert!(admits.unwrap());
    assert_eq!(place.ask::<i64>("TTL", &counter).await, -1);

    let limiter = place.limiter(FixedWindow::anchored(
        Quota::new(1_000, Duration::from_secs(60)).unwrap(),
    ));
    assert_eq!(admitted_at_once(limiter, 50).await, 50);
    let own = place.own_key().await;
    let left = place.ask::<i64>("PTTL", own).await;
    assert!((1..=60_001).contains(&left), "{left}");
}

#[tokio::test]
async fn clocks_that_differ_have_a_second_each() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let mut by_original = 0;
    // Two callers at one instant; the clock of one is a second fast.
    for now in [START_S, START_S + 1] {
        // The first call, but without a TTL: on a slow machine, the counter could expire during the
        // test.
        let () = place.ask("SET", (published::second_key(&ip, now), 1)).await;
        by_original += 1;
        for _ in 1..20 {
            let connection = &mut place.connection;
            let admits = published::counter_of_a_second_unchecked(connection, &ip, now).await;
            by_original += u64::from(admits.unwrap());
        }
    }
    assert_eq!(by_original, 2 * (MOST_PER_SECOND + 1));

    let limiter = place.strict(MOST_PER_SECOND, 60);
    assert_eq!(admitted(&limiter, "key", 40).await, MOST_PER_SECOND);
}

#[tokio::test]
async fn a_count_that_fails_unseen_limits_nothing() {
    let server = Server::start(Flavor::System);
    let client = redis::Client::open(server.url()).unwrap();
    let config = connection::multiplexed();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = connection.await.unwrap();
    // The server rejects writes, as one that has lost its replica does.
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let mut by_original = 0;
    for _ in 0..100 {
        let admits = published::counter_of_a_second_unchecked(&mut connection, "ip", START_S).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 100);

    let store = RedisStore::with_options(connection, Options::default());
    let limits = [Limit::new("calls", log(MOST_PER_SECOND, 1)).unwrap()];
    let limiter = RateLimiter::new(store, limits).unwrap();
    for _ in 0..100 {
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}
