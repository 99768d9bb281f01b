//! `Passing`: a request that was let through, until its response has ended.

use std::mem;
use std::sync::Arc;

use http::request::Parts;
use http::response;
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tollgate_core::Receipt;
use tollgate_core::store::{Fingerprint, Request, Source, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError};
use tollgate_tokio::LeaseGuard;

use super::body::UntilEnd;
use super::extensions::{Charge, Decided, Place};
use super::policy::SettleBy;
use super::question::{Question, Said};
use super::refusal::Refusal;
use super::shared::{Acquired, Refused, Shared, check_number};

/// A request that is let through, or is about to be.
pub(super) struct Passing<S: Store + 'static> {
    shared: Arc<Shared<S>>,
    pub(super) question: Question,
    /// What the limits said: nothing if no store decided.
    said: Said,
    source: Source,
    charge: Option<Charge>,
    place: Option<Arc<LeaseGuard>>,
}

impl<S: Store + 'static> Passing<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Self {
            shared,
            question: Question::default(),
            said: Said::new(),
            source: Source::Store,
            charge: None,
            place: None,
        }
    }

    /// Asks the store, if it need not wait, and returns whether the request goes on.
    pub(super) fn decide_now(&mut self, parts: &mut Parts) -> Option<Result<(), Refused>> {
        let (shared, question) = (&self.shared, &mut self.question);
        let store = shared.store.get().as_sync()?;
        if shared.acquires.is_some() {
            return None;
        }
        if question.looks {
            let said = shared.now(shared.verdicts(question))?;
            return Some(self.admit(parts, Some(&said), None));
        }
        // A future would be copied, which takes a sixth of a request's time.
        let consumption = question.consumption();
        let mut said = store.decide_now(&consumption);
        check_number(&consumption, &mut said);
        if let Ok(denied) = &said
            && denied.is_denied()
        {
            let said = Ok(shared.now(shared.ban(question, denied))?);
            return Some(self.admit(parts, Some(&said), None));
        }
        Some(self.admit(parts, Some(&said), None))
    }

    /// Takes a place, asks the store, and returns the request, and whether it goes on.
    pub(super) async fn decide(mut self, mut parts: Parts) -> (Parts, Result<Self, Refused>) {
        let (shared, question) = (&self.shared, &mut self.question);
        let acquired = match (&shared.acquires, question.asked().first()) {
            (Some(acquires), Some(asked)) => Some(acquires(asked.key.clone()).await),
            _ => None,
        };
        // Who has no place consumes nothing, except if only places fail and failures allow.
        let said = match &acquired {
            Some(Ok(Err(_))) => None,
            Some(Err(error)) if shared.refused_for(error).is_some() => None,
            _ if question.is_empty() => None,
            _ => Some(shared.verdicts(question).await),
        };
        let admitted = self.admit(&mut parts, said.as_ref(), acquired);
        (parts, admitted.map(|()| self))
    }

    /// Lets a request through, or returns the response that refuses it. The store said nothing if it was not asked.
    #[expect(clippy::result_large_err, reason = "see `Refused`")]
    fn admit(
        &mut self,
        parts: &mut Parts,
        said: Option<&Result<Verdicts, StoreError>>,
        acquired: Option<Acquired>,
    ) -> Result<(), Refused> {
        let shared = &self.shared;
        if !matches!(said, Some(Err(_))) && !matches!(acquired, Some(Err(_))) {
            shared.outage.decided();
        }
        let mut failed = None;
        match said {
            Some(Ok(verdicts)) => {
                if shared.inserts_decision {
                    let decided = Decided::new(&self.question, verdicts);
                    let _ = parts.extensions.insert(decided);
                }
                if verdicts.is_denied() {
                    shared.examine_client(parts);
                    let refusal = Refusal::denied(parts, &self.question, verdicts);
                    return Err(shared.refuse(&refusal));
                }
                self.said.extend_from_slice(verdicts.as_slice());
                self.source = verdicts.source();
                if shared.rules.iter().any(|rule| rule.policy.settle.is_some()) {
                    self.question.keep_receipt(verdicts);
                }
            }
            Some(Err(error)) => failed = Some(error),
            None => {}
        }
        match &acquired {
            Some(Ok(Err(_))) => return Err(shared.refuse(&Refusal::too_many_at_once(parts))),
            Some(Err(error)) => failed = failed.or(Some(error)),
            Some(Ok(Ok(_))) | None => {}
        }
        if let Some(error) = failed
            && let Some(refusal) = shared.failed(parts, error)
        {
            return Err(shared.refuse(&refusal));
        }
        if let Some(Ok(Ok(lease))) = acquired {
            let lease = self.place.insert(Arc::new(lease));
            let place = Place::beside(Arc::clone(lease), parts.extensions.remove());
            let _ = parts.extensions.insert(place);
        }
        self.charge = shared.charge(parts);
        Ok(())
    }

    /// Writes what the limits say into the head of the response, and settles what the request turned
    /// out to cost. Returns what lasts until its body ends.
    pub(super) fn respond(&mut self, head: &mut response::Parts) -> Option<Box<UntilEnd>> {
        let (shared, question) = (&self.shared, &self.question);
        let mut until_end = self.place.take().map(|lease| {
            Box::new(UntilEnd {
                lease: Some(lease),
                count: None,
                bytes: 0,
            })
        });
        if self.said.is_empty() {
            return until_end;
        }
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
        if question.looks {
            self.said = question.charged(&self.said, &costs);
        }
        let wait = || question.wait(&self.said, self.source, &costs);
        shared.fields.lengthen_wait(wait, &mut head.headers);
        // Limits that allowed the request have no `Retry-After`.
        if shared.fields.say_what_is_left() {
            question.write(&self.said, self.source, &shared.fields, &mut head.headers);
        }
        if shared.inserts_decision {
            let verdicts = Verdicts::new(Fingerprint::new(0), self.said.iter().copied());
            let decided = Decided::new(question, &verdicts.with_source(self.source));
            let _ = head.extensions.insert(decided);
        }
        if question.looks || costs.iter().any(Option::is_some) || per_bytes {
            let mut question = mem::take(&mut self.question);
            let settlement = Settlement {
                shared: Arc::clone(shared),
                receipt: question.receipt(),
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

/// What a request turned out to cost, to be settled, or to be counted if it looked first.
struct Settlement<S> {
    shared: Arc<Shared<S>>,
    question: Question,
    /// Of what was consumed.
    receipt: Option<Box<Receipt>>,
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
        let receipt = self.receipt.as_deref();
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
