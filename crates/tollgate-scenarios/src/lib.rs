#![doc = include_str!("../README.md")]
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a panic is a failed test, and so is an error"
)]

pub mod batches;
pub mod clear;
mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod diagnose;
pub mod extremes;
pub mod faults;
pub mod leases;
pub mod outage;
pub mod published;
pub mod redacted;
pub mod refusals;
pub mod secured;

pub use client::{AnyStore, Client, Connected};

/// Makes the module `scenarios`, with a test of each scenario, for a [`Client`], and for the same one if it sends
/// batches.
///
/// With a list of modules of this crate and their scenarios, it makes a test of each of those, in a
/// module of the same name.
#[macro_export]
macro_rules! scenarios {
    ($client:expr, $batched:expr) => {
        mod scenarios {
            #[allow(unused_imports, reason = "the client may be named in full")]
            use super::*;

            $crate::scenarios! {
                $client;
                batches:
                    a_runtime_that_stands_still_holds_up_nobody
                    a_task_that_blocks_its_thread_holds_up_no_other
                    callers_that_give_up_are_counted_or_not_and_change_nothing_for_others
                    calls_at_once_share_scripts_only_if_that_is_asked_for;
                clear:
                    many_keys_are_cleared_in_small_steps
                    only_states_ahead_are_cleared
                    only_states_ahead_are_cleared_behind_sentinels
                    only_states_ahead_are_cleared_in_a_cluster;
                diagnose:
                    finds_dangerous_settings
                    finds_nothing_wrong
                    finds_replicas_that_are_not_waited_for
                    finds_slow_servers
                    finds_what_a_cluster_lacks
                    finds_what_a_user_lacks;
                extremes:
                    a_cluster_takes_extreme_times
                    a_server_takes_extreme_times
                    sentinels_take_extreme_times;
                faults:
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
                    slots_move;
                leases:
                    a_holder_that_stands_still_keeps_no_place
                    a_promoted_replica_grants_again_what_it_had_not_heard_of
                    a_server_that_forgets_leases_grants_at_most_as_many_more
                    holders_learn_of_a_hanging_server_before_others_get_their_places
                    leases_survive_a_server_that_has_them_on_disk;
                outage:
                    a_call_with_a_garbled_reply_is_not_sent_again
                    a_stopped_server_fails_calls_at_once_until_it_is_back
                    calls_beyond_those_in_flight_are_known_not_to_be_sent;
                redacted:
                    a_cluster_hides_the_key
                    an_unknown_greeting_hides_the_password
                    redirections_and_crossed_slots_hide_the_key
                    refusals_hide_the_key
                    unknown_commands_hide_the_key;
                refusals:
                    only_a_cluster_refuses_keys_of_several_slots_together
                    only_what_was_not_run_is_sent_again;
                secured:
                    a_call_after_a_password_change_counts_nothing
                    a_cluster_is_given_its_password
                    a_server_is_given_its_password
                    a_server_is_trusted_through_its_authority
                    a_server_may_ask_for_a_certificate
                    an_address_is_enough_if_the_system_trusts_the_authority
                    tls_on_one_side_only_fails_quickly;
            }

            mod every_server_batched {
                #[allow(unused_imports, reason = "the client may be named in full")]
                use super::*;

                $crate::scenarios! {
                    $batched;
                    faults:
                        cluster_connections_are_cut
                        connections_are_cut
                        falls_silent
                        forgets_its_scripts
                        has_no_memory_left
                        primary_is_demoted_behind_one_address
                        replies_are_dropped
                        replies_are_late
                        sentinels_name_another_primary
                        server_that_refuses_calls_is_left
                        slots_move;
                }
            }
        }
    };
    ($client:expr; $($module:ident: $($case:ident)*;)*) => {$(
        mod $module {
            #[allow(unused_imports, reason = "the client may be named in full")]
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::$module::$case(&$client).await;
                }
            )*
        }
    )*};
}
