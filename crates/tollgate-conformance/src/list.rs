//! The list of promises, and `conformance!`, which makes a test of each.

/// Makes one `#[test]` for each promise of the suite, on the stores of a
/// [`Harness`](crate::Harness).
///
/// Call it once, in a file of its own under `tests/`, with an expression for the harness. The tests
/// are named `conformance::ALGORITHM::PROMISE`. Seeds of failing histories are saved next to that
/// file, in `FILE-STEM.regressions`: commit them, and later runs try them first.
///
/// # Examples
///
/// See the [crate].
#[macro_export]
macro_rules! conformance {
    ($harness:expr $(,)?) => {
        mod conformance {
            fn harness() -> impl $crate::Harness {
                #[allow(unused_imports, reason = "the harness may be named in full")]
                use super::*;
                $harness
            }

            $crate::__promises!();
        }
    };
}

/// The list of all promises; calls `$each!` with each module and its promises.
#[doc(hidden)]
#[macro_export]
macro_rules! __promises {
    () => {
        $crate::__promises! {
            @each [calendar_window fixed_window gcra sliding_buckets sliding_counter sliding_log]
            [
                a_changed_limit_applies_at_once,
                a_clock_that_steps_back_admits_no_more,
                a_cost_is_as_many_unit_calls,
                a_late_refund_gives_nothing,
                a_refund_at_once_undoes,
                an_idle_key_equals_a_new_key,
                admits_exactly_the_bound_under_concurrency,
                agrees_with_the_definition,
                agrees_with_the_machine,
                agrees_with_the_machine_at_its_own_clock,
                allows_exactly_what_remains,
                concurrent_calls_are_linearizable,
                denied_calls_change_nothing,
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
                zero_denies_everything,
            ]
        }
        $crate::__promises! {
            @each [composite]
            [
                composites_agree_with_the_machine,
                crossing_requests_do_not_deadlock,
                is_all_or_nothing,
                waits_for_the_slowest_limit,
            ]
        }
        $crate::__promises! {
            @each [block]
            [
                blocks_agree_with_the_definition,
                blocks_agree_with_the_machine,
                blocks_agree_with_the_machine_at_its_own_clock,
                concurrent_blocks_are_one,
            ]
        }
        $crate::__promises! {
            @each [id]
            [
                an_id_of_another_call_changes_nothing,
                answers_are_forgotten,
                concurrent_repeats_are_one,
                denials_are_not_kept,
                repeated_calls_get_the_first_answer,
            ]
        }
        $crate::__promises! {
            @each [reservation]
            [
                cancelling_the_last_reservation_undoes_it,
                concurrent_reservations_have_an_order,
                refused_reservations_change_nothing,
                reservations_agree_with_the_definition,
                reservations_agree_with_the_machine,
                reservations_agree_with_the_machine_at_its_own_clock,
                starts_keep_the_bound_whatever_is_cancelled,
            ]
        }
        $crate::__promises! {
            @each [shadow]
            [
                shadows_agree_with_the_machine,
                shadows_agree_with_the_machine_at_its_own_clock,
                shadows_count_what_they_would_allow_and_deny_nothing,
            ]
        }
        $crate::__promises! {
            @each [store]
            [
                counts_at_its_own_clock,
                decides_alike_without_waiting,
                decides_at_the_given_instant,
                gives_back_at_its_own_clock,
                is_all_or_nothing_at_its_own_clock,
                malformed_requests_change_nothing,
                receipts_from_before_a_reset_free_nothing,
                says_what_it_supports,
                similar_keys_are_independent,
            ]
        }
    };
    (@each [$($module:ident)*] $promises:tt) => {
        $($crate::__promises! { @module $module $promises })*
    };
    (@module $module:ident [$($promise:ident,)*]) => {
        mod $module {
            $(
                #[test]
                fn $promise() {
                    let case = concat!(stringify!($module), ".", stringify!($promise));
                    let harness = super::harness();
                    let plan = $crate::Plan::new($crate::families::$module())
                        .with_histories($crate::__histories(&harness))
                        .keeping_failures(env!("CARGO_MANIFEST_DIR"), file!(), case);
                    let harness = $crate::__Watched::new(harness, &plan);
                    $crate::block_on($crate::promises::$promise(&harness, &plan));
                    harness.tell(case);
                }
            )*
        }
    };
}
