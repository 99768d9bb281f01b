//! A cluster whose slots and masters move: calls follow, and none is counted twice or lost.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Decision, ErrorKind, Gcra, Limit, Quota, RateLimiter};
use tollgate_redis::redis::cluster::ClusterClientBuilder;
use tollgate_redis::redis::cluster_async::ClusterConnection;
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_scenarios::refusals::limit;
use tollgate_scenarios::secured::until_let_in;
use tollgate_testkit::{Cluster, Flavor, Server};
use tollgate_wire::Options;

type Limiter = RateLimiter<RedisStore<ClusterConnection>>;

async fn limiter(cluster: &Cluster, limits: impl IntoIterator<Item = Limit>) -> Limiter {
    // The deadline suffices on a machine that is busy with other tests.
    let options = Options::default().with_deadline(Duration::from_secs(5));
    let store = RedisStoreBuilder::from(options)
        .connect_cluster(cluster.urls())
        .await;
    RateLimiter::new(store.unwrap(), limits).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_a_slot() {
    for flavor in Flavor::chosen() {
        let cluster = Cluster::masters_only(flavor, 3);
        let limiter = limiter(&cluster, [limit()]).await;
        follow_a_slot(&cluster, &limiter).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_a_slot_with_a_given_client() {
    let cluster = Cluster::masters_only(Flavor::System, 3);
    let options = Options::default().with_deadline(Duration::from_secs(5));
    let store = brought(&cluster, options).await;
    let limiter = RateLimiter::new(store, [limit()]).unwrap();
    follow_a_slot(&cluster, &limiter).await;
}

async fn brought(cluster: &Cluster, options: Options) -> RedisStore<ClusterConnection> {
    let builder = ClusterClientBuilder::new(cluster.urls());
    let store = RedisStoreBuilder::from(options);
    store.connect_cluster_with(builder).await.unwrap()
}

pub(crate) async fn follow_a_slot(cluster: &Cluster, limiter: &Limiter) {
    let slot = Cluster::slot_of("old");
    assert!(limiter.check("old").await.unwrap().is_allowed());

    // New keys of the slot are created on the target node, which does not know the script yet.
    let young = (0..).map(|n| format!("young-{n}"));
    let mut young = young.filter(|key| Cluster::slot_of(key) == slot);
    let (first, second) = (young.next().unwrap(), young.next().unwrap());
    let migration = cluster.begin_migration(slot, cluster.another(slot));
    assert_eq!(limiter.check("old").await.unwrap().remaining(), 3);
    assert_eq!(limiter.check(first.as_str()).await.unwrap().remaining(), 4);
    assert_eq!(limiter.check(first.as_str()).await.unwrap().remaining(), 3);

    while migration.move_keys(1) > 0 {}
    assert_eq!(limiter.check("old").await.unwrap().remaining(), 2);
    assert_eq!(limiter.check(second.as_str()).await.unwrap().remaining(), 4);

    migration.finish();
    assert_eq!(limiter.check("old").await.unwrap().remaining(), 1);
    assert_eq!(limiter.check(first.as_str()).await.unwrap().remaining(), 2);
    assert_eq!(limiter.check(second.as_str()).await.unwrap().remaining(), 3);
    assert!(limiter.check("old").await.unwrap().is_allowed());
    assert!(limiter.check("old").await.unwrap().is_denied());

    limiter.reset("old").await.unwrap();
    assert_eq!(limiter.check("old").await.unwrap().remaining(), 4);
}

/// Moves a slot to a node that has no slots yet, so that cluster connections do not know it.
async fn follows_to_a_new_node(connection_of_its_own: bool) {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let arguments = [
        "--cluster-enabled",
        "yes",
        "--cluster-announce-ip",
        "127.0.0.1",
    ];
    let new = Server::options(Flavor::System).args(arguments).start();
    for node in cluster.nodes() {
        let port = node.port().to_string();
        new.command(&["CLUSTER", "MEET", "127.0.0.1", &port]);
    }
    let serves = |node: &Server| {
        let info = node.command(&["CLUSTER", "INFO"]);
        let info = info.text().unwrap();
        info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
    };
    while !(serves(&new) && cluster.nodes().iter().all(serves)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The part of the deadline that is kept for the last attempt suffices on a busy machine.
    let options = Options::default().with_deadline(Duration::from_secs(2));
    let store = if connection_of_its_own {
        RedisStoreBuilder::from(options)
            .connect_cluster(cluster.urls())
            .await
            .unwrap()
    } else {
        brought(&cluster, options).await
    };
    let limiter = RateLimiter::new(store, [limit()]).unwrap();

    let migration = cluster.begin_migration(Cluster::slot_of("key"), &new);
    if connection_of_its_own {
        assert_eq!(limiter.check("key").await.unwrap().remaining(), 4);
        assert_eq!(limiter.check("key").await.unwrap().remaining(), 3);
    } else {
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    while migration.move_keys(1) > 0 {}
    drop(migration);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_to_a_new_node_on_its_own_connection() {
    follows_to_a_new_node(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_unavailable_at_a_new_node_with_a_given_client() {
    follows_to_a_new_node(false).await;
}

/// While a call's keys are on different nodes, neither node decides it, and the call waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_for_keys_that_a_migration_has_split() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let burst = Limit::new("burst", Gcra::new(Quota::per_hour(5)).unwrap()).unwrap();
    let limiter = Arc::new(limiter(&cluster, [burst, limit()]).await);
    assert!(limiter.check("key").await.unwrap().is_allowed());

    let slot = Cluster::slot_of("key");
    let migration = cluster.begin_migration(slot, cluster.another(slot));
    assert_eq!(migration.move_keys(1), 1);
    let waiting = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.check("key").await.map(Decision::into_verdicts) }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    migration.move_keys(1);
    migration.finish();
    assert_eq!(waiting.await.unwrap().unwrap().remaining(), 3);
}

/// If reading the slots fails, redis-rs fails the calls that wait for a reply with that error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_reading_the_slots_does_not_refuse_a_call_that_was_sent() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let tell = |words: &[&str]| {
        for node in cluster.nodes() {
            assert_eq!(node.command(words).text(), Some("OK"));
        }
    };
    tell(&[
        "ACL", "SETUSER", "limiter", "on", ">secret", "~*", "&*", "+@all",
    ]);
    let nodes = cluster.addresses().into_iter();
    let urls = nodes.map(|node| format!("redis://limiter:secret@{node}"));
    let options = Options::default().with_deadline(Duration::from_secs(2));
    let store = RedisStoreBuilder::from(options)
        .connect_cluster(urls)
        .await
        .unwrap();
    let limiter = Arc::new(RateLimiter::new(store, [limit()]).unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());

    // The slot of another key moves to the same node, which the store does not know yet.
    let node = cluster.master_of(Cluster::slot_of("key"));
    let mut others = (0..).map(|n| format!("other-{n}"));
    let is_elsewhere =
        |key: &String| cluster.master_of(Cluster::slot_of(key)).port() != node.port();
    let other = others.find(is_elsewhere).unwrap();
    tokio::task::block_in_place(|| cluster.migrate_slot(Cluster::slot_of(&other), node));
    tell(&["ACL", "SETUSER", "limiter", "-cluster|slots"]);
    let pause = ["CLIENT", "PAUSE", "500", "WRITE"];
    assert_eq!(node.command(&pause).text(), Some("OK"));
    let out = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.check("key").await.map(Decision::into_verdicts) }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    limiter.check(other.as_str()).await.unwrap_err();
    let error = out.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let said = std::error::Error::source(&error).unwrap().to_string();
    assert!(said.contains("NoPerm"), "{said}");

    // The server has executed the call nevertheless.
    tell(&["ACL", "SETUSER", "limiter", "+cluster|slots"]);
    assert_eq!(until_let_in(&limiter, "key").await, 2);
}
