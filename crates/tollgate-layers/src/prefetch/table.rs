//! `Table`: the keys that are called often.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::RandomState;
use tollgate_core::Timestamp;
use tollgate_core::store::Check;

use super::changes::Changes;
use super::hot::Hot;
use crate::sync::{AtomicU64, FEW, Mutex, Ordering, lock};

const SHARDS: usize = if FEW { 1 } else { 16 };
/// How many keys a shard holds: those that come later are not prefetched.
const KEYS: usize = 4_096 / SHARDS;
/// How many keys are counted before they are known, at a time: of those that share a place, one after another.
const PLACES: usize = if FEW { 1 } else { 8_192 };
/// From how many calls on, within the time for which units are asked, a key is known.
const OFTEN: u64 = 4;

/// In the word of a place: a key of it is known.
const KNOWN: u64 = 0x80;
/// In the word of a place: its calls.
const CALLS: u64 = 0x7F;

/// By the hashes of limits and keys. Of those with one hash, the first is known.
type Shard = Mutex<HashMap<u64, Arc<Hot>, RandomState>>;

pub(super) struct Table {
    within: Duration,
    /// The same time, at least one microsecond.
    period_us: u64,
    pub(super) changes: Changes,
    shards: [Shard; SHARDS],
    hasher: RandomState,
    /// A key of each place, and how often it was called in a period: in 32 bits the number of the period, in 24
    /// a part of the key's hash, in 8 the calls, and whether any key of the place is known.
    places: Box<[AtomicU64]>,
}

impl Table {
    /// Returns a table of keys that are called often within this time.
    pub(super) fn new(within: Duration) -> Self {
        Self {
            within,
            period_us: u64::try_from(within.as_micros()).unwrap_or(u64::MAX).max(1),
            changes: Changes::default(),
            shards: [(); SHARDS].map(|()| Mutex::default()),
            hasher: RandomState::default(),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns what is known of the limits and keys of `checks`, and what a call costs, or `None` if they are
    /// called less often, or have no cost.
    ///
    /// Most keys are called seldom: of these, only the word of their place is read and written.
    pub(super) fn find(
        &self,
        checks: &[Check<'_>],
        now: Timestamp,
        cost: impl FnOnce() -> Option<u64>,
    ) -> Option<(Arc<Hot>, u64)> {
        let hash = self.hash(checks);
        let (is_known, is_often) = self.count(hash, now);
        if !is_known && !is_often {
            return None;
        }
        let cost = cost()?;
        let mut shard = lock(&self.shards[index(hash, SHARDS)]);
        let hot = match shard.get(&hash) {
            Some(hot) => Arc::clone(hot),
            None if is_often && shard.len() < KEYS => {
                let demand = (OFTEN - 1).saturating_mul(cost);
                let places = self.changes.places(checks);
                let hot = Arc::new(Hot::new(checks, places, demand, now, self.within));
                shard.insert(hash, Arc::clone(&hot));
                self.note_known(hash);
                hot
            }
            None => return None,
        };
        if !is_known {
            self.note_known(hash);
        }
        hot.is_of(checks).then_some((hot, cost))
    }

    /// Returns what is known of the limits and keys of `checks`.
    pub(super) fn known(&self, checks: &[Check<'_>]) -> Option<Arc<Hot>> {
        let hash = self.hash(checks);
        let shard = lock(&self.shards[index(hash, SHARDS)]);
        shard.get(&hash).filter(|hot| hot.is_of(checks)).cloned()
    }

    fn hash(&self, checks: &[Check<'_>]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for check in checks {
            let key = check.key();
            hasher.write(check.limit().identity().as_bytes());
            hasher.write(&key.partition());
            hasher.write(key.rest());
        }
        hasher.finish()
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.places[index(hash >> 32, PLACES)]
    }

    fn note_known(&self, hash: u64) {
        self.place(hash).fetch_or(KNOWN, Ordering::Relaxed);
    }

    /// Counts a call, and returns whether a key of its place is known, and whether its key has been called
    /// often in this period.
    fn count(&self, hash: u64, now: Timestamp) -> (bool, bool) {
        let period = now.as_micros() / self.period_us;
        let own = period << 32 | (hash & 0xFFFF_FF00);
        let place = self.place(hash);
        let word = place.load(Ordering::Relaxed);
        let (known, calls) = (word & KNOWN, word & CALLS);
        let before = if word & !0xFF == own {
            calls
        } else if word >> 32 == period & 0xFFFF_FFFF && calls < OFTEN {
            // Another key keeps its place in this period, until it is known.
            return (known != 0, false);
        } else {
            0
        };
        let calls = (before + 1).min(OFTEN);
        let counted = own | known | calls;
        if counted != word {
            // Of calls at one time, one may be counted for both.
            let _ = place.compare_exchange(word, counted, Ordering::Relaxed, Ordering::Relaxed);
        }
        (known != 0, calls == OFTEN)
    }

    /// Forgets what was not called for twice this time and has nothing in hand.
    pub(super) fn forget_quiet(&self, now: Timestamp) {
        let mut forgets = false;
        for shard in &self.shards {
            lock(shard).retain(|hash, hot| {
                // One that a call has found is about to be used.
                let stays = Arc::strong_count(hot) > 1
                    || !hot.with(|hand| hand.is_quiet(now, self.within * 2));
                if !stays {
                    self.place(*hash).fetch_and(!KNOWN, Ordering::Relaxed);
                    forgets = true;
                }
                stays
            });
        }
        // Those that stay may share a place with one that does not.
        for shard in self.shards.iter().filter(|_| forgets) {
            lock(shard).keys().for_each(|hash| self.note_known(*hash));
        }
    }

    pub(super) fn which(&self, is_it: impl Fn(&Hot) -> bool) -> Vec<Arc<Hot>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(lock(shard).values().filter(|hot| is_it(hot)).cloned());
        }
        all
    }

    /// Returns within which time units in hand are used, at least, or `None` if there is no key.
    pub(super) fn shortest(&self) -> Option<Duration> {
        let of = |hot: &Arc<Hot>| match hot.within < self.within && hot.with(|hand| hand.is_live())
        {
            true => hot.within,
            false => self.within,
        };
        let of = |shard: &Shard| lock(shard).values().map(of).min();
        self.shards.iter().filter_map(of).min()
    }
}

fn index(hash: u64, of: usize) -> usize {
    usize::try_from(hash).unwrap_or_default() % of
}
