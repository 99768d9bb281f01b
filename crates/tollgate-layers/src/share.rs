//! `Share`: a store that admits a part of each limit.

use std::num::NonZeroU32;

use async_trait::async_trait;
use tollgate_core::store::{Checks, Operation, Prefetch, Request, Verdicts};
use tollgate_core::{ErrorKind, Limit, Store, StoreError};

/// Wraps a store so that each of several processes admits its part of every limit: with 4 parts, a
/// quarter, rounded down.
///
/// A unit costs as many units of the store as there are parts, so no division is inexact: all parts
/// together never admit more than one whole. A cost that the limit allows, but that no part ever can,
/// is not supported: with 4 parts, any if the capacity is below 4, such as that
/// of GCRA with `burst=1`.
///
/// [`take_up_to`](tollgate_core::RateLimiter::take_up_to) is not supported, and no units are granted ahead:
/// what is taken beyond whole units would be lost.
///
/// A receipt is for a `Share` of as many parts: one of another number gives back too much, or too little.
///
/// # Examples
///
/// Ten processes, each with a store of its own, that never admit more than 100 per minute together:
///
/// ```
/// use std::num::NonZeroU32;
/// use tollgate_layers::Share;
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let processes = NonZeroU32::new(10).unwrap();
/// let store = Share::new(MemoryStore::new(), processes);
/// let limiter = RateLimiter::new(store, ["api=sliding-log:100/1m"])?;
/// assert_eq!(limiter.check("alice").cost(10).await?.remaining(), 0);
/// assert!(limiter.check("alice").await?.is_denied());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Share<S> {
    store: S,
    parts: u64,
}

impl<S> Share<S> {
    /// Wraps `store`, which admits one of `parts`.
    pub fn new(store: S, parts: NonZeroU32) -> Self {
        Self {
            store,
            parts: u64::from(parts.get()),
        }
    }

    /// Returns a limit that allows its cost while no part of it ever does.
    fn too_small<'r>(&self, request: &Request<'r>) -> Option<&'r Limit> {
        if !request.operation().decides_a_call() {
            return None;
        }
        let limits = request.checks().iter().map(|check| {
            let capacity = check.limit().algorithm().capacity();
            (check.limit(), capacity, check.cost())
        });
        let mut in_force = limits.filter(|(limit, ..)| !limit.is_shadow());
        let too_small = in_force.find(|(_, capacity, cost)| {
            cost <= capacity && cost.saturating_mul(self.parts) > *capacity
        });
        too_small.map(|(limit, ..)| limit)
    }

    /// Returns an error if something is lost between units of a part and of the whole, or if no part
    /// ever allows what the whole does.
    fn can_divide(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let unsupported = if self.parts > 1 && matches!(request.operation(), Operation::TakeUpTo) {
            "a part of a limit is taken in whole units: use `check`".to_owned()
        } else if let Some(limit) = self.too_small(request) {
            format!(
                "one of {} parts of the limit {limit} never allows this cost: use fewer parts, or \
                 a larger limit",
                self.parts
            )
        } else {
            return Ok(());
        };
        request.validate_checks()?;
        Err(StoreError::new(ErrorKind::Unsupported, unsupported))
    }
}

#[async_trait]
impl<S: Store> Store for Share<S> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.can_divide(&request)?;
        let of_store = |cost: u64| cost.saturating_mul(self.parts);
        let receipt = request.receipt().map(|own| own.map_costs(of_store));
        let mut whole = request.map_costs(of_store);
        if self.parts > 1 {
            whole = whole.with_prefetch(Prefetch::NOTHING);
        }
        if let Some(receipt) = &receipt {
            whole = whole.with_receipt(receipt);
        }
        let verdicts = self.store.decide(whole).await?;
        Ok(verdicts.map_costs(|cost| cost / self.parts))
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.can_divide(request)?;
        self.store.supports(request)
    }
}
