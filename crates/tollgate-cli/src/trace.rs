//! A trace: who asked when, in 16 bytes for each request.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollgate_core::Timestamp;

use crate::failure::Failure;

/// A request: when, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) key: KeyId,
}

/// The number of a key, counted from zero in order of first appearance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeyId(u32);

impl KeyId {
    /// Returns the place of this key in a list with one item for each key.
    #[inline]
    pub(crate) fn index(self) -> usize {
        // A `usize` has at least 32 bits wherever this program runs.
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Returns bytes that stand for the key in a store.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

/// Requests and the keys they are counted for.
#[derive(Default)]
pub(crate) struct Trace {
    events: Vec<Event>,
    keys: Keys,
}

impl Trace {
    /// Adds a request.
    #[inline]
    pub(crate) fn push(&mut self, at: Timestamp, key: &[u8]) -> Result<(), Failure> {
        let key = self.keys.intern(key)?;
        self.events.push(Event { at, key });
        Ok(())
    }

    /// Puts the requests in order of time; those of one instant keep the order they came in.
    pub(crate) fn sort(&mut self) {
        // Adaptive: logs are nearly in order, and a log that is costs one pass.
        self.events.sort_by_key(|event| event.at);
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the number of different keys.
    pub(crate) fn keys(&self) -> usize {
        self.keys.ends.len()
    }

    /// Returns the numbers of all keys.
    pub(crate) fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        (0..).map(KeyId).take(self.keys())
    }

    /// Returns the bytes of the key at `index`.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        self.keys.bytes(index)
    }

    /// Returns the first and the last instant of a sorted trace.
    pub(crate) fn span(&self) -> (Timestamp, Timestamp) {
        let at = |event: Option<&Event>| event.map_or(Timestamp::UNIX_EPOCH, |event| event.at);
        (at(self.events.first()), at(self.events.last()))
    }
}

/// Different keys, each stored once.
#[derive(Default)]
struct Keys {
    /// The bytes of all keys, one after another.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
    /// The numbers of the keys, found by their bytes.
    table: HashTable<u32>,
    /// Seeded at random: clients choose what a log holds, and are not to choose what collides.
    hasher: RandomState,
}

impl Keys {
    #[inline]
    fn intern(&mut self, key: &[u8]) -> Result<KeyId, Failure> {
        let hash = self.hasher.hash_one(key);
        let found = self.table.find(hash, |&id| {
            slice(&self.bytes, &self.ends, KeyId(id).index()) == key
        });
        match found {
            Some(&id) => Ok(KeyId(id)),
            None => self.insert(hash, key),
        }
    }

    #[cold]
    fn insert(&mut self, hash: u64, key: &[u8]) -> Result<KeyId, Failure> {
        let id =
            u32::try_from(self.ends.len()).map_err(|_| Failure::TooManyKeys { most: u32::MAX })?;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        self.table.insert_unique(hash, id, |&id| {
            hasher.hash_one(slice(bytes, ends, KeyId(id).index()))
        });
        Ok(KeyId(id))
    }

    fn bytes(&self, index: usize) -> &[u8] {
        slice(&self.bytes, &self.ends, index)
    }
}

#[inline]
fn slice<'a>(bytes: &'a [u8], ends: &[usize], index: usize) -> &'a [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &bytes[start..ends[index]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_the_memory_that_is_promised() {
        assert!(size_of::<Event>() <= 16);
    }
}
