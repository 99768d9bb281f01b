//! What the stores of this workspace need beside what is public, to be quick. It is no part of the
//! API, and may change in any version.

use crate::algorithm::State;
use crate::decision::{Verdict, Verdicts};
use crate::fingerprint::Fingerprint;
use crate::limit::Limit;
use crate::request::Check;
use crate::time::Timestamp;

/// A state that remembers nothing, to borrow where there is none.
pub const FRESH: &State = State::FRESH;

/// Decides to consume the cost of `check`, which is not zero, from `state` alone.
///
/// What nearly every call is, for stores that hold a lock while they decide.
#[inline(always)]
#[must_use]
pub fn consume(check: &Check<'_>, state: &mut State, now: Timestamp) -> Verdict {
    check.consume_from(state, now)
}

/// Returns the bytes that `state` has allocated beside itself.
#[must_use]
pub fn heap_bytes(state: &State) -> usize {
    state.heap_bytes()
}

/// Returns a hash of the identity of `limit`, for tables in memory.
///
/// Every process hashes with a random secret, so nobody can choose names whose hashes collide,
/// or keys that cancel out the difference between two limits. Do not store it or send it.
#[inline]
#[must_use]
pub fn identity_hash(limit: &Limit) -> u64 {
    limit.identity_hash()
}

/// Returns whether both are the same limit, clones of one another.
#[inline]
#[must_use]
pub fn is_same(limit: &Limit, other: &Limit) -> bool {
    limit.is_same(other)
}

/// Returns the answer to a request about one limit.
#[inline(always)]
pub fn verdicts(fingerprint: Fingerprint, verdict: Verdict) -> Verdicts {
    Verdicts::of_one(fingerprint, verdict)
}
