//! Servers that are set up wrongly are found out, each in its way.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../tollgate-testkit/diagnose.rs"]
mod shared;

use tollgate_core::{Checks, Request, Store, StoreError, Verdicts};
use tollgate_redis::redis::cluster_async::ClusterConnection;
use tollgate_redis::{Diagnosis, Options, RedisStore, ServerConnection};
use tollgate_testkit::Cluster;

/// A store on one server, or in a cluster.
enum Client {
    Cluster(RedisStore<ClusterConnection>),
    Server(RedisStore<ServerConnection>),
}

impl shared::Diagnoses for Client {
    async fn on(url: &str, options: Options) -> Self {
        Self::Server(
            RedisStore::builder()
                .options(options)
                .connect(url)
                .await
                .unwrap(),
        )
    }

    async fn in_cluster(cluster: &Cluster, options: Options) -> Self {
        let store = RedisStore::builder()
            .options(options)
            .connect_cluster(cluster.urls())
            .await;
        Self::Cluster(store.unwrap())
    }

    async fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Cluster(store) => store.diagnose().await,
            Self::Server(store) => store.diagnose().await,
        }
    }
}

#[async_trait::async_trait]
impl Store for Client {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        match self {
            Self::Cluster(store) => store.decide(request).await,
            Self::Server(store) => store.decide(request).await,
        }
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        match self {
            Self::Cluster(store) => store.reset(checks).await,
            Self::Server(store) => store.reset(checks).await,
        }
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        match self {
            Self::Cluster(store) => store.supports(request),
            Self::Server(store) => store.supports(request),
        }
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
