//! `Caller`: a call that may outlive the future that made it.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate_core::call::{Left, SettleError};
use tollgate_core::store::{Check, Operation, Request, Verdicts};
use tollgate_core::{Key, Limit, RateLimiter, Store, StoreError};

use crate::costs::LimitCosts;
use crate::key::OwnedKeys;
use crate::queue::Class;

/// A call that may outlive the future that made it.
pub(crate) struct Caller<S> {
    limiter: RateLimiter<S>,
    keys: OwnedKeys,
    cost: LimitCosts,
    class: Class,
    /// Where calls are completed whose callers have gone.
    runtime: Handle,
}

impl<S: Store + 'static> Caller<S> {
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    pub(crate) fn new(
        limiter: RateLimiter<S>,
        keys: OwnedKeys,
        cost: impl Into<LimitCosts>,
        class: Class,
    ) -> Arc<Self> {
        Arc::new(Self {
            limiter,
            keys,
            cost: cost.into(),
            class,
            runtime: Handle::current(),
        })
    }

    pub(crate) fn keys(&self) -> &OwnedKeys {
        &self.keys
    }

    pub(crate) fn limiter(&self) -> &RateLimiter<S> {
        &self.limiter
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(super) fn asker(&self) -> Asker<'_> {
        Asker {
            limits: self.limits(),
        }
    }

    fn request(&self, operation: Operation<'static>) -> Request<'_> {
        self.asker()
            .request(operation, &self.cost, |index| self.keys.of(index))
    }

    /// Returns whether the store supports `operation` for all limits.
    pub(super) fn supports(&self, operation: Operation<'static>) -> bool {
        self.limiter
            .store()
            .supports(&self.request(operation))
            .is_ok()
    }

    pub(crate) fn limits(&self) -> &[Limit] {
        self.limiter.limits()
    }

    pub(crate) fn cost(&self) -> &LimitCosts {
        &self.cost
    }

    pub(super) fn class(&self) -> &Class {
        &self.class
    }

    pub(crate) async fn decide(
        &self,
        operation: Operation<'static>,
    ) -> Result<Verdicts, StoreError> {
        let request = self.request(operation);
        let verdicts = self.limiter.store().decide(request).await?;
        // Checks the number of verdicts.
        Ok(self.limiter.decision(verdicts)?.into_verdicts())
    }

    pub(super) async fn give_back(&self, verdicts: Verdicts) {
        // If it fails, the call stays counted: nobody is there to retry.
        let _ = self.refund(verdicts).await;
    }

    /// Does the same in a task of its own.
    pub(crate) fn give_back_in_background(self: &Arc<Self>, verdicts: Verdicts) -> JoinHandle<()> {
        let caller = Arc::clone(self);
        self.runtime
            .spawn(async move { caller.give_back(verdicts).await })
    }

    /// Gives back what `verdicts` consumed.
    pub(crate) async fn refund(&self, verdicts: Verdicts) -> Result<(), SettleError> {
        let Some(receipt) = verdicts.into_receipt() else {
            return Ok(());
        };
        let refund = self.limiter.refund(self.keys.main(), receipt);
        self.keys.set(&self.limiter, refund).await.map(drop)
    }

    /// Makes `costs` what `verdicts` consumed. Returns what is left.
    pub(crate) async fn settle(
        &self,
        verdicts: Verdicts,
        costs: &LimitCosts,
    ) -> Result<Verdicts, SettleError> {
        let left = verdicts.again();
        let Some(receipt) = verdicts.into_receipt() else {
            return Ok(left);
        };
        let settle = costs.settle(&self.limiter, self.keys.main(), receipt);
        let left = self.keys.set(&self.limiter, settle).await;
        left.map(Left::into_verdicts)
    }
}

/// The limits of a call, for which requests are made.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) limits: &'a [Limit],
}

impl<'a> Asker<'a> {
    /// Returns a request of `cost` for all limits, each of which has the key that `key` returns for its index.
    pub(super) fn request(
        self,
        operation: Operation<'a>,
        cost: &LimitCosts,
        key: impl Fn(usize) -> Key<'a>,
    ) -> Request<'a> {
        let check = |(index, limit)| Check::new(limit, key(index), cost.of(index));
        Request::new(operation, self.limits.iter().enumerate().map(check))
    }

    pub(super) fn limit(self, index: usize) -> &'a Limit {
        &self.limits[index]
    }

    /// Returns what a call takes: of several limits, the largest part of one. No cost exceeds the capacity
    /// of its limit.
    pub(super) fn units(self, cost: &LimitCosts) -> u64 {
        if self.limits.len() == 1 {
            return cost.of(0);
        }
        let part = |(index, limit): (usize, &Limit)| {
            let capacity = u128::from(limit.algorithm().capacity().max(1));
            let part = (u128::from(cost.of(index)) << 57).div_ceil(capacity);
            // Nobody waits for a limit in shadow.
            (!limit.is_shadow()).then(|| u64::try_from(part).unwrap_or(u64::MAX))
        };
        let parts = self.limits.iter().enumerate().filter_map(part);
        parts.max().unwrap_or_default()
    }
}
