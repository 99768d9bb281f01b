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

    fn histories(&self) -> u32 {
        ScheduleHarness::histories(self)
    }
}

/// Makes tests of the promises about schedules, on the stores of a [`ScheduleHarness`], as
/// [`conformance!`](crate::conformance) does for limits, with the same forms.
#[macro_export]
macro_rules! schedule_conformance {
    ($harness:expr $(, $($which:ident)+)? $(,)?) => {
        $crate::__suite! { schedules ScheduleHarness Schedules __schedule_promises [$($($which)+)?] $harness }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __schedule_promises {
    ($each:ident $context:tt) => {
        $crate::$each! { $context schedules
            {
                a_call_brings_its_time_zone,
                a_call_repeated_changes_nothing,
                agrees_with_the_definition,
                #[connection]
                agrees_with_the_machine,
                agrees_with_the_machine_at_its_own_clock,
                #[connection]
                concurrent_callers_break_no_quota,
                days_follow_the_time_zone,
                events_that_are_over_count_no_more,
                keys_are_independent,
                #[connection]
                malformed_requests_change_nothing,
                next_free_is_the_first_free_time,
                nothing_is_planned_at_closed_times,
                the_order_of_additions_makes_no_difference,
                times_outside_the_horizon_are_refused,
            }
        }
    };
}
