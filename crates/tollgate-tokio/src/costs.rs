//! `LimitCosts`: what a call costs under each limit, and `Sum`: what several cost together.

use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;

use tollgate_core::call::{Change, Settle};
use tollgate_core::store::Check;
use tollgate_core::{Key, RateLimiter, Receipt};

/// What a call costs under each limit.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum LimitCosts {
    Same(u64),
    /// One for each limit, and not all of them the same.
    Each(Arc<[u64]>),
}

impl LimitCosts {
    /// Returns what `checks`, one for each limit, cost.
    pub(crate) fn of_checks(checks: &[Check<'_>]) -> Self {
        Self::of_each(checks.iter().map(Check::cost))
    }

    /// Returns these costs, one for each limit.
    pub(crate) fn of_each(costs: impl Iterator<Item = u64> + Clone) -> Self {
        let mut others = costs.clone();
        match others.next() {
            Some(first) if others.any(|cost| cost != first) => Self::Each(costs.collect()),
            first => Self::Same(first.unwrap_or(0)),
        }
    }

    /// Returns the cost under the limit with this index.
    pub(crate) fn of(&self, limit: usize) -> u64 {
        match self {
            Self::Same(cost) => *cost,
            Self::Each(costs) => costs.get(limit).copied().unwrap_or(0),
        }
    }

    /// Returns a call that settles `receipt` at these costs.
    pub(crate) fn settle<'l, 'k, S>(
        &self,
        limiter: &'l RateLimiter<S>,
        key: Key<'k>,
        receipt: Receipt,
    ) -> Change<'l, 'k, S, Settle> {
        let first = self.of(0);
        let each = (0..).map(|index| self.of(index)).zip(limiter.limits());
        let others = each.filter(|(cost, _)| *cost != first);
        others.fold(
            limiter.settle(key, receipt, first),
            |settle, (cost, limit)| settle.cost_of(limit.name(), cost),
        )
    }

    /// Returns whether the call consumes nothing.
    pub(crate) fn are_zero(&self) -> bool {
        // Costs that differ are not all zero.
        *self == Self::Same(0)
    }

    /// Returns whether the call consumes something, but not from every limit.
    pub(crate) fn leave_out_a_limit(&self) -> bool {
        matches!(self, Self::Each(costs) if costs.contains(&0))
    }
}

impl From<u64> for LimitCosts {
    fn from(cost: u64) -> Self {
        Self::Same(cost)
    }
}

/// What several calls cost together.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    /// Under every limit.
    same: u128,
    /// Beside that, under each limit.
    each: Vec<u128>,
}

impl Sum {
    /// Returns what they cost under the limit with this index.
    pub(crate) fn of(&self, limit: usize) -> u128 {
        self.same + self.each.get(limit).unwrap_or(&0)
    }
}

impl AddAssign<&LimitCosts> for Sum {
    fn add_assign(&mut self, costs: &LimitCosts) {
        match costs {
            LimitCosts::Same(cost) => self.same += u128::from(*cost),
            LimitCosts::Each(costs) => {
                self.each.resize(self.each.len().max(costs.len()), 0);
                for (sum, cost) in self.each.iter_mut().zip(costs.iter()) {
                    *sum += u128::from(*cost);
                }
            }
        }
    }
}

/// Subtracts what was added before.
impl SubAssign<&LimitCosts> for Sum {
    fn sub_assign(&mut self, costs: &LimitCosts) {
        match costs {
            LimitCosts::Same(cost) => self.same -= u128::from(*cost),
            LimitCosts::Each(costs) => {
                for (sum, cost) in self.each.iter_mut().zip(costs.iter()) {
                    *sum -= u128::from(*cost);
                }
            }
        }
    }
}
