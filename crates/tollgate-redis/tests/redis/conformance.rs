//! The store keeps every promise, on each kind of connection and each kind of server.

use std::sync::Arc;

use tollgate_conformance::{Harness, conformance};
use tollgate_core::Store;
use tollgate_redis::connection::ServerConnection;
use tollgate_redis::redis::aio::MultiplexedConnection;
use tollgate_redis::redis::cluster_async::ClusterConnection;
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_scenarios::all_conformance;
use tollgate_scenarios::conformance::{cluster, options, server};
use tollgate_testkit::Flavor;
use tollgate_testkit::shared::{self, SharedServer};
use tollgate_wire::Options;

use crate::client::multiplexed as connect;

async fn multiplexed(url: String) -> RedisStore<MultiplexedConnection> {
    RedisStoreBuilder::from(options())
        .over(connect(url).await)
        .unwrap()
}

/// Every call is sent as one of a batch.
async fn batched(url: String) -> RedisStore<MultiplexedConnection> {
    RedisStoreBuilder::from(options().with_batches_only())
        .over(connect(url).await)
        .unwrap()
}

async fn manager(url: String) -> RedisStore<ServerConnection> {
    let builder = RedisStoreBuilder::from(options());
    builder.connect(url).await.unwrap()
}

async fn clustered(urls: Vec<String>, options: Options) -> RedisStore<ClusterConnection> {
    let builder = RedisStoreBuilder::from(options);
    builder.connect_cluster(urls).await.unwrap()
}

/// One connection to one server, without scripts.
struct WithoutScripts {
    flavor: Flavor,
    server: SharedServer,
}

impl WithoutScripts {
    fn on(flavor: Flavor) -> Self {
        let server = shared::standalone(flavor);
        Self { flavor, server }
    }
}

impl Harness for WithoutScripts {
    async fn store(&self) -> Arc<dyn Store> {
        let connection = connect(self.server.url()).await;
        Arc::new(
            RedisStoreBuilder::from(options())
                .plain(connection, &[])
                .unwrap(),
        )
    }

    fn histories(&self) -> u32 {
        self.flavor.histories()
    }

    fn applies(&self, promise: &str) -> Option<bool> {
        // `PlainStore` refuses several limits, chosen instants, and parts of a cost.
        const REFUSED: [&str; 9] = [
            "fixed_window.a_changed_limit_applies_at_once",
            "fixed_window.a_clock_that_steps_back_admits_no_more",
            "fixed_window.a_late_refund_gives_nothing",
            "fixed_window.an_idle_key_equals_a_new_key",
            "fixed_window.reaches_its_bound",
            "fixed_window.reset_after_is_exact",
            "fixed_window.retry_after_is_exact",
            "fixed_window.takes_what_unit_calls_would",
            "store.is_all_or_nothing_at_its_own_clock",
        ];
        let families = ["fixed_window.", "store."];
        let of_its_limits = families.iter().any(|family| promise.starts_with(family));
        Some(of_its_limits && !REFUSED.contains(&promise))
    }
}

mod without_scripts_on_system {
    use super::*;

    conformance!(WithoutScripts::on(Flavor::System), in one test);
}

mod without_scripts_on_valkey_9_1 {
    use super::*;

    conformance!(WithoutScripts::on(Flavor::Valkey91), in one test);
}

mod every_server_batched {
    use super::*;

    conformance!(server(Flavor::System, 4, batched));
}

mod every_server_manager {
    use super::*;

    conformance!(server(Flavor::System, 2, manager));
}

all_conformance! {
    multiplexed_on_system: server(Flavor::System, 1, multiplexed);
    multiplexed_on_redis_6_2: server(Flavor::Redis62, 1, multiplexed);
    multiplexed_on_valkey_9_1: server(Flavor::Valkey91, 1, multiplexed);
    cluster_on_system: cluster(Flavor::System, clustered) => connection;
    every_server_cluster: cluster(Flavor::System, clustered);
    cluster_on_redis_6_2: cluster(Flavor::Redis62, clustered) => connection;
    cluster_on_valkey_9_1: cluster(Flavor::Valkey91, clustered) => connection;
}
