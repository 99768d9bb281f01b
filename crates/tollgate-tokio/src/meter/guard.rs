//! `SettleGuard`: records what a call has cost so far, and settles it when it is dropped.

use std::fmt;
use std::mem;
use std::num::NonZeroU64;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate_core::store::Consumed;
use tollgate_core::{Key, RateLimiter, Receipt, Store};

use super::{NotSettled, OnDrop, Settled};
use crate::costs::LimitCosts;
use crate::key::OwnedKey;

/// Holds the receipt of a call whose cost is known only afterwards, and settles it once.
///
/// Record the cost while it becomes known, with [`add`](Self::add) and
/// [`at_least`](Self::at_least). End with [`settle`](Self::settle) at a cost, or with
/// [`finish`](Self::finish) at what was recorded. If the guard is dropped before that, such as when
/// a client goes away and the server drops its handler, it settles in the background: [`OnDrop`]
/// says at which cost.
///
/// A guard can also count what a stream yields: see [`meter`](Self::meter).
///
/// # Examples
///
/// ```
/// use tollgate_memory::{MemoryStore, RateLimiter};
/// use tollgate_tokio::meter::SettleGuard;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:10000/1m"];
/// let limiter = RateLimiter::new(MemoryStore::new(), limits)?;
/// // The prompt has 300 tokens; the answer has 500, probably.
/// let decision = limiter.check("alice").cost_of("tokens", 300 + 500).await?;
/// let receipt = decision.into_receipt().ok_or("denied")?;
/// let mut used = SettleGuard::new(&limiter, "alice", receipt).only("tokens").base(300);
///
/// // From here on, the handler may be dropped at any `.await`.
/// used.add(35);
/// let settled = used.finish().await?;
/// assert_eq!(settled.cost(), 335);
/// let left = limiter.peek("alice").await?;
/// assert_eq!(left.verdict("requests").map(|verdict| verdict.remaining()), Some(59));
/// assert_eq!(left.verdict("tokens").map(|verdict| verdict.remaining()), Some(9_665));
/// # Ok(())
/// # }
/// ```
#[must_use = "a guard that is dropped at once settles at once"]
pub struct SettleGuard<S: Store + 'static> {
    pub(super) limiter: RateLimiter<S>,
    key: OwnedKey,
    /// The keys of limits that were not counted for that.
    own: Vec<(Box<str>, OwnedKey)>,
    /// Where to settle, whichever thread drops the guard.
    runtime: Handle,
    /// `None` once the settlement has begun.
    receipt: Option<Receipt>,
    base: u64,
    /// What was recorded beside the base.
    recorded: u64,
    per: NonZeroU64,
    /// The limits to settle, one bit for each; none for all of them.
    only: u32,
    /// The first name given to `only` that no limit has.
    unknown: Option<Box<str>>,
    on_drop: Option<OnDrop>,
    /// Whether all that is to be recorded has been, at any time.
    pub(super) is_up_to_date: bool,
    settling: Option<JoinHandle<Result<Settled, NotSettled>>>,
}

