//! Faults on real servers during a load of calls.
//!
//! The tests of each client crate implement [`Client`] and call [`faults!`](crate::faults!), so
//! there is only one list of cases.

mod address;
mod crash;
mod failover;
mod hang;
mod load;
mod memory;
mod network;
mod scene;
mod script;
mod slots;
mod tally;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Store;
use tollgate_wire::Options;

pub use address::{
    primary_is_demoted_behind_one_address, sentinels_name_another_primary,
    server_that_refuses_calls_is_left,
};
pub use crash::{forgets_in_a_crash, is_loading, keeps_all_through_a_crash};
pub use failover::{
    cluster_promotes_a_replica, sentinels_promote_a_replica,
    sentinels_promote_a_replica_that_is_needed, sentinels_promote_a_replica_that_lags,
};
pub use hang::{hangs, is_told_to_pause};
pub use memory::has_no_memory_left;
pub use network::{
    cluster_connections_are_cut, connections_are_cut, connections_are_refused,
    cut_off_calls_are_repeated, falls_silent, replies_are_cut_off, replies_are_dropped,
    replies_are_late,
};
pub(crate) use scene::executed;
pub use script::forgets_its_scripts;
pub use slots::slots_move;

/// How a client crate connects.
pub trait Client: 'static {
    /// The client's name in the table.
    const NAME: &'static str;
    /// Whether each call is a script of its own.
    const SENDS_ALONE: bool = true;

    /// Connects to the server at `address`.
    fn server(address: &str, options: Options) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Connects to the cluster with these nodes.
    fn cluster(
        addresses: &[String],
        options: Options,
    ) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Connects to the primary that these sentinels call `name`.
    fn sentinels(
        addresses: &[String],
        name: &str,
        options: Options,
    ) -> impl Future<Output = Arc<dyn Store>> + Send;
}

/// The same client, with a store that sends every call as one of a batch.
#[derive(Debug)]
pub struct Batched<C>(PhantomData<C>);

impl<C: Client> Client for Batched<C> {
    const NAME: &'static str = C::NAME;
    const SENDS_ALONE: bool = false;

    async fn server(address: &str, options: Options) -> Arc<dyn Store> {
        C::server(address, options.with_batches_only()).await
    }

    async fn cluster(addresses: &[String], options: Options) -> Arc<dyn Store> {
        C::cluster(addresses, options.with_batches_only()).await
    }

    async fn sentinels(addresses: &[String], name: &str, options: Options) -> Arc<dyn Store> {
        C::sentinels(addresses, name, options.with_batches_only()).await
    }
}

/// The deadline of each call.
pub(crate) const DEADLINE: Duration = Duration::from_millis(250);
/// How much longer a call may take on a machine that is busy with other tests.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// The duration of a fault that must exceed the deadline.
pub(crate) const TOO_LONG: Duration = Duration::from_millis(700);

/// Runs every fault case against one client.
#[macro_export]
macro_rules! faults {
    ($client:ty: $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::faults::$case::<$client>().await;
            }
        )*
    };
    ($client:ty) => {
        $crate::faults!(
            $client:
            cluster_connections_are_cut
            cluster_promotes_a_replica
            connections_are_cut
            connections_are_refused
            cut_off_calls_are_repeated
            falls_silent
            forgets_in_a_crash
            forgets_its_scripts
            hangs
            has_no_memory_left
            is_loading
            is_told_to_pause
            keeps_all_through_a_crash
            primary_is_demoted_behind_one_address
            replies_are_cut_off
            replies_are_dropped
            replies_are_late
            sentinels_name_another_primary
            sentinels_promote_a_replica
            sentinels_promote_a_replica_that_is_needed
            sentinels_promote_a_replica_that_lags
            server_that_refuses_calls_is_left
            slots_move
        );
    };
}
