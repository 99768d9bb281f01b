//! `MemoryStore` keeps every promise of a store.

use std::sync::Arc;

use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};
use tollgate_core::{Store, lease, schedule};
use tollgate_memory::MemoryStore;

struct Memory;

impl Harness for Memory {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }
}

impl ScheduleHarness for Memory {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new(MemoryStore::new())
    }
}

impl LeaseHarness for Memory {
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new(MemoryStore::new())
    }
}

conformance!(Memory, in one test);
schedule_conformance!(Memory, in one test);
lease_conformance!(Memory, in one test);
