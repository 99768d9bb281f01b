//! Leases while servers and holders die or stand still.

use std::sync::Arc;

use tollgate_core::LeaseStore;
use tollgate_redis::RedisStore;
use tollgate_scenarios::leases as shared;
use tollgate_testkit::SentinelGroup;

async fn connect(url: String) -> Arc<dyn LeaseStore> {
    let builder = RedisStore::builder().options(shared::options());
    Arc::new(builder.connect(url).await.unwrap())
}

async fn connect_sentinels(group: &SentinelGroup) -> Arc<dyn LeaseStore> {
    let builder = RedisStore::builder().options(shared::options());
    let sentinels = group.sentinel_addresses();
    let urls: Vec<_> = sentinels.iter().map(|of| format!("redis://{of}")).collect();
    let store = builder.connect_sentinel(urls, group.primary_name()).await;
    Arc::new(store.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_learn_of_a_hanging_server_before_others_get_their_places() {
    shared::holders_learn_of_a_hanging_server_before_others_get_their_places(connect).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_stands_still_keeps_no_place() {
    shared::a_holder_that_stands_still_keeps_no_place(connect).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_leases_grants_at_most_as_many_more() {
    shared::a_server_that_forgets_leases_grants_at_most_as_many_more(connect).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_survive_a_server_that_has_them_on_disk() {
    shared::leases_survive_a_server_that_has_them_on_disk(connect).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_grants_again_what_it_had_not_heard_of() {
    shared::a_promoted_replica_grants_again_what_it_had_not_heard_of(connect_sentinels).await;
}
