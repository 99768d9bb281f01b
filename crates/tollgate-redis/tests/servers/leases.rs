//! Leases while servers and holders die or stand still.

use std::sync::Arc;

use tollgate_core::lease;
use tollgate_redis::RedisStore;
use tollgate_scenarios::leases as shared;
use tollgate_testkit::SentinelGroup;

async fn connect(url: String) -> Arc<dyn lease::Store> {
    let builder = RedisStore::builder().options(shared::options());
    Arc::new(builder.connect(url).await.unwrap())
}

async fn connect_sentinels(group: &SentinelGroup) -> Arc<dyn lease::Store> {
    let builder = RedisStore::builder().options(shared::options());
    let sentinels = group.sentinel_addresses();
    let urls: Vec<_> = sentinels.iter().map(|of| format!("redis://{of}")).collect();
    let store = builder.connect_sentinel(urls, group.primary_name()).await;
    Arc::new(store.unwrap())
}

tollgate_scenarios::leases!(connect, connect_sentinels);
