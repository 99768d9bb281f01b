//! The promises of stores that hold schedules.

mod closed;
mod naive;
pub mod promises;

use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::schedule;

use crate::harness::Source;

/// Creates the stores of schedules that the suite checks, as [`Harness`](crate::Harness) does for
/// limits.
pub trait ScheduleHarness: Send + Sync {
    /// Returns a store that shares no key with any other; see [`Harness::store`] for the rules.
    ///
    /// [`Harness::store`]: crate::Harness::store
    fn store(&self) -> impl Future<Output = Arc<dyn schedule::Store>> + Send;

    /// Returns the number of histories per promise: 64 unless overridden.
    fn histories(&self) -> u32 {
        crate::harness::HISTORIES
    }
}

/// A [`ScheduleHarness`] of any type.
pub(crate) type Schedules = dyn Source<dyn schedule::Store>;

impl<H: ScheduleHarness> Source<dyn schedule::Store> for H {
    fn store<'a>(&'a self) -> Pin<Box<dyn Future<Output = Arc<dyn schedule::Store>> + Send + 'a>> {
        Box::pin(ScheduleHarness::store(self))
    }
}

#[doc(hidden)]
#[must_use]
pub fn __schedule_histories(harness: &impl ScheduleHarness) -> u32 {
    crate::harness::cases().unwrap_or_else(|| harness.histories())
}

/// Makes one `#[test]` for each promise about schedules, on the stores of a
/// [`ScheduleHarness`], as [`conformance!`](crate::conformance) does for
/// limits.
#[macro_export]
macro_rules! schedule_conformance {
    ($harness:expr $(,)?) => {
        mod schedules {
            fn harness() -> impl $crate::ScheduleHarness {
                #[allow(unused_imports, reason = "the harness may be named in full")]
                use super::*;
                $harness
            }

            $crate::__schedule_promises![
                a_call_brings_its_time_zone,
                a_call_repeated_changes_nothing,
                agrees_with_the_definition,
                agrees_with_the_machine,
                agrees_with_the_machine_at_its_own_clock,
                concurrent_callers_break_no_quota,
                days_follow_the_time_zone,
                events_that_are_over_count_no_more,
                keys_are_independent,
                malformed_requests_change_nothing,
                next_free_is_the_first_free_time,
                nothing_is_planned_at_closed_times,
                the_order_of_additions_makes_no_difference,
                times_outside_the_horizon_are_refused,
            ];
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __schedule_promises {
    ($($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                let case = concat!("schedules.", stringify!($promise));
                let harness = harness();
                let plan = $crate::Plan::new(Vec::new())
                    .with_histories($crate::__schedule_histories(&harness))
                    .keeping_failures(env!("CARGO_MANIFEST_DIR"), file!(), case);
                $crate::block_on($crate::schedules::promises::$promise(&harness, &plan));
            }
        )*
    };
}
