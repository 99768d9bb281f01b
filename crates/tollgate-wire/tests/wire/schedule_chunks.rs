//! Schedules of many events on servers: chunks that are split, merged and dropped, events of one
//! time, fifty thousand events, and keys that another program has garbled.

use tollgate_core::schedule::{self, Event};
use tollgate_core::{ErrorKind, Timestamp};
use tollgate_testkit::{Flavor, Reply, rounds};
use tollgate_wire::{Engine, Options, WireStore};

use crate::engine::{Raw, now, store_with};
use crate::families::users;
use crate::schedule_twins::look;

const START: u64 = 1_780_000_000_000_000;
const MINUTE: u64 = 60_000_000;
const DAY: u64 = 1_440 * MINUTE;

fn stamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn id(number: u64) -> &'static str {
    format!("id{number}").leak()
}

fn event(number: u64, micros: u64) -> Event<'static> {
    Event::new(id(number), stamp(micros))
}

fn everything() -> schedule::Operation<'static> {
    schedule::Operation::List {
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::MAX,
    }
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
    operation: schedule::Operation<'static>,
) -> schedule::Answer {
    let request = schedule::Request::new(terms, "k", operation).with_latest();
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
    fn decide(&mut self, operation: schedule::Operation<'static>) -> schedule::Answer {
        let request = schedule::Request::new(self.terms, "k", operation.clone()).with_latest();
        let expected = request.decide_on(&mut self.state, stamp(self.clock));
        let answer = ask(&self.store, self.terms, self.clock, operation.clone());
        assert_eq!(answer, expected, "{operation:?} at {}", self.clock);
        let (held, _) = look(&self.store);
        assert_eq!(held.events.len(), self.state.len(), "{operation:?}");
        answer
    }
}

/// A small generator: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Random calls among dozens of events, many of one time: chunks are split, merged and dropped.
#[test]
fn random_calls_leave_chunks_as_the_machine_says() {
    for flavor in Flavor::chosen() {
        for (seed, quotas, heaviest) in [
            (1, &["40/60us", "70/200us"][..], 1),
            (2, &["40/60us", "70/200us"], 3),
            (3, &["9/10us"], 1),
            (4, &["9/10us", "2/1us"], 2),
        ] {
            let terms = schedule::Terms::new("plans", quotas.iter().copied()).unwrap();
            let micros = |micros| std::time::Duration::from_micros(micros);
            let terms = terms.with_tolerance(micros(20)).unwrap();
            let terms = terms.with_horizon(micros(400)).unwrap();
            let mut pair = Pair::new(small_chunks(flavor), &terms);
            let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ seed);
            for _ in 0..rounds(400) {
                if dice.below(6) == 0 {
                    pair.clock += dice.below(40);
                }
                let clock = pair.clock;
                let one = |dice: &mut Dice| {
                    let event = event(dice.below(120), clock - 25 + dice.below(260));
                    event.with_weight(1 + dice.below(heaviest))
                };
                let operation = match dice.below(10) {
                    0..3 => schedule::Operation::Add(vec![one(&mut dice)]),
                    3 => {
                        let many = 2 + dice.below(9);
                        let mut events: Vec<_> = (0..many).map(|_| one(&mut dice)).collect();
                        events.sort_by(|a, b| a.id().cmp(b.id()));
                        events.dedup_by(|a, b| a.id() == b.id());
                        schedule::Operation::Add(events)
                    }
                    4..6 => schedule::Operation::ReserveNext(one(&mut dice)),
                    6 => schedule::Operation::Reschedule(one(&mut dice).with_weight(1)),
                    7 => schedule::Operation::Cancel(id(dice.below(120)).as_bytes()),
                    8 => schedule::Operation::NextFree {
                        from: one(&mut dice).time(),
                        weight: 1 + dice.below(heaviest),
                    },
                    _ => everything(),
                };
                pair.decide(operation);
            }
        }
    }
}

/// Events of one time fill several chunks. Each is found by its id, and they leave one by one.
#[test]
fn events_of_one_time_are_found_in_all_their_chunks() {
    let terms = schedule::Terms::new("plans", ["60/1h"]).unwrap();
    for flavor in Flavor::chosen() {
        let mut pair = Pair::new(small_chunks(flavor), &terms);
        let at = START + MINUTE;
        for first in [0, 30] {
            let events = (first..first + 30)
                .map(|number| event(number, at))
                .collect();
            assert_eq!(
                pair.decide(schedule::Operation::Add(events)),
                schedule::Answer::Added(30)
            );
        }
        for number in 0..60 {
            let again = schedule::Operation::Add(vec![event(number, at)]);
            assert_eq!(pair.decide(again), schedule::Answer::Added(0), "{flavor}");
        }
        for number in (0..60).rev() {
            pair.decide(schedule::Operation::Cancel(id(number).as_bytes()));
        }
        assert!(pair.store.engine().keys(pair.store.options()).is_empty());
    }
}

