//! Faults on real servers while calls go on.
//!
//! The tests of a client crate implement [`Client`], and write [`faults!`](crate::faults!) once: so
//! there is one list of cases.

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

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Store;
use tollgate_core::wire::Options;

pub use crash::{forgets_in_a_crash, is_loading, keeps_all_through_a_crash};
pub use failover::{
    cluster_promotes_a_replica, sentinels_promote_a_replica,
    sentinels_promote_a_replica_that_is_needed, sentinels_promote_a_replica_that_lags,
};
pub use hang::{hangs, is_told_to_pause};
pub use memory::has_no_memory_left;
pub use network::{
    cluster_connections_are_cut, connections_are_cut, connections_are_refused, falls_silent,
    replies_are_cut_off, replies_are_dropped, replies_are_late,
};
pub use script::forgets_its_scripts;
pub use slots::slots_move;

/// How a client crate connects.
pub trait Client: 'static {
    /// What the table calls it.
    const NAME: &'static str;

    /// Connects to the server at `address`.
    fn server(address: &str, options: Options) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Connects to the cluster of which these are nodes.
    fn cluster(
        addresses: &[String],
        options: Options,
    ) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Connects to the primary that these Sentinels call `name`.
    fn sentinels(
        addresses: &[String],
        name: &str,
        options: Options,
    ) -> impl Future<Output = Arc<dyn Store>> + Send;
}

/// How long a call may take by its options.
pub(crate) const DEADLINE: Duration = Duration::from_millis(250);
/// How much later a call may end on a machine that is busy with other tests.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// How long a fault lasts that must be longer than the deadline.
pub(crate) const TOO_LONG: Duration = Duration::from_millis(700);

/// Runs every fault against one client.
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
            falls_silent
            forgets_in_a_crash
            forgets_its_scripts
            hangs
            has_no_memory_left
            is_loading
            is_told_to_pause
            keeps_all_through_a_crash
            replies_are_cut_off
            replies_are_dropped
            replies_are_late
            sentinels_promote_a_replica
            sentinels_promote_a_replica_that_is_needed
            sentinels_promote_a_replica_that_lags
            slots_move
        );
    };
}
