//! Schedules, of few events and of many.

use tollgate_core::schedule::{self, Event, Operation};
use tollgate_core::{Receipt, StoreError, Timestamp};
use tollgate_wire::Options;

use super::{Answer, Call, Family, NOW, SECOND, SLACK, Store};
use crate::engine::now;

pub(super) struct Schedules {
    /// How many events are a string.
    pub(super) few: u32,
}

/// How many seconds before the calls the events were planned.
const LATER: u64 = 3_650;

/// What a key holds before a call: the id, the second and the weight of events; the first of several
/// are over.
const STATES: [&[(&str, u64, u64)]; 4] = [
    &[],
    // One that leaves nothing when it is cancelled.
    &[("later", 4_000, 1)],
    &[("old", 1, 1), ("older", 0, 1), ("later", 4_000, 1)],
    &[("old", 1, 2), ("later", 4_000, 2)],
];

pub(super) fn terms() -> schedule::Terms {
    schedule::Terms::new("plans", ["2/10s", "9/1h"]).unwrap()
}

fn stamp(second: u64) -> Timestamp {
    Timestamp::from_micros(NOW + second * SECOND).unwrap()
}

pub(super) fn add(id: &'static str, second: u64, weight: u64) -> Operation<'static> {
    Operation::Add(vec![Event::new(id, stamp(second)).with_weight(weight)])
}

fn list() -> Operation<'static> {
    Operation::List {
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::MAX,
    }
}

/// Calls that together run every command, and whether they need memory.
fn calls() -> Vec<(Operation<'static>, bool)> {
    let event = |id: &'static str, second| Event::new(id, stamp(second));
    let next = |second, weight| Operation::NextFree {
        from: stamp(second),
        weight,
    };
    let both = |last| Operation::Add(vec![event("x", 3_710), event("y", 3_730), last]);
    vec![
        (add("new", 3_700, 1), true),
        (add("heavy", 3_700, 2), true),
        (add("later", 4_000, 2), true),
        (both(event("z", 3_750)), true),
        (Operation::Reschedule(event("later", 3_702)), true),
        (Operation::Reschedule(event("later", 7_000)), true),
        (Operation::ReserveNext(event("reserved", 3_700)), true),
        (Operation::ReserveNext(event("reserved", 4_000)), true),
        (Operation::Cancel(b"later"), false),
        (Operation::Cancel(b"heavy"), false),
        // In the past, beyond the horizon, more than a quota, and a batch with one of these.
        (add("past", 0, 1), false),
        (add("far", 400 * 86_400, 1), false),
        (add("large", 3_700, 10), false),
        (both(event("past", 0)), false),
        (Operation::Reschedule(event("none", 3_700)), false),
        (Operation::Reschedule(event("later", 0)), false),
        (Operation::ReserveNext(event("far", 400 * 86_400)), false),
        (next(4_000, 2), false),
        (list(), false),
    ]
}

/// Decides `operation` on the events of `k`, `later` seconds later.
fn decide(
    store: &Store,
    operation: Operation<'_>,
    later: u64,
) -> Result<schedule::Answer, StoreError> {
    let terms = terms();
    let request = schedule::Request::new(&terms, "k", operation);
    now(store.schedule(&request.at(stamp(later))))
}

impl Family for Schedules {
    fn name(&self) -> String {
        format!("schedules, of which {} events are few", self.few)
    }

    fn options(&self) -> Options {
        Options::new().with_small_schedule(self.few)
    }

    fn rows(&self) -> Vec<&'static str> {
        let many = ["schedules of more than 256 events"];
        let many = many.into_iter().filter(|_| self.few == 0);
        let always = ["every store", "schedules, leases", "`reset`"];
        always.into_iter().chain(many).collect()
    }

    /// Chunks whose end cannot be set are not written at all.
    fn writes_before(&self, refused: &str) -> bool {
        self.few == 0 && refused != "+pexpire"
    }

    fn states(&self) -> usize {
        STATES.len()
    }

    fn prepare(&self, store: &Store, state: usize) -> Vec<Option<Receipt>> {
        for (id, second, weight) in STATES[state] {
            let answer = decide(store, add(id, *second, *weight), 0).unwrap();
            assert_eq!(answer, schedule::Answer::Added(1));
        }
        Vec::new()
    }

    fn calls(&self) -> Vec<Call> {
        let calls = calls().into_iter().map(|(operation, needs_memory)| Call {
            shown: format!("{operation:?}"),
            needs_memory,
            is_read: matches!(
                operation,
                Operation::List { .. } | Operation::NextFree { .. }
            ),
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
        let answer = decide(store, calls().remove(call).0, LATER)?;
        let may_change = match &answer {
            schedule::Answer::Added(count) => *count > 0,
            schedule::Answer::Planned { is_new, .. } => *is_new,
            schedule::Answer::Cancelled(was_planned) => *was_planned,
            _ => false,
        };
        let shown = format!("{answer:?}");
        Ok(Answer { shown, may_change })
    }

    fn reset(&self, store: &Store) -> Result<(), StoreError> {
        now(store.reset_schedule(&terms(), "k".into()))
    }

    fn look_by_clock(&self, store: &Store) -> Result<(), StoreError> {
        let terms = terms();
        now(store.schedule(&schedule::Request::new(&terms, "k", list()))).map(drop)
    }

    /// Every event is kept for as long as it counts: the longest window, the tolerance, and what a
    /// caller's clock may lag behind.
    fn must_live(&self, store: &Store) -> Option<i64> {
        let schedule::Answer::Events(events) = decide(store, list(), LATER).unwrap() else {
            panic!("no list");
        };
        for event in &events {
            assert!(event.id() != b"heavy" || event.weight() == 2, "{event:?}");
        }
        let rest = events.last()?.time().as_micros() - stamp(LATER).as_micros();
        i64::try_from(rest / 1_000 + 3_600_000 + 1_000 + SLACK).ok()
    }

    fn key(&self) -> &'static str {
        "plans:schedule:v1-caller:{k}"
    }

    /// Strings that are cut off, or that none is like; other types; and a sorted set, which many
    /// events were until now.
    fn foreign(&self) -> Vec<(Vec<Vec<u8>>, &'static str)> {
        let event = [&[0; 8][..], &[1, 0, 0, 0, 1, 0], &[0; 8], b"\x01a"].concat();
        let mut weighted = event.clone();
        weighted[13] = 2;
        // As long as if each event had two weights.
        let doubled = [&weighted[..], &[0; 16]].concat();
        let strings: [&[u8]; 6] = [
            b"of another",
            b"of another program, and longer",
            &event[..13],
            &event[..23],
            &weighted,
            &doubled,
        ];
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
        let strings = strings.map(|value| (words(&[b"SET", value]), "holds a value that"));
        let others = [
            (words(&[b"RPUSH", b"of another"]), "another program"),
            (words(&[b"ZADD", b"7", b"c"]), "another program"),
            (words(&[b"HSET", b"of", b"another"]), "holds a value that"),
        ];
        strings.into_iter().chain(others).collect()
    }
}