/// Events that are over leave with their chunks, also where they end within one.
#[test]
fn chunks_of_events_that_are_over_are_dropped() {
    let terms = schedule::Terms::new("plans", ["100/10s"]).unwrap();
    for flavor in Flavor::chosen() {
        let mut pair = Pair::new(small_chunks(flavor), &terms);
        let events = (0..100).map(|number| event(number, START + number * 1_000_000));
        pair.decide(schedule::Operation::Add(events.collect()));
        for (number, seconds) in [(200, 49), (201, 50), (202, 90), (203, 120)] {
            pair.clock = START + seconds * 1_000_000;
            pair.decide(schedule::Operation::Add(vec![event(number, pair.clock)]));
            // An event that is over has left its id.
            pair.decide(schedule::Operation::Add(vec![event(0, pair.clock)]));
            pair.decide(schedule::Operation::Cancel(id(0).as_bytes()));
        }
    }
}

/// The first and the last microsecond of a day belong to it, in chunks and in strings.
#[test]
fn events_at_the_ends_of_a_day_count_in_it() {
    let midnight = START - START % DAY + DAY;
    let ends = [midnight - 1, midnight, midnight + DAY - 1, midnight + DAY];
    for flavor in Flavor::chosen() {
        for (weights, store) in [
            ([1; 4], small_chunks(flavor)),
            ([1, 2, 1, 2], small_chunks(flavor)),
            ([1, 2, 1, 2], store_with(flavor, Options::new())),
        ] {
            let amount: u64 = weights[1..3].iter().sum();
            let day = format!("{amount}/day@UTC");
            let terms = schedule::Terms::new("plans", [&*day]).unwrap();
            let mut pair = Pair::new(store, &terms);
            let events = ends.iter().zip(weights).zip(0..);
            let events =
                events.map(|((time, weight), number)| event(number, *time).with_weight(weight));
            pair.decide(schedule::Operation::Add(events.collect()));
            // The day is full from its first to its last microsecond.
            for (from, free) in [(midnight - 1, midnight - 1), (midnight, midnight + DAY)] {
                let next = schedule::Operation::NextFree {
                    from: stamp(from),
                    weight: 1,
                };
                let found = schedule::Answer::Found(Some(stamp(free)));
                assert_eq!(pair.decide(next), found, "{flavor} {weights:?}");
            }
            for time in [midnight, midnight + DAY - 1] {
                let more = pair.decide(schedule::Operation::Add(vec![event(9, time)]));
                assert!(matches!(more, schedule::Answer::Refused { .. }), "{flavor}");
            }
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
            ask(&store, &terms, START, schedule::Operation::Add(events));
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
            let answer = pair.decide(schedule::Operation::Add(events.collect()));
            assert_eq!(answer, schedule::Answer::Added(100), "{flavor}");
        }
        let entries = bytes_of(&pair.store, b'h') / 12;
        assert!(entries < 3 * pair.state.len(), "{entries} on {flavor}");
    }
}

