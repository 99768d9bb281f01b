//! `Reference`: the simplest store that keeps every promise, a map behind a lock, of bytes as a database would
//! hold them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use async_trait::async_trait;
use tollgate_conformance::Harness;
use tollgate_core::store::{Check, Checks, Fingerprint, Request, State, Verdicts};
use tollgate_core::{CallId, ErrorKind, Store, StoreError, Timestamp};

/// A limit's identity and a key's two parts.
type StateKey = (String, Vec<u8>, Vec<u8>);

pub(crate) struct Reference;

impl Harness for Reference {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(ReferenceStore::default())
    }

    fn applies(&self, _promise: &str) -> Option<bool> {
        Some(true)
    }
}

/// Parts of the names of cases that need chosen instants, or time to pass.
#[allow(dead_code, reason = "some of what includes this file compares with it")]
const OF_INSTANTS: [&str; 18] = [
    "a_call_counts_in_its_own_zone",
    "a_changed_limit_applies_at_once",
    "a_clock_that_steps_back_admits_no_more",
    "a_late_refund_gives_nothing",
    "an_idle_key_equals_a_new_key",
    "blocks_agree_with_the_definition",
    "blocks_agree_with_the_machine",
    "cancelling_the_last_reservation_undoes_it",
    "composite",
    "reaches_its_bound",
    "refused_reservations_change_nothing",
    "reservations_agree_with_the_definition",
    "reservations_agree_with_the_machine",
    "reset_after_is_exact",
    "retry_after_is_exact",
    "shadows_agree_with_the_machine",
    "shadows_count_what_they_would_allow_and_deny_nothing",
    "starts_keep_the_bound_whatever_is_cancelled",
];

#[allow(dead_code, reason = "what includes this file need not use all of it")]
pub(crate) struct ByItsOwnClockOnly;

impl Harness for ByItsOwnClockOnly {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(WithoutInstants(ReferenceStore::default()))
    }

    fn applies(&self, promise: &str) -> Option<bool> {
        Some(promise.split('.').all(|part| !OF_INSTANTS.contains(&part)))
    }
}

/// A store that refuses callers' instants.
pub(crate) struct WithoutInstants<S>(pub(crate) S);

#[async_trait]
impl<S: Store> Store for WithoutInstants<S> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.supports(&request)?;
        self.0.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        match request.caller_time() {
            None => self.0.supports(request),
            Some(_) => Err(StoreError::new(ErrorKind::Unsupported, "no instants")),
        }
    }
}

#[derive(Default)]
pub(crate) struct ReferenceStore {
    states: Mutex<HashMap<StateKey, Vec<u8>>>,
    answers: Mutex<HashMap<AnswerKey, Kept>>,
}

/// The name of the first limit, both parts of its key, and the id.
type AnswerKey = (String, Vec<u8>, Vec<u8>, Vec<u8>);

/// An answer, the call that it is for, and until when it is kept, in microseconds.
struct Kept {
    call: String,
    verdicts: Vec<u8>,
    ends: u64,
}

impl ReferenceStore {
    fn decide_once(&self, id: CallId<'_>, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let first = request.checks()[0];
        let key = (
            first.limit().name().to_owned(),
            first.key().partition().to_vec(),
            first.key().rest().to_vec(),
            id.bytes().to_vec(),
        );
        let checks = request.checks().iter();
        let checks: Vec<_> = checks
            .map(|check| (state_key(check), check.limit().to_string(), check.cost()))
            .collect();
        let call = format!("{:?} {checks:?}", request.operation());
        let now = now(request);
        let mut answers = self.answers.lock().unwrap();
        if let Some(kept) = answers.get(&key).filter(|kept| kept.ends > now.as_micros()) {
            if kept.call == call {
                return Verdicts::from_bytes(request, &kept.verdicts);
            }
            return Err(CallId::taken());
        }
        let verdicts = self.decide_plain(request)?;
        if verdicts.is_allowed() {
            let kept = Kept {
                call,
                verdicts: verdicts.to_bytes(),
                ends: now.as_micros() + id.kept_us(),
            };
            answers.insert(key, kept);
        }
        Ok(verdicts)
    }

    fn decide_plain(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        request.validate(Fingerprint::of)?;
        let fingerprint = Fingerprint::of(request);
        let mut held = self.states.lock().unwrap();
        let now = now(request);
        let checks = request.checks();
        let states: Result<Vec<State>, _> = checks
            .iter()
            .map(|check| {
                let bytes = held.get(&state_key(check));
                State::from_bytes(check.limit(), bytes.map_or(&[], Vec::as_slice))
            })
            .collect();
        let mut states = states?;
        let evaluation = request.evaluate(&states[..], now);
        let written: Vec<_> = (0..checks.len())
            .map(|index| evaluation.writes_to(index))
            .collect();
        let decision = evaluation.apply(fingerprint, &mut states[..]);
        for ((check, state), written) in checks.iter().zip(states).zip(written) {
            if written {
                held.insert(state_key(check), state.to_bytes());
            }
        }
        Ok(decision)
    }
}

fn now(request: &Request<'_>) -> Timestamp {
    match request.caller_time() {
        Some(now) => now,
        None => Timestamp::try_from(SystemTime::now()).unwrap(),
    }
}

#[async_trait]
impl Store for ReferenceStore {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        match request.split_id()? {
            (Some(id), request) => self.decide_once(id, &request),
            (None, request) => self.decide_plain(&request),
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        let mut held = self.states.lock().unwrap();
        for check in checks.iter() {
            held.remove(&state_key(check));
        }
        Ok(())
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        let (_, request) = request.split_id()?;
        request.validate_operation()
    }
}

fn state_key(check: &Check<'_>) -> StateKey {
    (
        check.limit().identity().to_owned(),
        check.key().partition().to_vec(),
        check.key().rest().to_vec(),
    )
}
