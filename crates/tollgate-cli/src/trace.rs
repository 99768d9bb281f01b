//! `Trace`: the times and keys of requests, in 16 bytes per request.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollgate_core::Timestamp;

use crate::failure::Failure;

/// The time and key of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) key: KeyId,
}

/// The index of a key, in order of first appearance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeyId(u32);

impl KeyId {
    /// Returns the index of this key in a list of all keys.
    #[inline]
    pub(crate) fn index(self) -> usize {
        // The conversion cannot fail: `usize` has at least 32 bits on all supported platforms.
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Returns the bytes that represent the key in a store.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

/// Requests and their keys.
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

    /// Sorts the requests by time; simultaneous requests keep their order.
    pub(crate) fn sort(&mut self) {
        // The sort is adaptive: logs are nearly sorted, and a sorted log costs one pass.
        self.events.sort_by_key(|event| event.at);
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the number of distinct keys.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Returns the ids of all keys.
    pub(crate) fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        self.keys.ids()
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

/// Distinct keys, each stored once.
#[derive(Default)]
pub(crate) struct Keys {
    /// The bytes of all keys, one after another.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
    /// The indexes of the keys, found by their bytes.
    table: HashTable<u32>,
    /// Seeded at random, because clients choose the keys in a log and must not make them collide.
    hasher: RandomState,
}

impl Keys {
    /// Returns the id of `key`, which is new if the key is.
    #[inline]
    pub(crate) fn intern(&mut self, key: &[u8]) -> Result<KeyId, Failure> {
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

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the ids of all keys.
    pub(crate) fn ids(&self) -> impl Iterator<Item = KeyId> {
        (0..).map(KeyId).take(self.len())
    }

    /// Returns the bytes of the key at `index`.
    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
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
    fn a_request_takes_the_documented_memory() {
        assert!(size_of::<Event>() <= 16);
    }
}
