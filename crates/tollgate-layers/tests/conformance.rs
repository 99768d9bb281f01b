//! A store that is wrapped in a layer still keeps every promise.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};
use tollgate_core::{Store, lease, schedule};
use tollgate_layers::{AllowAll, Breaker, DenyCache, Fallback, Observed, Share, usual};
use tollgate_memory::MemoryStore;

/// Checks a layer around a store in memory.
macro_rules! layer {
    ($name:ident, $module:ident, $layer:expr) => {
        struct $name;

        impl Harness for $name {
            async fn store(&self) -> Arc<dyn Store> {
                Arc::new($layer(MemoryStore::new()))
            }

            // The store by itself is checked with more.
            fn histories(&self) -> u32 {
                8
            }
        }

        mod $module {
            use super::*;

            conformance!($name, in one test);
        }
    };
}

/// A breaker that does not take a machine that is busy with other tests for a slow store.
fn patient<S: Store + 'static>(store: S) -> Breaker<S> {
    Breaker::new(store).slow_after(Duration::from_secs(60))
}

layer!(Broken, breaker, patient);
layer!(Cached, deny_cache, DenyCache::new);
layer!(Open, open, Fallback::allow);
layer!(Local, local, |store| Fallback::to(
    store,
    MemoryStore::new()
));
layer!(Seen, observed, Observed::new);
layer!(Whole, share, |store| Share::new(store, NonZeroU32::MIN));
// As `usual` stacks them.
layer!(Stacked, stack, |store| Observed::new(Fallback::to(
    DenyCache::new(patient(store)),
    Share::new(MemoryStore::new(), NonZeroU32::MIN),
)));

impl ScheduleHarness for Stacked {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new(usual(MemoryStore::new(), AllowAll))
    }

    fn histories(&self) -> u32 {
        8
    }
}

impl LeaseHarness for Stacked {
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new(usual(MemoryStore::new(), AllowAll))
    }

    fn histories(&self) -> u32 {
        8
    }
}

schedule_conformance!(Stacked, in one test);
lease_conformance!(Stacked, in one test);
