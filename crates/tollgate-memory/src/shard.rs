//! One part of the table: entries behind one lock, and how stale ones leave it.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use tollgate_core::algorithm::State;
use tollgate_core::{Limit, Timestamp};

use crate::probe::{Probe, StoredKey};

/// One call in this many looks for stale entries.
const CALLS_PER_SWEEP: u32 = 16;

/// How many places such a call looks at, and how many an insertion does. Insertions look at more
/// than one, so that the table is swept faster than it can grow.
const PLACES_PER_SWEEP: usize = 4;

/// Tables smaller than this are not worth shrinking.
const LEAST_SHRUNK: usize = 1_024;

/// Entries behind one lock.
#[derive(Default)]
pub(crate) struct Shard {
    table: HashTable<Entry>,
    /// The place to look at next for a stale entry.
    hand: usize,
    calls: u32,
}

/// What is remembered of one limit for one key.
pub(crate) struct Entry {
    /// The limit that last looked at this state, by which it is judged stale.
    limit: Limit,
    key: StoredKey,
    pub(crate) state: State,
    hash: u64,
    timeline: Timeline,
}

/// Whose clock a state is kept by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Timeline {
    Caller,
    Store,
}

impl Entry {
    pub(crate) fn new(probe: &Probe<'_, '_>, timeline: Timeline, state: State) -> Self {
        Self {
            limit: probe.check.limit().clone(),
            key: StoredKey::new(probe),
            state,
            hash: probe.hash,
            timeline,
        }
    }

    #[inline]
    fn is_of(&self, probe: &Probe<'_, '_>) -> bool {
        let limit = probe.check.limit();
        self.key.is(probe)
            && (self.limit.is_same(limit) || self.limit.identity() == limit.identity())
    }

    /// Makes the entry be judged by `limit`, which may have changed since.
    #[inline]
    pub(crate) fn adopt(&mut self, limit: &Limit) {
        if !self.limit.is_same(limit) {
            self.limit = limit.clone();
        }
    }
}

impl Shard {
    pub(crate) fn find(&self, probe: &Probe<'_, '_>) -> Option<&Entry> {
        self.table.find(probe.hash, |entry| entry.is_of(probe))
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, probe: &Probe<'_, '_>) -> Option<&mut Entry> {
        self.table.find_mut(probe.hash, |entry| entry.is_of(probe))
    }

    /// Inserts an entry that is not there yet.
    pub(crate) fn insert(&mut self, entry: Entry) {
        let hash = entry.hash;
        self.table.insert_unique(hash, entry, |entry| entry.hash);
    }

    /// Returns the entry of `probe`, to be judged by its limit; a fresh one if there was none.
    pub(crate) fn find_or_insert(
        &mut self,
        probe: &Probe<'_, '_>,
        timeline: Timeline,
    ) -> &mut Entry {
        let place = self
            .table
            .entry(probe.hash, |entry| entry.is_of(probe), |entry| entry.hash);
        let entry = match place {
            Place::Occupied(place) => place.into_mut(),
            Place::Vacant(place) => {
                let entry = Entry::new(probe, timeline, State::default());
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

    /// Looks for stale entries of the store's own timeline, on one call in a few; returns how many
    /// it dropped.
    #[inline]
    pub(crate) fn sweep_now_and_then(&mut self, now: Timestamp) -> usize {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(CALLS_PER_SWEEP) {
            self.sweep_some(now)
        } else {
            0
        }
    }

    /// Looks at the next few places.
    pub(crate) fn sweep_some(&mut self, now: Timestamp) -> usize {
        self.sweep(PLACES_PER_SWEEP, |entry| {
            entry.timeline == Timeline::Store && entry.state.is_fresh(&entry.limit, now)
        })
    }

    /// Looks at all places for stale entries of the store's own timeline.
    pub(crate) fn sweep_all(&mut self, now: Timestamp) -> usize {
        self.sweep(self.places(), |entry| {
            entry.timeline == Timeline::Store && entry.state.is_fresh(&entry.limit, now)
        })
    }

    /// Looks at the next `places` places, wrapping around, for entries fresh at the instant of
    /// their timeline.
    pub(crate) fn sweep_places(
        &mut self,
        places: usize,
        store: Timestamp,
        caller: Timestamp,
    ) -> usize {
        self.sweep(places, |entry| {
            let now = match entry.timeline {
                Timeline::Caller => caller,
                Timeline::Store => store,
            };
            entry.state.is_fresh(&entry.limit, now)
        })
    }

    fn sweep(&mut self, places: usize, is_stale: impl Fn(&Entry) -> bool) -> usize {
        let mut dropped = 0;
        for _ in 0..places.min(self.places()) {
            if self.hand >= self.places() {
                self.hand = 0;
                self.shrink_if_sparse();
            }
            if self.table.get_bucket(self.hand).is_some_and(&is_stale)
                && let Ok(entry) = self.table.get_bucket_entry(self.hand)
            {
                entry.remove();
                dropped += 1;
            }
            self.hand += 1;
        }
        dropped
    }

    /// Returns memory to the system once most of a large table has expired.
    fn shrink_if_sparse(&mut self) {
        let held = self.table.len();
        if self.places() > LEAST_SHRUNK && held < self.places() / 8 {
            self.table.shrink_to(held * 2, |entry| entry.hash);
        }
    }

    /// Returns how many places there are for entries.
    pub(crate) fn places(&self) -> usize {
        self.table.num_buckets()
    }

    /// Returns the bytes held for entries, those allocated beside the table included.
    pub(crate) fn bytes(&self) -> usize {
        let beside = |entry: &Entry| entry.key.heap_bytes() + entry.state.heap_bytes();
        self.table.allocation_size() + self.table.iter().map(beside).sum::<usize>()
    }
}