/// A bulk sender's quotas: fifty thousand a day, five hundred a minute.
#[test]
fn fifty_thousand_events_of_a_key_are_planned_and_found() {
    let terms = schedule::Terms::new("plans", ["50000/1d", "500/1m"]).unwrap();
    // Without a tolerance, two days hold a hundred thousand: the horizon is a whole day.
    let terms = terms.with_tolerance(std::time::Duration::ZERO).unwrap();
    for flavor in Flavor::chosen() {
        let store = store_with(flavor, Options::new());
        let decide = |operation| ask(&store, &terms, START, operation);
        let minute = |minute: u64| START + minute * MINUTE;
        for batch in 0..500 {
            let numbers = 100 * batch..100 * (batch + 1);
            let events = numbers.map(|number| event(number, minute(batch / 5)));
            let answer = decide(schedule::Operation::Add(events.collect()));
            assert_eq!(answer, schedule::Answer::Added(100), "{flavor}");
        }
        let free = |from: u64| schedule::Operation::NextFree {
            from: stamp(from),
            weight: 1,
        };
        let found = |micros| schedule::Answer::Found(Some(stamp(micros)));
        assert_eq!(decide(free(minute(0))), found(START + DAY), "{flavor}");
        let more = decide(schedule::Operation::Add(vec![event(50_000, minute(50))]));
        let schedule::Answer::Refused { refusal, .. } = more else {
            panic!("{more:?}");
        };
        assert_eq!(refusal.next_free(), Some(stamp(START + DAY)), "{flavor}");
        let again = schedule::Operation::Add(vec![event(25_000, minute(50))]);
        assert_eq!(decide(again), schedule::Answer::Added(0));
        let cancel = schedule::Operation::Cancel(id(25_000).as_bytes());
        assert_eq!(decide(cancel), schedule::Answer::Cancelled(true));
        // One leaves room in its minute, but also in what is left of the day.
        assert_eq!(decide(free(minute(50))), found(minute(50)), "{flavor}");
        let reserve = schedule::Operation::ReserveNext(event(50_000, minute(20)));
        let schedule::Answer::Planned { time, is_new } = decide(reserve) else {
            panic!("not planned");
        };
        assert_eq!((time, is_new), (stamp(minute(50)), true), "{flavor}");
        let schedule::Answer::Events(events) = decide(everything()) else {
            panic!("no list");
        };
        assert_eq!(events.len(), 50_000);
        let key = store.engine().keys(store.options()).remove(0);
        let bytes = store
            .engine()
            .command(&[b"MEMORY", b"USAGE", &key, b"SAMPLES", b"0"]);
        let each = bytes.integer().unwrap() / 50_000;
        assert!((20..50).contains(&each), "{each} bytes each on {flavor}");
    }
}

/// What another program has made of a key is an error, or does not matter; nothing is written.
#[test]
fn garbled_chunks_are_an_error_and_stay() {
    let terms = schedule::Terms::new("plans", ["9/1h"]).unwrap();
    let operations = || {
        let at = START + MINUTE;
        [
            schedule::Operation::Add(vec![event(9, at)]),
            schedule::Operation::Add(vec![event(9, at), event(8, at)]),
            schedule::Operation::Add(vec![event(1, at)]),
            schedule::Operation::Reschedule(event(1, at)),
            schedule::Operation::Cancel(b"id1"),
            schedule::Operation::ReserveNext(event(9, at)),
            schedule::Operation::NextFree {
                from: stamp(START),
                weight: 1,
            },
            schedule::Operation::LatestFree {
                until: stamp(at),
                weight: 1,
            },
            everything(),
        ]
    };
    // The field, and what becomes of its value.
    type Garble = fn(Vec<u8>) -> Vec<u8>;
    let garbled: [(&[u8], Garble); 12] = [
        (b"c", |value| value[..16].to_vec()),
        (b"c", |mut value| {
            value[8] += 1;
            value
        }),
        (b"c", |_| Vec::new()),
        (b"d", |_| Vec::new()),
        (b"d", |value| value[1..].to_vec()),
        (b"d", |value| [&value[..], b"x"].concat()),
        (b"d", |mut value| {
            value[0] = 0;
            value
        }),
        (b"d", |mut value| {
            // Another number than a chunk has.
            value[18] = 77;
            value
        }),
        (b"t0", |value| value[1..].to_vec()),
        (b"t0", |_| Vec::new()),
        (b"i0", |value| value[1..].to_vec()),
        (b"i0", |_| Vec::new()),
    ];
    for flavor in Flavor::chosen() {
        let options = Options::new().with_small_schedule(0);
        let store = store_with(flavor, options);
        let raw = store.engine();
        for (number, (field, garble)) in garbled.into_iter().enumerate() {
            let what = format!("case {number} on {flavor}");
            now(store.reset_schedule(&terms, "k".into())).unwrap();
            let events = (0..3).map(|number| event(number, START + number)).collect();
            ask(&store, &terms, START, schedule::Operation::Add(events));
            let key = raw.keys(store.options()).remove(0);
            let Reply::Bulk(value) = raw.command(&[b"HGET", &key, field]) else {
                panic!("{what}");
            };
            raw.command(&[b"HSET", &key, field, &garble(value)]);
            let dump = || raw.command(&[b"DUMP", &key]);
            let before = dump();
            let mut failed = 0;
            for operation in operations() {
                let request = schedule::Request::new(&terms, "k", operation.clone());
                let answer = now(store.schedule(&request.at(stamp(START))));
                if let Err(error) = answer {
                    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{what}: {error}");
                    let message = error.to_string();
                    assert!(message.contains("holds a value that"), "{what}: {message}");
                    failed += 1;
                }
                assert_eq!(dump(), before, "{what}: {operation:?}");
            }
            assert!(failed > 0, "{what} does not matter");
        }
    }
}

