//! `Decision`: whether a call may go ahead, and what each limit said.

use std::cmp::Reverse;
use std::fmt;
use std::task::Poll;

use crate::algorithm::Reserved;
use crate::error::{ErrorKind, StoreError};
use crate::fingerprint::Fingerprint;
use crate::limit::Limit;
use crate::one_or_many::OneOrMany;
use crate::time::{Timestamp, Wait};

/// One limit's verdict on a call.
///
/// The numbers describe the limit after the call: an allowed call has consumed its cost, and a
/// denied one has changed nothing, unless the limit counts denied calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verdict {
    pub(crate) allowed: bool,
    pub(crate) capacity: u64,
    pub(crate) remaining: u64,
    /// How long until the limit allows the call; of an allowed reservation, how long until it
    /// starts.
    pub(crate) wait: Wait,
    /// Whether the call is an allowed reservation.
    pub(crate) starts_later: bool,
    pub(crate) reset_after: Wait,
    pub(crate) consumed: u64,
    pub(crate) at: Timestamp,
}

impl Verdict {
    /// Returns the verdict of a limit with this `capacity` that allows a call and has `remaining`
    /// left after it.
    ///
    /// For stores that get their verdicts from elsewhere; the state machines in
    /// [`algorithm`](crate::algorithm) make their own.
    #[must_use]
    pub fn allow(capacity: u64, remaining: u64) -> Self {
        Self {
            allowed: true,
            capacity,
            remaining,
            wait: Wait::ZERO,
            starts_later: false,
            reset_after: Wait::ZERO,
            consumed: 0,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Returns the verdict of a limit with this `capacity` and `remaining` left that denies a call
    /// until `retry_after` has passed.
    #[must_use]
    pub fn deny(capacity: u64, remaining: u64, retry_after: Wait) -> Self {
        Self {
            allowed: false,
            wait: retry_after,
            ..Self::allow(capacity, remaining)
        }
    }

    /// Sets how long until the limit has its full capacity again.
    #[must_use]
    pub fn with_reset_after(mut self, reset_after: Wait) -> Self {
        self.reset_after = reset_after;
        self
    }

    /// Sets how long this limit alone delays a [reservation](crate::RateLimiter::reserve) that it
    /// allows. A denied call has no delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Wait) -> Self {
        if self.allowed {
            self.wait = delay;
            self.starts_later = true;
        }
        self
    }

    /// Sets the cost that the call consumed, and the instant at which it is counted.
    #[must_use]
    pub fn with_consumed(mut self, cost: u64, at: Timestamp) -> Self {
        self.consumed = cost;
        self.at = at;
        self
    }

    /// Returns whether this limit alone allows the call.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the largest cost that this limit can ever admit: the amount of its quota, or the
    /// burst of a token bucket.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the largest cost that this limit would allow now, rounded down.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns how long to wait until this limit allows the same call, if nobody else calls.
    ///
    /// The wait is exact: one microsecond earlier the limit still denies the call. It is
    /// [`Wait::NEVER`] if the cost exceeds the [`capacity`](Self::capacity). It can be more than
    /// zero even if this limit allowed the call: if another limit denied it, a limit that counts
    /// denied calls has counted it.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        if self.starts_later {
            Wait::ZERO
        } else {
            self.wait
        }
    }

    /// Returns how long this limit alone delays a [reservation](crate::RateLimiter::reserve) that
    /// was allowed; zero for other calls.
    #[must_use]
    pub fn delay(&self) -> Wait {
        if self.starts_later {
            self.wait
        } else {
            Wait::ZERO
        }
    }

    /// Returns how long until this limit has its full capacity again, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Wait {
        self.reset_after
    }

    /// Returns the cost that the call consumed from this limit; zero if it was denied.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Returns the instant of the decision, on the store's clock or the caller's.
    ///
    /// If the clock stepped back, a call is counted at the latest instant recorded for the key, and
    /// this returns that instant.
    #[must_use]
    pub fn decided_at(&self) -> Timestamp {
        self.at
    }
}

