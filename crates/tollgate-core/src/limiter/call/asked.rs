//! `Asked`: what a call asks of a limiter, and how a store that need not wait decides it.

use crate::call_id::CallId;
use crate::contract::SyncStore;
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::{Limit, Limits};
use crate::limiter::per_limit::PerLimit;
use crate::store::{Check, Checks, Operation, Request};
use crate::time::Timestamp;

/// What a call asks of a limiter.
pub(super) struct Asked<'k> {
    pub(super) operation: Operation<'k>,
    pub(super) key: Key<'k>,
    pub(super) per_limit: PerLimit<'k>,
    pub(super) at: Option<Timestamp>,
    pub(super) id: Option<CallId<'k>>,
}

impl<'k> Asked<'k> {
    /// Returns the request for a check of each of `limits`.
    #[inline(always)]
    pub(super) fn request<'c>(&self, limits: &'c [Limit]) -> Result<Request<'c>, StoreError>
    where
        'k: 'c,
    {
        // The most common call is written where it is wanted: checks take long to copy.
        if let (PerLimit::Same(cost), [limit]) = (&self.per_limit, limits) {
            let check = Check::new(limit, self.key, *cost);
            return Ok(self.of_checks(Checks::one(check)));
        }
        Ok(self.of_checks(self.per_limit.checks(limits, self.key)?))
    }

    #[inline(always)]
    fn of_checks<'c>(&self, checks: Checks<'c>) -> Request<'c>
    where
        'k: 'c,
    {
        Request::of_parts(self.operation, checks, self.at).with_id(self.id)
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
        per_limit,
        at,
        id,
    } = asked;
    let (Operation::Consume, None, None, PerLimit::Same(cost)) = (operation, at, id, &per_limit)
    else {
        let asked = Asked {
            operation,
            key,
            per_limit,
            at,
            id,
        };
        return Ok(decide_request(limits, store, &asked)?.remade());
    };
    store.consume_now(limits, key, *cost)
}

/// Decides an awaited call on a store that need not wait.
// The store is known only at run time: it writes its result where it is wanted, because
// returning it through memory takes longer than deciding.
#[inline(always)]
pub(super) fn decide_in_place<'l>(
    limits: &'l Limits,
    store: &dyn SyncStore,
    asked: &Asked<'_>,
) -> Result<Decision<'l>, StoreError> {
    match asked {
        Asked {
            operation: Operation::Consume,
            key,
            per_limit: PerLimit::Same(cost),
            at: None,
            id: None,
        } => store.consume_now(limits, *key, *cost),
        _ => decide_request(limits, store, asked),
    }
}

/// Decides any call, as a request.
#[inline(never)]
fn decide_request<'l>(
    limits: &'l Limits,
    store: &(impl SyncStore + ?Sized),
    asked: &Asked<'_>,
) -> Result<Decision<'l>, StoreError> {
    // Not in a result, which would be copied, if each limit has the same cost and key.
    let checks = match &asked.per_limit {
        PerLimit::Same(cost) => Checks::of_key(limits, asked.key, *cost),
        other => other.checks(limits, asked.key)?,
    };
    let request = asked.of_checks(Checks::borrowed(&checks));
    Decision::new(limits, store.decide_now(&request)?)
}
