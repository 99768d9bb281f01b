//! `Table`: the keys that are called often.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tollgate_core::Timestamp;
use tollgate_core::store::Check;

use super::hot::Hot;
use crate::LONGEST_KEY;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// What threads share is slow where each order of their turns is tried.
const FEW: bool = cfg!(feature = "__shuttle");
const SHARDS: usize = if FEW { 1 } else { 16 };
/// How many keys a shard holds: those that come later are not prefetched.
const KEYS: usize = 4_096 / SHARDS;
/// Calls with more limits are not prefetched.
const MOST_CHECKS: usize = 8;
/// How many keys are counted before they are known, at a time: of those that share a place, one after another.
const COUNTED: usize = if FEW { 1 } else { 8_192 };
/// From how many calls on, within the time for which units are asked, a key is known.
const OFTEN: u64 = 4;

/// What a call counts in, up to which amounts and in which window: another one is another limit.
type Name = SmallVec<[u8; 256]>;
type Shard = Mutex<HashMap<Box<[u8]>, Arc<Hot>, RandomState>>;

pub(super) struct Table {
    shards: [Shard; SHARDS],
    hasher: RandomState,
    /// A key of each place, and how often it was called in a period: in 32 bits the number of the period, in 24
    /// a part of the key's hash, in 8 the calls.
    counted: Box<[AtomicU64]>,
}

impl Default for Table {
    fn default() -> Self {
        let hasher = RandomState::default();
        Self {
            shards: [(); SHARDS].map(|()| Mutex::new(HashMap::with_hasher(hasher.clone()))),
            hasher,
            counted: (0..COUNTED).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Table {
    /// Returns what is known of the limits and keys of `checks`, or `None` if they are called less often.
    pub(super) fn find(
        &self,
        checks: &[Check<'_>],
        cost: u64,
        now: Timestamp,
        within: Duration,
    ) -> Option<Arc<Hot>> {
        let name = name(checks)?;
        let hash = self.hasher.hash_one(&name[..]);
        let shard = &self.shards[index(hash, SHARDS)];
        if let Some(hot) = lock(shard).get(&name[..]) {
            return Some(Arc::clone(hot));
        }
        if !self.is_often(hash, now, within) {
            return None;
        }
        let mut known = lock(shard);
        if known.len() >= KEYS {
            return None;
        }
        let hot = known.entry(name.into_vec().into()).or_insert_with(|| {
            Arc::new(Hot::new(
                checks,
                (OFTEN - 1).saturating_mul(cost),
                now,
                within,
            ))
        });
        Some(Arc::clone(hot))
    }

    /// Returns what is known of the limits and keys of `checks`.
    pub(super) fn known(&self, checks: &[Check<'_>]) -> Option<Arc<Hot>> {
        let name = name(checks)?;
        let hash = self.hasher.hash_one(&name[..]);
        lock(&self.shards[index(hash, SHARDS)])
            .get(&name[..])
            .map(Arc::clone)
    }

    /// Counts a call, and returns whether its key has been called often in this period.
    fn is_often(&self, hash: u64, now: Timestamp, within: Duration) -> bool {
        let length = u64::try_from(within.as_micros()).unwrap_or(u64::MAX).max(1);
        let period = now.as_micros() / length;
        let own = period << 32 | (hash & 0xFFFF_FF00);
        let place = &self.counted[index(hash >> 32, COUNTED)];
        let counted = place.load(Ordering::Relaxed);
        let before = match counted & 0xFF {
            before if counted & !0xFF == own => before,
            // Another key keeps its place in this period, until it is known.
            before if counted >> 32 == period & 0xFFFF_FFFF && before < OFTEN => return false,
            _ => 0,
        };
        let calls = (before + 1).min(OFTEN);
        // Of calls at one time, one may be counted for both: the key is known a little later.
        place.store(own | calls, Ordering::Relaxed);
        calls == OFTEN
    }

    /// Forgets what was not called for twice this time and has nothing in hand.
    pub(super) fn forget_quiet(&self, now: Timestamp, within: Duration) {
        for shard in &self.shards {
            // One that a call has found is about to be used.
            lock(shard)
                .retain(|_, hot| Arc::strong_count(hot) > 1 || !hot.is_quiet(now, within * 2));
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Hot>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(lock(shard).values().cloned());
        }
        all
    }

    /// Returns what shares a limit and key with `checks`.
    pub(super) fn sharing(&self, checks: &[Check<'_>]) -> Vec<Arc<Hot>> {
        let mut sharing = Vec::new();
        for shard in &self.shards {
            let known = lock(shard);
            sharing.extend(known.values().filter(|hot| hot.shares(checks)).cloned());
        }
        sharing
    }

    /// Returns within which time units of any key are used, at least.
    pub(super) fn shortest(&self) -> Option<Duration> {
        let of = |shard: &Shard| lock(shard).values().map(|hot| hot.within()).min();
        self.shards.iter().filter_map(of).min()
    }
}

fn lock<T>(of: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn index(hash: u64, of: usize) -> usize {
    usize::try_from(hash).unwrap_or_default() % of
}

fn name(checks: &[Check<'_>]) -> Option<Name> {
    if checks.len() > MOST_CHECKS {
        return None;
    }
    let mut name = Name::new();
    for check in checks {
        let (key, identity) = (check.key(), check.limit().identity());
        let partition = key.partition();
        if partition.len() + key.rest().len() > LONGEST_KEY {
            return None;
        }
        let algorithm = check.limit().algorithm();
        // A call that would be denied counts for these: the store has to know of it.
        if algorithm.counts_denied() {
            return None;
        }
        let window = algorithm.longest_window().as_micros();
        let window = u64::try_from(window).unwrap_or(u64::MAX);
        for number in [algorithm.quota().amount(), algorithm.capacity(), window] {
            name.extend_from_slice(&number.to_le_bytes());
        }
        name.push(check.limit().is_shadow().into());
        for part in [identity.as_bytes(), &partition, key.rest()] {
            let length = u32::try_from(part.len()).ok()?;
            name.extend_from_slice(&length.to_le_bytes());
            name.extend_from_slice(part);
        }
    }
    Some(name)
}
