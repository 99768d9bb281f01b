//! A store wrapped in a `FaultyStore` still keeps every promise.

use std::sync::Arc;
use std::time::Duration;

use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};
use tollgate_core::{Store, lease, schedule};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};

/// One reply in ten is late, and the store is behind two kinds of pointer.
struct Late;

fn late<S>(store: S) -> Arc<FaultyStore<S>> {
    let on_time = std::iter::repeat_n(Fault::None, 9);
    let schedule = on_time.chain([Fault::Delay(Duration::from_micros(1))]);
    let schedule: Vec<_> = schedule.collect();
    Arc::new(FaultyStore::new(store, schedule.into_iter().cycle()))
}

impl Harness for Late {
    async fn store(&self) -> Arc<dyn Store> {
        let store: Box<dyn Store> = Box::new(MemoryStore::new());
        late(store)
    }

    // The store by itself is checked with more.
    fn histories(&self) -> u32 {
        16
    }
}

impl ScheduleHarness for Late {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        let store: Box<dyn schedule::Store> = Box::new(MemoryStore::new());
        late(store)
    }

    // A late reply costs a timer's tick, and schedules are asked much more often than limits.
    fn histories(&self) -> u32 {
        8
    }
}

impl LeaseHarness for Late {
    async fn store(&self) -> Arc<dyn lease::Store> {
        let store: Box<dyn lease::Store> = Box::new(MemoryStore::new());
        late(store)
    }

    fn histories(&self) -> u32 {
        8
    }
}

conformance!(Late, in one test);
schedule_conformance!(Late, in one test);
lease_conformance!(Late, in one test);
