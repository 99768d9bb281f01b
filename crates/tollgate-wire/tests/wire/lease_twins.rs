//! The script of leases against the machine: every answer, everything that a server holds after it,
//! and for how long.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use tollgate_core::lease::{self, Acquisition, Operation};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Options, WireStore};

use crate::engine::{Raw, START, assert_ends, assert_mostly_on_time, config, now, stamp};
use crate::families::leases::{id_bytes, state};

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

/// A step: the index of the terms, how far the clock moves before, the index of an id, and what is
/// done about its lease.
#[derive(Clone, Debug)]
struct Step {
    terms: usize,
    moved: i64,
    id: usize,
    act: Act,
}

/// An operation, with the weight, or how far the token is from that of the lease.
#[derive(Clone, Debug)]
enum Act {
    Acquire(u64),
    Renew(u64),
    Release(u64),
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
    let off = || prop_oneof![8 => Just(0_u64), 1 => Just(1_u64)];
    let weight = prop_oneof![
        12 => Just(1_u64), 2 => 2_u64..6, 1 => select(&[10_001, MAX, u64::MAX][..]),
    ];
    let act = prop_oneof![
        8 => weight.prop_map(Act::Acquire),
        4 => off().prop_map(Act::Renew),
        3 => off().prop_map(Act::Release),
        2 => Just(Act::Peek),
    ];
    let moved = prop_oneof![5 => Just(0_i64), 5 => 1_i64..8, 2 => 8_i64..60, 3 => -20_i64..0];
    let terms = prop_oneof![4 => Just(3_usize), 4 => 0_usize..3];
    let step = (terms, moved, 0..IDS.len(), act);
    let step = step.prop_map(|(terms, moved, id, act)| Step {
        terms,
        moved,
        id,
        act,
    });
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
    fn token(&self, id: &[u8]) -> u64 {
        let id = id_bytes(id);
        let mut leases = self.leases.iter();
        let lease = leases.find(|lease| lease.0 == id);
        lease.map_or(1, |lease| lease.2)
    }

    /// Notes what `answer` says, to a request at `now` about the lease of an id. Returns whether it
    /// changes anything.
    fn note(&mut self, answer: &lease::Answer, id: &[u8], now: u64) -> bool {
        let at = self.latest.max(now);
        let id = id_bytes(id);
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
                self.leases.retain(|lease| lease.0 != id);
                lease
            }
            lease::Answer::Released(true) => {
                self.leases.retain(|lease| lease.0 != id);
                return true;
            }
            _ => return false,
        };
        self.latest = at;
        let end = lease.expires_at().as_micros();
        let place = self.leases.partition_point(|lease| lease.1 <= end);
        let weight = lease.weight().try_into().unwrap();
        let new = (id, end, lease.token(), weight);
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
            assert!(state.is_fresh(stamp(until)));
        }
        if until > now {
            assert!(!state.is_fresh(stamp(until - 1)));
        }
        until
    }
}

fn run(flavor: Flavor, store: &WireStore<Raw>, start: u64, steps: &[Step]) {
    let (mut machine, mut expected) = (lease::State::default(), Expected::default());
    let (all, mut clock) = (terms(), start);
    let mut before = look(store);
    for step in steps {
        let terms = &all[step.terms];
        clock = clock
            .saturating_add_signed(step.moved * UNIT)
            .min(MAX - 100);
        let at = stamp(clock);
        let id = IDS[step.id];
        let token = |off| expected.token(id) + off;
        let operation = match step.act {
            Act::Acquire(weight) => Operation::Acquire { id, weight },
            Act::Renew(off) => Operation::Renew {
                id,
                token: token(off),
            },
            Act::Release(off) => Operation::Release {
                id,
                token: token(off),
            },
            Act::Peek => Operation::Peek,
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
            assert_ends(after.0.ends, lives, [before.1, after.1], &what);
        } else {
            assert_eq!(after.0, before.0, "{what}");
        }
        before = after;
    }
}

#[test]
fn histories_leave_what_the_machine_says() {
    let config = config(300);
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
    assert_mostly_on_time();
}

/// The bytes of an instant must be read where they are: shifted by one, these are another number.
#[test]
fn a_lease_that_has_ended_gives_its_place_to_another_soon_after_the_epoch() {
    let terms = lease::Terms::new("places", 1, Duration::from_millis(4_100)).unwrap();
    for flavor in Flavor::chosen() {
        let store = crate::engine::store(flavor);
        let mut machine = lease::State::default();
        for (id, micros) in [(b"a", 0), (b"b", 4_000_000), (b"b", 5_000_000)] {
            let at = stamp(micros);
            let operation = Operation::Acquire { id, weight: 1 };
            let request = lease::Request::new(&terms, "k", operation).at(at);
            let expected = request.decide_on(&mut machine, at);
            let found = now(store.lease(&request)).unwrap();
            assert_eq!(found, expected, "{micros} {flavor}");
        }
    }
}
