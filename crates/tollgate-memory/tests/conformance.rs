//! `MemoryStore` keeps every promise of a store.

use std::sync::Arc;

use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};
use tollgate_core::{LeaseStore, ScheduleStore, Store};
use tollgate_memory::MemoryStore;

struct Memory;

impl Harness for Memory {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }
}

impl ScheduleHarness for Memory {
    async fn store(&self) -> Arc<dyn ScheduleStore> {
        Arc::new(MemoryStore::new())
    }
}

impl LeaseHarness for Memory {
    async fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(MemoryStore::new())
    }
}

conformance!(Memory);
schedule_conformance!(Memory);
lease_conformance!(Memory);
