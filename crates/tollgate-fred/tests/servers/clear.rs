//! States are cleared in bulk, on one server and in a cluster.

use tollgate_core::ErrorKind;
use tollgate_fred::FredStore;
use tollgate_fred::operate::{Clear, Operate};
use tollgate_scenarios::clear as shared;
use tollgate_testkit::{Cluster, Flavor, Server};

use shared::{clears_many_in_small_steps, clears_what_is_ahead, cluster, options, snapshot};

fn url(cluster: &Cluster) -> String {
    format!("redis-cluster://{}", cluster.addresses()[0])
}

#[tokio::test]
async fn only_states_ahead_are_cleared_on_a_server() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = FredStore::builder()
            .options(options("shop"))
            .connect(&server.url())
            .await;
        clears_what_is_ahead(store.unwrap(), &[server], "shop").await;
    }
}

#[tokio::test]
async fn only_states_ahead_are_cleared_through_a_pool() {
    let server = Server::start(Flavor::System);
    let store = FredStore::builder()
        .options(options("shop"))
        .connect_pool(&server.url(), 3)
        .await;
    clears_what_is_ahead(store.unwrap(), &[server], "shop").await;
}

#[tokio::test]
async fn only_states_ahead_are_cleared_in_a_cluster() {
    let cluster = cluster();
    let store = FredStore::builder()
        .options(options("shop"))
        .connect(&url(&cluster))
        .await;
    clears_what_is_ahead(store.unwrap(), cluster.nodes(), "shop").await;
}

#[tokio::test]
async fn many_keys_are_cleared_in_small_steps() {
    let server = Server::start(Flavor::System);
    let store = FredStore::builder()
        .options(options("shop"))
        .connect(&server.url())
        .await;
    clears_many_in_small_steps(store.unwrap(), &[server], "shop").await;
    let cluster = cluster();
    let store = FredStore::builder()
        .options(options("shop"))
        .connect(&url(&cluster))
        .await;
    clears_many_in_small_steps(store.unwrap(), cluster.nodes(), "shop").await;
}

/// fred does not report where a key has moved, so clearing fails while its slot moves.
#[tokio::test]
async fn clearing_can_be_repeated_after_a_slot_has_moved() {
    let cluster = cluster();
    let options = options("shop").with_deadline(std::time::Duration::from_secs(1));
    let store = FredStore::builder()
        .options(options)
        .connect(&url(&cluster))
        .await
        .unwrap();
    let slot = Cluster::slot_of("moving");
    let from = cluster.master_of(slot);
    for number in 0..20 {
        let key = format!("shop:bucket:gcra:v1:{{moving}}:{number}");
        assert_eq!(from.command(&["SET", &key, "x"]).error(), None);
    }
    let mut nodes = cluster.nodes().iter();
    let to = nodes.find(|node| node.port() != from.port()).unwrap();
    let migration = cluster.begin_migration(slot, to);
    assert_eq!(migration.move_keys(7), 7);
    let error = store.clear(&Clear::new(), &mut |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!snapshot(cluster.nodes(), |_| true).is_empty());
    while migration.move_keys(7) > 0 {}
    migration.finish();
    store.clear(&Clear::new(), &mut |_| ()).await.unwrap();
    assert_eq!(snapshot(cluster.nodes(), |_| true).len(), 0);
}
