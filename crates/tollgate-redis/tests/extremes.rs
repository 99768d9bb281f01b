//! The longest and the shortest times that can be set.

#[path = "../../tollgate-testkit/extremes.rs"]
mod shared;

use tollgate_redis::RedisStore;
use tollgate_testkit::{Cluster, Flavor, SentinelGroup, Server};

#[tokio::test]
async fn a_server_takes_extreme_times() {
    let server = Server::start(Flavor::System);
    shared::are_taken(|options| RedisStore::connect(server.url(), options)).await;
}

#[tokio::test]
async fn a_cluster_takes_extreme_times() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    shared::are_taken(|options| RedisStore::connect_cluster(cluster.urls(), options)).await;
}

#[tokio::test]
async fn sentinels_take_extreme_times() {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let connect = |options| RedisStore::connect_sentinel(urls.clone(), name, options);
    shared::are_taken(connect).await;
}
