//! What a table is searched for: a limit, a key and their hash.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use tollgate_core::Check;

/// The longest key that is held without an allocation.
const SHORT: usize = 16;

/// A check as the table sees it, computed once, before any lock is taken.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'r, 'k> {
    pub(crate) check: &'r Check<'k>,
    pub(crate) hash: u64,
    short: Option<Short>,
}

/// A short partition that has no rest: its length and its [packed](pack) bytes.
#[derive(Clone, Copy)]
struct Short {
    length: u8,
    words: [u64; 2],
}

impl<'r, 'k> Probe<'r, 'k> {
    #[inline]
    pub(crate) fn new(check: &'r Check<'k>, hasher: &RandomState) -> Self {
        let (partition, rest) = (check.key().partition(), check.key().rest());
        let identity_hash = check.limit().identity_hash();
        let short = if rest.is_empty() {
            Short::new(partition)
        } else {
            None
        };
        let hash = match &short {
            Some(short) => short.hash(identity_hash, hasher),
            None => long_hash(partition, rest, identity_hash, hasher),
        };
        Self { check, hash, short }
    }
}

impl Short {
    #[inline]
    fn new(bytes: &[u8]) -> Option<Self> {
        let length = u8::try_from(bytes.len()).ok()?;
        (bytes.len() <= SHORT).then(|| Self {
            length,
            words: pack(bytes),
        })
    }

    #[inline]
    fn hash(&self, identity_hash: u64, hasher: &RandomState) -> u64 {
        let mut hasher = hasher.build_hasher();
        hasher.write_u64(self.words[0] ^ identity_hash);
        hasher.write_u64(self.words[1] ^ u64::from(self.length).rotate_right(8));
        hasher.finish()
    }
}

#[inline(never)]
fn long_hash(partition: &[u8], rest: &[u8], identity_hash: u64, hasher: &RandomState) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(identity_hash);
    hasher.write(partition);
    hasher.write(rest);
    hasher.finish()
}

/// A key as the table holds it.
pub(crate) enum StoredKey {
    /// The fields of a [`Short`], which leave room for the variant's tag.
    Short {
        length: u8,
        words: [u64; 2],
    },
    Long(Box<LongKey>),
}

/// Where the partition ends is part of a key: `("ab", "c")` is not `("a", "bc")`.
pub(crate) struct LongKey {
    partition: Box<[u8]>,
    rest: Box<[u8]>,
}

impl StoredKey {
    pub(crate) fn new(probe: &Probe<'_, '_>) -> Self {
        match probe.short {
            Some(Short { length, words }) => Self::Short { length, words },
            None => Self::Long(Box::new(LongKey {
                partition: probe.check.key().partition().into(),
                rest: probe.check.key().rest().into(),
            })),
        }
    }

    #[inline]
    pub(crate) fn is(&self, probe: &Probe<'_, '_>) -> bool {
        match (self, &probe.short) {
            (Self::Short { length, words }, Some(asked)) => {
                *length == asked.length && *words == asked.words
            }
            (Self::Long(held), None) => held.is(probe),
            _ => false,
        }
    }

    /// Returns the [hash](Probe::hash) that this key is found by.
    pub(crate) fn hash(&self, identity_hash: u64, hasher: &RandomState) -> u64 {
        match self {
            Self::Short { length, words } => Short {
                length: *length,
                words: *words,
            }
            .hash(identity_hash, hasher),
            Self::Long(key) => long_hash(&key.partition, &key.rest, identity_hash, hasher),
        }
    }

    /// Returns the bytes allocated beside the key.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::Long(key) => size_of::<LongKey>() + key.partition.len() + key.rest.len(),
        }
    }
}

impl LongKey {
    #[inline(never)]
    fn is(&self, probe: &Probe<'_, '_>) -> bool {
        let key = probe.check.key();
        *self.partition == *key.partition() && *self.rest == *key.rest()
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
