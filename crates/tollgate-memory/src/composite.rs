//! Decides requests with several checks, whose states may be in several shards.

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tollgate_core::store::{Check, Limits, Operation, Request, State, States, Verdicts};
use tollgate_core::{Decision, Key, Limit, StoreError, SyncStore, inside};

use crate::clock::Timeline;
use crate::memory_store::{LOOKS_FOR_ROOM, MemoryStore};
use crate::probe::{KeyHasher, Probe, StoredKey};
use crate::shard::{Entry, Shard};

/// Requests with up to this many checks are decided without allocating.
const INLINE: usize = 4;

/// The locked shards of a request.
struct Locked<'s, 'r, 'k> {
    /// One probe for each check.
    probes: &'r [Probe<'r, 'k>],
    hasher: &'s KeyHasher,
    /// Each shard once, in ascending order. All threads lock in this order, so they cannot
    /// deadlock.
    shards: SmallVec<[MutexGuard<'s, Shard>; INLINE]>,
    /// For each check, the index of its shard in `shards`.
    places: SmallVec<[usize; INLINE]>,
}

/// The stored states of a request with few checks, all of them in one shard.
struct Stored<'s, 'r, 'k> {
    shard: MutexGuard<'s, Shard>,
    buckets: [usize; INLINE],
    checks: &'r [Check<'k>],
}

/// The stored states of a key under these limits.
struct Entries<'s, 'l, const N: usize> {
    entries: [&'s mut Entry; N],
    limits: &'l [Limit; N],
}

impl MemoryStore {
    /// Decides a request with several checks.
    ///
    /// Takes the short way if it is of few checks that consume or peek, and all of its states are stored,
    /// in one shard. That is most requests: all limits of a key are in one shard.
    pub(crate) fn decide_several(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        match self.decide_stored(request) {
            Some(verdicts) => Ok(verdicts),
            None => self.decide_any(request),
        }
    }

    fn decide_stored(&self, request: &Request<'_>) -> Option<Verdicts> {
        let checks = request.checks();
        if checks.len() > INLINE
            || !matches!(request.operation(), Operation::Consume | Operation::Peek)
        {
            return None;
        }
        let timeline = Timeline::of(request);
        let probes: SmallVec<[_; INLINE]> = checks.iter().map(|check| self.probe(check)).collect();
        let number = self.shard_of(probes.first()?.key_hash, timeline);
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.early_now(request);
        let shard = self.lock(number);
        let mut buckets = [0; INLINE];
        for (index, probe) in probes.iter().enumerate() {
            if self.shard_of(probe.key_hash, timeline) != number {
                return None;
            }
            let bucket = shard.bucket_of(probe.hash, probe.check.limit(), &probe.key)?;
            if buckets[..index].contains(&bucket) {
                return None;
            }
            buckets[index] = bucket;
        }
        let hashes = probes.iter().map(|probe| probe.hash);
        let fingerprint = self.hasher.fingerprint(hashes, timeline);
        let mut stored = Stored {
            shard,
            buckets,
            checks,
        };
        Some(request.decide_with(fingerprint, &mut stored, now))
    }

