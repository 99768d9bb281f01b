//! The script of leases against the machine: every answer, everything that a server holds after it,
//! and for how long.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use tollgate_core::Timestamp;
use tollgate_core::lease::{self, Acquisition};
use tollgate_testkit::{Flavor, Reply, Server, rounds};
use tollgate_wire::{Options, WireStore};

use crate::engine::{Raw, START, now};
use crate::families::{id_bytes, state};

/// What a store keeps leases longer for that were acquired at a caller's instant, in milliseconds.
const SLACK: u64 = 600_000;
/// By how much the clock moves, in microseconds: not by whole milliseconds.
const UNIT: i64 = 300;
/// The last instant that there is.
const MAX: u64 = (1 << 53) - 1;

/// schedule::Terms that may take each other's place while leases are held.
fn terms() -> [lease::Terms; 4] {
    [(4, 6_000), (9, 2_001), (1, 6_000), (30, 60_000)].map(|(amount, micros)| {
        lease::Terms::new("places", amount, Duration::from_micros(micros)).unwrap()
    })
}

/// A step: the index of the terms, how far the clock moves before, and the request.
#[derive(Clone, Debug)]
struct Step {
    terms: usize,
    moved: i64,
    act: Act,
}

/// An operation on the lease of an id, with how far its token is from that of the lease.
#[derive(Clone, Debug)]
enum Act {
    Acquire(usize, u64),
    Renew(usize, u64),
    Release(usize, u64),
    Peek,
}

/// Text that patterns and numbers are made of, and the longest id.
const IDS: [&[u8]; 12] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"%",
    b".",
    b"\0",
    b"-1",
    b"(",
    b"\xff",
    &[b'%'; 200],
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 0..IDS.len();
    let off = || prop_oneof![8 => Just(0_u64), 1 => Just(1_u64)];
    let weight = prop_oneof![
        12 => Just(1_u64), 2 => 2_u64..6, 1 => select(&[10_001, MAX, u64::MAX][..]),
    ];
    let act = prop_oneof![
        8 => (id(), weight).prop_map(|(id, weight)| Act::Acquire(id, weight)),
        4 => (id(), off()).prop_map(|(id, off)| Act::Renew(id, off)),
        3 => (id(), off()).prop_map(|(id, off)| Act::Release(id, off)),
        2 => Just(Act::Peek),
    ];
    let moved = prop_oneof![5 => Just(0_i64), 5 => 1_i64..8, 2 => 8_i64..60, 3 => -20_i64..0];
    let terms = prop_oneof![4 => Just(3_usize), 4 => 0_usize..3];
    let step = (terms, moved, act);
    let step = step.prop_map(|(terms, moved, act)| Step { terms, moved, act });
    prop::collection::vec(step, 1..40)
}

/// What a server holds: its bytes, and the last millisecond in which the key can be read, and how
/// often it has written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Held {
    state: Vec<u8>,
    ends: u64,
    changes: u64,
}

/// Returns what a server holds for `k`, and its time in milliseconds.
fn look(store: &WireStore<Raw>) -> (Held, u64) {
    let prefix = store.options().prefix();
    let key = format!("{prefix}:places:leases:v1-caller:{{k}}");
    let look = store.engine().look(key.as_bytes());
    let Reply::Bulk(state) = look.value else {
        panic!("{:?} is no state", look.value);
    };
    let held = Held {
        state,
        ends: look.ends,
        changes: look.changes,
    };
    (held, look.millis)
}

/// The leases that a server must hold, as the machine's answers tell.
#[derive(Default)]
struct Expected {
    /// The id, the end, the token and the weight of each, by the order of their ends.
    leases: Vec<([u8; 16], u64, u64, u16)>,
    latest: u64,
    last_token: u64,
}

impl Expected {
    fn token(&self, id: usize) -> u64 {
        let id = id_bytes(IDS[id]);
        let mut leases = self.leases.iter();
        let lease = leases.find(|lease| lease.0 == id);
        lease.map_or(1, |lease| lease.2)
    }

    /// Notes what `answer` says, to a request at `now` about the lease of an id. Returns whether it
    /// changes anything.
    fn note(&mut self, answer: &lease::Answer, id: Option<&[u8]>, now: u64) -> bool {
        let at = self.latest.max(now);
        let id = id.map(id_bytes);
        let lease = match answer {
            lease::Answer::Acquired(Acquisition::Granted {
                lease,
                is_new: true,
            }) => {
                self.leases.retain(|lease| lease.1 > at);
                self.last_token = lease.token();
                lease
            }
            lease::Answer::Renewed(Some(lease)) => {
                self.leases.retain(|lease| Some(lease.0) != id);
                lease
            }
            lease::Answer::Released(true) => {
                self.leases.retain(|lease| Some(lease.0) != id);
                return true;
            }
            _ => return false,
        };
        self.latest = at;
        let end = lease.expires_at().as_micros();
        let place = self.leases.partition_point(|lease| lease.1 <= end);
        let weight = lease.weight().try_into().unwrap();
        let new = (id.unwrap(), end, lease.token(), weight);
        self.leases.insert(place, new);
        true
    }

    fn state(&self) -> Vec<u8> {
        state(self.latest, self.last_token, &self.leases)
    }

