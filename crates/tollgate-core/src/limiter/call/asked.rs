//! `Asked`: what a call asks of a limiter, and how a store that need not wait decides it.

use crate::call_id::CallId;
use crate::contract::{Store, SyncStore};
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::{Limit, Limits};
use crate::store::{Checks, Operation, Request};
use crate::time::Timestamp;

/// What a call asks of a limiter.
#[derive(Clone, Copy)]
pub(in crate::limiter) struct Asked<'k, C = u64> {
    pub(super) operation: Operation<'k>,
    pub(super) key: Key<'k>,
    pub(super) cost: C,
    pub(super) at: Option<Timestamp>,
    pub(super) id: Option<CallId<'k>>,
}

/// What a call costs: one number for all limits, or [`Costs`](super::Costs).
pub(in crate::limiter) trait Charge: Sized {
    /// Returns the check of each of `limits`.
    fn checks<'c>(&self, limits: &'c [Limit], key: Key<'c>) -> Result<Checks<'c>, StoreError>;

    /// Decides an awaited call on a store that need not wait.
    fn decide_in_place<'l>(
        limits: &'l Limits,
        store: &dyn SyncStore,
        asked: &Asked<'_, Self>,
    ) -> Result<Decision<'l>, StoreError>;
}

impl Charge for u64 {
    #[inline(always)]
    fn checks<'c>(&self, limits: &'c [Limit], key: Key<'c>) -> Result<Checks<'c>, StoreError> {
        Ok(Checks::of_key(limits, key, *self))
    }

    // The store is known only at run time: it writes its result where it is wanted, because
    // returning it through memory takes longer than deciding.
    #[inline(always)]
    fn decide_in_place<'l>(
        limits: &'l Limits,
        store: &dyn SyncStore,
        asked: &Asked<'_>,
    ) -> Result<Decision<'l>, StoreError> {
        match asked {
            Asked {
                operation: Operation::Consume,
                key,
                cost,
                at: None,
                id: None,
            } => consume(limits, store, *key, *cost),
            _ => decide_request(limits, store, asked),
        }
    }
}

impl<'k, C> Asked<'k, C> {
    /// Returns the request for `checks`, one of each limit.
    pub(super) fn request<'c>(&self, checks: Checks<'c>) -> Request<'c>
    where
        'k: 'c,
    {
        Request::of_parts(self.operation, checks, self.at).with_id(self.id)
    }

    /// Returns the error that the call fails with whatever was counted, if there is one.
    pub(super) fn supported(&self, limits: &[Limit], store: &impl Store) -> Result<(), StoreError>
    where
        C: Charge,
    {
        let checks = self.cost.checks(limits, self.key)?;
        self.request(checks).supported_by(store)
    }
}

/// Decides a call without waiting.
#[inline(always)]
pub(super) fn decide_now<'l>(
    limits: &'l Limits,
    store: &impl SyncStore,
    asked: Asked<'_>,
) -> Result<Decision<'l>, StoreError> {
    let Asked {
        operation,
        key,
        cost,
        at,
        id,
    } = asked;
    match (operation, at, id) {
        (Operation::Consume, None, None) => consume(limits, store, key, cost),
        _ => Ok(decide_request(limits, store, &asked)?.remade()),
    }
}

/// Decides the most common call.
#[inline(always)]
fn consume<'l>(
    limits: &'l Limits,
    store: &(impl SyncStore + ?Sized),
    key: Key<'_>,
    cost: u64,
) -> Result<Decision<'l>, StoreError> {
    store.consume_now(limits, key, cost)
}

/// Decides any call, as a request.
#[inline(never)]
fn decide_request<'l>(
    limits: &'l Limits,
    store: &(impl SyncStore + ?Sized),
    asked: &Asked<'_>,
) -> Result<Decision<'l>, StoreError> {
    decide_checks(limits, store, asked)
}

#[inline(always)]
pub(super) fn decide_checks<'l, C: Charge>(
    limits: &'l Limits,
    store: &(impl SyncStore + ?Sized),
    asked: &Asked<'_, C>,
) -> Result<Decision<'l>, StoreError> {
    let checks = asked.cost.checks(limits, asked.key)?;
    let request = asked.request(Checks::borrowed(&checks));
    Decision::new(limits, store.decide_now(&request)?)
}
