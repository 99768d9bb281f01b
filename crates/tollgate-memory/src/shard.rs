//! `Shard`: the part of the hash table behind one lock, and how expired entries leave it.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use tollgate_core::store::{Fingerprint, Request, State, States, Verdicts};
use tollgate_core::{Limit, Timestamp, inside};

use crate::probe::{KeyHasher, Probe, StoredKey};

/// Tables with fewer buckets are not worth shrinking.
const LEAST_SHRUNK: usize = 1_024;

/// A hash table of entries, behind one lock.
#[derive(Default)]
pub(crate) struct Shard {
    table: HashTable<Entry>,
    /// The next bucket to check for an expired entry.
    hand: usize,
}

/// The state of one key under one limit, in one cache line.
#[repr(align(64))]
pub(crate) struct Entry {
    /// The limit that last changed this state, by which it expires.
    limit: Limit,
    key: StoredKey,
    pub(crate) state: State,
}

impl Entry {
    pub(crate) fn new(probe: &Probe<'_, '_>, state: State) -> Self {
        Self {
            limit: probe.check.limit().clone(),
            key: probe.key,
            state,
        }
    }

    #[inline]
    pub(crate) fn is_of(&self, probe: &Probe<'_, '_>) -> bool {
        self.is_at(probe.check.limit(), &probe.key)
    }

    /// Returns whether this is the entry of `key` under `limit`.
    #[inline]
    pub(crate) fn is_at(&self, limit: &Limit, key: &StoredKey) -> bool {
        self.key == *key
            && (inside::is_same(&self.limit, limit) || is_equivalent(&self.limit, limit))
    }

    fn hash(&self, hasher: &KeyHasher) -> u64 {
        hasher.hash(&self.key) ^ inside::identity_hash(&self.limit)
    }

    /// Decides a request that concerns this entry alone.
    pub(crate) fn decide(
        &mut self,
        request: &Request<'_>,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Verdicts {
        let limit = request.checks()[0].limit();
        request.decide_with(fingerprint, &mut Alone { entry: self, limit }, now)
    }

    /// Makes the entry expire by `limit`, which may have changed since the entry was made.
    #[inline]
    pub(crate) fn adopt(&mut self, limit: &Limit) {
        if !inside::is_same(&self.limit, limit) {
            self.replace_limit(limit);
        }
    }

    #[cold]
    fn replace_limit(&mut self, limit: &Limit) {
        self.limit = limit.clone();
    }
}

/// An entry, and the limit that will have changed it.
struct Alone<'e> {
    entry: &'e mut Entry,
    limit: &'e Limit,
}

impl States for Alone<'_> {
    #[inline]
    fn state(&self, _: usize) -> &State {
        &self.entry.state
    }

    #[inline]
    fn state_mut(&mut self, _: usize) -> &mut State {
        self.entry.adopt(self.limit);
        &mut self.entry.state
    }
}

/// Returns whether two limits that are not clones of each other share their states.
#[cold]
fn is_equivalent(held: &Limit, asked: &Limit) -> bool {
    held.identity() == asked.identity()
}

impl Shard {
    pub(crate) fn find(&self, probe: &Probe<'_, '_>) -> Option<&Entry> {
        self.table.find(probe.hash, |entry| entry.is_of(probe))
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, probe: &Probe<'_, '_>) -> Option<&mut Entry> {
        self.table.find_mut(probe.hash, |entry| entry.is_of(probe))
    }

    /// Returns the bucket of the entry of `key` under `limit`, which has this `hash`.
    #[inline(never)]
    pub(crate) fn bucket_of(&self, hash: u64, limit: &Limit, key: &StoredKey) -> Option<usize> {
        let is_it = |entry: &Entry| entry.is_at(limit, key);
        self.table.find_bucket_index(hash, is_it)
    }

    /// Returns the entries of `key` under different `limits`, which have these `hashes`, or `None` if one
    /// is missing.
    #[inline(always)]
    pub(crate) fn find_few<const N: usize>(
        &mut self,
        hashes: [u64; N],
        limits: &[Limit; N],
        key: &StoredKey,
    ) -> Option<[&mut Entry; N]> {
        let is_it = |index: usize, entry: &Entry| entry.is_at(&limits[index], key);
        let found = self.table.get_disjoint_mut(hashes, is_it);
        if found.iter().any(Option::is_none) {
            return None;
        }
        Some(found.map(|entry| entry.unwrap_or_else(|| unreachable!("all were found"))))
    }

    #[inline]
    pub(crate) fn at(&self, bucket: usize) -> Option<&Entry> {
        self.table.get_bucket(bucket)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, bucket: usize) -> Option<&mut Entry> {
        self.table.get_bucket_mut(bucket)
    }

    /// Inserts an entry that is not in the table yet.
    pub(crate) fn insert(&mut self, probe: &Probe<'_, '_>, state: State, hasher: &KeyHasher) {
        self.table
            .insert_unique(probe.hash, Entry::new(probe, state), |entry| {
                entry.hash(hasher)
            });
    }

    /// Returns the entry of `probe`, inserting a fresh one if needed, and makes it expire by
    /// `probe`'s limit.
    pub(crate) fn find_or_insert(
        &mut self,
        probe: &Probe<'_, '_>,
        hasher: &KeyHasher,
    ) -> &mut Entry {
        let place = self.table.entry(
            probe.hash,
            |entry| entry.is_of(probe),
            |entry| entry.hash(hasher),
        );
        let entry = match place {
            Place::Occupied(place) => place.into_mut(),
            Place::Vacant(place) => {
                let entry = Entry::new(probe, State::default());
                place.insert(entry).into_mut()
            }
        };
        entry.adopt(probe.check.limit());
        entry
    }

    /// Removes the entry of `probe`, and returns whether there was one.
    pub(crate) fn remove(&mut self, probe: &Probe<'_, '_>) -> bool {
        let found = self
            .table
            .find_entry(probe.hash, |entry| entry.is_of(probe));
        found.map(|entry| entry.remove()).is_ok()
    }

    /// Checks the next `places` buckets, wrapping around, drops entries that have expired at `now`,
    /// and returns how many.
    pub(crate) fn sweep(&mut self, places: usize, now: Timestamp, hasher: &KeyHasher) -> usize {
        let mut dropped = 0;
        for _ in 0..places.min(self.places()) {
            if self.hand >= self.places() {
                self.hand = 0;
            }
            let stale = |entry: &Entry| entry.state.is_fresh(&entry.limit, now);
            if self.table.get_bucket(self.hand).is_some_and(stale)
                && let Ok(entry) = self.table.get_bucket_entry(self.hand)
            {
                entry.remove();
                dropped += 1;
            }
            self.hand += 1;
        }
        // Shrinking moves entries, so it must come last.
        self.shrink_if_sparse(hasher);
        dropped
    }

    /// Drops every entry, and returns how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.table.len();
        self.table.clear();
        dropped
    }

    /// Returns memory to the system once a large table is mostly empty.
    fn shrink_if_sparse(&mut self, hasher: &KeyHasher) {
        let held = self.table.len();
        if self.places() > LEAST_SHRUNK && held < self.places() / 8 {
            self.table.shrink_to(held * 2, |entry| entry.hash(hasher));
        }
    }

    /// Returns the number of buckets in the table.
    pub(crate) fn places(&self) -> usize {
        self.table.num_buckets()
    }

    /// Returns the bytes used by the table and by what its entries allocated.
    pub(crate) fn bytes(&self) -> usize {
        let beside = |entry: &Entry| inside::heap_bytes(&entry.state);
        self.table.allocation_size() + self.table.iter().map(beside).sum::<usize>()
    }
}
