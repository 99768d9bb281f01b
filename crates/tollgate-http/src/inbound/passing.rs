//! `Passing`: a request that was let through, until its response has ended.

use std::sync::Arc;

use http::response;
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tollgate_core::Receipt;
use tollgate_core::store::Verdicts;
use tollgate_core::{ErrorKind, Store, StoreError};
use tollgate_tokio::LeaseGuard;

use super::body::UntilEnd;
use super::extensions::{Charge, Decided};
use super::policy::SettleBy;
use super::question::Question;
use super::shared::Shared;
use super::warning::Warning;

/// A request that was let through.
pub(super) struct Passing<S: Store + 'static> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) decided: Option<(Question, Verdicts)>,
    pub(super) charge: Option<Charge>,
    pub(super) place: Option<Arc<LeaseGuard>>,
}

impl<S: Store + 'static> Passing<S> {
    /// Writes what the limits say into the head of the response, and settles what the request turned
    /// out to cost. Returns what lasts until its body ends.
    pub(super) fn respond(&mut self, head: &mut response::Parts) -> Option<Box<UntilEnd>> {
        let mut until_end = self.place.take().map(|lease| {
            Box::new(UntilEnd {
                lease: Some(lease),
                count: None,
                bytes: 0,
            })
        });
        let Some((question, verdicts)) = &self.decided else {
            return until_end;
        };
        let shared = &self.shared;
        let mut per_bytes = false;
        let costs: SmallVec<_> = shared
            .rules
            .iter()
            .map(|rule| match rule.policy.settle.as_ref()? {
                SettleBy::Response(cost_of) => cost_of(head),
                SettleBy::Handler => self.charge.as_ref()?.said(),
                SettleBy::Bytes(_) => {
                    per_bytes = true;
                    None
                }
            })
            .collect();
        let wait = || question.wait(verdicts, &costs);
        shared.fields.lengthen_wait(wait, &mut head.headers);
        question.write(verdicts, &shared.fields, &mut head.headers);
        if shared.inserts_decision {
            let _ = head.extensions.insert(Decided::new(question, verdicts));
        }
        if (per_bytes || costs.iter().any(Option::is_some))
            && let Some((question, verdicts)) = self.decided.take()
            && let Some(receipt) = verdicts.into_receipt()
        {
            let settlement = Settlement {
                shared: Arc::clone(&self.shared),
                question,
                receipt,
                costs,
                runtime: Handle::try_current().ok(),
            };
            if per_bytes {
                let until_end = until_end.get_or_insert_default();
                until_end.count = Some(Box::new(move |bytes| settlement.count(bytes)));
            } else {
                settlement.begin();
            }
        }
        until_end
    }
}

/// What a request turned out to cost, to be settled.
struct Settlement<S> {
    shared: Arc<Shared<S>>,
    question: Question,
    receipt: Receipt,
    /// Of each rule; none keeps what was checked.
    costs: SmallVec<[Option<u64>; 2]>,
    runtime: Option<Handle>,
}

impl<S: Store + 'static> Settlement<S> {
    /// Settles by the bytes that passed.
    fn count(mut self, bytes: u64) {
        for (cost, rule) in self.costs.iter_mut().zip(&self.shared.rules) {
            if let Some(SettleBy::Bytes(per)) = rule.policy.settle {
                *cost = Some(bytes.div_ceil(per.get()));
            }
        }
        self.begin();
    }

    /// Settles: at once if the store need not wait, otherwise in the background, so that no response
    /// waits for it.
    fn begin(self) {
        let request = self.question.settlement(&self.receipt, &self.costs);
        if let Some(store) = self.shared.store.get().as_sync() {
            self.report(store.decide_now(&request).map(drop));
            return;
        }
        drop(request);
        match self.runtime.clone() {
            Some(runtime) => {
                drop(runtime.spawn(async move {
                    let request = self.question.settlement(&self.receipt, &self.costs);
                    let settled = self.shared.store.get().decide(request).await;
                    self.report(settled.map(drop));
                }));
            }
            None => self.report(Err(StoreError::new(
                ErrorKind::Unavailable,
                "there is no Tokio runtime to settle on: run the service on one",
            ))),
        }
    }

    fn report(&self, settled: Result<(), StoreError>) {
        if let Err(error) = settled {
            self.shared.warnings.log_once(
                Warning::NotSettled,
                format_args!("a request keeps the cost it was checked at: {error}"),
            );
        }
    }
}