    /// Returns from when on the machine may drop its state, which is not before `now`.
    fn matters_until(&self, state: &lease::State, now: u64) -> u64 {
        let ends = self.leases.last().map_or(0, |lease| lease.1);
        let until = (self.last_token + 1).max(self.latest).max(ends).max(now);
        if until <= MAX {
            assert!(state.is_fresh(Timestamp::from_micros(until).unwrap()));
        }
        if until > now {
            assert!(!state.is_fresh(Timestamp::from_micros(until - 1).unwrap()));
        }
        until
    }
}

/// How many keys ended when they should, and how many a millisecond or two early, because a server
/// reads its clock less often.
static ON_TIME: AtomicU64 = AtomicU64::new(0);
static EARLY: AtomicU64 = AtomicU64::new(0);

fn run(flavor: Flavor, store: &WireStore<Raw>, start: u64, steps: &[Step]) {
    let (mut machine, mut expected) = (lease::State::default(), Expected::default());
    let (all, mut clock) = (terms(), start);
    let mut before = look(store);
    for step in steps {
        let terms = &all[step.terms];
        clock = clock
            .saturating_add_signed(step.moved * UNIT)
            .min(MAX - 100);
        let at = Timestamp::from_micros(clock).unwrap();
        let (id, operation) = match step.act {
            Act::Acquire(id, weight) => (
                Some(IDS[id]),
                lease::Operation::Acquire {
                    id: IDS[id],
                    weight,
                },
            ),
            Act::Renew(id, off) => {
                let token = expected.token(id) + off;
                (
                    Some(IDS[id]),
                    lease::Operation::Renew { id: IDS[id], token },
                )
            }
            Act::Release(id, off) => {
                let token = expected.token(id) + off;
                (
                    Some(IDS[id]),
                    lease::Operation::Release { id: IDS[id], token },
                )
            }
            Act::Peek => (None, lease::Operation::Peek),
        };
        let what = format!("{step:?} at {clock} by {terms:?}, {flavor}");
        let request = lease::Request::new(terms, "k", operation).at(at);
        let decided = request.decide_on(&mut machine, at);
        let answer = now(store.lease(&request))
            .unwrap_or_else(|error| panic!("{what}: {error}, expected {decided:?}"));
        assert_eq!(answer, decided, "{what}");
        let after = look(store);
        if expected.note(&decided, id, clock) {
            assert_eq!(after.0.state, expected.state(), "{what}");
            assert_eq!(after.0.changes, before.0.changes + 1, "{what}");
            let lasts = expected.matters_until(&machine, clock) - clock;
            let lives = lasts.div_ceil(1_000).max(1) + SLACK;
            let (sent, received) = (before.1, after.1);
            let is_early = after.0.ends < lives + sent;
            [&ON_TIME, &EARLY][usize::from(is_early)].fetch_add(1, Relaxed);
            // Servers read the clock that keys expire by less often than `TIME` does, and the
            // oldest tells only how long a key has left.
            let slack = 2;
            assert!(
                (sent - slack..=received + slack).contains(&(after.0.ends - lives)),
                "{what}: ends {} ms, not {lives} after {sent} to {received}",
                after.0.ends
            );
        } else {
            assert_eq!(after.0, before.0, "{what}");
        }
        before = after;
    }
}

#[test]
fn histories_leave_what_the_machine_says() {
    let config = ProptestConfig {
        cases: rounds(300),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // Servers of this test's own, because it counts what they write.
    let stores: Vec<_> = Flavor::chosen()
        .into_iter()
        .map(|flavor| {
            let server = Server::start(flavor);
            let raw = Raw::over(server.connection(), None);
            (flavor, WireStore::new(raw, Options::new()), server)
        })
        .collect();
    let starts = select(&[START, START, START, START, 0, MAX - 9_000][..]);
    TestRunner::new(config)
        .run(
            &(0..stores.len(), starts, steps()),
            |(store, start, steps)| {
                let (flavor, store, server) = &stores[store];
                server.command(&["FLUSHALL"]);
                run(*flavor, store, start, &steps);
                Ok(())
            },
        )
        .unwrap();
    let (on_time, early) = (ON_TIME.load(Relaxed), EARLY.load(Relaxed));
    assert!(on_time > 4 * early, "{early} early, {on_time} on time");
}

/// The bytes of an instant must be read where they are: shifted by one, these are another number.
#[test]
fn a_lease_that_has_ended_gives_its_place_to_another_soon_after_the_epoch() {
    let terms = lease::Terms::new("places", 1, Duration::from_millis(4_100)).unwrap();
    for flavor in Flavor::chosen() {
        let store = crate::engine::store(flavor);
        let mut machine = lease::State::default();
        for (id, micros) in [(b"a", 0), (b"b", 4_000_000), (b"b", 5_000_000)] {
            let at = Timestamp::from_micros(micros).unwrap();
            let operation = lease::Operation::Acquire { id, weight: 1 };
            let request = lease::Request::new(&terms, "k", operation).at(at);
            let expected = request.decide_on(&mut machine, at);
            assert_eq!(
                now(store.lease(&request)).unwrap(),
                expected,
                "{micros} {flavor}"
            );
        }
    }
}
