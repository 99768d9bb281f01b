//! `MemoryStore` keeps every promise of a store.

use std::sync::Arc;

use tollgate_conformance::{Harness, ScheduleHarness, conformance, schedule_conformance};
use tollgate_core::{ScheduleStore, Store};
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

conformance!(Memory);
schedule_conformance!(Memory);
