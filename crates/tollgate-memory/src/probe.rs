//! What a table is searched for: a limit, a key and their hash.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use siphasher::sip128::{Hasher128, SipHasher24};
use tollgate_core::{Check, Key};

/// The longest key that is held as it is.
const SHORT: usize = 16;

/// The length that stands for a key that is held as its hash. No short key is as long.
const HASHED: u8 = 0xff;

/// A check as the table sees it, computed once, before any lock is taken.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'r, 'k> {
    pub(crate) check: &'r Check<'k>,
    /// Of the limit's identity and the key: what the table finds an entry by.
    pub(crate) hash: u64,
    pub(crate) key: StoredKey,
}

impl<'r, 'k> Probe<'r, 'k> {
    #[inline]
    pub(crate) fn new(check: &'r Check<'k>, hasher: &KeyHasher) -> Self {
        let key = StoredKey::new(check.key(), hasher);
        let hash = hasher.hash(check.limit().identity_hash(), &key);
        Self { check, hash, key }
    }
}

/// A key as the table holds it: 24 bytes, whatever its length.
///
/// A key of up to 16 bytes without a rest is held as it is. Any other key is held as a hash of 128
/// bits. A million such keys include two of the same hash with a probability of 10^-27, and nobody
/// can look for such keys without the store's secret.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct StoredKey {
    /// The number of bytes, or [`HASHED`].
    length: u8,
    /// The [packed](pack) bytes, or the hash.
    words: [u64; 2],
}

impl StoredKey {
    #[inline]
    fn new(key: Key<'_>, hasher: &KeyHasher) -> Self {
        let (partition, rest) = (key.partition(), key.rest());
        match u8::try_from(partition.len()) {
            Ok(length) if partition.len() <= SHORT && rest.is_empty() => Self {
                length,
                words: pack(partition),
            },
            _ => Self {
                length: HASHED,
                words: hasher.hash_long(partition, rest),
            },
        }
    }
}

/// A store's hash functions, with secrets of its own.
pub(crate) struct KeyHasher {
    seed: u64,
    shared_seed: SharedSeed,
    long: SipHasher24,
}

impl KeyHasher {
    pub(crate) fn new() -> Self {
        // Its keys are the one thing in the standard library that the system chooses at random.
        let random = RandomState::new();
        let secret = |number: u64| random.hash_one(number);
        Self {
            seed: secret(0),
            shared_seed: SharedSeed::from_u64(secret(1)),
            long: SipHasher24::new_with_keys(secret(2), secret(3)),
        }
    }

    /// Returns the hash that a key of a limit is found by.
    #[inline]
    pub(crate) fn hash(&self, identity_hash: u64, key: &StoredKey) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        hasher.write_u64(key.words[0] ^ identity_hash);
        hasher.write_u64(key.words[1] ^ u64::from(key.length).rotate_right(8));
        hasher.finish()
    }

    /// Returns 128 bits that stand for a key.
    #[inline(never)]
    fn hash_long(&self, partition: &[u8], rest: &[u8]) -> [u64; 2] {
        let mut hasher = self.long;
        // Where the partition ends is part of a key: `("ab", "c")` is not `("a", "bc")`.
        hasher.write_usize(partition.len());
        hasher.write(partition);
        hasher.write(rest);
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }
}

/// Packs up to 16 bytes into two words, differently for any two texts of the same length.
///
/// Each word holds a piece from one end; the pieces overlap where there are fewer bytes than they
/// hold, so that no length needs a loop.
#[inline]
fn pack(bytes: &[u8]) -> [u64; 2] {
    debug_assert!(bytes.len() <= SHORT, "longer keys are not packed");
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return [u64::from_le_bytes(*first), u64::from_le_bytes(*last)];
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        return [word(first), word(last)];
    }
    let byte = |index: usize| u64::from(bytes.get(index).copied().unwrap_or(0));
    [byte(0) | byte(1) << 8 | byte(2) << 16, 0]
}

#[cfg(test)]
mod tests {
    use super::pack;

    #[test]
    fn packing_tells_any_two_texts_of_one_length_apart() {
        for length in 1..=16 {
            let base: Vec<u8> = (0..length).collect();
            for index in 0..base.len() {
                let mut other = base.clone();
                other[index] ^= 0x80;
                assert_ne!(pack(&base), pack(&other), "length {length}, byte {index}");
            }
        }
    }
}
