//! Leases while servers and holders die or stand still.

use std::sync::Arc;

use tollgate_core::lease;
use tollgate_fred::FredStore;
use tollgate_scenarios::leases as shared;
use tollgate_testkit::SentinelGroup;

async fn connect(url: String) -> Arc<dyn lease::Store> {
    let builder = FredStore::builder().options(shared::options());
    Arc::new(builder.connect(&url).await.unwrap())
}

async fn connect_sentinels(group: &SentinelGroup) -> Arc<dyn lease::Store> {
    let builder = FredStore::builder().options(shared::options());
    let nodes = group.sentinel_addresses().join("&node=");
    let nodes = nodes.replacen(
        '&',
        &format!("/0?sentinelServiceName={}&", group.primary_name()),
        1,
    );
    let url = format!("redis-sentinel://{nodes}");
    Arc::new(builder.connect(&url).await.unwrap())
}

tollgate_scenarios::leases!(connect, connect_sentinels);
