//! Faults on real servers while calls go on: what is admitted, what is counted, and for how long.

use std::sync::Arc;

use tollgate_core::Store;
use tollgate_fred::{FredStore, Options};

use tollgate_scenarios::faults;
use tollgate_scenarios::faults::{Batched, Client};

struct Fred;

impl Client for Fred {
    const NAME: &'static str = "fred";

    async fn server(address: &str, options: Options) -> Arc<dyn Store> {
        connect(&format!("redis://{address}"), options).await
    }

    async fn cluster(addresses: &[String], options: Options) -> Arc<dyn Store> {
        let nodes = addresses.join("&node=");
        let nodes = nodes.replacen("&node=", "?node=", 1);
        connect(&format!("redis-cluster://{nodes}"), options).await
    }

    async fn sentinels(addresses: &[String], name: &str, options: Options) -> Arc<dyn Store> {
        let (first, others) = addresses.split_first().expect("a Sentinel");
        let others: String = others.iter().map(|node| format!("&node={node}")).collect();
        let url = format!("redis-sentinel://{first}/0?sentinelServiceName={name}{others}");
        connect(&url, options).await
    }
}

async fn connect(url: &str, options: Options) -> Arc<dyn Store> {
    let store = FredStore::builder().options(options).connect(url).await;
    Arc::new(store.expect("a server that answers"))
}

faults!(Fred);

mod batched {
    use super::*;

    faults!(
        Batched<Fred>:
        cluster_connections_are_cut
        connections_are_cut
        falls_silent
        forgets_its_scripts
        has_no_memory_left
        primary_is_demoted_behind_one_address
        replies_are_dropped
        replies_are_late
        sentinels_name_another_primary
        server_that_refuses_calls_is_left
        slots_move
    );
}
