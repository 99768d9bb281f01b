//! `Fingerprint`: a hash of the limits, keys and clock of a request.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::store::Request;

/// A hash of a request's limits, keys and clock (the store's or the caller's).
///
/// A store adds it to each decision, so that the decision's [`Receipt`](crate::Receipt) is rejected
/// for other limits, other keys or the other clock. Costs, amounts and instants are not part of it.
/// It catches mistakes; it does not stop anyone who searches for collisions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Returns a fingerprint with this `hash`, for a store that hashes limits and keys anyway.
    ///
    /// The store must compute the fingerprints of all its decisions in the same way.
    #[inline]
    #[must_use]
    pub const fn new(hash: u64) -> Self {
        Self(hash)
    }

    /// Returns another fingerprint, which is this one again if it is marked again.
    pub(crate) fn marked(self, mark: u64) -> Self {
        Self(self.0 ^ mark)
    }

    /// Returns the fingerprint of `request`: equal for equal limits, keys and clock in one process.
    ///
    /// Do not store it or send it elsewhere: another compiler may hash otherwise.
    #[must_use]
    pub fn of(request: &Request<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        // The store's clock and a caller's count in different states.
        request.caller_time().is_some().hash(&mut hasher);
        for check in request.checks() {
            check.limit().identity().hash(&mut hasher);
            check.key().hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}
