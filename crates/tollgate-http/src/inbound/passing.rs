//! `Passing`: a request that was let through, until its response has ended.

use std::sync::Arc;

use http::request::Parts;
use http::response;
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tollgate_core::Receipt;
use tollgate_core::store::{Request, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError};
use tollgate_tokio::LeaseGuard;

use super::body::UntilEnd;
use super::extensions::{Charge, Decided, Place};
use super::policy::SettleBy;
use super::question::Question;
use super::refusal::Refusal;
use super::shared::{Acquired, Refused, Shared};

/// A request that was let through.
pub(super) struct Passing<S: Store + 'static> {
    shared: Arc<Shared<S>>,
    decided: Option<(Question, Verdicts)>,
    charge: Option<Charge>,
    place: Option<Arc<LeaseGuard>>,
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
        let charged = question.looks.then(|| question.charged(verdicts, &costs));
        let said = charged.as_ref().unwrap_or(verdicts);
        let wait = || question.wait(said, &costs);
        shared.fields.lengthen_wait(wait, &mut head.headers);
        question.write(said, &shared.fields, &mut head.headers);
        if shared.inserts_decision {
            let _ = head.extensions.insert(Decided::new(question, said));
        }
        if (question.looks || costs.iter().any(Option::is_some) || per_bytes)
            && let Some((mut question, verdicts)) = self.decided.take()
        {
            let settlement = Settlement {
                shared: Arc::clone(&self.shared),
                receipt: question.receipt(verdicts),
                question,
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

impl<S: Store + 'static> Shared<S> {
    /// Takes a place, asks the store, and returns the request, and whether it goes on.
    pub(super) async fn decide(
        self: Arc<Self>,
        mut parts: Parts,
        mut question: Question,
    ) -> (Parts, Result<Passing<S>, Refused>) {
        let acquired = match (&self.acquires, question.asked().first()) {
            (Some(acquires), Some(asked)) => Some(acquires(asked.key.clone()).await),
            _ => None,
        };
        // Who has no place consumes nothing, except if only places fail and failures allow.
        let verdicts = match &acquired {
            Some(Ok(Err(_))) => None,
            Some(Err(error)) if self.refused_for(error).is_some() => None,
            _ if question.is_empty() => None,
            _ => Some(self.verdicts(&mut question).await),
        };
        let admitted = self.admit(&mut parts, question, verdicts, acquired);
        (parts, admitted)
    }

    /// Lets a request through, or returns the response that refuses it. There are no verdicts if no
    /// limit was asked.
    #[expect(clippy::result_large_err, reason = "see `Refused`")]
    pub(super) fn admit(
        self: Arc<Self>,
        parts: &mut Parts,
        question: Question,
        verdicts: Option<Result<Verdicts, StoreError>>,
        acquired: Option<Acquired>,
    ) -> Result<Passing<S>, Refused> {
        if !matches!(verdicts, Some(Err(_))) && !matches!(acquired, Some(Err(_))) {
            self.outage.decided();
        }
        let mut passing = Passing {
            decided: None,
            charge: None,
            place: None,
            shared: self,
        };
        let shared = &passing.shared;
        let mut failed = None;
        match acquired {
            Some(Ok(Ok(lease))) => passing.place = Some(Arc::new(lease)),
            Some(Ok(Err(_))) => return Err(shared.refuse(&Refusal::too_many_at_once(parts))),
            Some(Err(error)) => failed = Some(error),
            None => {}
        }
        match verdicts {
            Some(Ok(verdicts)) => {
                if shared.inserts_decision {
                    let decided = Decided::new(&question, &verdicts);
                    let _ = parts.extensions.insert(decided);
                }
                if verdicts.is_denied() {
                    shared.examine_client(parts);
                    let refusal = Refusal::denied(parts, &question, &verdicts);
                    return Err(shared.refuse(&refusal));
                }
                passing.decided = Some((question, verdicts));
            }
            Some(Err(error)) => failed = Some(error),
            None => {}
        }
        if let Some(error) = failed
            && let Some(refusal) = shared.failed(parts, &error)
        {
            return Err(shared.refuse(&refusal));
        }
        if let Some(lease) = &passing.place {
            let place = Place::beside(Arc::clone(lease), parts.extensions.remove());
            let _ = parts.extensions.insert(place);
        }
        passing.charge = shared.charge(parts);
        Ok(passing)
    }
}

/// What a request turned out to cost, to be settled, or to be counted if it looked first.
struct Settlement<S> {
    shared: Arc<Shared<S>>,
    question: Question,
    /// Of what was consumed.
    receipt: Option<Receipt>,
    /// Of each rule; none is what was checked.
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
        if self.requests().next().is_none() || self.shared.now(self.settle()).is_some() {
            return;
        }
        match self.runtime.clone() {
            Some(runtime) => drop(runtime.spawn(async move { self.settle().await })),
            None => self.shared.not_counted(&StoreError::new(
                ErrorKind::Unavailable,
                "there is no Tokio runtime to settle on: run the service on one",
            )),
        }
    }

    fn requests(&self) -> impl Iterator<Item = Request<'_>> {
        let receipt = self.receipt.as_ref();
        let settlement = receipt.and_then(|_| self.question.settlement(receipt, &self.costs));
        let charge = self.question.settlement(None, &self.costs);
        settlement.into_iter().chain(charge)
    }

    async fn settle(&self) {
        for request in self.requests() {
            if let Err(error) = self.shared.ask(request).await {
                self.shared.not_counted(&error);
            }
        }
    }
}
