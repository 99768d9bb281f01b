//! What a table is searched for: a limit, a key and their hash.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use tollgate_core::{Check, ErrorKind, StoreError};

/// The longest key that is held without an allocation.
const SHORT: usize = 16;

/// A check as the table sees it, computed once, before any lock is taken.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'r, 'k> {
    pub(crate) check: &'r Check<'k>,
    pub(crate) hash: u64,
    lengths: Lengths,
    words: [u64; 2],
}

/// The lengths of a key's parts. Together with the bytes they tell `("ab", "c")` from `("a", "bc")`.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Lengths {
    partition: u32,
    rest: u32,
}

impl Lengths {
    #[inline]
    fn are_short(self) -> bool {
        // Compared as it is held: a short partition and no rest is what most keys are.
        self.rest == 0 && self.partition <= 16
    }
}

impl<'r, 'k> Probe<'r, 'k> {
    /// Returns what to search for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if a part of the key is 4 GiB long or longer.
    #[inline]
    pub(crate) fn new(check: &'r Check<'k>, hasher: &RandomState) -> Result<Self, StoreError> {
        let (partition, rest) = (check.key().partition(), check.key().rest());
        let (Ok(partition_len), Ok(rest_len)) =
            (u32::try_from(partition.len()), u32::try_from(rest.len()))
        else {
            return Err(too_long());
        };
        let lengths = Lengths {
            partition: partition_len,
            rest: rest_len,
        };
        let mut hasher = hasher.build_hasher();
        hasher.write_u64(check.limit().identity_hash());
        let mut words = [0; 2];
        if lengths.are_short() {
            words = pack(partition);
            hasher.write_u64(words[0] ^ u64::from(partition_len) << 32);
            hasher.write_u64(words[1]);
        } else {
            hasher.write(partition);
            hasher.write(rest);
        }
        Ok(Self {
            check,
            hash: hasher.finish(),
            lengths,
            words,
        })
    }
}

#[cold]
fn too_long() -> StoreError {
    let message = "a part of a key must be shorter than 4 GiB: use a hash of it";
    StoreError::new(ErrorKind::Malformed, message)
}

/// A key as the table holds it.
pub(crate) struct StoredKey {
    lengths: Lengths,
    text: Text,
}

enum Text {
    /// The [packed](pack) bytes of a partition that has no rest.
    Short([u64; 2]),
    /// The partition followed by the rest.
    Long(Box<[u8]>),
}

impl StoredKey {
    pub(crate) fn new(probe: &Probe<'_, '_>) -> Self {
        let key = probe.check.key();
        Self {
            lengths: probe.lengths,
            text: if probe.lengths.are_short() {
                Text::Short(probe.words)
            } else {
                Text::Long([key.partition(), key.rest()].concat().into_boxed_slice())
            },
        }
    }

    #[inline]
    pub(crate) fn is(&self, probe: &Probe<'_, '_>) -> bool {
        if self.lengths != probe.lengths {
            return false;
        }
        match &self.text {
            Text::Short(words) => *words == probe.words,
            Text::Long(bytes) => is_concatenation(bytes, probe),
        }
    }

    /// Returns the bytes allocated beside the key.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.text {
            Text::Short(_) => 0,
            Text::Long(bytes) => bytes.len(),
        }
    }
}

#[inline(never)]
fn is_concatenation(bytes: &[u8], probe: &Probe<'_, '_>) -> bool {
    let key = probe.check.key();
    // The lengths are equal, so what follows the partition can only be the rest.
    bytes.starts_with(key.partition()) && bytes.ends_with(key.rest())
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