/// The verdicts on a [`Request`](crate::Request), in the order of its checks.
///
/// Stores return this. A [`RateLimiter`](crate::RateLimiter) returns a [`Decision`], which also
/// knows the limits.
///
/// A request is decided all-or-nothing: it is allowed only if every limit allows it. A denied
/// request consumes nothing, except that limits which count denied calls count it.
///
/// # Examples
///
/// ```
/// use tollgate_core::algorithm::{FixedWindow, State};
/// use tollgate_core::{Check, Limit, Quota, Request, Timestamp};
///
/// let limit = Limit::new("login", FixedWindow::aligned(Quota::per_minute(2)))?;
/// let request = Request::consume(Check::new(&limit, "alice", 2));
/// let mut states = [State::default()];
/// let verdicts = request.decide_on(&mut states, Timestamp::UNIX_EPOCH);
/// assert!(verdicts.is_allowed());
/// assert_eq!((verdicts.remaining(), verdicts.capacity()), (0, 2));
/// assert_eq!(verdicts.reset_after().as_secs_ceil(), Some(60));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[must_use = "verdicts limit nothing unless the program reads them: call `is_allowed` or `is_denied`"]
pub struct Verdicts {
    pub(crate) allowed: bool,
    pub(crate) verdicts: OneOrMany<Verdict>,
    pub(crate) fingerprint: Fingerprint,
    /// Of a reservation that starts later: what each limit recorded.
    pub(crate) reserved: Option<Box<OneOrMany<Reserved>>>,
}

impl Verdicts {
    /// Returns the verdicts on a request with this `fingerprint`: allowed if all of them allow it,
    /// denied if there are none.
    ///
    /// For stores that get their verdicts from elsewhere; [`Request::decide_on`] makes its own.
    ///
    /// [`Request::decide_on`]: crate::Request::decide_on
    pub fn new(fingerprint: Fingerprint, verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        Self::of(fingerprint, verdicts.into_iter().collect())
    }

    /// See [`Verdicts::new`].
    #[inline(always)]
    pub(crate) fn of(fingerprint: Fingerprint, verdicts: OneOrMany<Verdict>) -> Self {
        Self {
            allowed: !verdicts.is_empty() && verdicts.iter().all(Verdict::is_allowed),
            verdicts,
            fingerprint,
            reserved: None,
        }
    }

    /// Returns `length` verdicts to be overwritten.
    #[inline]
    pub(crate) fn blank(length: usize) -> Self {
        Self {
            allowed: false,
            verdicts: OneOrMany::from_fn(length, |_| Verdict::allow(0, 0)),
            fingerprint: Fingerprint::new(0),
            reserved: None,
        }
    }

    /// Makes these, whatever they are, `length` verdicts to be overwritten.
    #[inline]
    pub(crate) fn resize(&mut self, length: usize) {
        if self.verdicts.len() != length || self.reserved.is_some() {
            *self = Self::blank(length);
        }
    }

    /// Returns each limit's verdict, to overwrite it.
    #[inline]
    pub(crate) fn each_mut(&mut self) -> &mut [Verdict] {
        &mut self.verdicts
    }

    /// Returns the verdicts on a request with one check.
    // Always inlined: otherwise the space for several verdicts is copied, too.
    #[inline(always)]
    pub(crate) fn of_one(fingerprint: Fingerprint, verdict: Verdict) -> Self {
        Self {
            allowed: verdict.allowed,
            verdicts: OneOrMany::One(verdict),
            fingerprint,
            reserved: None,
        }
    }

    /// Returns the fingerprint and the only verdict.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] unless there is exactly one verdict.
    #[inline]
    pub fn into_one(self) -> Result<(Fingerprint, Verdict), StoreError> {
        match *self.verdicts {
            [verdict] => Ok((self.fingerprint, verdict)),
            ref verdicts => Err(other_number(1, verdicts.len())),
        }
    }

