//! `Tables`: the schedules, the leases or the answers of a store.

use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use tollgate_core::store::Verdicts;
use tollgate_core::{Limit, Timestamp, inside, lease, schedule};

use crate::clock::Timeline;
use crate::probe::{KeyHasher, StoredKey, shard_bits};

/// Shards for each clock. Schedules and leases change less often than limits are checked.
const SHARDS: usize = 32;

/// Locks that make repeated calls wait for each other.
pub(crate) const LOCKS: usize = 32;

/// What is kept for one key.
pub(crate) trait Kept: Default {
    /// What the state is kept for.
    type Terms: Clone + PartialEq;

    /// Returns the text that tells the states of one key apart.
    fn identity(terms: &Self::Terms) -> &str;

    /// Returns whether the state may be dropped at `now`.
    fn is_fresh(&self, terms: &Self::Terms, now: Timestamp) -> bool;

    /// Returns whether nothing is in the state.
    fn is_empty(&self) -> bool;

    /// Returns a state for a key whose earlier state was dropped when it had this mark.
    fn after(_mark: u64) -> Self {
        Self::default()
    }

    /// Returns a number that later states of the key must go on from.
    fn mark(&self) -> u64 {
        0
    }

    /// Returns the bytes that the state has allocated.
    fn heap_bytes(&self) -> usize;
}

impl Kept for schedule::State {
    type Terms = schedule::Terms;

    fn identity(terms: &schedule::Terms) -> &str {
        terms.identity()
    }

    fn is_fresh(&self, terms: &schedule::Terms, now: Timestamp) -> bool {
        self.is_fresh(terms, now)
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

impl Kept for lease::State {
    type Terms = lease::Terms;

    fn identity(terms: &lease::Terms) -> &str {
        terms.identity()
    }

    fn is_fresh(&self, _: &lease::Terms, now: Timestamp) -> bool {
        self.is_fresh(now)
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    /// Tokens grow even after a reset, and if the clock steps back.
    fn after(mark: u64) -> Self {
        Self::after(mark)
    }

    fn mark(&self) -> u64 {
        self.last_token()
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

/// The answer to one id.
#[derive(Default)]
pub(crate) struct Answer {
    /// A hash of the call, which is the same if the call is repeated.
    pub(crate) call: u64,
    /// When the answer is forgotten, in microseconds; zero if there is none.
    pub(crate) ends: u64,
    /// `None` while the call is being decided.
    pub(crate) verdicts: Option<Box<Verdicts>>,
}

impl Kept for Answer {
    /// The first limit of the call, whose name is part of the key.
    type Terms = Limit;

    fn identity(first: &Limit) -> &str {
        first.name()
    }

    fn is_fresh(&self, _: &Limit, now: Timestamp) -> bool {
        self.ends <= now.as_micros()
    }

    fn is_empty(&self) -> bool {
        self.ends == 0
    }

    fn heap_bytes(&self) -> usize {
        let verdicts = self.verdicts.as_ref();
        verdicts.map_or(0, |verdicts| {
            size_of::<Verdicts>() + inside::bytes_beside(verdicts)
        })
    }
}

/// States by key: first those kept by the store's clock, then those kept by callers' instants.
#[derive(Default)]
pub(crate) struct Tables<K: Kept> {
    shards: [[Mutex<Table<K>>; SHARDS]; 2],
    /// The next shard in which to make room.
    hand: AtomicUsize,
}

/// The answers of a store by id.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) tables: Tables<Answer>,
    /// Held from before a call looks for an answer until it has kept its own.
    pub(crate) locks: [Mutex<()>; LOCKS],
}

/// The states behind one lock.
#[derive(Default)]
pub(crate) struct Table<K: Kept> {
    pub(crate) entries: HashTable<Entry<K>>,
    /// The next bucket to check for a state that no longer matters.
    hand: usize,
    /// The largest mark of a state that was dropped.
    pub(crate) mark: u64,
}

pub(crate) struct Entry<K: Kept> {
    /// The terms of the last change, by which the state expires.
    pub(crate) terms: K::Terms,
    pub(crate) key: StoredKey,
    pub(crate) state: K,
}

/// Where a state is kept.
pub(crate) struct Place<'r, K: Kept> {
    pub(crate) terms: &'r K::Terms,
    pub(crate) key: StoredKey,
    pub(crate) hash: u64,
}

impl<K: Kept> Entry<K> {
    pub(crate) fn is_at(&self, place: &Place<'_, K>) -> bool {
        self.key == place.key && K::identity(&self.terms) == K::identity(place.terms)
    }

    pub(crate) fn hash(&self, hasher: &KeyHasher) -> u64 {
        hasher.hash_text(K::identity(&self.terms), &self.key)
    }
}

impl<K: Kept> Tables<K> {
    pub(crate) fn lock(
        &self,
        place: &Place<'_, K>,
        timeline: Timeline,
    ) -> MutexGuard<'_, Table<K>> {
        self.of(timeline)[shard_bits(place.hash) % SHARDS].lock()
    }

    fn of(&self, timeline: Timeline) -> &[Mutex<Table<K>>; SHARDS] {
        &self.shards[usize::from(timeline == Timeline::Caller)]
    }

    /// Drops the states of one clock that no longer matter at `now`, and returns how many.
    pub(crate) fn sweep(&self, timeline: Timeline, now: Timestamp) -> usize {
        let shards = self.of(timeline).iter();
        shards
            .map(|shard| shard.lock().sweep(usize::MAX, now))
            .sum()
    }

    /// Checks up to `places` buckets for states that no longer matter, and returns how many it
    /// dropped. `now` returns the time of a clock, or `None` if it is not known.
    pub(crate) fn make_room(
        &self,
        places: usize,
        now: impl Fn(Timeline) -> Option<Timestamp>,
    ) -> usize {
        let (mut left, mut dropped) = (places, 0);
        for _ in 0..2 * SHARDS {
            let next = self.hand.fetch_add(1, Ordering::Relaxed) % (2 * SHARDS);
            let timeline = match next / SHARDS {
                0 => Timeline::Store,
                _ => Timeline::Caller,
            };
            let mut table = self.of(timeline)[next % SHARDS].lock();
            if table.entries.is_empty() {
                continue;
            }
            let Some(now) = now(timeline) else {
                continue;
            };
            dropped += table.sweep(left, now);
            left = left.saturating_sub(table.entries.num_buckets());
            if left == 0 {
                break;
            }
        }
        dropped
    }

    /// Drops all states, and returns how many there were.
    pub(crate) fn clear(&self) -> usize {
        let clear = |shard: &Mutex<Table<K>>| {
            let mut shard = shard.lock();
            let dropped = shard.entries.len();
            let marks = shard.entries.iter().map(|entry| entry.state.mark());
            shard.mark = shard.mark.max(marks.max().unwrap_or(0));
            shard.entries.clear();
            dropped
        };
        self.shards.iter().flatten().map(clear).sum()
    }

    /// Returns the bytes used by the states.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |shard: &Mutex<Table<K>>| {
            let shard = shard.lock();
            let states = shard.entries.iter().map(|entry| entry.state.heap_bytes());
            shard.entries.allocation_size() + states.sum::<usize>()
        };
        self.shards.iter().flatten().map(bytes).sum()
    }
}

