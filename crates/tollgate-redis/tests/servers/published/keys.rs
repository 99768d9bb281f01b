//! Keys: ambiguous when joined from texts, and several for one call in a cluster.

use tollgate_core::{FixedWindow, Key, Limit, Quota, RateLimiter};
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, shared};

use super::support::{Place, START_MS, START_S, fresh_name};
use tollgate_scenarios::published;

#[tokio::test]
async fn concatenated_keys_collide() {
    let mut place = Place::new().await;
    let key = |user: &str, action: &str| place.key(&format!("{user}:{action}"));
    let (first, second) = (key("a:b", "c"), key("a", "b:c"));
    let mut answers = Vec::new();
    for (key, now) in [(&first, START_MS), (&second, START_MS + 1)] {
        let connection = &mut place.connection;
        let admits = published::sorted_set_in_transaction(connection, key, now, 60, 1).await;
        answers.push(admits.unwrap());
    }
    assert_eq!(answers, [true, false]);

    let limiter = place.strict(1, 60);
    for key in [
        Key::from("a:b").with_rest("c"),
        Key::from("a").with_rest("b:c"),
    ] {
        let decision = limiter.check(key).await;
        assert!(decision.unwrap().is_allowed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_fail_in_a_cluster() {
    let cluster = shared::cluster(Flavor::System);
    let node = redis::Client::open(cluster.urls()[0].as_str()).unwrap();
    let mut connection = node.get_multiplexed_async_connection().await.unwrap();
    let name = fresh_name();
    let keys = ["seconds", "counts"].map(|key| format!("{name}:{key}"));
    let per_second = published::counts_by_second(&mut connection, &keys[0], &keys[1], 60, 5).await;
    let error = per_second.unwrap_err();
    assert_eq!(error.code(), Some("CROSSSLOT"), "{error}");

    // A user's two windows may be in different slots; among enough users, some are.
    let mut apart = 0;
    for user in 0..20 {
        let key = format!("{name}:{user}");
        let slots = [1, 60].map(|period| {
            let key = published::window_key(&key, period, START_S);
            let slot = cluster.command(&["CLUSTER", "KEYSLOT", &key]);
            slot.integer().unwrap()
        });
        apart += u64::from(slots[0] != slots[1]);
    }
    assert!(apart >= 19, "{apart}");

    let store = RedisStore::connect_cluster(cluster.urls()).await;
    let limits = [
        Limit::new("second", FixedWindow::aligned(Quota::per_second(3))).unwrap(),
        Limit::new("minute", FixedWindow::aligned(Quota::per_minute(20))).unwrap(),
    ];
    let limiter = RateLimiter::new(store.unwrap(), limits).unwrap();
    let decision = limiter.check(&name).await.unwrap();
    assert_eq!(decision.remaining(), 2);
}