    /// Returns whether the call may go ahead.
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns whether the call must not go ahead.
    #[inline]
    #[must_use]
    pub fn is_denied(&self) -> bool {
        !self.allowed
    }

    /// Returns each limit's verdict, in the order of the request's checks.
    #[must_use]
    pub fn as_slice(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Returns the index of the binding limit; see [`Decision::binding`].
    #[must_use]
    pub fn binding(&self) -> usize {
        let mut best = 0;
        for (index, verdict) in self.verdicts.iter().enumerate() {
            let held = &self.verdicts[best];
            let tighter = if self.allowed {
                let tightness = |of: &Verdict| (of.delay(), Reverse(of.remaining));
                tightness(verdict) > tightness(held)
            } else {
                (verdict.wait, !verdict.allowed) > (held.wait, !held.allowed)
            };
            if tighter {
                best = index;
            }
        }
        best
    }

    /// Returns the capacity of the binding limit: the largest cost that it can ever admit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.verdicts
            .get(self.binding())
            .map_or(0, Verdict::capacity)
    }

    /// Returns the largest cost that all limits would allow now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.verdicts
            .iter()
            .map(Verdict::remaining)
            .min()
            .unwrap_or(0)
    }

    /// Returns how long to wait until the same call is allowed, if nobody else calls: the longest
    /// wait of its limits, or zero if the call was allowed.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        // Every verdict of an allowed call has a wait of zero.
        self.verdicts
            .iter()
            .map(Verdict::retry_after)
            .max()
            .unwrap_or(Wait::ZERO)
    }

    /// Returns how long to wait before the call starts: the longest delay of the limits; see
    /// [`Decision::delay`].
    #[must_use]
    pub fn delay(&self) -> Wait {
        self.verdicts
            .iter()
            .map(Verdict::delay)
            .max()
            .unwrap_or(Wait::ZERO)
    }

    /// Returns how long until every limit has its full capacity again, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Wait {
        self.verdicts
            .iter()
            .map(Verdict::reset_after)
            .max()
            .unwrap_or(Wait::ZERO)
    }

    /// Returns the cost that was consumed from each limit; the smallest, if the costs differ.
    ///
    /// After [`take_up_to`](crate::RateLimiter::take_up_to) this is what was taken.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.verdicts
            .iter()
            .map(Verdict::consumed)
            .min()
            .unwrap_or(0)
    }

    /// Returns the receipt that a refund needs, or `None` if nothing was consumed.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt()
    }

    /// Returns the same verdicts, with the same receipt, for a store that keeps answers by
    /// [id](crate::CallId): it gives them only to repeated calls.
    pub fn again(&self) -> Self {
        Self {
            allowed: self.allowed,
            verdicts: self.verdicts.clone(),
            fingerprint: self.fingerprint,
            reserved: self.reserved.clone(),
        }
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        let starts = self.reserved.as_ref();
        let starts = starts.map_or(0, |starts| size_of_val(&**starts) + starts.heap_bytes());
        self.verdicts.heap_bytes() + starts
    }

    /// Returns the receipt and leaves the verdicts: only one of the two may be given to callers.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        let starts = self.reserved.as_deref();
        let start = |index: usize| {
            let reserved = starts.and_then(|starts| starts.get(index));
            reserved.map(|reserved| Timestamp::saturating_from_micros(reserved.start))
        };
        let consumed: OneOrMany<Consumed> = self
            .verdicts
            .iter()
            .enumerate()
            .map(|(index, verdict)| Consumed {
                cost: verdict.consumed,
                at: start(index).unwrap_or(verdict.at),
            })
            .collect();
        consumed
            .iter()
            .any(|consumed| consumed.cost > 0)
            .then_some(Receipt {
                consumed,
                fingerprint: self.fingerprint,
                reserved: self.reserved.clone(),
            })
    }
}

