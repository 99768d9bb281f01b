//! Tests of the stores on real servers: every promise, every scenario, and what only redis-rs does.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod blocking;
mod clear;
mod client;
mod cluster;
mod conformance;
mod examples;
mod extremes;
mod greeting;
mod passwords;
mod plain;
mod published;
mod redacted;
mod redirections;
mod runtimes;
mod sentinels;
mod tls;

use client::Redis;

tollgate_scenarios::scenarios!(Redis { batched: false }, Redis { batched: true });

/// The faults that the batches of another client are not put through again.
mod every_server_batched {
    use super::*;

    tollgate_scenarios::scenarios! {
        Redis { batched: true };
        faults:
            cluster_promotes_a_replica
            connections_are_refused
            cut_off_calls_are_repeated
            forgets_in_a_crash
            hangs
            is_loading
            is_told_to_pause
            keeps_all_through_a_crash
            replies_are_cut_off
            sentinels_promote_a_replica
            sentinels_promote_a_replica_that_is_needed
            sentinels_promote_a_replica_that_lags;
    }
}
