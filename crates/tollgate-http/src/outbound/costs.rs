//! `Costs`: what a request costs under each limit, which key it counts for there, and what its response says
//! that it did cost.

use std::fmt;
use std::iter;
use std::sync::Arc;

use http::{Request, request, response};
use tollgate_core::call::SettleError;
use tollgate_core::{Key, Store};
use tollgate_tokio::outbound::{OutboundCall, Permit};

type CostOf = dyn Fn(&request::Parts) -> u64 + Send + Sync;
type KeyOf = dyn Fn(&request::Parts) -> Vec<u8> + Send + Sync;
type CostOfResponse = dyn Fn(&response::Parts) -> Option<u64> + Send + Sync;

/// How a cost is found.
#[derive(Clone, Default)]
pub(super) struct CostBy {
    pub(super) request: Option<Arc<CostOf>>,
    pub(super) response: Option<Arc<CostOfResponse>>,
}

/// How the costs of requests are found, and the keys of single limits.
#[derive(Clone, Default)]
pub(super) struct Costs {
    pub(super) all: CostBy,
    /// Of limits that have a cost of their own, each with its name.
    own: Vec<(Box<str>, CostBy)>,
    /// Of limits that have a key of their own, each with its name.
    keys: Vec<(Box<str>, Arc<KeyOf>)>,
}

/// What a request is admitted at, and for which keys.
pub(super) struct Estimate {
    all: u64,
    /// One for each limit that has a cost of its own.
    own: Vec<u64>,
    /// One for each limit that has a key of its own.
    keys: Vec<Vec<u8>>,
}

impl Costs {
    /// Returns how the cost of the limit called `name` is found.
    pub(super) fn of(&mut self, name: &str) -> &mut CostBy {
        let known = self.own.iter().position(|(own, _)| **own == *name);
        let at = known.unwrap_or_else(|| {
            self.own.push((name.into(), CostBy::default()));
            self.own.len() - 1
        });
        &mut self.own[at].1
    }

    /// Sets how the key of the limit called `name` is found.
    pub(super) fn set_key_of(&mut self, name: &str, key: Arc<KeyOf>) {
        self.keys.push((name.into(), key));
    }

    /// Returns what `request` is to be admitted at, and the request.
    pub(super) fn estimate<B>(&self, request: Request<B>) -> (Estimate, Request<B>) {
        let (parts, body) = request.into_parts();
        let all = self.all.request.as_ref().map_or(1, |cost| cost(&parts));
        let own = self.own.iter().map(|(_, by)| by.estimate(&parts, all));
        let estimate = Estimate {
            own: own.collect(),
            keys: self.keys.iter().map(|(_, key)| key(&parts)).collect(),
            all: self.all.at_least_one(all),
        };
        (estimate, Request::from_parts(parts, body))
    }

    /// Sets what a call costs, and the keys of single limits.
    pub(super) fn charge<'k, S>(
        &self,
        estimate: &'k Estimate,
        call: OutboundCall<'k, S>,
    ) -> OutboundCall<'k, S> {
        let own = iter::zip(&self.own, &estimate.own);
        let call = own.fold(call.cost(estimate.all), |call, ((name, _), cost)| {
            call.cost_of(name, *cost)
        });
        let keys = iter::zip(&self.keys, &estimate.keys);
        keys.fold(call, |call, ((name, _), key)| {
            call.key_of(name, Key::new(key))
        })
    }

    /// Settles the call of `permit` at what `response` says, if it says something. Returns the permit, which
    /// then knows what is left.
    pub(super) async fn settle<S: Store + 'static>(
        &self,
        estimate: &Estimate,
        permit: Permit<S>,
        response: &response::Parts,
    ) -> Result<Permit<S>, SettleError> {
        let all = self.all.settled(response);
        let own = self.own.iter().map(|(_, by)| by.settled(response));
        let own: Vec<_> = own.collect();
        if all.is_none() && own.iter().all(Option::is_none) {
            return Ok(permit);
        }
        let own = iter::zip(own, &estimate.own).map(|(cost, estimate)| cost.unwrap_or(*estimate));
        let settle = permit.settle(all.unwrap_or(estimate.all));
        let own = iter::zip(&self.own, own);
        own.fold(settle, |settle, ((name, _), cost)| {
            settle.cost_of(name, cost)
        })
        .await
    }
}

impl CostBy {
    /// Returns what a request is to be admitted at, which is `all` if this does not say.
    fn estimate(&self, request: &request::Parts, all: u64) -> u64 {
        let cost = self.request.as_ref();
        self.at_least_one(cost.map_or(all, |cost| cost(request)))
    }

    /// What costs nothing has no receipt, and so could never be settled.
    fn at_least_one(&self, cost: u64) -> u64 {
        cost.max(u64::from(self.response.is_some()))
    }

    fn settled(&self, response: &response::Parts) -> Option<u64> {
        self.response.as_ref().and_then(|cost| cost(response))
    }
}

impl fmt::Debug for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Costs")
    }
}
