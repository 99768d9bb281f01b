//! The list of promises, and `conformance!`, which makes tests of them.

/// Makes one `#[test]` for each promise of the suite, on the stores of a
/// [`Harness`](crate::Harness).
///
/// Call it once, in a file of its own under `tests/`, with an expression for the harness. The tests
/// are named `conformance::ALGORITHM::PROMISE`. Seeds of failing histories are saved next to that
/// file, in `FILE-STEM.regressions`: commit them, and later runs try them first.
///
/// `conformance!(MyHarness, in one test)` makes a single test, `conformance::keeps_every_promise`,
/// which checks all promises on several threads and names each one that is broken. It saves the time
/// of starting hundreds of processes where each test gets one, as under `cargo nextest`.
///
/// `conformance!(MyHarness, connection)` makes tests only of the promises that depend on how calls
/// reach a server: requests with several keys, concurrent calls, large numbers, ids, resets and
/// errors. Use it for further connections to a server on which another connection keeps all promises.
///
/// # Examples
///
/// See the [crate].
#[macro_export]
macro_rules! conformance {
    ($harness:expr $(, $($which:ident)+)? $(,)?) => {
        $crate::__suite! { conformance Harness Limits __promises [$($($which)+)?] $harness }
    };
}

/// Makes a module with the tests of one suite.
#[doc(hidden)]
#[macro_export]
macro_rules! __suite {
    ($module:ident $trait:ident $suite:ident $list:ident [in one test] $harness:expr) => {
        mod $module {
            #[test]
            fn keeps_every_promise() {
                #[allow(unused_imports, reason = "the harness may be named in full")]
                use super::*;
                let harness = std::sync::Arc::new($harness);
                $crate::suite::check_all::<$crate::suite::$suite>(harness, env!("CARGO_MANIFEST_DIR"), file!());
            }
        }
    };
    ($module:ident $trait:ident $suite:ident $list:ident [$($which:ident)?] $harness:expr) => {
        mod $module {
            fn harness() -> impl $crate::$trait {
                #[allow(unused_imports, reason = "the harness may be named in full")]
                use super::*;
                $harness
            }

            fn check(promise: &str) {
                let harness = std::sync::Arc::new(harness());
                $crate::suite::check::<$crate::suite::$suite>(harness, promise, env!("CARGO_MANIFEST_DIR"), file!());
            }

            $crate::$list! { __tests [$($which)?] }
        }
    };
}

/// Makes the tests of a list of promises: all, or those with a certain mark.
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($which:tt $([$($family:ident)*] $promises:tt)+) => {
        $($(
            mod $family {
                #[allow(unused_imports, reason = "no promise of the family may have the mark")]
                use super::check;

                $crate::__tests! { $which $family $promises }
            }
        )*)+
    };
    ($which:tt $family:ident { $($(#[$mark:ident])? $promise:ident,)* }) => {
        $($crate::__tests! { @one $which [$($mark)?] $family $promise })*
    };
    (@one [connection] [] $family:ident $promise:ident) => {};
    (@one $which:tt $mark:tt $family:ident $promise:ident) => {
        #[test]
        fn $promise() {
            check(concat!(stringify!($family), ".", stringify!($promise)));
        }
    };
}

/// The list of all promises about limits: calls `$each!` with `$context`, and families with their
/// promises. Those marked with `connection` depend on how calls reach a server.
#[doc(hidden)]
#[macro_export]
macro_rules! __promises {
    ($each:ident $context:tt) => {
        $crate::$each! { $context
            [calendar_window fixed_window gcra sliding_buckets sliding_counter sliding_log]
            {
                a_changed_limit_applies_at_once,
                a_clock_that_steps_back_admits_no_more,
                a_cost_is_as_many_unit_calls,
                a_late_refund_gives_nothing,
                a_refund_at_once_undoes,
                an_idle_key_equals_a_new_key,
                admits_exactly_the_bound_under_concurrency,
                agrees_with_the_definition,
                #[connection]
                agrees_with_the_machine,
                agrees_with_the_machine_at_its_own_clock,
                allows_exactly_what_remains,
                concurrent_calls_are_linearizable,
                denied_calls_change_nothing,
                #[connection]
                extremes_are_exact,
                keeps_its_rate_in_real_time,
                keys_are_independent,
                never_over_admits,
                peek_changes_nothing,
                reaches_its_bound,
                refunds_keep_the_bound,
                reset_after_is_exact,
                reset_forgets_everything,
                retry_after_is_exact,
                smaller_costs_wait_no_longer,
                takes_exactly_the_cost,
                takes_what_unit_calls_would,
                time_only_gives_back,
                units_ahead_keep_the_bound,
                zero_denies_everything,
            }
            [composite]
            {
                #[connection]
                composites_agree_with_the_machine,
                #[connection]
                crossing_requests_do_not_deadlock,
                #[connection]
                is_all_or_nothing,
                waits_for_the_slowest_limit,
            }
            [block]
            {
                blocks_agree_with_the_definition,
                #[connection]
                blocks_agree_with_the_machine,
                blocks_agree_with_the_machine_at_its_own_clock,
                #[connection]
                concurrent_blocks_are_one,
            }
            [id]
            {
                #[connection]
                an_id_of_another_call_changes_nothing,
                answers_are_forgotten,
                receipts_from_bytes_are_used_once_for_each_id,
                #[connection]
                concurrent_repeats_are_one,
                denials_are_not_kept,
                #[connection]
                repeated_calls_get_the_first_answer,
            }
            [reservation]
            {
                cancelling_the_last_reservation_undoes_it,
                #[connection]
                concurrent_reservations_have_an_order,
                refused_reservations_change_nothing,
                reservations_agree_with_the_definition,
                #[connection]
                reservations_agree_with_the_machine,
                reservations_agree_with_the_machine_at_its_own_clock,
                starts_keep_the_bound_whatever_is_cancelled,
            }
            [shadow]
            {
                #[connection]
                shadows_agree_with_the_machine,
                shadows_agree_with_the_machine_at_its_own_clock,
                shadows_count_what_they_would_allow_and_deny_nothing,
            }
            [store]
            {
                #[connection]
                counts_at_its_own_clock,
                #[connection]
                decides_alike_without_waiting,
                decides_at_the_given_instant,
                #[connection]
                gives_back_at_its_own_clock,
                #[connection]
                is_all_or_nothing_at_its_own_clock,
                #[connection]
                malformed_requests_change_nothing,
                receipts_from_before_a_reset_free_nothing,
                #[connection]
                says_what_it_supports,
                #[connection]
                similar_keys_are_independent,
            }
            [zone]
            {
                #[connection]
                a_call_counts_in_its_own_zone,
            }
        }
    };
}
