//! `PerLimit`: what a call costs under each limit, and which key it counts for there.

use std::iter;

use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::limit::{Limit, unknown_limit};
use crate::one_or_many::OneOrMany;
use crate::store::{Check, Checks};

/// What a call costs under each limit, and which key it counts for there.
#[derive(Clone, Debug)]
pub(super) enum PerLimit<'k> {
    /// This cost under each limit, for the call's key.
    Same(u64),
    /// Another cost or key under some limits.
    Each(Box<Each<'k>>),
    /// Nothing: a cost or key was set for a limit that there is not. The text says which there are.
    Unknown(Box<str>),
}

#[derive(Clone, Debug)]
pub(super) struct Each<'k> {
    cost: u64,
    /// For each limit, its own cost and key if it has them.
    own: OneOrMany<Own<'k>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Own<'k> {
    cost: Option<u64>,
    key: Option<Key<'k>>,
}

impl<'k> PerLimit<'k> {
    /// Sets the cost under each limit that has none of its own.
    #[inline]
    pub(super) fn set_cost(&mut self, cost: u64) {
        match self {
            Self::Same(same) => *same = cost,
            Self::Each(each) => each.cost = cost,
            Self::Unknown(_) => {}
        }
    }

    pub(super) fn set_cost_of(&mut self, limits: &[Limit], name: &str, cost: u64) {
        self.change(limits, name, |own| own.cost = Some(cost));
    }

    /// Sets the key that the limit called `name` is counted for.
    pub(super) fn set_key_of(&mut self, limits: &[Limit], name: &str, key: Key<'k>) {
        self.change(limits, name, |own| own.key = Some(key));
    }

    fn change(&mut self, limits: &[Limit], name: &str, change: impl FnOnce(&mut Own<'k>)) {
        if matches!(self, Self::Unknown(_)) {
            return;
        }
        let Some(index) = limits.iter().position(|limit| limit.name() == name) else {
            *self = Self::Unknown(unknown_limit(limits, name).to_string().into());
            return;
        };
        if let Self::Same(cost) = *self {
            let own = OneOrMany::from_fn(limits.len(), |_| Own::default());
            *self = Self::Each(Box::new(Each { cost, own }));
        }
        if let Self::Each(each) = self {
            change(&mut each.own[index]);
        }
    }

    /// Returns the keys that a call for `key` counts for, some of them twice.
    pub(super) fn keys(&self, key: Key<'k>) -> impl Iterator<Item = Key<'k>> {
        let own = match self {
            Self::Each(each) => &each.own[..],
            _ => &[],
        };
        iter::once(key).chain(own.iter().filter_map(|own| own.key))
    }

    /// Returns the check of each of `limits`, for `key` where it has none of its own.
    #[inline(always)]
    pub(super) fn checks<'c>(
        &self,
        limits: &'c [Limit],
        key: Key<'c>,
    ) -> Result<Checks<'c>, StoreError>
    where
        'k: 'c,
    {
        match self {
            Self::Same(cost) => Ok(Checks::of_key(limits, key, *cost)),
            Self::Each(each) => Ok(each.checks(limits, key)),
            Self::Unknown(text) => Err(StoreError::new(ErrorKind::Malformed, text.to_string())),
        }
    }
}

impl<'k> Each<'k> {
    #[inline(never)]
    fn checks<'c>(&self, limits: &'c [Limit], key: Key<'c>) -> Checks<'c>
    where
        'k: 'c,
    {
        Checks::from_fn(limits.len(), |index| {
            let own = &self.own[index];
            let (key, cost) = (own.key.unwrap_or(key), own.cost.unwrap_or(self.cost));
            Check::new(&limits[index], key, cost)
        })
    }
}
