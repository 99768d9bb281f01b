//! `Request`: one or more checks for a store to decide together.

use std::borrow::Borrow;
use std::ops::Deref;
use std::time::Duration;

use crate::algorithm::{State, States};
use crate::decision::{Receipt, Verdict, Verdicts};
use crate::error::{ErrorKind, StoreError};
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::limit::Limit;
use crate::one_or_many::OneOrMany;
use crate::time::Timestamp;

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
        self.limit.algorithm().consume(state, now, self.cost)
    }

    /// Returns whether both checks count in the same state.
    #[must_use]
    pub fn shares_state_with(&self, other: &Self) -> bool {
        self.limit.identity() == other.limit.identity() && self.key == other.key
    }
}

/// What a request does with its checks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Consumes every cost, or nothing.
    Consume,
    /// Decides as [`Operation::Consume`] would, but consumes nothing and is not counted as an
    /// attempt.
    Peek,
    /// Gives back what a request with the same limits and keys consumed.
    Refund(&'a Receipt),
    /// Consumes every cost for a call that starts now or after a delay, at most `max_delay`, or
    /// consumes nothing. Sub-microseconds are ignored.
    ///
    /// Only if the algorithm of every limit [can reserve](crate::algorithm::Algorithm::can_reserve).
    Reserve {
        /// The longest delay that is accepted.
        max_delay: Duration,
    },
    /// Consumes the same cost from every limit: as much as all of them allow, at most the smallest
    /// cost of the checks.
    TakeUpTo,
}

/// One or more checks that are decided together, all-or-nothing.
///
/// # Examples
///
/// Three per second and twenty per minute for an address, and five per minute for an address and
/// endpoint, in one decision:
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::algorithm::{FixedWindow, Gcra};
/// use tollgate_core::{Check, Key, Limit, Quota, Request};
///
/// let burst = Limit::new("burst", Gcra::new(Quota::per_second(3))?)?;
/// let steady = Limit::new("steady", FixedWindow::aligned(Quota::per_minute(20)))?;
/// let login = Limit::new("login", FixedWindow::aligned(Quota::per_minute(5)))?;
/// let ip = Key::from("203.0.113.7");
/// let request = Request::consume(Check::new(&burst, ip, 1))
///     .and(Check::new(&steady, ip, 1))
///     .and(Check::new(&login, ip.with_rest("/login"), 1));
/// assert_eq!(request.checks().len(), 3);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    operation: Operation<'a>,
    checks: Checks<'a>,
    at: Option<Timestamp>,
}

/// The checks of a request: up to four without an allocation.
#[derive(Clone, Debug)]
pub struct Checks<'a>(Held<'a>);

