//! `MemoryStore` keeps every promise of a store.

use std::sync::Arc;

use tollgate_conformance::{Harness, conformance};
use tollgate_core::Store;
use tollgate_memory::MemoryStore;

struct Memory;

impl Harness for Memory {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }
}

conformance!(Memory);
