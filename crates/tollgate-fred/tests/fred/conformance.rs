//! The store keeps every promise, through each kind of client and on each kind of server.

use tollgate_conformance::conformance;
use tollgate_fred::fred::clients::Pool;
use tollgate_fred::{FredStore, FredStoreBuilder};
use tollgate_scenarios::all_conformance;
use tollgate_scenarios::conformance::{cluster, options, server};
use tollgate_testkit::Flavor;
use tollgate_wire::Options;

async fn connect(url: String, options: Options) -> FredStore {
    let builder = FredStoreBuilder::from(options);
    builder.connect(&url).await.unwrap()
}

async fn client(url: String) -> FredStore {
    connect(url, options()).await
}

/// Every call is sent as one of a batch.
async fn batched(url: String) -> FredStore {
    connect(url, options().with_batches_only()).await
}

async fn pool(url: String) -> FredStore<Pool> {
    let builder = FredStoreBuilder::from(options());
    builder.connect_pool(&url, 2).await.unwrap()
}

async fn clustered(urls: Vec<String>, options: Options) -> FredStore {
    connect(urls[0].replace("redis:", "redis-cluster:"), options).await
}

mod every_server_batched {
    use super::*;

    conformance!(server(Flavor::System, 8, batched));
}

mod every_server_pool {
    use super::*;

    conformance!(server(Flavor::System, 2, pool));
}

// The scripts keep every promise on each server, as the tests of redis-rs show.
all_conformance! {
    client_on_system: server(Flavor::System, 1, client) => connection;
    every_server_client: server(Flavor::System, 1, client);
    client_on_redis_6_2: server(Flavor::Redis62, 1, client) => connection;
    client_on_valkey_9_1: server(Flavor::Valkey91, 1, client) => connection;
    cluster_on_system: cluster(Flavor::System, clustered) => connection;
    every_server_cluster: cluster(Flavor::System, clustered);
    cluster_on_redis_6_2: cluster(Flavor::Redis62, clustered) => connection;
    cluster_on_valkey_9_1: cluster(Flavor::Valkey91, clustered) => connection;
}
