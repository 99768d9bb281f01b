//! The suite passes on the reference store, also if that refuses callers' instants or is busy.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod reference;
mod small;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use reference::{Reference, ReferenceStore};
use tollgate_conformance::{Harness, Plan, block_on, families, promises};
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{Store, StoreError};

tollgate_conformance::conformance!(Reference, in one test);

mod every_server_by_its_own_clock_only {
    use super::reference::ByItsOwnClockOnly;

    tollgate_conformance::conformance!(ByItsOwnClockOnly, in one test);
}

/// Makes stores that answer late at first, as on a machine that is busy with something else.
struct Busy;

impl Harness for Busy {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(BusyStore {
            store: ReferenceStore::default(),
            busy_until: Instant::now() + Duration::from_millis(300),
        })
    }
}

struct BusyStore {
    store: ReferenceStore,
    busy_until: Instant,
}

#[async_trait]
impl Store for BusyStore {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        tokio::time::sleep_until(self.busy_until.into()).await;
        self.store.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

#[test]
fn busy_machine_breaks_no_promise_about_real_time() {
    let plan = Plan::new(families::sliding_log());
    block_on(promises::keeps_its_rate_in_real_time(&Busy, &plan));
}
