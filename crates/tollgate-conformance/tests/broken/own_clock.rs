//! Stores with a fault at their own clock: one has no fault at callers' instants, and one refuses
//! them.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_conformance::Harness;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{Store, StoreError};

use crate::reference::{Reference, WithoutInstants};
use crate::store::{BrokenStore, Fault};

/// Makes stores that have a fault at their own clock only.
pub(crate) struct BrokenAtItsOwnClock(pub(crate) Fault);

impl Harness for BrokenAtItsOwnClock {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(TwoStores {
            by_the_caller: Reference.store().await,
            by_its_own_clock: BrokenStore::new(self.0),
        })
    }
}

/// Makes stores that have a fault and refuse callers' instants.
pub(crate) struct BrokenWithoutInstants(pub(crate) Fault);

impl Harness for BrokenWithoutInstants {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(WithoutInstants(BrokenStore::new(self.0)))
    }
}

/// One store per clock, since no key is used with both clocks.
struct TwoStores {
    by_the_caller: Arc<dyn Store>,
    by_its_own_clock: BrokenStore,
}

impl TwoStores {
    fn of(&self, request: &Request<'_>) -> &dyn Store {
        match request.caller_time() {
            Some(_) => &self.by_the_caller,
            None => &self.by_its_own_clock,
        }
    }
}

#[async_trait]
impl Store for TwoStores {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.of(&request).decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.by_the_caller.reset(checks.clone()).await?;
        self.by_its_own_clock.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.of(request).supports(request)
    }
}
