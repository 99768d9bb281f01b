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

/// An FNV-1a hash of bytes, which is the same in every process.
///
/// Source: Fowler, Noll, Vo and Eastlake, "The FNV Non-Cryptographic Hash Algorithm".
pub(super) struct Sum(u64);

impl Sum {
    /// Returns the hash of `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut sum = Self(0xcbf2_9ce4_8422_2325);
        sum.add(bytes);
        sum
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, mix);
    }

    /// Adds `part` after its length, so that no two lists of parts are the same bytes.
    pub(super) fn add_part(&mut self, part: &[u8]) {
        self.add(&(part.len() as u64).to_le_bytes());
        self.add(part);
    }

    pub(super) const fn value(&self) -> u64 {
        self.0
    }
}
