//! Faults on real servers while calls go on: what is admitted, what is counted, and for how long.

mod history;

use std::sync::Arc;

use tollgate_core::Store;
use tollgate_redis::{Options, RedisStore};

use tollgate_scenarios::faults;
use tollgate_scenarios::faults::{Batched, Client};

struct Redis;

impl Client for Redis {
    const NAME: &'static str = "redis";

    async fn server(address: &str, options: Options) -> Arc<dyn Store> {
        let store = RedisStore::builder()
            .options(options)
            .connect(format!("redis://{address}"))
            .await;
        Arc::new(store.expect("a server that answers"))
    }

    async fn cluster(addresses: &[String], options: Options) -> Arc<dyn Store> {
        let store = RedisStore::builder()
            .options(options)
            .connect_cluster(urls(addresses))
            .await;
        Arc::new(store.expect("a cluster that answers"))
    }

    async fn sentinels(addresses: &[String], name: &str, options: Options) -> Arc<dyn Store> {
        let store = RedisStore::builder()
            .options(options)
            .connect_sentinel(urls(addresses), name)
            .await;
        Arc::new(store.expect("a primary that answers"))
    }
}

fn urls(addresses: &[String]) -> impl Iterator<Item = String> {
    addresses.iter().map(|address| format!("redis://{address}"))
}

faults!(Redis);

mod batched {
    use super::*;

    faults!(Batched<Redis>);
}
