//! The store keeps every promise, through each kind of client and on each kind of server.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};
use tollgate_core::{Store, lease, schedule};
use tollgate_fred::{FredStore, Options};
use tollgate_testkit::Flavor;
use tollgate_testkit::shared::{self, SharedCluster, SharedServer};

/// A deadline that suffices on a machine that is busy with other tests.
fn options() -> Options {
    Options::default().with_deadline(Duration::from_secs(10))
}

/// One client of one server.
struct Client {
    flavor: Flavor,
    server: OnceLock<SharedServer>,
}

impl Client {
    const fn of(flavor: Flavor) -> Self {
        Self {
            flavor,
            server: OnceLock::new(),
        }
    }
}

impl Client {
    async fn connect(&self) -> FredStore {
        self.connect_with(options()).await
    }

    async fn connect_with(&self, options: Options) -> FredStore {
        let server = self.server.get_or_init(|| shared::standalone(self.flavor));
        let store = FredStore::builder()
            .options(options)
            .connect(&server.url())
            .await;
        store.expect("a server that answers")
    }
}

impl ScheduleHarness for Client {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories()
    }
}

impl LeaseHarness for Client {
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories()
    }
}

impl Harness for Client {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories()
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

/// One client of one server, where every call is sent as one of a batch.
struct Batched(Client);

impl Harness for Batched {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.connect_with(options().with_batches_only()).await)
    }

    fn histories(&self) -> u32 {
        self.0.flavor.histories() / 8
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

mod batched_on_system {
    use super::*;

    conformance!(Batched(Client::of(Flavor::System)));
}

/// Two clients of one server.
struct Pool {
    flavor: Flavor,
    server: OnceLock<SharedServer>,
}

impl Pool {
    const fn of(flavor: Flavor) -> Self {
        Self {
            flavor,
            server: OnceLock::new(),
        }
    }
}

impl Harness for Pool {
    async fn store(&self) -> Arc<dyn Store> {
        let server = self.server.get_or_init(|| shared::standalone(self.flavor));
        let store = FredStore::builder()
            .options(options())
            .connect_pool(&server.url(), 2)
            .await;
        Arc::new(store.expect("a server that answers"))
    }

    fn histories(&self) -> u32 {
        Flavor::System.histories() / 2
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

/// One client of a cluster. On Valkey, every call is sent as one of a batch.
struct Cluster {
    flavor: Flavor,
    servers: OnceLock<SharedCluster>,
}

impl Cluster {
    const fn of(flavor: Flavor) -> Self {
        Self {
            flavor,
            servers: OnceLock::new(),
        }
    }
}

impl Cluster {
    async fn connect(&self) -> FredStore {
        let servers = self.servers.get_or_init(|| shared::cluster(self.flavor));
        let url = format!("redis-cluster://{}", servers.addresses()[0]);
        let options = match self.flavor {
            Flavor::Valkey91 => options().with_batches_only(),
            _ => options(),
        };
        let store = FredStore::builder().options(options).connect(&url).await;
        store.expect("a server that answers")
    }
}

impl ScheduleHarness for Cluster {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories() / 2
    }
}

impl LeaseHarness for Cluster {
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new(self.connect().await)
    }

    fn histories(&self) -> u32 {
        self.flavor.histories() / 2
    }
}

impl Harness for Cluster {
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

mod client_on_system {
    use super::*;

    conformance!(Client::of(Flavor::System));
    schedule_conformance!(Client::of(Flavor::System));
    lease_conformance!(Client::of(Flavor::System));
}

mod client_on_redis_6_2 {
    use super::*;

    conformance!(Client::of(Flavor::Redis62));
    schedule_conformance!(Client::of(Flavor::Redis62));
    lease_conformance!(Client::of(Flavor::Redis62));
}

mod client_on_valkey_9_1 {
    use super::*;

    conformance!(Client::of(Flavor::Valkey91));
    schedule_conformance!(Client::of(Flavor::Valkey91));
    lease_conformance!(Client::of(Flavor::Valkey91));
}

mod pool_on_system {
    use super::*;

    conformance!(Pool::of(Flavor::System));
}

mod cluster_on_system {
    use super::*;

    conformance!(Cluster::of(Flavor::System));
    schedule_conformance!(Cluster::of(Flavor::System));
    lease_conformance!(Cluster::of(Flavor::System));
}

mod cluster_on_redis_6_2 {
    use super::*;

    conformance!(Cluster::of(Flavor::Redis62));
    schedule_conformance!(Cluster::of(Flavor::Redis62));
    lease_conformance!(Cluster::of(Flavor::Redis62));
}

mod cluster_on_valkey_9_1 {
    use super::*;

    conformance!(Cluster::of(Flavor::Valkey91));
    schedule_conformance!(Cluster::of(Flavor::Valkey91));
    lease_conformance!(Cluster::of(Flavor::Valkey91));
}
