//! `Fingerprint`: a hash of the limits, keys and clock of a request.

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
}
