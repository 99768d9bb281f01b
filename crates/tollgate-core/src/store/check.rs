//! `Check` and `Checks`: limits, the keys they are counted for, and the costs of a call.

use std::ops::Deref;

use crate::algorithm::State;
use crate::key::Key;
use crate::limit::Limit;
use crate::one_or_many::OneOrMany;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// The maximum number of checks in a request.
pub const MAX_CHECKS: usize = 32;

/// A limit, the key it is counted for, and the cost of a call.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    limit: &'a Limit,
    key: Key<'a>,
    cost: u64,
}

impl<'a> Check<'a> {
    /// Returns a check of `limit` for `key` at `cost`.
    ///
    /// Any cost is valid: zero is always allowed and changes nothing; more than the limit's
    /// capacity is always denied.
    #[must_use]
    pub fn new(limit: &'a Limit, key: impl Into<Key<'a>>, cost: u64) -> Self {
        Self {
            limit,
            key: key.into(),
            cost,
        }
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit(&self) -> &'a Limit {
        self.limit
    }

    /// Returns the key that the limit is counted for.
    #[must_use]
    pub fn key(&self) -> Key<'a> {
        self.key
    }

    /// See [`inside::key`](crate::inside::key).
    #[inline(always)]
    pub(crate) fn key_ref(&self) -> &Key<'a> {
        &self.key
    }

    /// Returns the cost of the call.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Consumes this check's cost, which must not be zero, from `state` if it fits.
    ///
    /// The most common call, for stores that hold a lock while they decide.
    #[inline(always)]
    pub(crate) fn consume_from(&self, state: &mut State, now: Timestamp) -> Verdict {
        let shadow = self.limit.is_shadow();
        self.limit
            .algorithm()
            .consume(state, now, self.cost, shadow)
    }

    /// Returns whether both checks count in the same state.
    #[must_use]
    pub fn shares_state_with(&self, other: &Self) -> bool {
        self.limit.identity() == other.limit.identity() && self.key == other.key
    }
}

/// The checks of a request, a slice: up to four without an allocation. A request is made of their `iter().copied()`.
#[derive(Clone, Debug)]
pub struct Checks<'a>(Held<'a>);

#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each call"
)]
enum Held<'a> {
    Borrowed(&'a [Check<'a>]),
    Owned(OneOrMany<Check<'a>>),
}

impl<'a> Checks<'a> {
    /// Returns a list of one check.
    #[inline(always)]
    pub(crate) fn one(check: Check<'a>) -> Self {
        Self(Held::Owned(OneOrMany::One(check)))
    }

    #[inline(always)]
    pub(crate) fn of_key(limits: &'a [Limit], key: Key<'a>, cost: u64) -> Self {
        Self::from_fn(limits.len(), |index| Check::new(&limits[index], key, cost))
    }

    /// Returns the list of `length` checks that `check` returns for the indices in order.
    #[inline(always)]
    pub(crate) fn from_fn(length: usize, check: impl FnMut(usize) -> Check<'a>) -> Self {
        Self(Held::Owned(OneOrMany::from_fn(length, check)))
    }

    /// Returns `checks` without copying them.
    #[inline(always)]
    pub(crate) fn borrowed(checks: &'a [Check<'a>]) -> Self {
        Self(Held::Borrowed(checks))
    }

    pub(super) fn push(&mut self, check: Check<'a>) {
        if let Held::Borrowed(checks) = self.0 {
            self.0 = Held::Owned(checks.iter().copied().collect());
        }
        if let Held::Owned(checks) = &mut self.0 {
            checks.push(check);
        }
    }
}

impl<'a> Deref for Checks<'a> {
    type Target = [Check<'a>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Held::Borrowed(checks) => checks,
            Held::Owned(checks) => checks,
        }
    }
}

impl<'a> From<Check<'a>> for Checks<'a> {
    fn from(check: Check<'a>) -> Self {
        Self::one(check)
    }
}

impl<'a> From<&[Check<'a>]> for Checks<'a> {
    fn from(checks: &[Check<'a>]) -> Self {
        checks.iter().copied().collect()
    }
}

impl<'a, const N: usize> From<[Check<'a>; N]> for Checks<'a> {
    fn from(checks: [Check<'a>; N]) -> Self {
        checks.into_iter().collect()
    }
}

impl<'a> FromIterator<Check<'a>> for Checks<'a> {
    fn from_iter<I: IntoIterator<Item = Check<'a>>>(checks: I) -> Self {
        Self(Held::Owned(checks.into_iter().collect()))
    }
}
