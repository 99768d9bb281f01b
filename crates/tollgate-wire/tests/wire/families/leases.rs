//! Leases: some that have ended, and one that is held.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate_core::lease::{self, Acquisition, Operation};
use tollgate_core::{Receipt, StoreError};
use tollgate_testkit::Reply;
use tollgate_wire::{Engine, WireStore};

use super::{Answer, Call, Family, NOW, SECOND, SLACK, Store};
use crate::engine::{doubles, now, stamp};

pub(super) struct Leases;

pub(crate) const AMOUNT: u64 = 3;
/// The time to live, in seconds.
pub(crate) const TTL: u64 = 30;
/// When the calls take place: the first leases have ended, and one is held.
const LATER: u64 = 40;
/// The second at which a lease was acquired, and its token.
const HELD_SINCE: u64 = 20;
const TOKEN: u64 = NOW + HELD_SINCE * SECOND;

/// Leases that a key has before a call: the id, when it was acquired, and the weight.
const STATES: [&[(&str, u64, u64)]; 4] = [
    &[],
    &[("old", 1, 1), ("older", 0, 1), ("held", HELD_SINCE, 1)],
    &[("old", 1, 1), ("held", HELD_SINCE, 2)],
    &[("held", HELD_SINCE, 2), ("second", 21, 1)],
];

pub(crate) fn terms() -> lease::Terms {
    lease::Terms::new("places", AMOUNT, Duration::from_secs(TTL)).unwrap()
}

