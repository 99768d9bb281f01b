//! What the stores of this workspace, and their tests, need beside the public API. Not part of it:
//! this may change in any version.

pub mod encoding;
#[cfg(feature = "__twins")]
pub mod twins;

use std::any::Any;
use std::time::Duration;

use crate::algorithm::{Algorithm, State, States};
pub use crate::companion::Companion;
use crate::decision::Decision;
use crate::error::{LimitError, StoreError};
use crate::key::{Key, Partition};
pub use crate::key::{Kind, RawPartition};
use crate::lease::ConcurrencyLimiter;
use crate::limit::Limit;
use crate::limiter::{self, Call, RateLimiter};
use crate::store::{Check, Fingerprint, Receipt, Request, Verdicts, evaluation};
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// A fresh state, to borrow for a key that has none.
pub const FRESH: &State = State::FRESH;

/// Returns the bytes of the partition of `key`, or the value that it is the text of.
#[inline(always)]
#[must_use]
pub fn raw_partition<'k>(key: &Key<'k>) -> RawPartition<'k> {
    key.raw_partition()
}

/// Returns the text of a number or an address.
#[must_use]
pub fn partition(kind: Kind, value: [u64; 2]) -> Partition<'static> {
    Partition::of_value(kind, value)
}

/// Returns the key of `check`.
#[inline(always)]
#[must_use]
pub fn key<'c, 'k>(check: &'c Check<'k>) -> &'c Key<'k> {
    check.key_ref()
}

/// Returns the limiter, the key and the cost of `call`.
#[must_use]
pub fn parts<'l, 'k, S>(
    call: Call<'l, 'k, S, limiter::Check>,
) -> (&'l RateLimiter<S>, Key<'k>, u64) {
    call.into_parts()
}

/// Returns the verdicts, with receipts that differ from those of other stores by this `mark`.
pub fn marked(mut verdicts: Verdicts, mark: u64) -> Verdicts {
    verdicts.fingerprint = verdicts.fingerprint.marked(mark);
    verdicts
}

/// Returns the receipt that [`marked`] verdicts had before they were.
#[must_use]
pub fn unmarked(receipt: &Receipt, mark: u64) -> Receipt {
    receipt.with_fingerprint(receipt.fingerprint().marked(mark))
}

/// Returns the verdicts in units that are `parts` times as large; what is less than one is left out.
pub fn divided(mut verdicts: Verdicts, parts: u64) -> Verdicts {
    for verdict in verdicts.verdicts.iter_mut() {
        verdict.capacity /= parts;
        verdict.remaining /= parts;
        verdict.consumed /= parts;
    }
    verdicts
}

/// Returns the request to give back, or to settle, `receipt` in the place of its own.
#[must_use]
pub fn with_receipt<'r>(request: &Request<'r>, receipt: &'r Receipt) -> Request<'r> {
    request.clone().with_receipt(receipt)
}

/// Returns the request in units of which there are `parts` in each of its own.
#[must_use]
pub fn multiplied_request<'r>(request: &Request<'r>, parts: u64) -> Request<'r> {
    request
        .clone()
        .with_costs(|cost| cost.saturating_mul(parts))
}

/// Returns the receipt in units of which there are `parts` in each of its own.
#[must_use]
pub fn multiplied(receipt: &Receipt, parts: u64) -> Receipt {
    receipt.with_costs(|cost| cost.saturating_mul(parts))
}

/// Returns the decision for a store's `verdicts` on `limits`.
///
/// # Errors
///
/// [`Protocol`](crate::ErrorKind::Protocol) unless there is one verdict for each limit.
pub fn decision(limits: &[Limit], verdicts: Verdicts) -> Result<Decision<'_>, StoreError> {
    Decision::new(limits, verdicts)
}

/// Returns what `make` returned the first time, for this limiter and all of its clones, or `None`
/// if they hold a value of another type.
pub fn companion<S, T>(limiter: &RateLimiter<S>, make: impl FnOnce() -> T) -> Option<&T>
where
    T: Companion,
{
    let companion: &dyn Any = &**limiter.companion().get_or_init(|| Box::new(make()));
    companion.downcast_ref()
}

/// Returns what `make` returned the first time, for this limiter and all of its clones, or `None`
/// if they hold a value of another type.
pub fn companion_of_leases<S, T>(
    limiter: &ConcurrencyLimiter<S>,
    make: impl FnOnce() -> T,
) -> Option<&T>
where
    T: Companion,
{
    let companion: &dyn Any = &**limiter.companion().get_or_init(|| Box::new(make()));
    companion.downcast_ref()
}

