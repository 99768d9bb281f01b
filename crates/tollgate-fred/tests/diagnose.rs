//! Servers that are set up wrongly are found out, each in its way.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../tollgate-testkit/diagnose.rs"]
mod shared;

use tollgate_fred::{Diagnosis, FredStore, Options};
use tollgate_testkit::Cluster;

type Client = FredStore;

impl shared::Diagnoses for Client {
    async fn on(url: &str, options: Options) -> Self {
        Self::builder().options(options).connect(url).await.unwrap()
    }

    async fn in_cluster(cluster: &Cluster, options: Options) -> Self {
        let url = format!("redis-cluster://{}", cluster.addresses()[0]);
        Self::builder()
            .options(options)
            .connect(&url)
            .await
            .unwrap()
    }

    async fn diagnosis(&self) -> Diagnosis {
        self.diagnose().await
    }
}
#[tokio::test]
async fn a_server_that_is_set_up_well_has_no_warnings() {
    shared::finds_nothing_wrong::<Client>().await;
}

#[tokio::test]
async fn settings_that_endanger_limits_are_reported() {
    shared::finds_dangerous_settings::<Client>().await;
}

#[tokio::test]
async fn replicas_that_writes_do_not_wait_for_are_reported() {
    shared::finds_replicas_that_are_not_waited_for::<Client>().await;
}

#[tokio::test]
async fn commands_that_a_user_lacks_are_named() {
    shared::finds_what_a_user_lacks::<Client>().await;
}

#[tokio::test]
async fn slow_and_silent_servers_are_reported() {
    shared::finds_slow_servers::<Client>().await;
}

#[tokio::test]
async fn states_ahead_of_the_clock_are_reported() {
    shared::finds_states_ahead::<Client>().await;
}

#[tokio::test]
async fn missing_slots_and_masters_of_a_cluster_are_reported() {
    shared::finds_what_a_cluster_lacks::<Client>().await;
}
