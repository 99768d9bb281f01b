//! `Schedules`: the schedules of a store.

use async_trait::async_trait;
use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use tollgate_core::{
    Key, ScheduleAnswer, ScheduleRequest, ScheduleState, ScheduleStore, StoreError,
    SyncScheduleStore, Terms, Timestamp,
};

use crate::probe::{KeyHasher, StoredKey};
use crate::store::{LOOKS_FOR_ROOM, MemoryStore, Timeline};

/// Shards for each clock. Schedules change less often than limits are checked.
const SHARDS: usize = 32;

/// How many buckets a new key checks for schedules whose events are all over.
const PLACES_PER_INSERTION: usize = 4;

/// The schedules of a store: first those kept by its clock, then those kept by callers' instants.
#[derive(Default)]
pub(crate) struct Schedules {
    shards: [[Mutex<Table>; SHARDS]; 2],
}

/// The schedules behind one lock.
#[derive(Default)]
pub(crate) struct Table {
    entries: HashTable<Entry>,
    /// The next bucket to check for a schedule whose events are all over.
    hand: usize,
}

struct Entry {
    /// The terms of the last change, by which the events expire.
    terms: Terms,
    key: StoredKey,
    state: ScheduleState,
}

/// A schedule and a key, with their hash.
#[derive(Clone, Copy)]
struct Place<'r> {
    terms: &'r Terms,
    key: StoredKey,
    hash: u64,
}

impl Entry {
    fn is_at(&self, place: &Place<'_>) -> bool {
        self.key == place.key && self.terms.identity() == place.terms.identity()
    }

    fn hash(&self, hasher: &KeyHasher) -> u64 {
        hasher.hash_schedule(self.terms.identity(), &self.key)
    }
}

impl Schedules {
    fn lock(&self, place: &Place<'_>, timeline: Timeline) -> MutexGuard<'_, Table> {
        let bits = usize::try_from(place.hash >> 32).unwrap_or_default();
        self.of(timeline)[bits % SHARDS].lock()
    }

    fn of(&self, timeline: Timeline) -> &[Mutex<Table>; SHARDS] {
        &self.shards[usize::from(timeline == Timeline::Caller)]
    }

    /// Drops the schedules of one clock whose events are all over at `now`, and returns how many.
    pub(crate) fn sweep(&self, timeline: Timeline, now: Timestamp) -> usize {
        let shards = self.of(timeline).iter();
        shards
            .map(|shard| shard.lock().sweep(usize::MAX, now))
            .sum()
    }

    /// Drops all schedules, and returns how many there were.
    pub(crate) fn clear(&self) -> usize {
        let clear = |shard: &Mutex<Table>| {
            let mut shard = shard.lock();
            let dropped = shard.entries.len();
            shard.entries.clear();
            dropped
        };
        self.shards.iter().flatten().map(clear).sum()
    }

    /// Returns the bytes used by schedules and their events.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |shard: &Mutex<Table>| {
            let shard = shard.lock();
            let states = shard.entries.iter().map(|entry| entry.state.heap_bytes());
            shard.entries.allocation_size() + states.sum::<usize>()
        };
        self.shards.iter().flatten().map(bytes).sum()
    }
}

impl Table {
    /// Checks the next `places` buckets, and returns how many schedules it dropped.
    fn sweep(&mut self, places: usize, now: Timestamp) -> usize {
        let mut dropped = 0;
        for _ in 0..places.min(self.entries.num_buckets()) {
            if self.hand >= self.entries.num_buckets() {
                self.hand = 0;
            }
            let is_over = |entry: &Entry| entry.state.is_fresh(&entry.terms, now);
            if self.entries.get_bucket(self.hand).is_some_and(is_over)
                && let Ok(entry) = self.entries.get_bucket_entry(self.hand)
            {
                entry.remove();
                dropped += 1;
            }
            self.hand += 1;
        }
        dropped
    }
}

impl MemoryStore {
    fn place<'r>(&self, terms: &'r Terms, key: Key<'_>) -> Place<'r> {
        let key = StoredKey::new(key, &self.hasher);
        let hash = self.hasher.hash_schedule(terms.identity(), &key);
        Place { terms, key, hash }
    }

    /// Decides on a schedule that is held, or returns `None`.
    fn on_held(
        &self,
        table: &mut Table,
        request: &ScheduleRequest<'_>,
        place: &Place<'_>,
        now: Timestamp,
    ) -> Option<ScheduleAnswer> {
        let found = table
            .entries
            .find_entry(place.hash, |entry| entry.is_at(place));
        let mut found = found.ok()?;
        let entry = found.get_mut();
        let answer = request.decide_on(&mut entry.state, now);
        if entry.state.is_empty() {
            found.remove();
            self.release(1);
        } else if entry.terms != *place.terms {
            entry.terms = place.terms.clone();
        }
        Some(answer)
    }
}

impl SyncScheduleStore for MemoryStore {
    fn schedule_now(&self, request: &ScheduleRequest<'_>) -> Result<ScheduleAnswer, StoreError> {
        request.validate()?;
        let place = self.place(request.terms(), request.key());
        let timeline = match request.caller_time() {
            Some(_) => Timeline::Caller,
            None => Timeline::Store,
        };
        for _ in 0..LOOKS_FOR_ROOM {
            let mut table = self.schedules.lock(&place, timeline);
            let now = self.time(request.caller_time());
            if let Some(answer) = self.on_held(&mut table, request, &place, now) {
                return Ok(answer);
            }
            let mut state = ScheduleState::default();
            let answer = request.decide_on(&mut state, now);
            if state.is_empty() {
                return Ok(answer);
            }
            if self.reserve(1) {
                let entry = Entry {
                    terms: place.terms.clone(),
                    key: place.key,
                    state,
                };
                table
                    .entries
                    .insert_unique(place.hash, entry, |entry| entry.hash(&self.hasher));
                if timeline == Timeline::Store {
                    self.release(table.sweep(PLACES_PER_INSERTION, now));
                }
                return Ok(answer);
            }
            drop(table);
            self.make_room(1, now, timeline);
        }
        Err(self.full())
    }

    fn reset_schedule_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError> {
        let place = self.place(terms, key);
        for timeline in [Timeline::Store, Timeline::Caller] {
            let mut table = self.schedules.lock(&place, timeline);
            let found = table
                .entries
                .find_entry(place.hash, |entry| entry.is_at(&place));
            self.release(usize::from(found.map(|entry| entry.remove()).is_ok()));
        }
        Ok(())
    }
}

#[async_trait]
impl ScheduleStore for MemoryStore {
    async fn schedule<'a>(
        &self,
        request: &ScheduleRequest<'a>,
    ) -> Result<ScheduleAnswer, StoreError> {
        self.schedule_now(request)
    }

    async fn reset_schedule<'a>(&self, terms: &'a Terms, key: Key<'a>) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}
