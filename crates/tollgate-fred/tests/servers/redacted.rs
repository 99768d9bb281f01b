//! No error and no `Debug` output shows the key of a call.

use tollgate_core::StoreError;
use tollgate_fred::FredStore;
use tollgate_scenarios::redacted as shared;
use tollgate_testkit::Flavor;

async fn try_connect(url: String) -> Result<FredStore, StoreError> {
    let builder = FredStore::builder().options(shared::options());
    builder.connect(&url).await
}

async fn connect(url: String) -> FredStore {
    try_connect(url).await.unwrap()
}

#[tokio::test]
async fn refusals_hide_the_key() {
    shared::refusals_hide_the_key(Flavor::chosen(), connect).await;
}

#[tokio::test]
async fn unknown_commands_hide_the_key() {
    shared::unknown_commands_hide_the_key(Flavor::chosen(), connect).await;
}

#[tokio::test]
async fn a_cluster_hides_the_key() {
    shared::a_cluster_hides_the_key(async |cluster| {
        connect(format!("redis-cluster://{}", cluster.addresses()[0])).await
    })
    .await;
}

/// The client of one node follows no redirections.
#[tokio::test]
async fn redirections_and_crossed_slots_hide_the_key() {
    shared::redirections_and_crossed_slots_hide_the_key(connect, "").await;
}

#[tokio::test]
async fn an_unknown_greeting_hides_the_password() {
    shared::an_unknown_greeting_hides_the_password("AUTH", try_connect).await;
}