/// Compares the verdicts, and ignores the request's fingerprint.
impl PartialEq for Verdicts {
    fn eq(&self, other: &Self) -> bool {
        (self.allowed, &self.verdicts, &self.reserved)
            == (other.allowed, &other.verdicts, &other.reserved)
    }
}

impl Eq for Verdicts {}

impl fmt::Debug for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdicts")
            .field("allowed", &self.allowed)
            .field("verdicts", &self.as_slice())
            .finish()
    }
}

/// The result of a call to a [`RateLimiter`](crate::RateLimiter): allowed or denied, and each
/// limit's verdict.
///
/// It borrows the limits from the limiter instead of copying them.
/// [`into_receipt`](Self::into_receipt) and [`permit`](Self::permit) return values that borrow
/// nothing.
#[derive(Eq, PartialEq)]
#[must_use = "a decision limits nothing unless the program reads it: call `is_allowed`, `is_denied` or `permit`"]
pub struct Decision<'l> {
    limits: &'l [Limit],
    verdicts: Verdicts,
}

impl<'l> Decision<'l> {
    /// Returns the decision for a store's `verdicts` on `limits`.
    #[inline]
    pub(crate) fn new(limits: &'l [Limit], verdicts: Verdicts) -> Result<Self, StoreError> {
        if verdicts.verdicts.len() != limits.len() {
            return Err(other_number(limits.len(), verdicts.verdicts.len()));
        }
        Ok(Self { limits, verdicts })
    }

    /// Returns the decision on `limits` for what a store's future returned.
    // Each arm makes what is returned, so that the verdicts are moved once.
    #[inline]
    pub(crate) fn of_polled(
        limits: &'l [Limit],
        polled: Poll<Result<Verdicts, StoreError>>,
    ) -> Poll<Result<Self, StoreError>> {
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(verdicts)) if verdicts.verdicts.len() == limits.len() => {
                Poll::Ready(Ok(Self { limits, verdicts }))
            }
            Poll::Ready(Ok(verdicts)) => {
                let found = verdicts.verdicts.len();
                Poll::Ready(Err(other_number(limits.len(), found)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }

    /// Returns the decision on `limits` that `decide` writes.
    // What is returned is made where the caller wants it: moving it several times took a third of a
    // call.
    #[inline(always)]
    pub(crate) fn written(
        limits: &'l [Limit],
        decide: impl FnOnce(&mut Verdicts) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut decision = Ok(Self {
            limits,
            verdicts: Verdicts::blank(limits.len()),
        });
        if let Ok(Self { verdicts, .. }) = &mut decision {
            let decided = decide(verdicts);
            let found = verdicts.verdicts.len();
            if let Err(error) = decided {
                decision = Err(error);
            } else if found != limits.len() {
                decision = Err(other_number(limits.len(), found));
            }
        }
        decision
    }

    /// Returns the decision for a store's `verdict` on `limits`, which must hold one limit.
    #[inline(always)]
    pub(crate) fn of_one(limits: &'l [Limit], fingerprint: Fingerprint, verdict: Verdict) -> Self {
        Self {
            limits,
            verdicts: Verdicts::of_one(fingerprint, verdict),
        }
    }

    /// Returns whether the call may go ahead.
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.verdicts.allowed
    }

    /// Returns whether the call must not go ahead.
    #[inline]
    #[must_use]
    pub fn is_denied(&self) -> bool {
        !self.verdicts.allowed
    }

    /// Returns an error if the call was denied, for use with `?`.
    ///
    /// # Errors
    ///
    /// [`Denied`], which holds the binding limit and how long to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{RateLimiter, SyncStore};
    ///
    /// fn login(limiter: &RateLimiter<impl SyncStore>, user: &str) -> Result<(), Box<dyn std::error::Error>> {
    ///     limiter.check(user).run()?.permit()?;
    ///     // ...
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn permit(&self) -> Result<(), Denied> {
        if self.verdicts.allowed {
            Ok(())
        } else {
            Err(self.denied())
        }
    }

    #[cold]
    fn denied(&self) -> Denied {
        let (limit, verdict) = self.binding();
        Denied {
            limit: limit.clone(),
            verdict: *verdict,
        }
    }

    /// Returns the limit that determines the result, and its verdict.
    ///
    /// For a denied call this is the limit with the longest [`retry_after`](Verdict::retry_after);
    /// if waits are equal, a limit that denied the call comes before one that allowed it. For an
    /// allowed call it is the limit with the least [`remaining`](Verdict::remaining); for an allowed
    /// reservation, the one with the longest [`delay`](Verdict::delay) comes first. Among limits
    /// that are still equal, it is the first.
    #[must_use]
    pub fn binding(&self) -> (&'l Limit, &Verdict) {
        let index = self.verdicts.binding();
        (&self.limits[index], &self.verdicts.verdicts[index])
    }

    /// Returns each limit and its verdict, in the order of
    /// [`RateLimiter::limits`](crate::RateLimiter::limits).
    pub fn verdicts(&self) -> impl ExactSizeIterator<Item = (&'l Limit, &Verdict)> {
        self.limits.iter().zip(self.verdicts.as_slice())
    }

    /// Returns the verdict of the limit called `name`, or `None` if the limiter has no such limit.
    #[must_use]
    pub fn verdict(&self, name: &str) -> Option<&Verdict> {
        let mut verdicts = self.verdicts();
        let named = verdicts.find(|(limit, _)| limit.name() == name);
        named.map(|(_, verdict)| verdict)
    }

    /// Returns the capacity of the [binding](Self::binding) limit: the largest cost that it can
    /// ever admit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.verdicts.capacity()
    }

