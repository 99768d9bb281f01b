//! `Trace`: the times and keys of requests, in 16 bytes per request.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::Timestamp;

use crate::failure::Failure;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) key: KeyId,
}

// As the manual says.
const _: () = assert!(size_of::<Event>() <= 16);

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

#[derive(Default)]
pub(crate) struct Trace {
    keys: Keys,
    events: Vec<Event>,
}

impl Trace {
    /// Adds a request of the key with the bytes `key`, and returns the key's id.
    #[inline]
    pub(crate) fn push(&mut self, at: Timestamp, key: &[u8]) -> Result<KeyId, Failure> {
        let key = self.keys.intern(key)?;
        self.events.push(Event { at, key });
        Ok(key)
    }

    /// Sorts the requests by time; simultaneous requests keep their order.
    pub(crate) fn sort(&mut self) {
        // The sort is adaptive: logs are nearly sorted, and a sorted log costs one pass.
        self.events.sort_by_key(|event| event.at);
    }

    /// Returns the requests, which are in time order in a sorted trace.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn requests(&self) -> u64 {
        u64::try_from(self.events.len()).unwrap_or(u64::MAX)
    }

    /// Returns how many requests each key makes, by its index.
    pub(crate) fn requests_of_each_key(&self) -> Vec<u64> {
        let mut requests = vec![0; self.keys.len()];
        for event in &self.events {
            requests[event.key.index()] += 1;
        }
        requests
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the first and the last instant of a sorted trace.
    pub(crate) fn span(&self) -> (Timestamp, Timestamp) {
        let of = |event: Option<&Event>| event.map_or(Timestamp::UNIX_EPOCH, |event| event.at);
        (of(self.events.first()), of(self.events.last()))
    }
}

/// Distinct keys, in order of first appearance.
#[derive(Default)]
pub(crate) struct Keys {
    keys: Vec<Arc<[u8]>>,
    /// Seeded at random, because clients choose the keys in a log and must not make them collide.
    ids: HashMap<Arc<[u8]>, KeyId, RandomState>,
}

impl Keys {
    /// Returns the id of `key`, which is new if the key is.
    #[inline]
    pub(crate) fn intern(&mut self, key: &[u8]) -> Result<KeyId, Failure> {
        if let Some(&id) = self.ids.get(key) {
            return Ok(id);
        }
        let id = u32::try_from(self.keys.len());
        let id = KeyId(id.map_err(|_| Failure::TooManyKeys { most: u32::MAX })?);
        let key: Arc<[u8]> = key.into();
        self.keys.push(Arc::clone(&key));
        self.ids.insert(key, id);
        Ok(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = KeyId> + Clone + use<> {
        let ids = self.keys.len();
        (0..).map(KeyId).take(ids)
    }

    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        &self.keys[index]
    }
}
