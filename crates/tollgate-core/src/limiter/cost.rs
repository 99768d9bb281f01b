//! `Cost`: what a call costs under each limit.

use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::limit::{Limit, unknown_limit};
use crate::one_or_many::OneOrMany;
use crate::store::{Check, Checks};

/// What a call costs.
#[derive(Clone, Debug)]
pub(super) enum Cost {
    /// The same under each limit.
    Same(u64),
    /// Another cost under some limits.
    Each(Box<Costs>),
    /// Nothing: a cost was set for a limit that there is not. The text says which there are.
    Unknown(Box<str>),
}

#[derive(Clone, Debug)]
pub(super) struct Costs {
    same: u64,
    /// For each limit, its own cost if it has one.
    own: OneOrMany<Option<u64>>,
}

impl Cost {
    /// Sets the cost under each limit that has none of its own.
    #[inline]
    pub(super) fn set(&mut self, cost: u64) {
        match self {
            Self::Same(same) => *same = cost,
            Self::Each(costs) => costs.same = cost,
            Self::Unknown(_) => {}
        }
    }

    /// Sets the cost under the limit called `name`.
    pub(super) fn set_own(&mut self, limits: &[Limit], name: &str, cost: u64) {
        let index = limits.iter().position(|limit| limit.name() == name);
        match (&mut *self, index) {
            (Self::Unknown(_), _) => {}
            (_, None) => *self = Self::Unknown(unknown_limit(limits, name).to_string().into()),
            (Self::Each(costs), Some(index)) => costs.own[index] = Some(cost),
            (Self::Same(same), Some(index)) => {
                let own = |other| (other == index).then_some(cost);
                *self = Self::Each(Box::new(Costs {
                    same: *same,
                    own: OneOrMany::from_fn(limits.len(), own),
                }));
            }
        }
    }

    /// Returns the check of each of `limits`.
    #[inline(always)]
    pub(super) fn checks<'c>(
        &self,
        limits: &'c [Limit],
        key: Key<'c>,
    ) -> Result<Checks<'c>, StoreError> {
        match self {
            Self::Same(cost) => Ok(Checks::of_key(limits, key, *cost)),
            Self::Each(costs) => Ok(costs.checks(limits, key)),
            Self::Unknown(text) => Err(StoreError::new(ErrorKind::Malformed, text.to_string())),
        }
    }
}

impl Costs {
    #[inline(never)]
    fn checks<'c>(&self, limits: &'c [Limit], key: Key<'c>) -> Checks<'c> {
        Checks::from_fn(limits.len(), |index| {
            Check::new(&limits[index], key, self.own[index].unwrap_or(self.same))
        })
    }
}
