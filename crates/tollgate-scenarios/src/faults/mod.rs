//! Faults on real servers during a load of calls.

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

use std::time::Duration;

use crate::client::Client;

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

/// The deadline of each call.
pub(crate) const DEADLINE: Duration = Duration::from_millis(250);
/// How much longer a call may take on a machine that is busy with other tests.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// The duration of a fault that must exceed the deadline.
pub(crate) const TOO_LONG: Duration = Duration::from_millis(700);
