//! Decides requests with several checks, whose states may be in several shards.

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tollgate_core::store::{
    Check, Fingerprint, Operation, Request, State, States, Verdict, Verdicts,
};
use tollgate_core::{Key, Limit, StoreError, Timestamp, inside};

use crate::memory_store::{LOOKS_FOR_ROOM, MemoryStore, Timeline};
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

/// The entries of a request, all of them in one shard.
struct Stored<'e, 'l, const N: usize> {
    limits: [&'l Limit; N],
    entries: [Option<&'e mut Entry>; N],
}

impl MemoryStore {
    /// Decides a request with several checks.
    pub(crate) fn decide_several(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        match (request.operation(), request.checks().len()) {
            (Operation::Consume | Operation::Peek, 2) => self.decide_few::<2>(request),
            (Operation::Consume | Operation::Peek, 3) => self.decide_few::<3>(request),
            (Operation::Consume | Operation::Peek, 4) => self.decide_few::<4>(request),
            _ => self.decide_any(request),
        }
    }

    /// Decides a request with `N` checks that consumes or peeks.
    ///
    /// Takes the short way if all of its states are stored, in one shard. That is most requests: all
    /// limits of a key are in one shard.
    fn decide_few<const N: usize>(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let Ok(checks) = <&[Check<'_>; N]>::try_from(request.checks()) else {
            return self.decide_any(request);
        };
        let probes = checks.each_ref().map(|check| self.probe(check));
        let timeline = Timeline::of(request);
        let number = self.shard_of(probes[0].key_hash, timeline);
        let is_elsewhere =
            |probe: &Probe<'_, '_>| self.shard_of(probe.key_hash, timeline) != number;
        let hashes = probes.each_ref().map(|probe| probe.hash);
        if has_equal_hashes(&hashes) || probes.iter().any(is_elsewhere) {
            return self.decide_any(request);
        }
        let fingerprint = self.hasher.fingerprint(hashes, timeline);
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.early_now(request);
        let mut shard = self.lock(number);
        let is_of = |index: usize, entry: &Entry| entry.is_of(&probes[index]);
        let Some(entries) = shard.find_all_mut(hashes, is_of) else {
            drop(shard);
            return self.decide_any(request);
        };
        let limits = checks.each_ref().map(Check::limit);
        let mut stored = Stored { limits, entries };
        Ok(request.decide_with(fingerprint, &mut stored, now))
    }

    /// Does as [`Self::consume_stored`] does, if there are `N` limits.
    #[inline(always)]
    pub(crate) fn consume_few<const N: usize>(
        &self,
        limits: &[Limit],
        key: Key<'_>,
        cost: u64,
        verdicts: &mut [Verdict],
    ) -> Option<Fingerprint> {
        let limits: &[Limit; N] = limits.try_into().ok()?;
        self.consume_stored(limits, key, cost, verdicts.try_into().ok()?)
    }

    /// Consumes `cost` for `key` from each of `limits`, at the store's clock, or from none of them, if
    /// all states are stored.
    ///
    /// Returns `None`, and changes no state, if [`Self::decide_several`] has to decide the call.
    // Builds no checks: each would be a copy of the key.
    #[inline(always)]
    pub(crate) fn consume_stored<const N: usize>(
        &self,
        limits: &[Limit; N],
        key: Key<'_>,
        cost: u64,
        verdicts: &mut [Verdict; N],
    ) -> Option<Fingerprint> {
        let stored_key = StoredKey::new(&key, &self.hasher);
        let key_hash = self.hasher.hash(&stored_key);
        let hash = |limit: &Limit| key_hash ^ inside::identity_hash(limit);
        let hashes = limits.each_ref().map(hash);
        if has_equal_hashes(&hashes) {
            return None;
        }
        let fingerprint = self.hasher.fingerprint(hashes, Timeline::Store);
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.clock.early_now();
        let mut shard = self.lock(self.shard_of(key_hash, Timeline::Store));
        let is_of = |index: usize, entry: &Entry| entry.is_at(&limits[index], &stored_key);
        let entries = shard.find_all_mut(hashes, is_of)?;
        let mut stored = Stored {
            limits: limits.each_ref(),
            entries,
        };
        let is_decided = inside::consume_each(limits, cost, &mut stored, now, verdicts)
            || consume_or_deny(key, cost, &mut stored, now, verdicts);
        is_decided.then_some(fingerprint)
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
                .filter(|&&index| evaluation.writes_to(request, index))
                .count();
            if new_keys == 0 || self.reserve(new_keys) {
                let decision = evaluation.apply(request, fingerprint, &mut locked, now);
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

/// Consumes `cost` for `key` from the limit of each state, or none of it if one denies the call.
///
/// Returns false, and changes no state, if a limit may have to count the denied call.
#[cold]
#[inline(never)]
fn consume_or_deny<const N: usize>(
    key: Key<'_>,
    cost: u64,
    stored: &mut Stored<'_, '_, N>,
    now: Timestamp,
    verdicts: &mut [Verdict; N],
) -> bool {
    let checks = stored.limits.map(|limit| Check::new(limit, key, cost));
    inside::consume_all(&checks, stored, now, verdicts)
}

/// Returns whether two states may be the same. If not, the request is valid.
#[inline]
fn has_equal_hashes<const N: usize>(hashes: &[u64; N]) -> bool {
    (1..N).any(|index| hashes[..index].contains(&hashes[index]))
}

impl<const N: usize> States for Stored<'_, '_, N> {
    #[inline]
    fn state(&self, index: usize) -> &State {
        match &self.entries[index] {
            Some(entry) => &entry.state,
            None => State::FRESH,
        }
    }

    #[inline]
    fn state_mut(&mut self, index: usize) -> &mut State {
        let Some(entry) = &mut self.entries[index] else {
            unreachable!("all states are stored");
        };
        entry.adopt(self.limits[index]);
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
