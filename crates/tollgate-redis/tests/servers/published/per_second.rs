//! A sorted set of seconds with a hash of the calls in each, and a sorted set of time stamps.

use std::time::Duration;

use tollgate_core::{Quota, SlidingBuckets};

use super::support::{Place, START_MS, admitted, admitted_at, at_ms};
use tollgate_scenarios::published;

fn buckets(most: u64, seconds: u64) -> SlidingBuckets {
    let quota = Quota::new(most, Duration::from_secs(seconds)).unwrap();
    SlidingBuckets::new(quota, 10).unwrap()
}

fn keys(place: &Place) -> [String; 2] {
    ["seconds", "counts"].map(|name| place.key(name))
}

#[tokio::test]
async fn expired_seconds_are_not_removed() {
    let mut place = Place::new().await;
    let [seconds, counts] = &keys(&place);
    let now = place.now_s().await;
    for second in now - 7_200..now - 7_100 {
        let () = place.ask("ZADD", (seconds, second, second)).await;
        let () = place.ask("HINCRBY", (counts, second, 1)).await;
    }
    let admits = published::counts_by_second(&mut place.connection, seconds, counts, 60, 5).await;
    assert!(admits.unwrap());
    assert_eq!(place.ask::<u64>("ZCARD", seconds).await, 101);
    assert_eq!(place.ask::<u64>("HLEN", counts).await, 101);
    for key in [seconds, counts] {
        assert_eq!(place.ask::<i64>("TTL", key).await, -1);
    }

    // One call now, and one a hundred windows later.
    let limiter = place.limiter(buckets(5, 60));
    let mut sizes = Vec::new();
    for window in [0, 100] {
        let now = at_ms(START_MS + 60_000 * window);
        assert!(limiter.check("key").at(now).await.unwrap().is_allowed());
        let own = place.own_key().await;
        sizes.push(place.ask::<u64>("STRLEN", &own).await);
        assert!(place.ask::<i64>("PTTL", &own).await > 0);
    }
    assert_eq!(sizes[0], sizes[1]);
}

#[tokio::test]
async fn a_window_of_seconds_closed_at_both_ends_has_one_more() {
    let mut place = Place::new().await;
    let [seconds, counts] = &keys(&place);
    // All five calls fall into the second that began 60 seconds ago. If a new second begins
    // meanwhile, they leave the window, and the test tries again.
    let by_original = loop {
        let now = place.now_s().await;
        let oldest = now - 60;
        let () = place.ask("DEL", (seconds, counts)).await;
        let () = place.ask("ZADD", (seconds, oldest, oldest)).await;
        let () = place.ask("HINCRBY", (counts, oldest, 5)).await;
        let connection = &mut place.connection;
        let admits = published::counts_by_second(connection, seconds, counts, 60, 5).await;
        if place.now_s().await == now {
            break admits.unwrap();
        }
    };
    assert!(!by_original);

    // Buckets count a call for up to a tenth longer, so that they never admit too many. A log does
    // not.
    let strict = place.strict(5, 60);
    assert_eq!(admitted_at(&strict, "log", [START_MS; 5]).await, 5);
    assert_eq!(admitted_at(&strict, "log", [START_MS + 60_000]).await, 1);
    let buckets = place.limiter(buckets(5, 60));
    assert_eq!(admitted_at(&buckets, "buckets", [START_MS; 5]).await, 5);
    let calls = [60_000, 65_999, 66_000].map(|millis| START_MS + millis);
    assert_eq!(admitted_at(&buckets, "buckets", calls).await, 1);
}

#[tokio::test]
async fn eight_thousand_seconds_of_calls_are_an_error() {
    let mut place = Place::new().await;
    let [seconds, counts] = &keys(&place);
    let now = place.now_s().await;
    let oldest = now - 7_999;
    let mut pipeline = redis::pipe();
    for second in oldest + 1..=now {
        pipeline.cmd("ZADD").arg(seconds).arg(second).arg(second);
        pipeline.cmd("HINCRBY").arg(counts).arg(second).arg(1);
    }
    let connection = &mut place.connection;
    let _: Vec<u64> = pipeline.query_async(connection).await.unwrap();
    // The limit is far from reached, so that only the number of seconds matters.
    let admits = published::counts_by_second(connection, seconds, counts, 20_000, 20_000).await;
    assert!(admits.unwrap());
    let () = place.ask("ZADD", (seconds, oldest, oldest)).await;
    let () = place.ask("HINCRBY", (counts, oldest, 1)).await;
    let connection = &mut place.connection;
    for _ in 0..2 {
        let outcome = published::counts_by_second(connection, seconds, counts, 20_000, 20_000);
        let error = outcome.await.unwrap_err().to_string();
        assert!(error.contains("too many results to unpack"), "{error}");
    }

    let limiter = place.limiter(buckets(20_000, 20_000));
    let mut last = None;
    for second in 0..8_001 {
        let now = at_ms(START_MS + 1_000 * second);
        last = Some(limiter.check("key").at(now).await.unwrap());
    }
    assert_eq!(last.unwrap().remaining(), 20_000 - 8_001);
}

#[tokio::test]
async fn counts_lost_without_their_seconds_are_an_error_from_then_on() {
    let mut place = Place::new().await;
    let [seconds, counts] = &keys(&place);
    let admits = published::counts_by_second(&mut place.connection, seconds, counts, 60, 5).await;
    assert!(admits.unwrap());
    // An eviction can remove one of the two keys.
    let () = place.ask("DEL", counts).await;
    for _ in 0..3 {
        let connection = &mut place.connection;
        let outcome = published::counts_by_second(connection, seconds, counts, 60, 5).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("arithmetic on local 'count'"), "{error}");
    }

    // The store's state is one key, which cannot be evicted in part.
    let limiter = place.limiter(buckets(5, 60));
    assert_eq!(admitted(&limiter, "key", 10).await, 5);
    let own = place.own_key().await;
    let () = place.ask("DEL", own).await;
    assert_eq!(admitted(&limiter, "key", 10).await, 5);
}

#[tokio::test]
async fn counts_with_a_limit_of_zero_admit_the_first() {
    let mut place = Place::new().await;
    let [seconds, counts] = &keys(&place);
    let mut by_original = 0;
    for _ in 0..10 {
        let connection = &mut place.connection;
        let admits = published::counts_by_second(connection, seconds, counts, 60, 0).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 1);

    assert_eq!(admitted(&place.limiter(buckets(0, 60)), "key", 10).await, 0);
}

#[tokio::test]
async fn stamps_limit_nothing() {
    let mut place = Place::new().await;
    let key = place.key("stamps");
    let mut by_original = 0;
    for _ in 0..100 {
        let admits = published::stamps(&mut place.connection, &key).await;
        by_original += u64::from(admits.unwrap());
    }
    assert_eq!(by_original, 100);
    assert_eq!(place.ask::<i64>("TTL", &key).await, -1);

    assert_eq!(admitted(&place.strict(5, 60), "key", 100).await, 5);
}
