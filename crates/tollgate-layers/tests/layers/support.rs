//! A store that counts how often it is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{Store, StoreError};

pub(crate) struct Counted<S> {
    store: S,
    calls: AtomicUsize,
}

impl<S> Counted<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            store,
            calls: AtomicUsize::new(0),
        }
    }

    /// Returns the number of requests so far.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl<S: Store> Store for Counted<S> {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let _ = self.calls.fetch_add(1, Ordering::Relaxed);
        self.store.decide(request).await
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        self.store.supports(request)
    }
}