#[derive(Clone, Debug)]
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

    /// Returns `checks` without copying them.
    #[inline(always)]
    pub(crate) fn borrowed(checks: &'a [Check<'a>]) -> Self {
        Self(Held::Borrowed(checks))
    }

    fn push(&mut self, check: Check<'a>) {
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

impl<'a> Request<'a> {
    /// Returns a request to apply `operation` to all of `checks`.
    #[must_use]
    pub fn new(
        operation: Operation<'a>,
        checks: impl IntoIterator<Item: Borrow<Check<'a>>>,
    ) -> Self {
        let checks = checks.into_iter().map(|check| *check.borrow());
        Self::of_parts(operation, checks.collect(), None)
    }

    /// Returns a request to consume the check's cost.
    #[inline]
    #[must_use]
    pub fn consume(check: Check<'a>) -> Self {
        Self::of_parts(Operation::Consume, Checks::one(check), None)
    }

    /// Returns a request to decide the check without consuming anything.
    #[inline]
    #[must_use]
    pub fn peek(check: Check<'a>) -> Self {
        Self::of_parts(Operation::Peek, Checks::one(check), None)
    }

    /// Returns a request to consume as much as the limit allows, at most the check's cost.
    #[inline]
    #[must_use]
    pub fn take_up_to(check: Check<'a>) -> Self {
        Self::of_parts(Operation::TakeUpTo, Checks::one(check), None)
    }

    /// Returns a request to consume the check's cost for a call that starts now, or after a delay
    /// of at most `max_delay`. See [`RateLimiter::reserve`](crate::RateLimiter::reserve).
    #[must_use]
    pub fn reserve(check: Check<'a>, max_delay: Duration) -> Self {
        Self::of_parts(Operation::Reserve { max_delay }, Checks::one(check), None)
    }

    /// Returns a request to give back what was consumed according to `receipt`. The check's cost is
    /// ignored.
    ///
    /// The checks must name the same limits and keys, in the same order, as the request that
    /// consumed.
    #[must_use]
    pub fn refund(receipt: &'a Receipt, check: Check<'a>) -> Self {
        Self::of_parts(Operation::Refund(receipt), Checks::one(check), None)
    }

    /// Returns a request from all its parts.
    #[inline(always)]
    pub(crate) const fn of_parts(
        operation: Operation<'a>,
        checks: Checks<'a>,
        at: Option<Timestamp>,
    ) -> Self {
        Self {
            operation,
            checks,
            at,
        }
    }

    /// Adds a check, decided together with the others.
    #[must_use]
    pub fn and(mut self, check: Check<'a>) -> Self {
        self.checks.push(check);
        self
    }

    /// Sets the instant to decide at, instead of the store's own clock.
    ///
    /// For replays, tests, and stores without a clock. Never use one key with both a caller's clock
    /// and the store's: no guarantee holds for such a key. If callers' clocks are off by up to `e`,
    /// the quota holds per `T - 2e` instead of per `T`.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Returns the operation to apply to the checks.
    #[inline]
    #[must_use]
    pub fn operation(&self) -> Operation<'a> {
        self.operation
    }

    /// Returns the checks, in the order of the verdicts.
    #[inline]
    #[must_use]
    pub fn checks(&self) -> &[Check<'a>] {
        &self.checks
    }

    /// Returns the caller's instant, or `None` to use the store's clock.
    #[inline]
    #[must_use]
    pub fn caller_time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns an error if this request is not valid. Stores call this before they decide.
    ///
    /// `fingerprint` returns the fingerprint that the store gives its decision on this request,
    /// such as [`Fingerprint::of`]. It is called only for a refund.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when there is no check or more than [`MAX_CHECKS`], when two checks
    /// have the same limit and key, or when a receipt is from other limits, other keys or the other
    /// clock. [`ErrorKind::Unsupported`] unless it [is defined](Self::is_defined).
    #[inline]
    pub fn validate(
        &self,
        fingerprint: impl FnOnce(&Self) -> Fingerprint,
    ) -> Result<(), StoreError> {
        self.validate_checks()?;
        match self.operation {
            Operation::Refund(receipt) if !receipt.has(fingerprint(self)) => Err(other_receipt()),
            Operation::Reserve { .. } if !self.is_defined() => Err(no_reservations()),
            _ => Ok(()),
        }
    }

    /// Returns whether the algorithms of all its limits define the operation: all operations are
    /// defined for every algorithm, except [`Operation::Reserve`].
    ///
    /// For stores, which [support](crate::Store::supports) no other request.
    #[inline]
    #[must_use]
    pub fn is_defined(&self) -> bool {
        match self.operation {
            Operation::Reserve { .. } => {
                let mut checks = self.checks().iter();
                checks.all(|check| check.limit().algorithm().can_reserve())
            }
            _ => true,
        }
    }

    /// Returns the longest delay that this request accepts, in microseconds, and that all of its
    /// limits can count exactly.
    pub(crate) fn longest_delay_us(&self, max_delay: Duration) -> u64 {
        let longest = |check: &Check<'_>| check.limit().algorithm().longest_delay().unwrap_or(0);
        let exact = self.checks().iter().map(longest).min().unwrap_or(0);
        u64::try_from(max_delay.as_micros()).map_or(exact, |most| most.min(exact))
    }

    /// Does the same as [`validate`](Self::validate), but does not compare a receipt's fingerprint.
    ///
    /// For stores that forward requests to another store, whose fingerprints they do not know.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when there is no check or more than [`MAX_CHECKS`], when two checks
    /// have the same limit and key, or when a receipt is from another number of limits.
    #[inline]
    pub fn validate_checks(&self) -> Result<(), StoreError> {
        if self.checks().len() == 1 && !matches!(self.operation, Operation::Refund(_)) {
            return Ok(());
        }
        self.validate_several()
    }

    fn validate_several(&self) -> Result<(), StoreError> {
        let malformed = |message: &str| Err(StoreError::new(ErrorKind::Malformed, message));
        let checks = self.checks();
        if checks.is_empty() || checks.len() > MAX_CHECKS {
            return malformed("a request must have 1 to 32 checks: add one, or split the request");
        }
        for (index, check) in checks.iter().enumerate() {
            if checks[..index].iter().any(|c| c.shares_state_with(check)) {
                return malformed(
                    "a request has two checks of one limit and key: add up their costs",
                );
            }
        }
        match self.operation {
            Operation::Refund(receipt) if receipt.consumed().len() != checks.len() => {
                Err(other_receipt())
            }
            _ => Ok(()),
        }
    }

    /// Decides this request at `now` on `states`, one for each check.
    ///
    /// This defines the decision that every store must reach. It changes only `states` and reads no
    /// clock. It also ignores [`caller_time`](Self::caller_time): the store must pass that as
    /// `now`.
    ///
    /// # Panics
    ///
    /// May panic when `states` holds fewer states than there are checks, or when the request is
    /// not [valid](Self::validate).
    #[inline]
    pub fn decide_on(&self, states: &mut (impl States + ?Sized), now: Timestamp) -> Verdicts {
        let fingerprint = Fingerprint::of(self);
        match (self.checks(), self.operation) {
            ([check], Operation::Consume) if check.cost > 0 => {
                Verdicts::of_one(fingerprint, check.consume_from(states.state_mut(0), now))
            }
            _ => self
                .evaluate(states, now)
                .apply(self, fingerprint, states, now),
        }
    }
}

#[cold]
fn no_reservations() -> StoreError {
    StoreError::new(
        ErrorKind::Unsupported,
        "only GCRA limits can delay a call: limit it by `gcra`, or check it and wait for \
         `retry_after`",
    )
}

fn other_receipt() -> StoreError {
    StoreError::new(
        ErrorKind::Malformed,
        "this receipt is for another limit, key or clock: refund it with the limiter and key of the call, and use `at` only if the call did",
    )
}
