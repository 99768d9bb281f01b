//! Schedules and leases in memory.

use async_trait::async_trait;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::{Key, StoreError, Timestamp, lease, schedule};

use crate::clock::Timeline;
use crate::memory_store::{LOOKS_FOR_ROOM, MemoryStore};
use crate::probe::StoredKey;
use crate::tables::{Entry, Kept, Place, Tables};

/// How many buckets a new key checks for states that no longer matter.
const PLACES_PER_INSERTION: usize = 4;

impl MemoryStore {
    fn place<'r, K: Kept>(&self, terms: &'r K::Terms, key: Key<'_>) -> Place<'r, K> {
        let key = StoredKey::new(&key, &self.hasher);
        let hash = self.hasher.hash_text(K::identity(terms), &key);
        Place { terms, key, hash }
    }

    /// Calls `decide` with the state of `key` and the time; `has_changed` says whether that changed
    /// the state.
    pub(crate) fn decide_kept<K: Kept, A>(
        &self,
        tables: &Tables<K>,
        terms: &K::Terms,
        key: Key<'_>,
        caller: Option<Timestamp>,
        decide: impl Fn(&mut K, Timestamp) -> A,
        has_changed: impl Fn(&A) -> bool,
    ) -> Result<A, StoreError> {
        let place = self.place(terms, key);
        let timeline = match caller {
            Some(_) => Timeline::Caller,
            None => Timeline::Store,
        };
        let mut has_room = true;
        for _ in 0..LOOKS_FOR_ROOM {
            let mut table = tables.lock(&place, timeline);
            let now = self.time(caller);
            let found = table
                .entries
                .find_entry(place.hash, |entry| entry.is_at(&place));
            if let Ok(mut found) = found {
                let entry = found.get_mut();
                let answer = decide(&mut entry.state, now);
                if entry.state.is_empty() {
                    found.remove();
                    self.release(1);
                } else if has_changed(&answer) && entry.terms != *terms {
                    entry.terms = terms.clone();
                }
                return Ok(answer);
            }
            let mut state = K::after(table.mark);
            let answer = decide(&mut state, now);
            // A state of leases is never empty again, but its mark grows with the first one.
            if state.is_empty() || (table.mark > 0 && state.mark() == table.mark) {
                return Ok(answer);
            }
            if self.reserve(1) {
                let entry = Entry {
                    terms: terms.clone(),
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
            // If there was no room, another call may have used the last of it to insert this key:
            // look once more.
            if !has_room {
                break;
            }
            has_room = self.make_room(1, now, timeline);
        }
        Err(self.full())
    }

    /// Drops the states of `key` on both clocks.
    pub(crate) fn reset_kept<K: Kept>(&self, tables: &Tables<K>, terms: &K::Terms, key: Key<'_>) {
        let place = self.place(terms, key);
        for timeline in [Timeline::Store, Timeline::Caller] {
            let mut table = tables.lock(&place, timeline);
            let found = table
                .entries
                .find_entry(place.hash, |entry| entry.is_at(&place));
            if let Ok(found) = found {
                let (entry, _) = found.remove();
                table.mark = table.mark.max(entry.state.mark());
                self.release(1);
            }
        }
    }
}

impl schedule::SyncStore for MemoryStore {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        request.validate()?;
        let (terms, caller) = (request.terms(), request.caller_time());
        self.decide_kept(
            &self.schedules,
            terms,
            request.key(),
            caller,
            |state, now| request.decide_on(state, now),
            |answer| match answer {
                schedule::Answer::Added(added) => *added > 0,
                schedule::Answer::Planned { is_new, .. } => *is_new,
                schedule::Answer::Cancelled(was_planned) => *was_planned,
                _ => false,
            },
        )
    }

    fn reset_schedule_now(&self, terms: &schedule::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.reset_kept(&self.schedules, terms, key);
        Ok(())
    }
}

#[async_trait]
impl schedule::Store for MemoryStore {
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.schedule_now(&request)
    }

    async fn reset_schedule<'a>(
        &'a self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}

impl lease::SyncStore for MemoryStore {
    fn lease_now(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        request.validate()?;
        let (terms, caller) = (request.terms(), request.caller_time());
        self.decide_kept(
            &self.leases,
            terms,
            request.key(),
            caller,
            |state, now| request.decide_on(state, now),
            // Leases expire by times of their own, whatever the terms.
            |_| false,
        )
    }

    fn reset_leases_now(&self, terms: &lease::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.reset_kept(&self.leases, terms, key);
        Ok(())
    }
}

#[async_trait]
impl lease::Store for MemoryStore {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(
        &'a self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_leases_now(terms, key)
    }
}