pub(crate) fn acquire(id: &'static str, weight: u64) -> Operation<'static> {
    let id = id.as_bytes();
    Operation::Acquire { id, weight }
}

/// Calls that together run every command, and whether they need memory.
fn calls() -> Vec<(Operation<'static>, bool)> {
    let renew = |id: &'static [u8], token| Operation::Renew { id, token };
    let release = |id: &'static [u8], token| Operation::Release { id, token };
    let old = NOW + SECOND;
    vec![
        (acquire("new", 1), true),
        (acquire("heavy", 2), true),
        (acquire("all", AMOUNT), true),
        (acquire("more", AMOUNT + 1), false),
        (acquire("most", u64::MAX), false),
        (acquire("held", 1), true),
        (acquire("old", 1), true),
        (renew(b"held", TOKEN), true),
        // Frees memory.
        (release(b"held", TOKEN), false),
        (renew(b"held", old), false),
        (release(b"held", old), false),
        // It has ended, or never was.
        (renew(b"old", old), false),
        (release(b"old", old), false),
        (release(b"none", 1), false),
        (Operation::Peek, false),
    ]
}

/// Decides `operation` on the leases of `k`, `later` seconds later.
pub(crate) fn decide(
    store: &WireStore<impl Engine>,
    operation: Operation<'_>,
    later: u64,
) -> Result<lease::Answer, StoreError> {
    let terms = terms();
    let request = lease::Request::new(&terms, "k", operation);
    let at = stamp(NOW + later * SECOND);
    now(store.lease(&request.at(at)))
}

/// Returns the bytes of a state: the latest instant and token, and of each lease the bytes of its
/// id, its end, its token and its weight.
pub(crate) fn state(latest: u64, last_token: u64, leases: &[([u8; 16], u64, u64, u16)]) -> Vec<u8> {
    let total = leases.iter().map(|lease| u64::from(lease.3)).sum();
    let mut bytes = doubles(&[latest, last_token, total]);
    for (id, end, token, weight) in leases {
        bytes.extend(id);
        bytes.extend(doubles(&[*end, *token]));
        bytes.extend(weight.to_le_bytes());
    }
    bytes
}

/// Returns the bytes that stand for an id.
pub(crate) fn id_bytes(id: &[u8]) -> [u8; 16] {
    Sha256::digest(id)[..16].try_into().unwrap()
}

impl Family for Leases {
    fn name(&self) -> String {
        "leases".to_owned()
    }

    fn rows(&self) -> Vec<&'static str> {
        vec!["every store", "schedules, leases", "`reset`"]
    }

    fn states(&self) -> usize {
        STATES.len()
    }

    fn prepare(&self, store: &Store, state: usize) -> Vec<Option<Receipt>> {
        for (id, second, weight) in STATES[state] {
            let answer = decide(store, acquire(id, *weight), *second).unwrap();
            let lease::Answer::Acquired(acquired) = answer else {
                panic!("{answer:?}");
            };
            assert!(acquired.is_granted());
        }
        Vec::new()
    }

    fn calls(&self) -> Vec<Call> {
        let calls = calls().into_iter().map(|(operation, needs_memory)| Call {
            shown: format!("{operation:?}"),
            needs_memory,
            is_read: matches!(operation, Operation::Peek),
        });
        calls.collect()
    }

    fn ask(
        &self,
        store: &Store,
        call: usize,
        _state: usize,
        _receipts: &[Option<Receipt>],
    ) -> Result<Answer, StoreError> {
        let answer = decide(store, calls()[call].0, LATER)?;
        let may_change = match &answer {
            lease::Answer::Acquired(Acquisition::Granted { is_new, .. }) => *is_new,
            lease::Answer::Renewed(lease) => lease.is_some(),
            lease::Answer::Released(was_held) => *was_held,
            _ => false,
        };
        let shown = format!("{answer:?}");
        Ok(Answer { shown, may_change })
    }

    fn reset(&self, store: &Store) -> Result<(), StoreError> {
        now(store.reset_leases(&terms(), "k".into()))
    }

    fn look_by_clock(&self, store: &Store) -> Result<(), StoreError> {
        let terms = terms();
        now(store.lease(&lease::Request::new(&terms, "k", Operation::Peek))).map(drop)
    }

    /// Until the last lease has ended, or the latest token is past.
    fn must_live(&self, store: &Store) -> Option<i64> {
        let raw = store.engine();
        let key = raw.keys(store.options()).pop()?;
        let Reply::Bulk(held) = raw.command(&[b"GET", &key]) else {
            panic!("no string");
        };
        let end = match held.len() {
            24 => held[8..16].try_into().unwrap(),
            length => held[length - 18..length - 10].try_into().unwrap(),
        };
        #[allow(clippy::cast_precision_loss, reason = "an instant is exact")]
        let rest = f64::from_le_bytes(end) - (NOW + LATER * SECOND) as f64;
        #[allow(clippy::cast_possible_truncation, reason = "it is short")]
        let rest = (rest / 1_000.) as i64;
        Some(rest + i64::try_from(SLACK).unwrap())
    }

    fn key(&self) -> &'static str {
        "places:leases:v1-caller:{k}"
    }

    fn foreign(&self) -> Vec<(Vec<Vec<u8>>, &'static str)> {
        let own = state(NOW, NOW, &[(id_bytes(b"held"), NOW + SECOND, NOW, 1)]);
        let mut values = vec![b"of another".to_vec(), own[..24].to_vec()];
        // A weight that one lease cannot have, or that is no number.
        values.extend([0.5, 65_536., f64::NAN].map(|total: f64| {
            let mut own = own.clone();
            own[16..24].copy_from_slice(&total.to_le_bytes());
            own
        }));
        values.extend([0, 8, 16, 23, 25, 57].map(|length| own[..length].to_vec()));
        values.push([&own[..], b"!"].concat());
        values.extend([24, 58, 92].map(|length| b"of another ".repeat(9)[..length].to_vec()));
        values.extend([0x00, 0xff].map(|byte| vec![byte; 58]));
        let hint = "that tollgate has not written";
        let strings = values.into_iter();
        let strings = strings.map(|value| (vec![b"SET".to_vec(), value], hint));
        let list = vec![b"RPUSH".to_vec(), b"of another".to_vec()];
        strings.chain([(list, "another program")]).collect()
    }
}
