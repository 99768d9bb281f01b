//! The longest and the shortest times that can be set.

#[path = "../../tollgate-testkit/extremes.rs"]
mod shared;

use tollgate_fred::FredStore;
use tollgate_testkit::{Cluster, Flavor, Server};

#[tokio::test]
async fn a_server_takes_extreme_times() {
    let server = Server::start(Flavor::System);
    let url = server.url();
    shared::are_taken(|options| FredStore::connect(&url, options)).await;
    shared::are_taken(|options| FredStore::connect_pool(&url, 2, options)).await;
}

#[tokio::test]
async fn a_cluster_takes_extreme_times() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    shared::are_taken(|options| FredStore::connect(&url, options)).await;
}
