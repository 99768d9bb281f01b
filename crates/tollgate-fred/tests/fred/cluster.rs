//! A cluster whose slots move and whose nodes fail: calls wait for it, and none is counted twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::{Decision, ErrorKind, Key, RateLimiter, StoreError};
use tollgate_fred::fred::prelude::{Builder, Config};
use tollgate_fred::{FredStore, FredStoreBuilder};
use tollgate_scenarios::secured::limiter;
use tollgate_testkit::{Cluster, Flavor};
use tollgate_wire::Options;

use crate::refusals::brought;

const DEADLINE: Duration = Duration::from_secs(2);

/// Calls with a key in one slot, and returns what remains.
async fn call(limiter: &RateLimiter<FredStore>, rest: &str) -> Result<u64, StoreError> {
    let decision = limiter.check(Key::new("alice").with_rest(rest)).await?;
    Ok(decision.remaining())
}

#[tokio::test]
async fn a_client_that_follows_redirections_is_refused() {
    let config = Config::from_url("redis-cluster://127.0.0.1:1").unwrap();
    let mut builder = Builder::from_config(config);
    let error = FredStore::new(builder.build().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let pool = FredStore::new(builder.build_pool(2).unwrap());
    assert_eq!(pool.unwrap_err().kind(), ErrorKind::Misconfigured);
    let own = FredStore::builder().connect_with(&builder).await;
    assert_eq!(own.unwrap_err().kind(), ErrorKind::Misconfigured);
    builder.with_connection_config(|connection| connection.max_redirections = 0);
    FredStore::new(builder.build().unwrap()).unwrap();
}

#[tokio::test]
async fn a_migrating_key_is_counted_once_or_refused() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let options = Options::default().with_deadline(DEADLINE);
    let store = FredStoreBuilder::from(options).connect(&url).await;
    let limiter = Arc::new(limiter(store.unwrap()));
    let slot = Cluster::slot_of("alice");
    assert_eq!(call(&limiter, "old").await.unwrap(), 8);

    let migration = cluster.begin_migration(slot, cluster.another(slot));
    // A key that has not moved is served. A new key is served by neither node to this client.
    assert_eq!(call(&limiter, "old").await.unwrap(), 7);
    let begun = Instant::now();
    let error = call(&limiter, "new").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    assert!(error.is_retryable());

    // A call that waits for the end of the migration is served by the new node.
    while migration.move_keys(10) > 0 {}
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { call(&limiter, "new").await }
    });
    sleep(Duration::from_millis(50)).await;
    migration.finish();
    assert_eq!(waiting.await.unwrap().unwrap(), 8);
    assert_eq!(call(&limiter, "old").await.unwrap(), 6);
}

/// A master receives the call and hangs, and its replica takes over. fred closes the connection to
/// the old master, and by itself would send the waiting call to the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_sent_is_not_sent_to_the_next_master() {
    let cluster = Cluster::start(Flavor::System);
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let (store, _client) = brought(&url, 10 * DEADLINE).await;
    let limiter = Arc::new(limiter(store));
    assert!(limiter.check("key").await.unwrap().is_allowed());

    let master = cluster.master_of(Cluster::slot_of("key"));
    let replica = cluster.replica_of(master);
    let masters = [0, 8_000, 16_000].map(|slot| cluster.master_of(slot));
    let mut masters = masters.into_iter();
    let another = masters.find(|other| other.port() != master.port());
    let mut control = another.unwrap().connection();
    master.pause();
    let out = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check("key").await.map(Decision::into_verdicts) }
    });
    sleep(Duration::from_millis(100)).await;
    let takeover = replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    assert_eq!(takeover.text(), Some("OK"));
    let begun = Instant::now();
    while !out.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(15), "the call waits");
        // fred reads the slots again after it has lost a connection.
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        control.command(&kill).unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    master.resume();
    let error = out.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}");
}
