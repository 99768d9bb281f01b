//! Answers to calls with ids, so that a repeated call gets the first one.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tollgate_core::store::{Fingerprint, Request, Verdicts};
use tollgate_core::{CallId, Key, Limit, Receipt, StoreError, SyncStore, Timestamp};

use crate::memory_store::MemoryStore;
use crate::tables::{Answer, LOCKS};

/// Where an answer is kept.
#[derive(Clone, Copy)]
struct Place<'r> {
    first: &'r Limit,
    key: Key<'r>,
    caller: Option<Timestamp>,
}

impl MemoryStore {
    /// Decides a request that has an id: returns the answer to an earlier call with that id, or
    /// keeps this one, if it is allowed.
    pub(crate) fn decide_once(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let (id, request) = request.split_id()?;
        let (Some(id), Some(first)) = (id, request.checks().first()) else {
            return self.decide_now(&request);
        };
        // Whether a receipt is for this request is found out when that is decided.
        let own =
            |receipt: Option<&Receipt>| receipt.map_or(Fingerprint::new(0), Receipt::fingerprint);
        request.validate(|request| own(request.receipt()))?;
        let key = key(&request, &id);
        let place = Place {
            first: first.limit(),
            key: Key::new(&key),
            caller: request.caller_time(),
        };
        let call = request.call_hash();
        let lock = BuildHasherDefault::<DefaultHasher>::default().hash_one(place.key);
        let lock = usize::try_from(lock).unwrap_or_default() % LOCKS;
        let _held = self.answers.locks[lock].lock();
        let known = self.answer(place, |answer, now| {
            if answer.ends > now.as_micros() {
                return match &answer.verdicts {
                    _ if answer.call != call => Some(Err(CallId::taken())),
                    // Without verdicts, the call that was to keep them has panicked.
                    verdicts => verdicts.as_deref().map(Verdicts::again).map(Ok),
                };
            }
            *answer = Answer::default();
            None
        })?;
        if let Some(known) = known {
            return known;
        }
        // Make room for the answer before anything is consumed.
        self.answer(place, |answer, now| {
            *answer = Answer {
                call,
                ends: now.as_micros() + id.kept_us(),
                verdicts: None,
            };
        })?;
        let decided = self.decide_now(&request);
        self.answer(place, |answer, _| match &decided {
            Ok(verdicts) if verdicts.is_allowed() => {
                answer.verdicts = Some(Box::new(verdicts.again()));
            }
            _ => *answer = Answer::default(),
        })?;
        decided
    }

    /// Calls `change` with the answer at a key of the first limit; one that it empties is dropped.
    fn answer<A>(
        &self,
        place: Place<'_>,
        change: impl Fn(&mut Answer, Timestamp) -> A,
    ) -> Result<A, StoreError> {
        let Place { first, key, caller } = place;
        self.decide_kept(&self.answers.tables, first, key, caller, change, |_| true)
    }
}

/// Returns the key of the answer: those of the first check and the id, none of which runs into the
/// next.
fn key(request: &Request<'_>, id: &CallId<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(first) = request.checks().first() {
        for part in [&*first.key().partition(), first.key().rest()] {
            bytes.extend_from_slice(&part.len().to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(id.bytes());
    bytes
}
