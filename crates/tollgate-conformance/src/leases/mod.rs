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
}

#[doc(hidden)]
#[must_use]
pub fn __lease_histories(harness: &impl LeaseHarness) -> u32 {
    crate::harness::cases().unwrap_or_else(|| harness.histories())
}

/// Makes one `#[test]` for each promise about leases, on the stores of a
/// [`LeaseHarness`], as [`conformance!`](crate::conformance) does for limits.
#[macro_export]
macro_rules! lease_conformance {
    ($harness:expr $(,)?) => {
        mod leases {
            fn harness() -> impl $crate::LeaseHarness {
                #[allow(unused_imports, reason = "the harness may be named in full")]
                use super::*;
                $harness
            }

            $crate::__lease_promises![
                a_repeated_acquisition_is_the_same_lease,
                agrees_with_the_definition,
                agrees_with_the_machine,
                concurrent_holders_never_exceed_the_amount,
                ends_by_itself_at_its_own_clock,
                keys_are_independent,
                malformed_requests_change_nothing,
                tokens_only_grow,
            ];
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lease_promises {
    ($($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                let case = concat!("leases.", stringify!($promise));
                let harness = harness();
                let plan = $crate::Plan::new(Vec::new())
                    .with_histories($crate::__lease_histories(&harness))
                    .keeping_failures(env!("CARGO_MANIFEST_DIR"), file!(), case);
                $crate::block_on($crate::leases::promises::$promise(&harness, &plan));
            }
        )*
    };
}