    /// Returns the largest cost that all limits would allow now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.verdicts.remaining()
    }

    /// Returns how long to wait until the same call is allowed, if nobody else calls: the longest
    /// wait of the limits, or zero if the call was allowed.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.verdicts.retry_after()
    }

    /// Returns how long to wait before the call starts: the delay of a
    /// [reservation](crate::RateLimiter::reserve) that was allowed, and zero for any other call.
    #[must_use]
    pub fn delay(&self) -> Wait {
        self.verdicts.delay()
    }

    /// Returns how long until every limit has its full capacity again, if nobody else calls.
    #[must_use]
    pub fn reset_after(&self) -> Wait {
        self.verdicts.reset_after()
    }

    /// Returns the cost that was consumed from each limit: after
    /// [`take_up_to`](crate::RateLimiter::take_up_to), what was taken.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.verdicts.consumed()
    }

    /// Returns the receipt that a refund needs, or `None` if nothing was consumed.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.verdicts.into_receipt()
    }

    /// Returns the verdicts without the limits; they borrow nothing.
    pub fn into_verdicts(self) -> Verdicts {
        self.verdicts
    }
}

impl fmt::Debug for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.is_allowed())
            .field("limits", &self.limits)
            .field("verdicts", &self.verdicts.as_slice())
            .finish()
    }
}

#[cold]
fn other_number(limits: usize, verdicts: usize) -> StoreError {
    StoreError::new(
        ErrorKind::Protocol,
        format!(
            "the store answered for {verdicts} limits instead of {limits}: this is a bug in it"
        ),
    )
}

/// A denied call, as an error: which limit denied it, and how long to wait.
///
/// # Examples
///
/// ```
/// use tollgate_core::{Denied, RateLimiter, SyncStore};
///
/// fn retry_after(limiter: &RateLimiter<impl SyncStore>, user: &str) -> Option<u64> {
///     let decision = limiter.check(user).run().ok()?;
///     let denied: Denied = decision.permit().err()?;
///     assert_eq!(denied.limit().name(), "login");
///     denied.retry_after().as_secs_ceil()
/// }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Denied {
    limit: Limit,
    verdict: Verdict,
}