impl<S: Store + 'static> SettleGuard<S> {
    /// Returns a guard for the call with this `receipt`, which `limiter` admitted for `key`.
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    pub fn new<'k>(limiter: &RateLimiter<S>, key: impl Into<Key<'k>>, receipt: Receipt) -> Self {
        Self {
            limiter: limiter.clone(),
            key: OwnedKey::from(key.into()),
            own: Vec::new(),
            runtime: Handle::current(),
            receipt: Some(receipt),
            base: 0,
            recorded: 0,
            per: NonZeroU64::MIN,
            only: 0,
            unknown: None,
            on_drop: None,
            is_up_to_date: false,
            settling: None,
        }
    }

    /// Sets what the call has cost already, such as the tokens of the prompt. The default is zero.
    pub fn base(mut self, base: u64) -> Self {
        self.base = base;
        self
    }

    /// Sets the key that the limit called `name` was counted for, if the call had
    /// [another](tollgate_core::call::Call::key_of). If no limit has this name, the settlement fails.
    pub fn key_of<'k>(mut self, name: &str, key: impl Into<Key<'k>>) -> Self {
        self.own.push((name.into(), OwnedKey::from(key.into())));
        self
    }

    /// Settles only the limit called `name`; call this again for more. Each other limit keeps what
    /// the call consumed from it.
    ///
    /// If no limit has this name, the settlement fails with
    /// [`Malformed`](tollgate_core::ErrorKind::Malformed), and the call counts at its estimate.
    pub fn only(mut self, name: &str) -> Self {
        let mut limits = self.limiter.limits().iter();
        match limits.position(|limit| limit.name() == name) {
            Some(index) => self.only |= 1 << index,
            None => {
                self.unknown.get_or_insert_with(|| name.into());
            }
        }
        self
    }

    /// Makes the cost one for each `amount` that is recorded, rounded up: with 1,024, one for each
    /// started KiB. By default, `amount` is one.
    pub fn per(mut self, amount: NonZeroU64) -> Self {
        self.per = amount;
        self
    }

    /// Sets at which cost to settle if this is dropped before its end.
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.on_drop = Some(on_drop);
        self
    }

    /// Records that the call has cost `amount` more.
    pub fn add(&mut self, amount: u64) {
        self.recorded = self.recorded.saturating_add(amount);
    }

    /// Records that the call has cost at least `total` so far, the base included.
    ///
    /// For totals that are reported while the call runs or at its end. What was recorded before is
    /// never lowered. With [`per`](Self::per), `total` is in the unit that is recorded, such as bytes,
    /// and the [estimate](Self::estimate) is in costs, such as KiB: multiply it by the amount.
    pub fn at_least(&mut self, total: u64) {
        self.recorded = self.recorded.max(total.saturating_sub(self.base));
    }

    /// Returns the cost that was recorded so far, the base included.
    #[must_use]
    pub fn cost(&self) -> u64 {
        let total = self.base.saturating_add(self.recorded);
        total.div_ceil(self.per.get())
    }

    /// Returns the cost that the call was checked at; if the limits that are settled were checked at
    /// several, the largest. Zero once the settlement has begun.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let settled = self.consumed().enumerate();
        let settled = settled.filter(|(index, _)| self.settles(*index));
        settled
            .map(|(_, consumed)| consumed.cost())
            .max()
            .unwrap_or(0)
    }

    /// Settles at `cost`, whatever was recorded, and waits for the result.
    ///
    /// # Errors
    ///
    /// [`NotSettled`], which holds the receipt if nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is polled and then dropped before it completes, the settlement goes on in the
    /// background. If it is dropped before it is polled, the guard is dropped.
    pub async fn settle(mut self, cost: u64) -> Result<Settled, NotSettled> {
        self.begin(cost, false);
        self.outcome(cost).await
    }

    /// Settles at [what was recorded](Self::cost), and waits for the result.
    ///
    /// # Errors
    ///
    /// [`NotSettled`], which holds the receipt if nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// As for [`settle`](Self::settle).
    pub async fn finish(self) -> Result<Settled, NotSettled> {
        let cost = self.cost();
        self.settle(cost).await
    }

    /// Returns the receipt, to [refund](RateLimiter::refund) the call, say. The guard settles
    /// nothing then. `None` if the settlement has begun.
    #[must_use]
    pub fn into_receipt(mut self) -> Option<Receipt> {
        self.receipt.take()
    }

    /// Begins to settle what has ended by itself: at what was recorded, or at the estimate if nothing
    /// was.
    pub(super) fn end(&mut self) {
        let keeps_estimate = self.usual() == OnDrop::SettleIfRecorded
            && self.on_drop != Some(OnDrop::Settle)
            && self.recorded == 0;
        self.begin(self.cost(), keeps_estimate);
    }

    /// Returns at which cost to settle if nothing else is said.
    fn usual(&self) -> OnDrop {
        if self.is_up_to_date {
            OnDrop::Settle
        } else {
            OnDrop::SettleIfRecorded
        }
    }

    /// Begins to settle in the background at `cost`, the first time it is called. With
    /// `keeps_estimate`, no limit is settled below what it consumed.
    pub(super) fn begin(&mut self, cost: u64, keeps_estimate: bool) {
        let costs = self.costs(cost, keeps_estimate);
        let settled = if keeps_estimate {
            self.estimate().max(cost)
        } else {
            cost
        };
        let Some(receipt) = self.receipt.take() else {
            return;
        };
        let (limiter, key) = (self.limiter.clone(), self.key.clone());
        let (own, unknown) = (mem::take(&mut self.own), self.unknown.take());
        self.settling = Some(self.runtime.spawn(async move {
            let costs = LimitCosts::of_each(costs.into_iter());
            let mut settle = costs.settle(&limiter, key.as_key(), receipt);
            for (name, key) in &own {
                settle = settle.key_of(name, key.as_key());
            }
            if let Some(unknown) = unknown {
                settle = settle.cost_of(&unknown, cost);
            }
            match settle.await {
                Ok(left) => Ok(Settled {
                    cost: settled,
                    remaining: left.remaining(),
                }),
                Err(error) => Err(NotSettled::failed(cost, error)),
            }
        }));
    }

    /// Waits for the settlement at `cost` that has begun.
    async fn outcome(mut self, cost: u64) -> Result<Settled, NotSettled> {
        let outcome = match self.settling.take() {
            Some(settling) => settling.await.ok(),
            None => None,
        };
        outcome.unwrap_or_else(|| Err(NotSettled::lost(cost)))
    }

    /// Returns the cost at which each limit is settled.
    fn costs(&self, cost: u64, keeps_estimate: bool) -> Vec<u64> {
        let consumed = self.consumed().enumerate();
        let costs = consumed.map(|(index, consumed)| match self.settles(index) {
            true if keeps_estimate => consumed.cost().max(cost),
            true => cost,
            false => consumed.cost(),
        });
        costs.collect()
    }

    fn settles(&self, index: usize) -> bool {
        self.only == 0 || self.only >> index & 1 == 1
    }

    fn consumed(&self) -> impl Iterator<Item = Consumed> {
        let receipt = self.receipt.iter();
        receipt.flat_map(|receipt| receipt.consumed().iter().copied())
    }
}

impl<S: Store + 'static> Drop for SettleGuard<S> {
    fn drop(&mut self) {
        let keeps_estimate = match self.on_drop.unwrap_or_else(|| self.usual()) {
            OnDrop::KeepEstimate => true,
            OnDrop::SettleIfRecorded => self.recorded == 0,
            OnDrop::Settle => false,
        };
        let cost = self.cost();
        let costs = self.costs(cost, keeps_estimate);
        // A call that keeps its costs need not be settled.
        if !self.consumed().map(Consumed::cost).eq(costs) {
            self.begin(cost, keeps_estimate);
        }
    }
}

impl<S: Store + 'static> fmt::Debug for SettleGuard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleGuard")
            .field("limiter", &self.limiter)
            .field("cost", &self.cost())
            .finish_non_exhaustive()
    }
}