impl<K: Kept> Table<K> {
    /// Checks the next `places` buckets, and returns how many states it dropped.
    pub(crate) fn sweep(&mut self, places: usize, now: Timestamp) -> usize {
        let mut dropped = 0;
        for _ in 0..places.min(self.entries.num_buckets()) {
            if self.hand >= self.entries.num_buckets() {
                self.hand = 0;
            }
            let is_over = |entry: &Entry<K>| entry.state.is_fresh(&entry.terms, now);
            if self.entries.get_bucket(self.hand).is_some_and(is_over)
                && let Ok(entry) = self.entries.get_bucket_entry(self.hand)
            {
                let (entry, _) = entry.remove();
                self.mark = self.mark.max(entry.state.mark());
                dropped += 1;
            }
            self.hand += 1;
        }
        dropped
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use tollgate_core::schedule::Schedule;
    use tollgate_core::{Clock, Key, ManualClock, Timestamp};

    use super::SHARDS;
    use crate::memory_store::MemoryStore;
    use crate::probe::{KeyHasher, StoredKey, shard_bits};

    /// Returns a store with `keys` schedules by its own clock, and as many by callers' instants.
    fn planned(keys: usize) -> MemoryStore {
        let clock = ManualClock::new();
        let now = clock.now();
        let store = MemoryStore::builder().clock(clock).build();
        let schedule = Schedule::new(&store, "plans", ["1/1h"]).unwrap();
        for key in 0..keys {
            let key = key.to_string();
            let add = || schedule.add(&key, "a", now);
            assert!(add().run().unwrap().is_planned());
            assert!(add().at(now).run().unwrap().is_planned());
        }
        store
    }

    /// Otherwise calls for different keys would wait for each other.
    #[test]
    fn keys_are_spread_evenly_over_the_shards() {
        const EACH: usize = 50;
        // A seed in a hundred would be bad if a bit of the hash were taken as it is.
        for _ in 0..400 {
            let hasher = KeyHasher::new();
            let mut held = [0; SHARDS];
            for key in 0..SHARDS * EACH {
                let key = StoredKey::new(&Key::from(&*key.to_string()), &hasher);
                held[shard_bits(hasher.hash_text("plans", &key)) % SHARDS] += 1;
            }
            let even = EACH / 3..3 * EACH;
            assert!(held.iter().all(|held| even.contains(held)), "{held:?}");
        }
    }

    #[test]
    fn making_room_drops_no_more_states_than_it_may_look_at() {
        const KEYS: usize = 200;
        for places in [1, 7, 40] {
            let store = planned(KEYS);
            let make_room = |now| store.schedules.make_room(places, |_| now);
            assert_eq!(make_room(None), 0);
            assert_eq!(make_room(Some(Timestamp::UNIX_EPOCH)), 0);
            let mut left = 2 * KEYS;
            while left > 0 {
                let dropped = make_room(Some(Timestamp::MAX));
                assert!(dropped <= places, "{dropped} in {places}");
                left -= dropped;
            }
        }
    }
}
