//! The conformance suites, on servers that all tests share.

use std::sync::Arc;
use std::time::Duration;

use tollgate_conformance::{Harness, LeaseHarness, ScheduleHarness};
use tollgate_core::{Store, lease, schedule};
use tollgate_testkit::{Flavor, shared};
use tollgate_wire::Options;

/// Makes a module with the tests of all suites for each harness: of all promises, or of those that
/// depend on the `connection`.
///
/// The ordinary run leaves out modules whose names contain `every_server`, or the name of another server
/// than the system's.
#[macro_export]
macro_rules! all_conformance {
    ($($module:ident: $harness:expr $(=> $which:ident)?;)*) => {$(
        mod $module {
            use super::*;

            tollgate_conformance::conformance!($harness $(, $which)?);
            tollgate_conformance::schedule_conformance!($harness $(, $which)?);
            tollgate_conformance::lease_conformance!($harness $(, $which)?);
        }
    )*};
}

/// The stores that a function connects.
struct Stores<C> {
    connect: C,
    histories: u32,
}

impl<C, F, S> Harness for Stores<C>
where
    C: Fn() -> F + Send + Sync,
    F: Future<Output = S> + Send,
    S: Store + 'static,
{
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new((self.connect)().await)
    }

    fn histories(&self) -> u32 {
        self.histories
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

impl<C, F, S> ScheduleHarness for Stores<C>
where
    C: Fn() -> F + Send + Sync,
    F: Future<Output = S> + Send,
    S: schedule::Store + 'static,
{
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new((self.connect)().await)
    }

    fn histories(&self) -> u32 {
        self.histories
    }
}

impl<C, F, S> LeaseHarness for Stores<C>
where
    C: Fn() -> F + Send + Sync,
    F: Future<Output = S> + Send,
    S: lease::Store + 'static,
{
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new((self.connect)().await)
    }

    fn histories(&self) -> u32 {
        self.histories
    }
}

/// Returns options with a deadline that suffices on a machine that is busy with other tests.
pub fn options() -> Options {
    Options::default().with_deadline(Duration::from_secs(10))
}

/// Returns the stores that `connect` connects to the URL of a server, with one of `part` histories.
pub fn server<F, S>(
    flavor: Flavor,
    part: u32,
    connect: impl Fn(String) -> F + Send + Sync,
) -> impl Harness + LeaseHarness + ScheduleHarness
where
    F: Future<Output = S> + Send,
    S: Store + lease::Store + schedule::Store + 'static,
{
    let server = shared::standalone(flavor);
    Stores {
        connect: move || connect(server.url()),
        histories: flavor.histories().div_ceil(part),
    }
}

/// Returns the stores that `connect` connects to the URLs of a cluster. On Valkey, every call is
/// sent as one of a batch.
pub fn cluster<F, S>(
    flavor: Flavor,
    connect: impl Fn(Vec<String>, Options) -> F + Send + Sync,
) -> impl Harness + LeaseHarness + ScheduleHarness
where
    F: Future<Output = S> + Send,
    S: Store + lease::Store + schedule::Store + 'static,
{
    let cluster = shared::cluster(flavor);
    let options = match flavor {
        Flavor::Valkey91 => options().with_batches_only(),
        _ => options(),
    };
    Stores {
        connect: move || connect(cluster.urls(), options.clone()),
        histories: flavor.histories() / 2,
    }
}
