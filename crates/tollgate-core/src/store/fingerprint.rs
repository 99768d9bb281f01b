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

    pub(super) const fn value(self) -> u64 {
        self.0
    }

    /// Returns another fingerprint, which is this one again if it is marked again.
    pub(crate) fn marked(self, mark: u64) -> Self {
        Self(self.0 ^ mark)
    }
}

/// Returns the FNV-1a hash of `bytes`, which is the same in every process.
///
/// Source: Fowler, Noll, Vo and Eastlake, "The FNV Non-Cryptographic Hash Algorithm".
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
