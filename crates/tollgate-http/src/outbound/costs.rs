//! `Costs`: what a request costs under each limit, and what its response says that it did cost.

use std::fmt;
use std::iter;
use std::sync::Arc;

use http::{Request, Response, request, response};
use tollgate_core::Store;
use tollgate_tokio::outbound::{OutboundCall, Permit};

use super::report;

type CostOf = dyn Fn(&request::Parts) -> u64 + Send + Sync;
type CostOfResponse = dyn Fn(&response::Parts) -> Option<u64> + Send + Sync;

/// How a cost is found.
#[derive(Clone, Default)]
pub(super) struct CostBy {
    pub(super) request: Option<Arc<CostOf>>,
    pub(super) response: Option<Arc<CostOfResponse>>,
}

/// How the costs of requests are found.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    pub(super) all: CostBy,
    /// Of limits that have a cost of their own.
    own: Vec<Own>,
}

#[derive(Clone, Debug)]
struct Own {
    /// Among the limits of the `Outbound`.
    index: usize,
    name: Box<str>,
    by: CostBy,
}

/// What a request is admitted at.
pub(super) struct Estimate {
    all: u64,
    /// One for each limit that has a cost of its own.
    own: Vec<u64>,
}

impl Costs {
    /// Returns how the cost of the limit with this index and name is found.
    pub(super) fn of(&mut self, index: usize, name: &str) -> &mut CostBy {
        let at = self.position(index).unwrap_or_else(|| {
            self.own.push(Own {
                index,
                name: name.into(),
                by: CostBy::default(),
            });
            self.own.len() - 1
        });
        &mut self.own[at].by
    }

    fn position(&self, index: usize) -> Option<usize> {
        self.own.iter().position(|own| own.index == index)
    }

    /// Returns what `request` is to be admitted at, and the request.
    pub(super) fn estimate<B>(&self, request: Request<B>) -> (Estimate, Request<B>) {
        let (parts, body) = request.into_parts();
        let all = self.all.request.as_ref().map_or(1, |cost| cost(&parts));
        let own = self.own.iter().map(|own| own.by.estimate(&parts, all));
        let estimate = Estimate {
            own: own.collect(),
            all: self.all.at_least_one(all),
        };
        (estimate, Request::from_parts(parts, body))
    }

    /// Sets what a call costs.
    pub(super) fn charge<'k, S>(
        &self,
        estimate: &Estimate,
        call: OutboundCall<'k, S>,
    ) -> OutboundCall<'k, S> {
        let own = iter::zip(&self.own, &estimate.own);
        own.fold(call.cost(estimate.all), |call, (own, cost)| {
            call.cost_of(&own.name, *cost)
        })
    }

    /// Settles the call of `permit` at what `response` says. Returns what is left of each limit, as far as
    /// this process knows, and the response.
    pub(super) async fn settle<S: Store + 'static, D>(
        &self,
        estimate: &Estimate,
        permit: Permit<S>,
        response: Response<D>,
    ) -> (Vec<u64>, Response<D>) {
        let mut left = report::left(&permit);
        let (parts, body) = response.into_parts();
        let all = self.all.settled(&parts);
        let own: Vec<_> = self.own.iter().map(|own| own.by.settled(&parts)).collect();
        if all.is_some() || own.iter().any(Option::is_some) {
            let all = all.unwrap_or(estimate.all);
            let own = iter::zip(own, &estimate.own);
            let own: Vec<_> = own
                .map(|(cost, estimate)| cost.unwrap_or(*estimate))
                .collect();
            let settle = iter::zip(&self.own, &own)
                .fold(permit.settle(all), |settle, (limit, cost)| {
                    settle.cost_of(&limit.name, *cost)
                });
            // Otherwise, it counts at the estimate. The caller has a response, and that matters more.
            if settle.await.is_ok() {
                for (index, left) in left.iter_mut().enumerate() {
                    let (estimate, cost) = match self.position(index) {
                        Some(at) => (estimate.own[at], own[at]),
                        None => (estimate.all, all),
                    };
                    *left = left.saturating_add(estimate).saturating_sub(cost);
                }
            }
        }
        (left, Response::from_parts(parts, body))
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

impl fmt::Debug for CostBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CostBy")
            .field("request", &self.request.is_some())
            .field("response", &self.response.is_some())
            .finish()
    }
}