/// Consumes the cost of `check`, which must not be zero, from `state` if it fits.
///
/// The most common call, for stores that hold a lock while they decide.
#[inline(always)]
#[must_use]
pub fn consume(check: &Check<'_>, state: &mut State, now: Timestamp) -> Verdict {
    check.consume_from(state, now)
}

/// Consumes `cost` from each of `limits` if all of them admit and count it. There is one of `states`,
/// none of which may be shared, and one of `verdicts`, which are overwritten, for each limit.
///
/// Returns false, and changes nothing, if they do not: call [`consume_all`].
#[inline(always)]
pub fn consume_each<const N: usize>(
    limits: &[Limit; N],
    cost: u64,
    states: &mut impl States,
    now: Timestamp,
    verdicts: &mut [Verdict; N],
) -> bool {
    evaluation::consume_each(limits, cost, states, now, verdicts)
}

/// Consumes the costs of `checks`, none of which may share a state, if all limits admit them, and
/// otherwise nothing. There is one of `states` and one of `verdicts`, which are overwritten, for
/// each check.
///
/// Returns false, and changes no state, if a limit may have to count the denied call: [`decide`] it.
#[inline]
pub fn consume_all(
    checks: &[Check<'_>],
    states: &mut (impl States + ?Sized),
    now: Timestamp,
    verdicts: &mut [Verdict],
) -> bool {
    evaluation::consume_all(checks, states, now, verdicts)
}

/// Decides `request` at `now` on `states`, one for each check, and returns the decision with this
/// `fingerprint`.
///
/// For stores that hold all of these states; others call [`Request::evaluate`].
#[inline]
pub fn decide(
    request: &Request<'_>,
    fingerprint: Fingerprint,
    states: &mut (impl States + ?Sized),
    now: Timestamp,
) -> Verdicts {
    request.decide(fingerprint, states, now)
}

/// Returns a time that no window of `algorithm` exceeds: the quota's window, unless the lengths of
/// windows vary, as those of days do.
#[must_use]
pub fn longest_window(algorithm: &Algorithm) -> Duration {
    Duration::from_micros(algorithm.longest_window_us())
}

/// Returns the same algorithm with another amount, and otherwise as it is: a bucket keeps its burst.
///
/// # Errors
///
/// If that cannot be counted exactly.
pub fn with_amount(algorithm: &Algorithm, amount: u64) -> Result<Algorithm, LimitError> {
    algorithm.with_amount(amount)
}

/// Returns the bytes that `state` has allocated on the heap.
#[must_use]
pub fn heap_bytes(state: &State) -> usize {
    state.heap_bytes()
}

/// Returns a hash of the identity of `limit`, for in-memory tables.
///
/// Every process hashes with its own random secret, so nobody can choose names whose hashes
/// collide, or keys that cancel out the difference between two limits' hashes. Do not store or send
/// it.
#[inline]
#[must_use]
pub fn identity_hash(limit: &Limit) -> u64 {
    limit.identity_hash()
}

/// Returns whether both are clones of one limit.
#[inline]
#[must_use]
pub fn is_same(limit: &Limit, other: &Limit) -> bool {
    limit.is_same(other)
}

/// Returns the bytes that `verdicts` allocate.
#[must_use]
pub fn bytes_beside(verdicts: &Verdicts) -> usize {
    verdicts.heap_bytes()
}

/// Returns the receipt of `verdicts` and leaves them, for tests that compare them afterwards.
#[must_use]
pub fn receipt(verdicts: &Verdicts) -> Option<Receipt> {
    verdicts.receipt()
}

/// Returns the verdicts on a request with one check.
#[inline(always)]
pub fn verdicts(fingerprint: Fingerprint, verdict: Verdict) -> Verdicts {
    Verdicts::of_one(fingerprint, verdict)
}

/// Writes `decided` to `verdicts`, and returns the fingerprint.
///
/// # Errors
///
/// [`Protocol`](crate::ErrorKind::Protocol) if there is another number of `verdicts`.
pub fn write(decided: Verdicts, verdicts: &mut [Verdict]) -> Result<Fingerprint, StoreError> {
    decided.write_to(verdicts)
}
