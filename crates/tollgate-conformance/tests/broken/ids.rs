//! `BrokenById`: the reference store, with one fault in how it keeps answers.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_conformance::Harness;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{CallId, Store, StoreError};

use super::reference::ReferenceStore;

/// What is wrong with the answers of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    IgnoresIds,
    KeepsDenials,
    KeepsForever,
    KeepsNothing,
    TakesOtherCallsForOtherIds,
}

pub(crate) struct BrokenById(pub(crate) Fault);

impl Harness for BrokenById {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(BrokenStore {
            fault: self.0,
            store: ReferenceStore::default(),
            denied: Mutex::default(),
        })
    }
}

struct BrokenStore {
    fault: Fault,
    store: ReferenceStore,
    denied: Mutex<HashMap<String, Verdicts>>,
}

#[async_trait]
impl Store for BrokenStore {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let (Some(id), plain) = request.split_id()? else {
            return self.store.decide(request).await;
        };
        match self.fault {
            Fault::IgnoresIds => self.store.decide(plain).await,
            Fault::KeepsDenials => {
                let call = format!("{:?} {:?}", id.bytes(), plain.checks());
                if let Some(denied) = self.denied.lock().unwrap().get(&call) {
                    return Ok(denied.again());
                }
                let verdicts = self.store.decide(request).await?;
                if verdicts.is_denied() {
                    self.denied.lock().unwrap().insert(call, verdicts.again());
                }
                Ok(verdicts)
            }
            Fault::KeepsForever => {
                let id = id.kept(Duration::MAX);
                self.store.decide(plain.id(id)).await
            }
            Fault::KeepsNothing => {
                let id = id.kept(Duration::from_nanos(1));
                let at = plain.caller_time();
                let decided = self.store.decide(plain.id(id)).await;
                if at.is_none() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                decided
            }
            Fault::TakesOtherCallsForOtherIds => {
                let costs: Vec<_> = plain.checks().iter().map(|check| check.cost()).collect();
                let operation = format!("{:?}", plain.operation());
                let bytes = format!("{:?} {costs:?} {operation}", id.bytes());
                let id = CallId::new(&bytes).kept(Duration::from_micros(id.kept_us()));
                self.store.decide(plain.id(id)).await
            }
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}