impl Denied {
    /// Returns the limit that denied the call; the one with the longest wait, if several did.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns that limit's verdict.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns how long to wait until the same call is allowed, if nobody else calls.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.verdict.retry_after()
    }
}

/// Writes ``limit `login`: retry in 12.5s``.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.limit.name();
        match self.verdict.retry_after().duration() {
            Some(wait) => write!(f, "limit `{name}`: retry in {wait:?}"),
            None => write!(
                f,
                "limit `{name}`: never allowed, because the cost exceeds the capacity of {}",
                self.verdict.capacity
            ),
        }
    }
}

impl std::error::Error for Denied {}

/// Proof of what a call consumed, which can be refunded or settled once.
///
/// A refund or a settlement takes the receipt. There is no second one, except for a call that was
/// repeated with its [id](crate::CallId): a receipt cannot be cloned, and neither can
/// the [`Decision`] or the [`Verdicts`] that it is made from.
///
/// ```compile_fail,E0599
/// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
/// # fn twice(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
/// let decision = limiter.check("alice").run()?;
/// let first = decision.clone().into_receipt();
/// let second = decision.into_receipt();
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # use tollgate_core::{RateLimiter, StoreError, SyncStore};
/// # fn twice(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
/// let verdicts = limiter.check("alice").run()?.into_verdicts();
/// let first = verdicts.clone().into_receipt();
/// let second = verdicts.into_receipt();
/// # Ok(())
/// # }
/// ```
///
/// A receipt belongs to the limits, the keys and the clock (the store's or the caller's) of the
/// request that consumed. Refunding it with any others fails with [`ErrorKind::Malformed`] and
/// changes nothing.
///
/// # After a reset
///
/// A reset forgets what a receipt would give back. If the receipt is refunded after all, it can
/// free units of calls made after the reset, depending on the algorithm:
///
/// - A sliding log and an anchored window compare instants: the receipt frees nothing, unless a
///   later call was recorded in the same microsecond as the refunded one.
/// - An aligned window, a sliding counter and sliding buckets cannot tell calls in one window or
///   bucket apart: the receipt frees units of later calls in the same one.
/// - GCRA keeps one debt for all calls: the receipt lowers it by the part of its cost that has not
///   leaked yet.
///
/// So drop the receipts of a key when you reset it.
#[derive(Debug, Eq, PartialEq)]
pub struct Receipt {
    consumed: OneOrMany<Consumed>,
    fingerprint: Fingerprint,
    /// Of a reservation that starts later: what each limit recorded.
    reserved: Option<Box<OneOrMany<Reserved>>>,
}

impl Receipt {
    /// Returns what the limit at `index` recorded, if this is the receipt of a reservation that was
    /// to start later.
    pub(crate) fn reserved(&self, index: usize) -> Option<&Reserved> {
        self.reserved.as_deref()?.get(index)
    }

    /// Returns whether this receipt is from a decision with this `fingerprint`.
    pub(crate) fn has(&self, fingerprint: Fingerprint) -> bool {
        self.fingerprint == fingerprint
    }

    /// Returns what was consumed from each limit, in the order of the request's checks.
    #[must_use]
    pub fn consumed(&self) -> &[Consumed] {
        &self.consumed
    }
}

/// The cost that a call consumed from one limit, and when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Consumed {
    cost: u64,
    at: Timestamp,
}

impl Consumed {
    /// Returns the cost that was consumed.
    #[must_use]
    pub fn cost(self) -> u64 {
        self.cost
    }

    /// Returns the instant at which the cost is counted: for a
    /// [reservation](crate::RateLimiter::reserve), when the call starts.
    #[must_use]
    pub fn at(self) -> Timestamp {
        self.at
    }
}
