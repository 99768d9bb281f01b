//! What other crates of this workspace need beside the public API. Not part of it: this may change in
//! any version, so they depend on exactly one.
//!
//! It is what the store in memory needs for its speed: keys to hash, the sizes of states, and the most
//! common call without a request; and, in the modules, scripts and their encoding. A layer or a store needs nothing of it: see [`store`](crate::store).

pub mod encoding;
#[cfg(feature = "__twins")]
pub mod twins;

use crate::algorithm::{State, States};
use crate::decision::Decision;
use crate::key::{Key, Partition};
pub use crate::key::{Kind, RawPartition};
use crate::limit::{Limit, Limits};
use crate::store::{Check, Fingerprint, Verdicts};
use crate::time::Timestamp;
use crate::verdict::Verdict;

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

/// Consumes the cost of `check`, which must not be zero, from `state` if it fits.
///
/// The most common call, for stores that hold a lock while they decide.
#[inline(always)]
#[must_use]
pub fn consume(check: &Check<'_>, state: &mut State, now: Timestamp) -> Verdict {
    check.consume_from(state, now)
}

/// Consumes `cost` from `each` of the two to four `limits` if all of them admit it, and otherwise
/// nothing. There is one of `states`, none of which may be shared, for each limit.
///
/// Returns `None`, and changes no state, if the call must be decided as a request: because the cost is
/// zero, or a limit is in shadow or counts denied calls.
#[inline(always)]
pub fn consume_few<'l, const N: usize>(
    limits: &'l Limits,
    each: &[Limit; N],
    fingerprint: Fingerprint,
    cost: u64,
    states: &mut impl States,
    now: Timestamp,
) -> Option<Decision<'l>> {
    Decision::consume_few(limits, each, fingerprint, cost, states, now)
}

/// Returns the decision for the `verdict` on `limits`, which must hold one limit.
#[inline(always)]
pub fn decision<'l>(
    limits: &'l Limits,
    fingerprint: Fingerprint,
    verdict: Verdict,
) -> Decision<'l> {
    Decision::of_one(limits, fingerprint, verdict)
}

/// Returns the same decision, made anew from its parts.
///
/// What a function returns through memory is read from there only if it is used so: a decision that
/// comes from one of several places is in registers then, wherever it comes from.
#[inline(always)]
pub fn remade(decision: Decision<'_>) -> Decision<'_> {
    decision.remade()
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

/// Returns whether there is a limit `held`, and both are clones of one.
// Compares addresses once, where a check whether there is one would be another comparison.
#[inline(always)]
#[must_use]
pub fn is_some_same(held: Option<&Limit>, limit: &Limit) -> bool {
    held.map_or(std::ptr::null(), Limit::address) == limit.address()
}

/// Returns the bytes that `verdicts` allocate.
#[must_use]
pub fn bytes_beside(verdicts: &Verdicts) -> usize {
    verdicts.heap_bytes()
}