/// Times out of order, or that are no numbers, do not keep a server busy forever.
#[test]
fn garbled_times_end_every_call() {
    let terms = schedule::Terms::new("plans", ["3/1h", "9/1d", "20/day@UTC"]).unwrap();
    for flavor in Flavor::chosen() {
        let store = small_chunks(flavor);
        let raw = store.engine();
        for (field, word) in [
            (&b"t0"[..], f64::NAN),
            (b"t0", 7.),
            (b"t0", 1e300),
            (b"t1", f64::NAN),
            (b"t1", 0.),
            (b"t1", 1e15),
        ] {
            for operation in 0..6 {
                now(store.reset_schedule(&terms, "k".into())).unwrap();
                let events = (0..20).map(|number| event(number, START + number * 6 * MINUTE * 10));
                ask(
                    &store,
                    &terms,
                    START,
                    schedule::Operation::Add(events.take(9).collect()),
                );
                let key = raw.keys(store.options()).remove(0);
                let Reply::Bulk(value) = raw.command(&[b"HGET", &key, field]) else {
                    panic!("no chunk");
                };
                let garbled = [&word.to_le_bytes()[..], &value[8..]].concat();
                raw.command(&[b"HSET", &key, field, &garbled]);
                let at = START + 200 * MINUTE;
                let operation = match operation {
                    0 => schedule::Operation::Add(vec![event(50, at)]),
                    1 => {
                        schedule::Operation::Add((60..99).map(|new| event(new, at + new)).collect())
                    }
                    2 => schedule::Operation::ReserveNext(event(50, START)),
                    3 => schedule::Operation::LatestFree {
                        until: stamp(at),
                        weight: 2,
                    },
                    4 => schedule::Operation::Cancel(b"id3"),
                    _ => schedule::Operation::Reschedule(event(3, at)),
                };
                let request = schedule::Request::new(&terms, "k", operation).with_latest();
                // An answer or a clear error, but soon.
                if let Err(error) = now(store.schedule(&request.at(stamp(START)))) {
                    assert!(error.to_string().contains("holds a value that"), "{error}");
                }
                assert_eq!(raw.keys(store.options()).len(), 1, "{flavor}");
                assert!(raw.pttl(&key) > 0, "{flavor}");
            }
        }
    }
}

/// Where a user may not run what chunks need, any number of events is a string.
#[test]
fn more_events_stay_a_string_for_a_user_who_may_not_write_chunks() {
    let terms = schedule::Terms::new("plans", ["9/1h"]).unwrap();
    for missing in ["-hset", "-pexpire"] {
        let options = Options::new().with_small_schedule(1);
        let users = users(options, || Raw::to(Flavor::System), &["+@all", missing]);
        let raw = &users.all.engine().raw;
        let is_string = || {
            let key = raw.keys(users.all.options()).remove(0);
            assert!(raw.pttl(&key) > 3_600_000);
            !matches!(raw.command(&[b"GET", &key]), Reply::Error(_))
        };
        for (store, number) in [(&users.user, 1), (&users.user, 2), (&users.all, 3)] {
            let add = schedule::Operation::Add(vec![event(number, START + MINUTE)]);
            let answer = ask(store, &terms, START, add);
            assert_eq!(answer, schedule::Answer::Added(1), "{missing}");
            assert_eq!(is_string(), number < 3, "{missing}");
        }
        let schedule::Answer::Events(events) = ask(&users.all, &terms, START, everything()) else {
            panic!("no list");
        };
        assert_eq!(events.len(), 3);
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
            let answer = pair.decide(schedule::Operation::Add(events));
            assert_eq!(answer, schedule::Answer::Added(100), "{flavor}");
        }
        pair.clock = START + 4 * 60 * MINUTE;
        let last = schedule::Operation::Add(vec![event(1, pair.clock)]);
        assert_eq!(pair.decide(last), schedule::Answer::Added(1), "{flavor}");
        // The last event. Events an hour before the tolerance have not left.
        assert!(look(&pair.store).0.events.len() <= 1 + 100, "{flavor}");
    }
}
