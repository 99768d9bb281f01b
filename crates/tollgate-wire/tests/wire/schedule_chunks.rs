//! Schedules of many events on servers: chunks that are split, merged and dropped, events of one
//! time, fifty thousand events, and keys that another program has garbled.

use tollgate_core::schedule::{self, Answer, Event, Operation};
use tollgate_testkit::{Flavor, Reply, Server, rounds};
use tollgate_wire::{Engine, Options, WireStore};

use crate::engine::{Raw, START, now, stamp, store_on, store_with};
use crate::families::{self, users};
use crate::schedule_twins::{DAY, MAX, add, found, id, list, listed, look, next, refused};

const MINUTE: u64 = 60_000_000;

fn event(number: u64, micros: u64) -> Event<'static> {
    Event::new(id(number), stamp(micros))
}

fn everything() -> Operation<'static> {
    list(0, MAX)
}

/// A store whose chunks have up to four events, and which has no strings.
fn small_chunks(flavor: Flavor) -> WireStore<Raw> {
    let options = Options::new().with_small_schedule(0);
    store_with(flavor, options.with_schedule_chunk(4))
}

fn ask(
    store: &WireStore<impl Engine>,
    terms: &schedule::Terms,
    clock: u64,
    operation: Operation<'static>,
) -> Answer {
    let request = schedule::Request::new(terms, "k", operation);
    now(store.schedule(&request.at(stamp(clock)))).unwrap()
}

/// The store and the machine, at one instant after another.
struct Pair<'t> {
    store: WireStore<Raw>,
    terms: &'t schedule::Terms,
    state: schedule::State,
    clock: u64,
}

impl<'t> Pair<'t> {
    fn new(store: WireStore<Raw>, terms: &'t schedule::Terms) -> Self {
        Self {
            store,
            terms,
            state: schedule::State::default(),
            clock: START,
        }
    }

    /// Decides `operation` on both, and compares the answers and all that is held.
    fn decide(&mut self, operation: Operation<'static>) -> Answer {
        let request = schedule::Request::new(self.terms, "k", operation.clone());
        let expected = request.decide_on(&mut self.state, stamp(self.clock));
        let answer = ask(&self.store, self.terms, self.clock, operation.clone());
        assert_eq!(answer, expected, "{operation:?} at {}", self.clock);
        let (held, _) = look(&self.store);
        assert_eq!(held.events.len(), self.state.len(), "{operation:?}");
        answer
    }
}

/// Chunks that are merged keep the weights of both, and no entry of an event that is cancelled.
#[test]
fn chunks_of_cancelled_events_are_merged() {
    let terms = schedule::Terms::new("plans", ["99/1h"]).unwrap();
    for (flavor, heavy) in Flavor::chosen()
        .into_iter()
        .flat_map(|f| (0..12).map(move |n| (f, n)))
    {
        let mut pair = Pair::new(small_chunks(flavor), &terms);
        let weight = |number| if number == heavy { 3 } else { 1 };
        let events =
            (0..12).map(|number| event(number, START + number).with_weight(weight(number)));
        pair.decide(add(events));
        for number in [1, 2, 5, 6, 9, 10, 0, 4, 8, 3, 7] {
            pair.decide(Operation::Cancel(id(number).as_bytes()));
            pair.decide(everything());
            let entries = bytes_of(&pair.store, b'h') / 12;
            assert_eq!(entries, pair.state.len(), "{number} of {heavy}, {flavor}");
        }
    }
}

