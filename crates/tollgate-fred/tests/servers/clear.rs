//! States are cleared in bulk, on one server and in a cluster.

use tollgate_core::ErrorKind;
use tollgate_fred::FredStore;
use tollgate_fred::operate::{Clear, Operate};
use tollgate_scenarios::clear as shared;
use tollgate_testkit::{Cluster, Flavor, Server};

use shared::{
    begin_migration, clears_many_in_small_steps, clears_what_is_ahead, cluster, options, snapshot,
};

fn url(cluster: &Cluster) -> String {
    format!("redis-cluster://{}", cluster.addresses()[0])
}

async fn connect(url: &str) -> FredStore {
    let builder = FredStore::builder().options(options());
    builder.connect(url).await.unwrap()
}

#[tokio::test]
async fn only_states_ahead_are_cleared_on_a_server() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        clears_what_is_ahead(connect(&server.url()).await, &[server]).await;
    }
}

#[tokio::test]
async fn only_states_ahead_are_cleared_through_a_pool() {
    let server = Server::start(Flavor::System);
    let builder = FredStore::builder().options(options());
    let store = builder.connect_pool(&server.url(), 3).await;
    clears_what_is_ahead(store.unwrap(), &[server]).await;
}

#[tokio::test]
async fn only_states_ahead_are_cleared_in_a_cluster() {
    let cluster = cluster();
    clears_what_is_ahead(connect(&url(&cluster)).await, cluster.nodes()).await;
}

#[tokio::test]
async fn many_keys_are_cleared_in_small_steps() {
    let server = Server::start(Flavor::System);
    clears_many_in_small_steps(connect(&server.url()).await, &[server]).await;
    let cluster = cluster();
    clears_many_in_small_steps(connect(&url(&cluster)).await, cluster.nodes()).await;
}

/// fred does not report where a key has moved, so clearing fails while its slot moves.
#[tokio::test]
async fn clearing_can_be_repeated_after_a_slot_has_moved() {
    let cluster = cluster();
    let builder = FredStore::builder().options(options());
    let builder = builder.deadline(std::time::Duration::from_secs(1));
    let store = builder.connect(&url(&cluster)).await.unwrap();
    let migration = begin_migration(&cluster);
    let error = store.clear(&Clear::new(), &mut |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!snapshot(cluster.nodes(), |_| true).is_empty());
    while migration.move_keys(7) > 0 {}
    migration.finish();
    store.clear(&Clear::new(), &mut |_| ()).await.unwrap();
    assert_eq!(snapshot(cluster.nodes(), |_| true).len(), 0);
}
