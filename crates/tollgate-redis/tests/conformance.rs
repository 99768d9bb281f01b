//! The store keeps every promise, on each kind of connection and each kind of server.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};
use tollgate_core::{Store, lease, schedule};
use tollgate_redis::{Options, PlainStore, RedisStore, connection, redis};
use tollgate_testkit::Flavor;
use tollgate_testkit::shared::{self, SharedCluster, SharedServer};

/// A deadline that suffices on a machine that is busy with other tests.
fn options() -> Options {
    Options::default().with_deadline(Duration::from_secs(10))
}

/// One connection to one server.
struct Multiplexed {
    flavor: Flavor,
    server: OnceLock<SharedServer>,
}

impl Multiplexed {
    const fn to(flavor: Flavor) -> Self {
        Self {
            flavor,
            server: OnceLock::new(),
        }
    }
}

impl Multiplexed {
    async fn connect(&self) -> redis::aio::MultiplexedConnection {
        let server = self.server.get_or_init(|| shared::standalone(self.flavor));
        let client = redis::Client::open(server.url()).unwrap();
        let config = connection::multiplexed();
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        connection.await.unwrap()
    }
}

impl Harness for Multiplexed {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(RedisStore::with_options(self.connect().await, options()))
    }

    fn histories(&self) -> u32 {
        self.flavor.histories()
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

impl ScheduleHarness for Multiplexed {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new(RedisStore::with_options(self.connect().await, options()))
    }

    fn histories(&self) -> u32 {
        self.flavor.histories()
    }
}

impl LeaseHarness for Multiplexed {
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new(RedisStore::with_options(self.connect().await, options()))
    }

    fn histories(&self) -> u32 {
        self.flavor.histories()
    }
}

mod multiplexed_on_system {
    use super::*;

    conformance!(Multiplexed::to(Flavor::System));
    schedule_conformance!(Multiplexed::to(Flavor::System));
    lease_conformance!(Multiplexed::to(Flavor::System));
}

/// One connection to one server, where every call is sent as one of a batch.
struct Batched(Multiplexed);

impl Harness for Batched {
    async fn store(&self) -> Arc<dyn Store> {
        let options = options().with_batches_only();
        Arc::new(RedisStore::with_options(self.0.connect().await, options))
    }

    fn histories(&self) -> u32 {
        self.0.flavor.histories() / 4
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

mod batched_on_system {
    use super::*;

    conformance!(Batched(Multiplexed::to(Flavor::System)));
}

mod multiplexed_on_redis_6_2 {
    use super::*;

    conformance!(Multiplexed::to(Flavor::Redis62));
    schedule_conformance!(Multiplexed::to(Flavor::Redis62));
    lease_conformance!(Multiplexed::to(Flavor::Redis62));
}

mod multiplexed_on_valkey_9_1 {
    use super::*;

    conformance!(Multiplexed::to(Flavor::Valkey91));
    schedule_conformance!(Multiplexed::to(Flavor::Valkey91));
    lease_conformance!(Multiplexed::to(Flavor::Valkey91));
}

/// One connection to one server, without scripts.
struct WithoutScripts(Multiplexed);

impl Harness for WithoutScripts {
    async fn store(&self) -> Arc<dyn Store> {
        let connection = self.0.connect().await;
        Arc::new(PlainStore::new(connection, options(), &[]).unwrap())
    }

    fn histories(&self) -> u32 {
        self.0.flavor.histories()
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

    conformance!(WithoutScripts(Multiplexed::to(Flavor::System)));
}

mod without_scripts_on_valkey_9_1 {
    use super::*;

    conformance!(WithoutScripts(Multiplexed::to(Flavor::Valkey91)));
}

mod manager_on_system {
    use super::*;

    static SERVER: OnceLock<SharedServer> = OnceLock::new();

    struct Manager;

    impl Harness for Manager {
        async fn store(&self) -> Arc<dyn Store> {
            let server = SERVER.get_or_init(|| shared::standalone(Flavor::System));
            let store = RedisStore::builder()
                .options(options())
                .connect(server.url())
                .await;
            Arc::new(store.unwrap())
        }

        fn histories(&self) -> u32 {
            Flavor::System.histories() / 2
        }

        fn applies(&self, _promise: &str) -> Option<bool> {
            Some(true)
        }
    }

    conformance!(Manager);
}

/// One connection to a cluster. On Valkey, every call is sent as one of a batch.
struct Clustered {
    flavor: Flavor,
    cluster: OnceLock<SharedCluster>,
}

impl Clustered {
    const fn of(flavor: Flavor) -> Self {
        Self {
            flavor,
            cluster: OnceLock::new(),
        }
    }
}

impl Clustered {
    async fn connect(&self) -> RedisStore<redis::cluster_async::ClusterConnection> {
        let cluster = self.cluster.get_or_init(|| shared::cluster(self.flavor));
        let options = match self.flavor {
            Flavor::Valkey91 => options().with_batches_only(),
            _ => options(),
        };
        let store = RedisStore::builder()
            .options(options)
            .connect_cluster(cluster.urls())
            .await;
        store.unwrap()
    }
}

impl ScheduleHarness for Clustered {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories() / 2
    }
}

impl LeaseHarness for Clustered {
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories() / 2
    }
}

impl Harness for Clustered {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories() / 2
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

mod cluster_on_system {
    use super::*;

    conformance!(Clustered::of(Flavor::System));
    schedule_conformance!(Clustered::of(Flavor::System));
    lease_conformance!(Clustered::of(Flavor::System));
}

mod cluster_on_redis_6_2 {
    use super::*;

    conformance!(Clustered::of(Flavor::Redis62));
    schedule_conformance!(Clustered::of(Flavor::Redis62));
    lease_conformance!(Clustered::of(Flavor::Redis62));
}

mod cluster_on_valkey_9_1 {
    use super::*;

    conformance!(Clustered::of(Flavor::Valkey91));
    schedule_conformance!(Clustered::of(Flavor::Valkey91));
    lease_conformance!(Clustered::of(Flavor::Valkey91));
}
