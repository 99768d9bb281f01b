//! Decisions about several keys at once, in several shards.

use std::sync::MutexGuard;

use smallvec::SmallVec;
use tollgate_core::algorithm::{State, States};
use tollgate_core::{Decision, Request, StoreError};

use crate::shard::{Entry, Shard, Timeline};
use crate::store::{MemoryStore, is_refund, refuse_giant};

/// Checks that are decided without allocating.
const INLINE: usize = 4;

/// The shards of a request, locked.
struct Locked<'s, 'r, 'k> {
    request: &'r Request<'k>,
    timeline: Timeline,
    /// Each shard once, in order of its number: every thread locks in that order, so no two
    /// threads can each hold what the other waits for.
    shards: SmallVec<[(usize, MutexGuard<'s, Shard>); INLINE]>,
    /// For each check its hash, and which of `shards` it is in.
    places: SmallVec<[(u64, usize); INLINE]>,
    /// What is given back to a key that is not held.
    scratch: State,
}

impl MemoryStore {
    pub(crate) fn decide_several(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let (now, timeline) = self.now(request);
        let mut may_make_room = true;
        loop {
            let mut locked = self.lock_all(request, timeline);
            let evaluation = request.evaluate(&locked, now);
            let new_keys = if is_refund(request) {
                0
            } else {
                (0..request.checks().len())
                    .filter(|&index| evaluation.writes_to(request, index))
                    .filter(|&index| locked.entry(index).is_none())
                    .count()
            };
            for check in request.checks() {
                refuse_giant(check)?;
            }
            if new_keys == 0 || self.reserve(new_keys) {
                let decision = evaluation.apply(request, &mut locked, now);
                if timeline == Timeline::Store {
                    for (_, shard) in &mut locked.shards {
                        self.release(shard.sweep_now_and_then(now));
                    }
                }
                return Ok(decision);
            }
            drop(locked);
            self.make_room(&mut may_make_room, new_keys, now, timeline)?;
        }
    }

    fn lock_all<'s, 'r, 'k>(
        &'s self,
        request: &'r Request<'k>,
        timeline: Timeline,
    ) -> Locked<'s, 'r, 'k> {
        let hashes: SmallVec<[u64; INLINE]> = request
            .checks()
            .iter()
            .map(|check| self.hash(check))
            .collect();
        let mut numbers: SmallVec<[usize; INLINE]> =
            hashes.iter().map(|&hash| self.shard_of(hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let places = hashes
            .iter()
            .map(|&hash| {
                let number = self.shard_of(hash);
                // Every number is there: the list was made of them.
                (hash, numbers.partition_point(|&other| other < number))
            })
            .collect();
        Locked {
            request,
            timeline,
            shards: numbers
                .into_iter()
                .map(|number| (number, self.lock(number)))
                .collect(),
            places,
            scratch: State::default(),
        }
    }
}

impl Locked<'_, '_, '_> {
    fn entry(&self, index: usize) -> Option<&Entry> {
        let (hash, shard) = self.places[index];
        self.shards[shard]
            .1
            .find(hash, &self.request.checks()[index])
    }
}

impl States for Locked<'_, '_, '_> {
    fn state(&self, index: usize) -> &State {
        self.entry(index).map_or(State::FRESH, |entry| &entry.state)
    }

    fn state_mut(&mut self, index: usize) -> &mut State {
        if is_refund(self.request) && self.entry(index).is_none() {
            self.scratch = State::default();
            return &mut self.scratch;
        }
        let check = &self.request.checks()[index];
        let (hash, shard) = self.places[index];
        let entry = self.shards[shard]
            .1
            .find_or_insert(hash, check, self.timeline);
        &mut entry.state
    }
}
