//! `Counting`: a store that counts the calls to another.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{Store, StoreError};

pub(crate) struct Counting<S> {
    store: S,
    calls: AtomicU64,
}

impl<S> Counting<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            store,
            calls: AtomicU64::new(0),
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl<S: Store> Store for Counting<S> {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.store.decide(request).await
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        self.store.supports(request)
    }
}
