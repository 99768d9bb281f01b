//! `Trace`: the times and keys of requests, in 16 bytes per request.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollgate_core::Timestamp;

use crate::failure::Failure;
use crate::jobs::{self, Jobs};

/// The number of parts is two to the power of this. There are more parts than most machines have
/// processors, since some have many more requests than others.
const PART_BITS: u32 = jobs::MOST.ilog2();

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

/// Requests and their keys, in parts that do not depend on each other: all requests of a key are in
/// the same part.
pub(crate) struct Trace {
    keys: Keys,
    parts: Vec<Part>,
    /// The number of parts is two to the power of this.
    bits: u32,
    jobs: Jobs,
}

/// The requests of some keys. Within a part, keys have indexes of their own.
pub(crate) struct Part {
    number: usize,
    events: Vec<Event>,
    keys: usize,
}

impl Part {
    /// Returns the number of parts before this one.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Returns the requests, which are in time order in a sorted trace.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the number of distinct keys.
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// Returns the ids of all keys.
    pub(crate) fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        (0..).map(KeyId).take(self.keys)
    }
}

impl Trace {
    /// Returns an empty trace in one part, whose requests are in the order of all.
    pub(crate) fn whole() -> Self {
        Self::new(0, Jobs::ONE)
    }

    /// Returns an empty trace whose parts are worked on by `jobs`.
    pub(crate) fn in_parts(jobs: Jobs) -> Self {
        Self::new(PART_BITS, jobs)
    }

    fn new(bits: u32, jobs: Jobs) -> Self {
        let part = |number| Part {
            number,
            events: Vec::new(),
            keys: 0,
        };
        Self {
            keys: Keys::default(),
            parts: (0..1 << bits).map(part).collect(),
            bits,
            jobs,
        }
    }

    /// Adds a request of the key with the bytes `key`.
    pub(crate) fn push(&mut self, at: Timestamp, key: &[u8]) -> Result<(), Failure> {
        let key = self.keys.intern(key)?;
        self.add(at, key);
        Ok(())
    }

    /// Fills an empty trace with the requests of `batches`, which come in order from several readers;
    /// each has named its keys on its own.
    pub(crate) fn fill(
        &mut self,
        mut readers: Vec<Keys>,
        batches: impl Iterator<Item = (usize, Vec<Event>)>,
    ) -> Result<(), Failure> {
        if readers.len() == 1 {
            self.keys = readers.pop().unwrap_or_default();
            for event in batches.flat_map(|(_, events)| events) {
                self.add(event.at, event.key);
            }
            return Ok(());
        }
        let mut ids: Vec<Vec<KeyId>> = readers.iter().map(|_| Vec::new()).collect();
        for (reader, events) in batches {
            let (ids, keys) = (&mut ids[reader], &readers[reader]);
            for event in events {
                let index = event.key.index();
                // A reader counts its keys as they appear, so an unknown one is the next.
                if index == ids.len() {
                    ids.push(self.keys.intern(keys.bytes(index))?);
                }
                self.add(event.at, ids[index]);
            }
        }
        Ok(())
    }

    #[inline]
    fn add(&mut self, at: Timestamp, key: KeyId) {
        let (part, index) = self.place(key.index());
        let part = &mut self.parts[part];
        part.keys = part.keys.max(index + 1);
        let key = KeyId(key.0 >> self.bits);
        part.events.push(Event { at, key });
    }

    /// Returns the number of the part of the key at `index`, and its index there.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> (usize, usize) {
        (index & (self.parts.len() - 1), index >> self.bits)
    }

    /// Sorts the requests by time; simultaneous requests keep their order.
    pub(crate) fn sort(&mut self) {
        // The sort is adaptive: logs are nearly sorted, and a sorted log costs one pass.
        let sort = |part: &mut Part| part.events.sort_by_key(|event| event.at);
        self.jobs.each(&mut self.parts, sort);
    }

    /// Calls `work` with each part, several at once, and returns the results in the order of the
    /// parts.
    pub(crate) fn each<R: Send>(&self, work: impl Fn(&Part) -> R + Sync) -> Vec<R> {
        self.jobs.each(&self.parts, work)
    }

    /// Puts what is known of the keys of each part into one list by key.
    pub(crate) fn by_key<T>(&self, parts: impl IntoIterator<Item = Vec<T>>) -> Vec<T> {
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        let next = |index| parts[self.place(index).0].next();
        (0..self.keys()).filter_map(next).collect()
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the number of requests of the key at `index`.
    pub(crate) fn requests_of(&self, index: usize) -> usize {
        let (part, index) = self.place(index);
        let events = self.parts[part].events.iter();
        events.filter(|event| event.key.index() == index).count()
    }

    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.parts.iter().map(|part| part.events.len()).sum()
    }

    /// Returns the number of distinct keys.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Returns the bytes of the key at `index`.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        self.keys.bytes(index)
    }

    /// Returns the first and the last instant of a sorted trace.
    pub(crate) fn span(&self) -> (Timestamp, Timestamp) {
        let firsts = self.parts.iter().filter_map(|part| part.events.first());
        let lasts = self.parts.iter().filter_map(|part| part.events.last());
        let first = firsts.map(|event| event.at).min();
        let last = lasts.map(|event| event.at).max();
        let of = |at: Option<Timestamp>| at.unwrap_or(Timestamp::UNIX_EPOCH);
        (of(first), of(last))
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
