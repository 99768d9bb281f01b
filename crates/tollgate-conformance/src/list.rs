//! The list of promises, and the line that makes tests of them.

/// Makes one `#[test]` for each promise of the suite, on the stores of a [`Harness`](crate::Harness).
///
/// Write it once, in a file of its own under `tests/`, with an expression of the harness; the
/// tests are called `conformance::ALGORITHM::PROMISE`. Seeds of failing histories are kept beside
/// that file, in `FILE-STEM.regressions`, to be committed and tried first in later runs.
///
/// # Examples
///
/// See the [crate](crate).
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

/// The one list of promises; calls `$each!` with every module and its cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __promises {
    () => {
        $crate::__promises! {
            algorithms [fixed_window gcra sliding_buckets sliding_counter sliding_log]
            all [
                a_clock_that_steps_back_admits_no_more,
                a_cost_is_as_many_unit_calls,
                a_late_refund_gives_nothing,
                a_refund_at_once_undoes,
                absence_is_as_never_seen,
                agrees_with_the_definition,
                agrees_with_the_machine,
                allows_exactly_what_remains,
                denied_calls_change_nothing,
                keys_are_independent,
                never_over_admits,
                peek_changes_nothing,
                reaches_its_bound,
                reset_after_is_exact,
                reset_forgets_everything,
                retry_after_is_exact,
                smaller_costs_wait_no_longer,
                takes_exactly_the_cost,
                takes_what_unit_calls_would,
                time_only_gives_back,
            ]
        }
    };
    (algorithms [$($algorithm:ident)*] all $all:tt) => {
        $($crate::__promises! { @module $algorithm $all })*
    };
    (@module $module:ident [$($promise:ident,)*]) => {
        mod $module {
            $(
                #[test]
                fn $promise() {
                    let case = concat!(stringify!($module), ".", stringify!($promise));
                    let plan = $crate::Plan::new($crate::families::$module()).keeping_failures(
                        env!("CARGO_MANIFEST_DIR"),
                        file!(),
                        case,
                    );
                    let harness = super::harness();
                    $crate::block_on($crate::promises::$promise(&harness, &plan));
                }
            )*
        }
    };
}
