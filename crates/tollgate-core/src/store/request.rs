//! `Request`: one or more checks for a store to decide together.

use std::borrow::Borrow;
use std::time::Duration;

use super::check::{Check, Checks, MAX_CHECKS};
use super::fingerprint::{Fingerprint, Sum};
use super::operation::{Operation, Prefetch};
use super::receipt::Receipt;
use super::verdicts::Verdicts;
use crate::algorithm::{BlockSpan, Change, Reserved, States};
use crate::call_id::CallId;
use crate::cover::Cover;
use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Timestamp;

/// One or more checks that are decided together, all-or-nothing.
///
/// # Examples
///
/// Three per second and twenty per minute for an address, and five per minute for an address and
/// endpoint, in one decision:
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{FixedWindow, Gcra};
/// use tollgate_core::store::{Check, Request};
/// use tollgate_core::{Key, Limit, Quota};
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
    id: Option<CallId<'a>>,
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

    /// Returns a request to consume `cost` for `key` from each of `limits`, or nothing.
    #[inline]
    #[must_use]
    pub fn consume_all(limits: &'a [Limit], key: impl Into<Key<'a>>, cost: u64) -> Self {
        let checks = Checks::of_key(limits, key.into(), cost);
        Self::of_parts(Operation::Consume, checks, None)
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

    /// Returns a request to settle `receipt` at the check's cost. See
    /// [`RateLimiter::settle`](crate::RateLimiter::settle).
    ///
    /// The checks must name the same limits and keys, in the same order, as the request that
    /// consumed.
    #[must_use]
    pub fn settle(receipt: &'a Receipt, check: Check<'a>) -> Self {
        Self::of_parts(Operation::Settle(receipt), Checks::one(check), None)
    }

    /// Returns a request to count the check's cost, whether it fits or not. See
    /// [`RateLimiter::charge`](crate::RateLimiter::charge).
    #[must_use]
    pub fn charge(check: Check<'a>) -> Self {
        Self::of_parts(Operation::Charge, Checks::one(check), None)
    }

    /// Returns a request to give back as many of the newest units as the check's cost. See
    /// [`RateLimiter::give`](crate::RateLimiter::give).
    #[must_use]
    pub fn give(check: Check<'a>) -> Self {
        Self::of_parts(Operation::Give, Checks::one(check), None)
    }

    /// Returns a request to lower what remains to at most the check's cost. See
    /// [`RateLimiter::lower`](crate::RateLimiter::lower).
    #[must_use]
    pub fn lower(check: Check<'a>) -> Self {
        Self::of_parts(Operation::Lower, Checks::one(check), None)
    }

    /// Returns a request to block the check's key. See
    /// [`RateLimiter::block`](crate::RateLimiter::block). The check's cost is ignored.
    #[must_use]
    pub fn block(span: BlockSpan, check: Check<'a>) -> Self {
        Self::of_parts(Operation::Block(span), Checks::one(check), None)
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
            id: None,
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

    /// Sets the id of the call: if it is repeated with the same id, it gets the first answer. See
    /// [`CallId`].
    #[must_use]
    pub fn id(mut self, id: impl Into<CallId<'a>>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the id of the call, or that it has none.
    #[inline(always)]
    pub(crate) fn with_id(mut self, id: Option<CallId<'a>>) -> Self {
        self.id = id;
        self
    }

    /// Gives back, or settles, `receipt` instead of its [own](Self::receipt). A request without one
    /// stays as it is.
    #[must_use]
    pub fn with_receipt(mut self, receipt: &'a Receipt) -> Self {
        match &mut self.operation {
            Operation::Refund(own) | Operation::Settle(own) => *own = receipt,
            _ => {}
        }
        self
    }

    /// Changes the cost of each check to what `other` returns for it.
    ///
    /// For layers in whose store a unit costs something else than outside. This leaves the
    /// [receipt](Self::receipt) as it is: set [that](Self::with_receipt) of [`Receipt::map_costs`], too, and
    /// change the answer back by [`Verdicts::map_costs`].
    ///
    /// # Examples
    ///
    /// A layer that charges each call twice:
    ///
    /// ```
    /// use tollgate_core::store::{Check, Request, State};
    /// use tollgate_core::{Limit, LimitError, Timestamp};
    ///
    /// let limit: Limit = "api=sliding-log:10/1m".parse()?;
    /// let request = Request::consume(Check::new(&limit, "alice", 3)).map_costs(|cost| cost * 2);
    /// let inside = request.decide_on(&mut State::default(), Timestamp::UNIX_EPOCH);
    /// assert_eq!((inside.consumed(), inside.remaining()), (6, 4));
    /// let outside = inside.map_costs(|cost| cost / 2);
    /// assert_eq!((outside.consumed(), outside.remaining()), (3, 2));
    ///
    /// // What is given back is doubled again.
    /// let receipt = outside.into_receipt().unwrap();
    /// assert_eq!(receipt.consumed()[0].cost(), 3);
    /// assert_eq!(receipt.map_costs(|cost| cost * 2).consumed()[0].cost(), 6);
    /// # Ok::<(), LimitError>(())
    /// ```
    #[must_use]
    pub fn map_costs(mut self, other: impl Fn(u64) -> u64) -> Self {
        let checks = self.checks.iter();
        let checks = checks.map(|of| Check::new(of.limit(), of.key(), other(of.cost())));
        self.checks = checks.collect();
        if let Operation::Prefetch(prefetch) = &mut self.operation {
            prefetch.most = other(prefetch.most);
        }
        self
    }

    /// Asks for units ahead, too, for a request that consumes; another stays as it is. See
    /// [`Operation::Prefetch`]. With [`Prefetch::NOTHING`], it only consumes.
    #[must_use]
    pub fn with_prefetch(mut self, prefetch: Prefetch) -> Self {
        self.operation = match self.operation {
            Operation::Consume | Operation::Prefetch(_) if prefetch.most == 0 => Operation::Consume,
            Operation::Consume | Operation::Prefetch(_) => Operation::Prefetch(prefetch),
            other => other,
        };
        self
    }

    /// Returns how many units `verdicts` grant beyond the cost of the call, and how long after this request
    /// was sent they can be used; `None` if the request asked for none, or got none.
    ///
    /// All limits count these units as if they were used already. [`Operation::Refund`] and
    /// [`Operation::Settle`] give back what is not used, by the receipt of the verdicts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::store::{Check, Prefetch, Request, State};
    /// use tollgate_core::{Limit, LimitError, Timestamp};
    ///
    /// let limit: Limit = "api=sliding-log:10/1m".parse()?;
    /// let ahead = Prefetch::new(8, Duration::from_millis(200));
    /// let request = Request::consume(Check::new(&limit, "alice", 1)).with_prefetch(ahead);
    /// let mut states = [State::default()];
    /// let verdicts = request.decide_on(&mut states, Timestamp::UNIX_EPOCH);
    /// assert_eq!(request.granted(&verdicts), Some((7, Duration::from_millis(200))));
    /// assert_eq!(verdicts.remaining(), 2);
    ///
    /// // Two are left, and the call takes one of them.
    /// let next = request.decide_on(&mut states, Timestamp::UNIX_EPOCH);
    /// assert_eq!(request.granted(&next), Some((1, Duration::from_millis(200))));
    /// # Ok::<(), LimitError>(())
    /// ```
    #[must_use]
    pub fn granted(&self, verdicts: &Verdicts) -> Option<(u64, Duration)> {
        let Operation::Prefetch(prefetch) = self.operation else {
            return None;
        };
        let units = verdicts.consumed().checked_sub(self.only_cost()?)?;
        let each = self.checks().iter().zip(verdicts.as_slice());
        let lasts = each.map(|(check, verdict)| {
            let algorithm = check.limit().algorithm();
            algorithm.lasts(prefetch.within_us.into(), verdict)
        });
        let lasts = Duration::from_micros(lasts.min()?);
        (verdicts.is_allowed() && units > 0).then_some((units, lasts))
    }

    /// Returns the cost of all checks, or `None` if they differ.
    pub(crate) fn only_cost(&self) -> Option<u64> {
        let (first, others) = self.checks().split_first()?;
        let cost = first.cost();
        others
            .iter()
            .all(|check| check.cost() == cost)
            .then_some(cost)
    }

    /// Returns the id of the call, and the request without it.
    ///
    /// For stores that keep answers by id: find out whether there is one, and otherwise decide the
    /// request without the id, and keep the answer if it is allowed, in one atomic step.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if no answer can be kept for the id, or the operation consumes
    /// nothing.
    pub fn split_id(&self) -> Result<(Option<CallId<'a>>, Self), StoreError> {
        let Some(id) = self.id else {
            return Ok((None, self.clone()));
        };
        id.validate()?;
        if !self.is_counted_once() {
            return Err(StoreError::new(
                ErrorKind::Malformed,
                "only what counts once has an id: leave it out of peeks, blocks and `lower`",
            ));
        }
        Ok((Some(id), self.clone().with_id(None)))
    }

    /// Returns a hash of everything that is the same if this call is repeated with its [id](Self::id): the
    /// operation, the receipt, and the limits with their quotas, keys and costs, but not the instant. It is the same
    /// in every process.
    ///
    /// For stores that keep answers by id: keep it with the answer, and [refuse](CallId::taken) a call with the
    /// same id and another hash.
    #[must_use]
    pub fn call_hash(&self) -> u64 {
        let (operation, most) = match self.operation {
            Operation::Consume => (0, 0),
            Operation::TakeUpTo => (1, 0),
            Operation::Reserve { max_delay } => (2, max_delay.as_nanos()),
            Operation::Charge => (3, 0),
            Operation::Give => (4, 0),
            Operation::Refund(_) => (5, 0),
            Operation::Settle(_) => (6, 0),
            // No other operation has an id.
            _ => (7, 0),
        };
        let mut sum = Sum::of(&[operation]);
        sum.add(&most.to_le_bytes());
        sum.add_part(&self.receipt().map(Receipt::to_bytes).unwrap_or_default());
        for check in self.checks() {
            sum.add_part(check.limit().identity().as_bytes());
            sum.add_part(check.limit().algorithm().to_string().as_bytes());
            sum.add_part(&check.key().partition());
            sum.add_part(check.key().rest());
            sum.add(&check.cost().to_le_bytes());
        }
        sum.value()
    }

    /// Returns whether the call has an id.
    #[inline]
    #[must_use]
    pub fn has_id(&self) -> bool {
        self.id.is_some()
    }

    #[inline]
    pub(crate) fn has_shadow(&self) -> bool {
        self.checks().iter().any(|check| check.limit().is_shadow())
    }

    /// Returns whether every limit can count its cost exactly, whatever fits.
    fn can_charge(&self) -> bool {
        let mut checks = self.checks().iter();
        checks.all(|check| check.cost() <= check.limit().algorithm().largest_charge())
    }

    fn is_counted_once(&self) -> bool {
        matches!(
            self.operation,
            Operation::Charge
                | Operation::Consume
                | Operation::Give
                | Operation::Refund(_)
                | Operation::Reserve { .. }
                | Operation::Settle(_)
                | Operation::TakeUpTo
        )
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

    /// Returns whether a limit counts by a calendar, so that a store which knows no time zones needs a
    /// [cover](Self::cover).
    #[must_use]
    pub fn needs_cover(&self) -> bool {
        let mut checks = self.checks().iter();
        checks.any(|check| check.limit().algorithm().counts_by_calendar())
    }

    /// Returns the periods of its calendars that a store which knows no time zones needs to decide this
    /// request at about the instant `around`: for each check, in order, two that follow each other, or none
    /// if its limit counts by no calendar. Every instant that is less than half a period away from `around`
    /// lies in one of the two.
    ///
    /// The store decides in the period that holds its own clock's instant. If that is in neither, it changes
    /// nothing and answers [`Uncovered`](crate::store::Uncovered), and its client asks once more, with the
    /// periods around that instant.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "calendar")] {
    /// use tollgate_core::store::{Check, Request, Uncovered};
    /// use tollgate_core::{Limit, Timestamp};
    ///
    /// let limit: Limit = "bill=fixed-window:10000/month@Europe/Berlin".parse()?;
    /// let request = Request::consume(Check::new(&limit, "alice", 1));
    /// let here = Timestamp::from_micros(1_780_000_000_000_000)?; // 2026-05-28
    /// let cover = request.cover(here);
    /// let [may, june] = cover.periods(0) else { unreachable!("two for each calendar") };
    /// assert_eq!(may.end(), june.start());
    /// assert!(may.start() <= here && here < may.end());
    ///
    /// // A server whose clock is a year off finds itself in neither.
    /// let server = Timestamp::from_micros(1_811_536_000_000_000)?;
    /// assert_eq!(cover.check(server), Err(Uncovered(server)));
    /// assert_eq!(request.cover(server).check(server), Ok(()));
    /// # }
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn cover(&self, around: Timestamp) -> Cover {
        let checks = self.checks().iter();
        Cover::new(checks.map(|check| check.limit().algorithm().periods(around)))
    }

    /// Returns an error if this request is not valid. Stores call this before they decide.
    ///
    /// `fingerprint` returns the fingerprint that the store gives its decision on this request,
    /// such as [`Fingerprint::of`]. It is called only if there is a receipt.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when there is no check or more than [`MAX_CHECKS`], when two checks
    /// have the same limit and key, when a limit [needs a zone](Limit::needs_zone) or
    /// [a day](Limit::needs_day), or when a receipt is from other limits, other keys or the other clock. Those of
    /// [`validate_operation`](Self::validate_operation).
    #[inline]
    pub fn validate(
        &self,
        fingerprint: impl FnOnce(&Self) -> Fingerprint,
    ) -> Result<(), StoreError> {
        self.validate_checks()?;
        match self.receipt() {
            Some(receipt) if !receipt.has(fingerprint(self)) => Err(other_receipt()),
            _ => self.validate_operation(),
        }
    }

    /// Returns the receipt that this request gives back or settles, or `None` if it does neither.
    #[inline]
    #[must_use]
    pub fn receipt(&self) -> Option<&'a Receipt> {
        match self.operation {
            Operation::Refund(receipt) | Operation::Settle(receipt) => Some(receipt),
            _ => None,
        }
    }

    /// Returns what the limit at `index` recorded of the reservation that this request cancels.
    ///
    /// A settlement cancels nothing: it gives back as if the call had been made at its start.
    pub(crate) fn cancelled(&self, index: usize) -> Option<&'a Reserved> {
        match self.operation {
            Operation::Refund(receipt) => receipt.reserved(index),
            _ => None,
        }
    }

    /// Returns how a refund or a settlement changes what the limit at `index` counts, or `None` for
    /// another operation.
    pub(crate) fn change(&self, index: usize) -> Option<Change> {
        let consumed = self.receipt()?.consumed()[index];
        let check = &self.checks()[index];
        if check.limit().is_shadow() && consumed.cost() == 0 {
            // It counted nothing, since it would have denied the call.
            return None;
        }
        let kept = match self.operation {
            Operation::Settle(_) => check.cost(),
            _ => 0,
        };
        Some(match kept.checked_sub(consumed.cost()) {
            Some(more) => Change::Count(more),
            None => Change::GiveBack {
                amount: consumed.cost() - kept,
                at: consumed.at(),
            },
        })
    }

    /// Returns an error unless the algorithms of all its limits define the operation: all
    /// operations are defined for every algorithm, except [`Operation::Reserve`] and
    /// [`Operation::Block`], and a [charge](Operation::Charge) that cannot be counted exactly. A request with an
    /// [id](Self::id) is not defined: [split it](Self::split_id) first.
    ///
    /// For stores, which [support](crate::Store::supports) no other request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], with what to call instead.
    #[inline]
    pub fn validate_operation(&self) -> Result<(), StoreError> {
        match self.undefined() {
            Some(reason) => Err(StoreError::new(ErrorKind::Unsupported, reason)),
            None => Ok(()),
        }
    }

    /// Returns why this request is not defined, if it is not.
    #[inline]
    fn undefined(&self) -> Option<&'static str> {
        let mut algorithms = self.checks().iter().map(|check| check.limit().algorithm());
        match self.operation {
            _ if self.has_id() => {
                Some("this store keeps no answers by id: leave out `id`, or use another store")
            }
            Operation::Block(_) if !algorithms.all(|of| of.can_block()) => {
                Some("only a limit that blocks can block a key: add one, such as `ban=block:5m`")
            }
            Operation::Charge if !self.can_charge() => Some(
                "such a charge cannot be counted exactly: its debt must be at most 2^53 - 1 units, and \
                 under GCRA be paid off within 285 years",
            ),
            Operation::Reserve { .. } | Operation::TakeUpTo if self.has_shadow() => {
                Some("a limit in shadow sees whole calls that start now: use `check`")
            }
            Operation::Reserve { .. } if !algorithms.all(|of| of.can_reserve()) => Some(
                "only GCRA limits can delay a call: limit it by `gcra`, or check it and wait for \
                 `retry_after`",
            ),
            _ => None,
        }
    }

    /// Returns the longest delay that this request accepts, in microseconds, and that all of its
    /// limits can count exactly.
    pub(crate) fn longest_delay_us(&self, max_delay: Duration) -> u64 {
        // Nothing, if one of them has no reservations: `None` is less than any delay.
        let longest = |check: &Check<'_>| check.limit().algorithm().longest_delay();
        let exact = self.checks().iter().map(longest).min().flatten();
        let exact = exact.unwrap_or_default();
        u64::try_from(max_delay.as_micros()).map_or(exact, |most| most.min(exact))
    }

    /// Does what [`validate`](Self::validate) does, but accepts ids, undefined operations, any fingerprint.
    ///
    /// For layers: the store inside knows its fingerprints, and what it supports.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when there is no check or more than [`MAX_CHECKS`], when two checks
    /// have the same limit and key, when a limit [needs a zone](Limit::needs_zone) or
    /// [a day](Limit::needs_day), or when a receipt is from another number of limits.
    #[inline]
    pub fn validate_checks(&self) -> Result<(), StoreError> {
        if let [check] = self.checks()
            && self.receipt().is_none()
            && !check.limit().is_local()
        {
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
        if let Some(check) = checks.iter().find(|check| check.limit().is_local()) {
            return Err(undetermined(check.limit()));
        }
        for (index, check) in checks.iter().enumerate() {
            if checks[..index].iter().any(|c| c.shares_state_with(check)) {
                return malformed(
                    "a request has two checks of one limit and key: add up their costs",
                );
            }
        }
        match self.receipt() {
            Some(receipt) if receipt.consumed().len() != checks.len() => Err(other_receipt()),
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
        self.decide_with(Fingerprint::of(self), states, now)
    }
}

impl Fingerprint {
    /// Returns the fingerprint of `request`: equal for equal limits, keys and clock, in every process.
    #[must_use]
    pub fn of(request: &Request<'_>) -> Self {
        // The store's clock and a caller's count in different states.
        let mut sum = Sum::of(&[u8::from(request.caller_time().is_some())]);
        for check in request.checks() {
            sum.add_part(check.limit().identity().as_bytes());
            sum.add_part(&check.key().partition());
            sum.add_part(check.key().rest());
        }
        Self::new(sum.value())
    }
}

/// Returns the error of a call without the time zone, or the day, that this limit needs.
#[cold]
fn undetermined(limit: &Limit) -> StoreError {
    let message = if limit.needs_zone() {
        "a limit counts in the zone `@local`, which is that of each call: call the limiter in a zone \
         of the database of time zones, such as `limiter.in_zone(&berlin)?.check(key)`"
    } else {
        "a limit counts by months from `day=local`, which is the day of each call: call the limiter on a \
         day, such as `limiter.on_day(15)?.check(key)`"
    };
    StoreError::new(ErrorKind::Malformed, message)
}

fn other_receipt() -> StoreError {
    StoreError::new(
        ErrorKind::Malformed,
        "this receipt is for another limit, key or clock: use it with the limiter and key of the call, and use `at` only if the call did",
    )
}
