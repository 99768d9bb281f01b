//! The promises of stores that hold leases.

mod naive;
pub mod promises;

use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::lease;

use crate::harness::Source;

/// Creates the stores of leases that the suite checks, as [`Harness`](crate::Harness) does for
/// limits.
pub trait LeaseHarness: Send + Sync {
    /// Returns a store that shares no key with any other; see [`Harness::store`] for the rules.
    ///
    /// [`Harness::store`]: crate::Harness::store
    fn store(&self) -> impl Future<Output = Arc<dyn lease::Store>> + Send;

    /// Returns the number of histories per promise: 64 unless overridden.
    fn histories(&self) -> u32 {
        crate::harness::HISTORIES
    }
}

/// A [`LeaseHarness`] of any type.
pub(crate) type Leases = dyn Source<dyn lease::Store>;

impl<H: LeaseHarness> Source<dyn lease::Store> for H {
    fn store<'a>(&'a self) -> Pin<Box<dyn Future<Output = Arc<dyn lease::Store>> + Send + 'a>> {
        Box::pin(LeaseHarness::store(self))
    }

    fn histories(&self) -> u32 {
        LeaseHarness::histories(self)
    }
}

/// Makes tests of the promises about leases, on the stores of a [`LeaseHarness`], as
/// [`conformance!`](crate::conformance) does for limits, with the same forms.
#[macro_export]
macro_rules! lease_conformance {
    ($harness:expr $(, $($which:ident)+)? $(,)?) => {
        $crate::__suite! { leases LeaseHarness Leases __lease_promises [$($($which)+)?] $harness }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lease_promises {
    ($each:ident $context:tt) => {
        $crate::$each! { $context leases
            {
                a_repeated_acquisition_is_the_same_lease,
                agrees_with_the_definition,
                #[connection]
                agrees_with_the_machine,
                #[connection]
                concurrent_holders_never_exceed_the_amount,
                ends_by_itself_at_its_own_clock,
                keys_are_independent,
                #[connection]
                malformed_requests_change_nothing,
                tokens_only_grow,
            }
        }
    };
}
