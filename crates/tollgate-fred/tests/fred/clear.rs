//! States are cleared in bulk through a pool, and in a cluster whose slots move.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_fred::FredStoreBuilder;
use tollgate_fred::operate::{Clear, Operate};
use tollgate_scenarios::clear as shared;
use tollgate_testkit::{Flavor, Server};

use shared::{begin_migration, clears_what_is_ahead, cluster, options, snapshot};

#[tokio::test]
async fn only_states_ahead_are_cleared_through_a_pool() {
    let server = Server::start(Flavor::System);
    let builder = FredStoreBuilder::from(options());
    let store = builder.connect_pool(&server.url(), 3).await;
    clears_what_is_ahead(Arc::new(store.unwrap()), &[server]).await;
}

/// fred does not report where a key has moved, so clearing fails while its slot moves.
#[tokio::test]
async fn clearing_can_be_repeated_after_a_slot_has_moved() {
    let cluster = cluster();
    let builder = FredStoreBuilder::from(options());
    let builder = builder.deadline(Duration::from_secs(1));
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let store = builder.connect(&url).await.unwrap();
    let migration = begin_migration(&cluster);
    let error = store.clear(&Clear::new(), &mut |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!snapshot(cluster.nodes(), |_| true).is_empty());
    while migration.move_keys(7) > 0 {}
    migration.finish();
    store.clear(&Clear::new(), &mut |_| ()).await.unwrap();
    assert_eq!(snapshot(cluster.nodes(), |_| true).len(), 0);
}