/// Two ids whose SHA-1 begins with the same four bytes are found at one time, on both sides of where one
/// chunk ends and the next begins.
#[test]
fn ids_of_one_hash_are_found_in_two_chunks() {
    let alike = ["e00286", "e157947"];
    // Three have smaller hashes, and three larger ones.
    let others = [0, 1, 2, 3, 7, 9].map(id);
    let terms = schedule::Terms::new("plans", ["99/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let mut pair = Pair::new(small_chunks(flavor), &terms);
        for added in [8, 0] {
            let ids = others.into_iter().chain(alike);
            let all = add(ids.map(|id| Event::new(id, stamp(START))));
            assert_eq!(pair.decide(all), Answer::Added(added));
        }
        assert_eq!(bytes_of(&pair.store, b't'), 8 * 8);
        for id in alike {
            let cancel = Operation::Cancel(id.as_bytes());
            assert_eq!(pair.decide(cancel), Answer::Cancelled(true));
            pair.decide(everything());
        }
    }
}

/// A key expires with its last event, also if the one that was the last is cancelled.
#[test]
fn key_lasts_no_longer_than_the_events_that_are_left() {
    let terms = schedule::Terms::new("plans", ["99/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let string = store_with(flavor, Options::new());
        for store in [string, small_chunks(flavor)] {
            let ttl = || {
                let key = store.engine().keys(store.options()).remove(0);
                store.engine().command(&[b"PTTL", &key]).integer().unwrap()
            };
            let add = |number, days| {
                let planned = add([event(number, START + days * DAY)]);
                ask(&store, &terms, START, planned);
                ttl()
            };
            let (first, last) = (add(1, 1), add(2, 9));
            let days = 8 * 24 * 3_600_000;
            assert!((last - first).abs_diff(days) < 60_000, "{flavor}");
            ask(&store, &terms, START, Operation::Cancel(b"id2"));
            assert!(ttl().abs_diff(first) < 60_000, "{flavor}");
        }
    }
}

/// Returns how many bytes the fields whose names begin with `kind` hold together.
fn bytes_of(store: &WireStore<Raw>, kind: u8) -> usize {
    let key = store.engine().keys(store.options()).remove(0);
    let fields = store.engine().command(&[b"HGETALL", &key]);
    let pairs = fields.items().chunks(2);
    let values = pairs.map(|pair| match pair {
        [Reply::Bulk(name), Reply::Bulk(value)] if name[0] == kind => value.len(),
        _ => 0,
    });
    values.sum()
}

/// Each id takes as much as the longest in its chunk, also after that one's neighbors have moved on
/// to new chunks.
#[test]
fn long_id_takes_room_in_its_own_chunk_only() {
    let terms = schedule::Terms::new("plans", ["5000/1h"]).unwrap();
    let long: &'static str = "x".repeat(200).leak();
    for flavor in Flavor::chosen() {
        let store = store_with(flavor, Options::new());
        for first in (0..2_000).step_by(100) {
            let mut events: Vec<_> = (first..first + 100)
                .map(|number| event(10_000 + number, START + number))
                .collect();
            if first == 300 {
                events[0] = Event::new(long, stamp(START + first));
            }
            ask(&store, &terms, START, Operation::Add(events));
        }
        let bytes = bytes_of(&store, b'i');
        assert!(bytes < 2_000 * 8 + 16_384, "{bytes} bytes on {flavor}");
    }
}

/// However many events have come and gone, a key holds not much more than those that count.
#[test]
fn entries_of_events_that_are_over_do_not_pile_up() {
    let terms = schedule::Terms::new("plans", ["1000/1ms"]).unwrap();
    let terms = terms.with_tolerance(std::time::Duration::ZERO).unwrap();
    for flavor in Flavor::chosen() {
        let mut pair = Pair::new(store_with(flavor, Options::new()), &terms);
        for first in (0..2_000 + 100 * u64::from(rounds(80))).step_by(100) {
            pair.clock = START + first;
            let events = (first..first + 100).map(|number| event(number, START + number));
            let answer = pair.decide(add(events));
            assert_eq!(answer, Answer::Added(100), "{flavor}");
        }
        let entries = bytes_of(&pair.store, b'h') / 12;
        assert!(entries < 3 * pair.state.len(), "{entries} on {flavor}");
    }
}

/// A bulk sender's quotas: fifty thousand a day, or an eighth of that, and five hundred a minute.
#[test]
fn fifty_thousand_events_of_a_key_are_planned_and_found() {
    let minutes = u64::from(rounds(100));
    let (most, half) = (500 * minutes, minutes / 2);
    let terms = schedule::Terms::new("plans", [&*format!("{most}/1d"), "500/1m"]).unwrap();
    // Without a tolerance, two days hold twice as many: the horizon is a whole day.
    let terms = terms.with_tolerance(std::time::Duration::ZERO).unwrap();
    for flavor in Flavor::chosen() {
        let store = store_with(flavor, Options::new());
        let decide = |operation| ask(&store, &terms, START, operation);
        let minute = |minute: u64| START + minute * MINUTE;
        for batch in 0..5 * minutes {
            let numbers = 100 * batch..100 * (batch + 1);
            let events = numbers.map(|number| event(number, minute(batch / 5)));
            let answer = decide(add(events));
            assert_eq!(answer, Answer::Added(100), "{flavor}");
        }
        let free = |from| decide(next(from, 1));
        assert_eq!(free(minute(0)), found(START + DAY), "{flavor}");
        let more = decide(add([event(most, minute(half))]));
        assert_eq!(refused(more), (0, Some(START + DAY)), "{flavor}");
        let again = add([event(500 * half, minute(half))]);
        assert_eq!(decide(again), Answer::Added(0));
        let cancel = Operation::Cancel(id(500 * half).as_bytes());
        assert_eq!(decide(cancel), Answer::Cancelled(true));
        // One leaves room in its minute, but also in what is left of the day.
        assert_eq!(free(minute(half)), found(minute(half)), "{flavor}");
        let reserve = Operation::ReserveNext(event(most, minute(half / 2)));
        let (time, is_new) = (stamp(minute(half)), true);
        assert_eq!(decide(reserve), Answer::Planned { time, is_new });
        assert_eq!(listed(decide(everything())) as u64, most);
        let key = store.engine().keys(store.options()).remove(0);
        let each = store.engine().usage(&key) / most;
        assert!((20..50).contains(&each), "{each} bytes each on {flavor}");
    }
}

/// What another program has made of a key is an error, or does not matter; nothing is written. Times
/// out of order, or that are no numbers, do not keep a server busy forever.
#[test]
fn garbled_chunks_are_an_error_and_stay() {
    let terms = schedule::Terms::new("plans", ["9/1h", "20/day@UTC"]).unwrap();
    let at = START + 200 * MINUTE;
    let calls = || {
        [
            add([event(50, at)]),
            add((60..99).map(|new| event(new, at + new))),
            add([event(1, at)]),
            Operation::Reschedule(event(1, at)),
            Operation::Cancel(b"id1"),
            Operation::ReserveNext(event(50, START)),
            next(START, 2),
            everything(),
        ]
    };
    // The field, what becomes of its value, and whether some call fails.
    type Garble = fn(Vec<u8>) -> Vec<u8>;
    let mut garbled: Vec<(&[u8], Garble, bool)> = vec![
        (b"c", |value| value[..16].to_vec(), true),
        (b"c", |value| with(value, 8, &[77]), true),
        (b"c", |_| Vec::new(), true),
        (b"d", |_| Vec::new(), true),
        (b"d", |value| value[1..].to_vec(), true),
        (b"d", |value| [&value[..], b"x"].concat(), true),
        (b"d", |value| with(value, 0, &[0]), true),
    ];
    for field in [&b"t0"[..], b"i0", b"t1", b"i1"] {
        garbled.extend([
            (field, (|value| value[1..].to_vec()) as Garble, true),
            (field, |_| Vec::new(), true),
        ]);
    }
    for field in [&b"t0"[..], b"t1"] {
        garbled.extend([
            (field, (|value| starting(value, f64::NAN)) as Garble, false),
            (field, |value| starting(value, 7.), false),
            (field, |value| starting(value, 1e300), false),
        ]);
    }
    for flavor in Flavor::chosen() {
        let store = small_chunks(flavor);
        let raw = store.engine();
        for (number, (field, garble, fails)) in garbled.iter().enumerate() {
            let mut failed = 0;
            for operation in calls() {
                let what = format!("case {number}, {operation:?} on {flavor}");
                now(store.reset_schedule(&terms, "k".into())).unwrap();
                let events = (0..9).map(|number| event(number, START + number * 60 * MINUTE));
                ask(&store, &terms, START, add(events));
                let key = raw.keys(store.options()).remove(0);
                let Reply::Bulk(value) = raw.command(&[b"HGET", &key, field]) else {
                    panic!("{what}");
                };
                raw.command(&[b"HSET", &key, field, &garble(value)]);
                let before = families::everything(&store);
                let request = schedule::Request::new(&terms, "k", operation);
                // An answer or a clear error, but soon.
                if let Err(error) = now(store.schedule(&request.at(stamp(START)))) {
                    let message = error.to_string();
                    assert!(message.contains("delete the key"), "{what}: {message}");
                    assert_eq!(families::everything(&store), before, "{what}");
                    failed += 1;
                }
                assert!(raw.pttl(&key) > 0, "{what}");
            }
            let holds = failed > 0 || !fails;
            assert!(holds, "case {number} does not matter on {flavor}");
        }
    }
}

/// Returns `value` with these bytes at an index.
fn with(mut value: Vec<u8>, index: usize, bytes: &[u8]) -> Vec<u8> {
    value[index..][..bytes.len()].copy_from_slice(bytes);
    value
}

fn starting(value: Vec<u8>, time: f64) -> Vec<u8> {
    with(value, 0, &time.to_le_bytes())
}

/// Where a user may not run what chunks need, any number of events is a string.
#[test]
fn more_events_stay_a_string_for_a_user_who_may_not_write_chunks() {
    let terms = schedule::Terms::new("plans", ["9/1h"]).unwrap();
    for missing in ["-hset", "-pexpire"] {
        let options = Options::new().with_small_schedule(1);
        let users = users(options, || Raw::to(Flavor::System), &["+@all", missing]);
        let raw = users.all.engine();
        let is_string = || {
            let key = raw.keys(users.all.options()).remove(0);
            assert!(raw.pttl(&key) > 3_600_000);
            !matches!(raw.command(&[b"GET", &key]), Reply::Error(_))
        };
        for (store, number) in [(&users.user, 1), (&users.user, 2), (&users.all, 3)] {
            let add = add([event(number, START + MINUTE)]);
            let answer = ask(store, &terms, START, add);
            assert_eq!(answer, Answer::Added(1), "{missing}");
            assert_eq!(is_string(), number < 3, "{missing}");
        }
        assert_eq!(listed(ask(&users.all, &terms, START, everything())), 3);
    }
}

/// As many events at once as one call may add, with the longest ids and other weights.
#[test]
fn as_many_events_as_possible_are_planned_and_pruned_in_one_call() {
    let terms = schedule::Terms::new("plans", ["200/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let mut pair = Pair::new(store_with(flavor, Options::new()), &terms);
        for hour in 0..3 {
            let id = |number| format!("{:0>200}", 100 * hour + number).leak();
            let events =
                (0..100).map(|number| Event::new(id(number), stamp(START + 60 * hour * MINUTE)));
            let events = events.map(|event| event.with_weight(2)).collect();
            let answer = pair.decide(Operation::Add(events));
            assert_eq!(answer, Answer::Added(100), "{flavor}");
        }
        pair.clock = START + 4 * 60 * MINUTE;
        let last = add([event(1, pair.clock)]);
        assert_eq!(pair.decide(last), Answer::Added(1), "{flavor}");
        // The last event. Events an hour before the tolerance have not left.
        assert!(look(&pair.store).0.events.len() <= 1 + 100, "{flavor}");
    }
}

/// A thousand events within two hours, and a hundred among them in one call: their windows are read
/// from the chunks once, and not for each event.
#[test]
fn batch_reads_its_neighbours_once() {
    let terms = schedule::Terms::new("plans", ["1000/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let mut pair = Pair::new(store_on(&server), &terms);
        let mut add = |first: u64| {
            let time = |number| START + number * 120 * MINUTE / 1_100;
            let events = (first..first + 100).map(|number| event(number, time(number)));
            let answer = pair.decide(add(events));
            assert_eq!(answer, Answer::Added(100), "{flavor}");
        };
        (0..10).for_each(|batch| add(100 * batch));
        let reads = || server.calls("hget") + server.calls("hmget");
        let before = reads();
        add(1_000);
        let reads = reads() - before;
        // One for the id of each event, one for each 64 events, and a few.
        assert!(reads < 100 + 1_100 / 64 + 20, "{reads} reads on {flavor}");
    }
}

/// A long list is read in parts, each up to the last event of one time.
#[test]
fn long_lists_are_read_in_parts_and_whole() {
    let terms = schedule::Terms::new("plans", ["1000/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let mut pair = Pair::new(store_on(&server), &terms);
        let second = |second: u64| START + second * 1_000_000;
        // 450 that are seconds apart, 550 at once, and 700 seconds apart more than an hour later.
        let time = |event: u64| match event {
            0..450 => event,
            450..1_000 => 450,
            _ => 4_100 + event,
        };
        for first in (0..1_700).step_by(100) {
            let events = (first..first + 100).map(|number| event(number, second(time(number))));
            let answer = pair.decide(add(events));
            assert_eq!(answer, Answer::Added(100), "{flavor}");
        }
        // The first part of all ends with the 550 events of one time.
        for (from, until, parts) in [(0, 7_200, 3), (0, 450, 1), (450, 451, 1), (451, 7_200, 2)] {
            let before = server.calls("evalsha");
            pair.decide(list(second(from), second(until)));
            assert_eq!(server.calls("evalsha") - before, parts, "from {from}");
        }
    }
}
