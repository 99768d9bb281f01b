//! A store wrapped in a `FaultyStore` still keeps every promise.

use std::sync::Arc;
use std::time::Duration;

use tollgate_conformance::{Harness, conformance};
use tollgate_core::Store;
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};

/// One reply in ten is late, and the store is behind two kinds of pointer.
struct Late;

impl Harness for Late {
    async fn store(&self) -> Arc<dyn Store> {
        let on_time = std::iter::repeat_n(Fault::None, 9);
        let schedule = on_time.chain([Fault::Delay(Duration::from_micros(1))]);
        let schedule: Vec<_> = schedule.collect();
        let store: Box<dyn Store> = Box::new(MemoryStore::new());
        Arc::new(FaultyStore::new(store, schedule.into_iter().cycle()))
    }
}

conformance!(Late);
