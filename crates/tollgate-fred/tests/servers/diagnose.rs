//! Diagnoses servers and clusters that are misconfigured in various ways.

use tollgate_fred::operate::Operate;
use tollgate_fred::{FredStore, Options};
use tollgate_scenarios::diagnose::{self as shared, Client};
use tollgate_testkit::Cluster;

struct Fred;

impl Client for Fred {
    async fn server(url: &str, options: Options) -> Box<dyn Operate> {
        let store = FredStore::builder().options(options).connect(url).await;
        Box::new(store.unwrap())
    }

    async fn cluster(cluster: &Cluster, options: Options) -> Box<dyn Operate> {
        let url = format!("redis-cluster://{}", cluster.addresses()[0]);
        Self::server(&url, options).await
    }
}

#[tokio::test]
async fn a_well_configured_server_has_no_warnings() {
    shared::finds_nothing_wrong::<Fred>().await;
}

#[tokio::test]
async fn settings_that_endanger_limits_are_reported() {
    shared::finds_dangerous_settings::<Fred>().await;
}

#[tokio::test]
async fn replicas_that_writes_do_not_wait_for_are_reported() {
    shared::finds_replicas_that_are_not_waited_for::<Fred>().await;
}

#[tokio::test]
async fn commands_that_a_user_lacks_are_named() {
    shared::finds_what_a_user_lacks::<Fred>().await;
}

#[tokio::test]
async fn slow_and_silent_servers_are_reported() {
    shared::finds_slow_servers::<Fred>().await;
}

#[tokio::test]
async fn states_ahead_of_the_clock_are_reported() {
    shared::finds_states_ahead::<Fred>().await;
}

#[tokio::test]
async fn missing_slots_and_masters_of_a_cluster_are_reported() {
    shared::finds_what_a_cluster_lacks::<Fred>().await;
}