    /// Consumes `cost` for `key` from each of `limits`, at the store's clock, or from none of them.
    #[inline(never)]
    pub(crate) fn consume_several<'l>(
        &self,
        limits: &'l Limits,
        key: Key<'_>,
        cost: u64,
    ) -> Result<Decision<'l>, StoreError> {
        let decided = match limits.len() {
            2 => self.consume_stored::<2>(limits, &key, cost),
            3 => self.consume_stored::<3>(limits, &key, cost),
            4 => self.consume_stored::<4>(limits, &key, cost),
            _ => None,
        };
        match decided {
            Some(decision) => Ok(decision),
            None => self.consume_any(limits, key, cost),
        }
    }

    /// Does as [`Self::consume_several`] does, if all states are stored.
    // Builds no checks: each would be a copy of the key.
    #[inline(always)]
    fn consume_stored<'l, const N: usize>(
        &self,
        limits: &'l Limits,
        key: &Key<'_>,
        cost: u64,
    ) -> Option<Decision<'l>> {
        let each: &[Limit; N] = (**limits).try_into().ok()?;
        let key = StoredKey::new(key, &self.hasher);
        let key_hash = self.hasher.hash(&key);
        let hashes = each
            .each_ref()
            .map(|limit| key_hash ^ inside::identity_hash(limit));
        let fingerprint = self.hasher.fingerprint(hashes, Timeline::Store);
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.clock.early_now();
        let mut shard = self.lock(self.shard_of(key_hash, Timeline::Store));
        let entries = shard.find_few(hashes, each, &key)?;
        let mut stored = Entries {
            entries,
            limits: each,
        };
        inside::consume_few(limits, each, fingerprint, cost, &mut stored, now)
    }

    #[cold]
    fn consume_any<'l>(
        &self,
        limits: &'l Limits,
        key: Key<'_>,
        cost: u64,
    ) -> Result<Decision<'l>, StoreError> {
        let request = Request::consume_all(limits, key, cost);
        Decision::new(limits, self.decide_now(&request)?)
    }

    /// Decides a request whose states may be in several shards or not stored.
    fn decide_any(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let timeline = Timeline::of(request);
        let probes = request
            .checks()
            .iter()
            .map(|check| self.probe(check))
            .collect::<SmallVec<[_; INLINE]>>();
        let fingerprint = self
            .hasher
            .fingerprint(probes.iter().map(|probe| probe.hash), timeline);
        request.validate(|_| fingerprint)?;
        let mut has_room = true;
        for _ in 0..LOOKS_FOR_ROOM {
            let early = self.early_now(request);
            let mut locked = self.lock_all(&probes, timeline);
            let new: SmallVec<[usize; INLINE]> = (0..probes.len())
                .filter(|&index| locked.entry(index).is_none())
                .collect();
            // A stored state remembers the instant of its last change, so an early reading is fine.
            // For a new key, another thread may just have removed an expired state. Its reading
            // must not be later than ours, so we read the clock again with the locks held.
            let now = if new.is_empty() {
                early
            } else {
                self.now(request)
            };
            let evaluation = request.evaluate(&locked, now);
            let new_keys = new
                .iter()
                .filter(|&&index| evaluation.writes_to(index))
                .count();
            if new_keys == 0 || self.reserve(new_keys) {
                let decision = evaluation.apply(fingerprint, &mut locked);
                if new_keys > 0 {
                    for shard in &mut locked.shards {
                        self.sweep_some(shard, now, timeline);
                    }
                }
                return Ok(decision);
            }
            drop(locked);
            // If there was no room, another call may have used the last of it to insert these keys:
            // look once more.
            if !has_room {
                break;
            }
            has_room = self.make_room(new_keys, now, timeline);
        }
        Err(self.full())
    }

    fn lock_all<'s, 'r, 'k>(
        &'s self,
        probes: &'r [Probe<'r, 'k>],
        timeline: Timeline,
    ) -> Locked<'s, 'r, 'k> {
        let number = |probe: &Probe<'_, '_>| self.shard_of(probe.key_hash, timeline);
        let mut numbers: SmallVec<[usize; INLINE]> = probes.iter().map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // `numbers` has the shard of every probe, so the search always finds it.
        let place = |probe| numbers.partition_point(|&other| other < number(probe));
        Locked {
            places: probes.iter().map(place).collect(),
            shards: numbers.iter().map(|&number| self.lock(number)).collect(),
            probes,
            hasher: &self.hasher,
        }
    }
}

impl States for Stored<'_, '_, '_> {
    #[inline(always)]
    fn state(&self, index: usize) -> &State {
        match self.shard.at(self.buckets[index]) {
            Some(entry) => &entry.state,
            None => State::FRESH,
        }
    }

    #[inline(always)]
    fn state_mut(&mut self, index: usize) -> &mut State {
        let Some(entry) = self.shard.at_mut(self.buckets[index]) else {
            unreachable!("all states are stored");
        };
        entry.adopt(self.checks[index].limit());
        &mut entry.state
    }
}

impl<const N: usize> States for Entries<'_, '_, N> {
    #[inline(always)]
    fn state(&self, index: usize) -> &State {
        &self.entries[index].state
    }

    #[inline(always)]
    fn state_mut(&mut self, index: usize) -> &mut State {
        let entry = &mut *self.entries[index];
        entry.adopt(&self.limits[index]);
        &mut entry.state
    }
}

impl Locked<'_, '_, '_> {
    fn entry(&self, index: usize) -> Option<&Entry> {
        self.shards[self.places[index]].find(&self.probes[index])
    }
}

impl States for Locked<'_, '_, '_> {
    fn state(&self, index: usize) -> &State {
        self.entry(index).map_or(State::FRESH, |entry| &entry.state)
    }

    fn state_mut(&mut self, index: usize) -> &mut State {
        let shard = &mut self.shards[self.places[index]];
        let entry = shard.find_or_insert(&self.probes[index], self.hasher);
        &mut entry.state
    }
}
