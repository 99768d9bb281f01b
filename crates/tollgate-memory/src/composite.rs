//! Decides requests with several checks, whose states may be in several shards.

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tollgate_core::store::{Check, Limits, Operation, Request, State, States, Verdicts};
use tollgate_core::{Decision, Key, Limit, StoreError, SyncStore, inside};

use crate::clock::Timeline;
use crate::memory_store::{LOOKS_FOR_ROOM, MemoryStore};
use crate::probe::{KeyHasher, Probe, StoredKey};
use crate::shard::{Place, Shard, Slot, WIDEST};

/// The locked shards of a request.
struct Locked<'s, 'r, 'k> {
    /// One probe for each check.
    probes: &'r [Probe<'r, 'k>],
    /// Those that have a state, or get one.
    kept: SmallVec<[Probe<'r, 'k>; WIDEST]>,
    hasher: &'s KeyHasher,
    /// Each shard once, in ascending order. All threads lock in this order, so they cannot
    /// deadlock.
    shards: SmallVec<[MutexGuard<'s, Shard>; WIDEST]>,
    /// For each check, the index of its shard in `shards`.
    places: SmallVec<[usize; WIDEST]>,
}

/// The stored states of a request with few checks, all of them in one shard.
struct Stored<'s, 'r, 'k> {
    shard: MutexGuard<'s, Shard>,
    places: [Place; WIDEST],
    checks: &'r [Check<'k>],
}

/// The stored states of a key under these limits.
struct Slots<'s, const N: usize>([&'s mut Slot; N]);

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
        if checks.len() > WIDEST
            || !matches!(request.operation(), Operation::Consume | Operation::Peek)
        {
            return None;
        }
        let timeline = Timeline::of(request);
        let probes: SmallVec<[_; WIDEST]> = checks.iter().map(|check| self.probe(check)).collect();
        let number = self.shard_of(probes.first()?.key_hash, timeline);
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.early_now(request);
        let mut shard = self.lock(number);
        if probes
            .iter()
            .any(|probe| self.shard_of(probe.key_hash, timeline) != number)
        {
            return None;
        }
        let places = shard.joined(&probes, &self.hasher)?;
        let is_twice = |(index, place)| places[..index].contains(place);
        if places[..probes.len()].iter().enumerate().any(is_twice) {
            return None;
        }
        let hashes = probes.iter().map(|probe| probe.hash);
        let fingerprint = self.hasher.fingerprint(hashes, timeline);
        let mut stored = Stored {
            shard,
            places,
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
        let stored = StoredKey::new(key, &self.hasher);
        let key_hash = self.hasher.hash(&stored);
        let hashes = each
            .each_ref()
            .map(|limit| key_hash ^ inside::identity_hash(limit));
        let fingerprint = self.hasher.fingerprint(hashes, Timeline::Store);
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.clock.early_now();
        let mut shard = self.lock(self.shard_of(key_hash, Timeline::Store));
        let mut stored = Slots(shard.find_few(key_hash, &stored, each)?);
        inside::consume_few(limits, each, fingerprint, cost, &mut stored, now)
    }

    /// Does the same, also if the states are not in one row, or were last changed under other, equal limits.
    #[inline(never)]
    fn consume_apart<'l, const N: usize>(
        &self,
        limits: &'l Limits,
        key: Key<'_>,
        cost: u64,
    ) -> Option<Decision<'l>> {
        let each: &[Limit; N] = (**limits).try_into().ok()?;
        let checks = each.each_ref().map(|limit| Check::new(limit, key, cost));
        let probes = checks.each_ref().map(|check| self.probe(check));
        let hashes = probes.each_ref().map(|probe| probe.hash);
        let fingerprint = self.hasher.fingerprint(hashes, Timeline::Store);
        let now = self.clock.early_now();
        let mut shard = self.lock(self.shard_of(probes[0].key_hash, Timeline::Store));
        let mut stored = Stored {
            places: shard.joined(&probes, &self.hasher)?,
            shard,
            checks: &checks,
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
        let decided = match limits.len() {
            2 => self.consume_apart::<2>(limits, key, cost),
            3 => self.consume_apart::<3>(limits, key, cost),
            4 => self.consume_apart::<4>(limits, key, cost),
            _ => None,
        };
        match decided {
            Some(decision) => Ok(decision),
            None => {
                let request = Request::consume_all(limits, key, cost);
                Decision::new(limits, self.decide_now(&request)?)
            }
        }
    }

    /// Decides a request whose states may be in several shards or not stored.
    fn decide_any(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let timeline = Timeline::of(request);
        let probes = request
            .checks()
            .iter()
            .map(|check| self.probe(check))
            .collect::<SmallVec<[_; WIDEST]>>();
        let fingerprint = self
            .hasher
            .fingerprint(probes.iter().map(|probe| probe.hash), timeline);
        request.validate(|_| fingerprint)?;
        let mut has_room = true;
        for _ in 0..LOOKS_FOR_ROOM {
            let early = self.early_now(request);
            let mut locked = self.lock_all(&probes, timeline);
            let new: SmallVec<[usize; WIDEST]> = (0..probes.len())
                .filter(|&index| locked.slot(index).is_none())
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
            let is_kept = |index: &usize| !new.contains(index) || evaluation.writes_to(*index);
            let new_keys = new.iter().filter(|index| is_kept(index)).count();
            if new_keys == 0 || self.reserve(new_keys) {
                let kept = (0..probes.len()).filter(is_kept);
                locked.kept = kept.map(|index| probes[index]).collect();
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
        let mut numbers: SmallVec<[usize; WIDEST]> = probes.iter().map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // `numbers` has the shard of every probe, so the search always finds it.
        let place = |probe| numbers.partition_point(|&other| other < number(probe));
        Locked {
            places: probes.iter().map(place).collect(),
            shards: numbers.iter().map(|&number| self.lock(number)).collect(),
            probes,
            kept: SmallVec::new(),
            hasher: &self.hasher,
        }
    }
}

impl States for Stored<'_, '_, '_> {
    #[inline(always)]
    fn state(&self, index: usize) -> &State {
        let slot = self.shard.at(self.places[index]);
        slot.map_or(State::FRESH, |slot| &slot.state)
    }

    #[inline(always)]
    fn state_mut(&mut self, index: usize) -> &mut State {
        let Some(slot) = self.shard.at_mut(self.places[index]) else {
            unreachable!("all states are stored");
        };
        slot.adopt(self.checks[index].limit());
        &mut slot.state
    }
}

impl<const N: usize> States for Slots<'_, N> {
    #[inline(always)]
    fn state(&self, index: usize) -> &State {
        &self.0[index].state
    }

    #[inline(always)]
    fn state_mut(&mut self, index: usize) -> &mut State {
        &mut self.0[index].state
    }
}

impl Locked<'_, '_, '_> {
    fn slot(&self, index: usize) -> Option<&Slot> {
        let shard = &self.shards[self.places[index]];
        shard.at(shard.place(&self.probes[index])?)
    }
}

impl States for Locked<'_, '_, '_> {
    fn state(&self, index: usize) -> &State {
        self.slot(index).map_or(State::FRESH, |slot| &slot.state)
    }

    fn state_mut(&mut self, index: usize) -> &mut State {
        let shard = &mut self.shards[self.places[index]];
        shard.find_or_insert(&self.probes[index], &self.kept, self.hasher)
    }
}
