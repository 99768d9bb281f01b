//! The script of schedules against the machine: every answer, everything that a server holds after
//! it, and for how long.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use tollgate_core::Timestamp;
use tollgate_core::schedule::{self, Answer, Event, Operation};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Options, WireStore};

use crate::engine::{
    Raw, START, assert_ends, assert_mostly_on_time, config, now, stamp, store_with,
};

/// What a store keeps events longer for that were planned at a caller's instant, in milliseconds.
const SLACK: i64 = 600_000;
const HOUR: u64 = 3_600_000_000;
pub(crate) const DAY: u64 = 24 * HOUR;
/// The last instant that there is.
pub(crate) const MAX: u64 = (1 << 53) - 1;

/// Terms that may take each other's place while a schedule is in use: other amounts, windows,
/// horizons and tolerances, and calendars that come and go. All times are multiples of the unit.
struct Family {
    unit: u64,
    terms: Vec<schedule::Terms>,
}

fn micros(units: u64, unit: u64) -> std::time::Duration {
    std::time::Duration::from_micros(units * unit)
}

/// Families: the unit in microseconds, and for each of the terms the horizon and the tolerance in units, and
/// the quotas. The second one of hours has closed times before and after quotas, by day, weekday and date;
/// then come windows of whole milliseconds and less, and of dozens of events.
const FAMILIES: &str = "\
1
60 3: 2/10us & 3/25us
60 3: 1/10us & 3/25us
40 0: 5/7us
60 3: 2/40us & 0/1us
90 12: 4/30us & 2/3us & 6/60us

3600000000
960 2: 2/10h & 3/day@Europe/Berlin
960 2: 2/10h
2160 30: 2/day@Asia/Kolkata & 5/week@Europe/Berlin
1440 0: 9/month@America/New_York & 3/1d

3600000000
960 2: closed 22:00-08:00@Europe/Berlin & 2/10h & closed sat,sun@UTC
2160 30: 2/day@Asia/Kolkata & closed 09:00-17:00@America/New_York & 9/month@UTC
7200 1: 3/1d & closed 2026-01-01..2026-12-31@UTC
1440 9: closed 1970-01-01@UTC & 2/10h
960 2: 2/10h

700
60 3: 2/7ms & 3/20ms
60 3: 3/7500us

1
400 20: 40/60us & 70/200us
400 20: 9/10us
400 20: 9/10us & 2/1us
";

fn families() -> Vec<Family> {
    let families = FAMILIES.split("\n\n").map(|family| {
        let (unit, rows) = family.split_once('\n').unwrap();
        let unit = unit.parse().unwrap();
        let terms = rows.lines().map(|row| {
            let (times, quotas) = row.split_once(": ").unwrap();
            let (horizon, tolerance) = times.split_once(' ').unwrap();
            let [horizon, tolerance] =
                [horizon, tolerance].map(|units| micros(units.parse().unwrap(), unit));
            let terms = schedule::Terms::new("plans", quotas.split(" & ")).unwrap();
            let terms = terms.with_tolerance(tolerance).unwrap();
            terms.with_horizon(horizon).unwrap()
        });
        let terms = terms.collect();
        Family { unit, terms }
    });
    families.collect()
}

/// A step: the index of the terms, how far the clock moves before, and the request.
#[derive(Clone, Debug)]
struct Step {
    terms: usize,
    moved: i64,
    act: Act,
}

/// An operation, with times relative to the clock.
#[derive(Clone, Debug)]
enum Act {
    Add(Vec<(u8, i64, u64)>),
    Reschedule(u8, i64),
    Cancel(u8),
    NextFree(i64, u64),
    ReserveNext(u8, i64, u64),
    List(i64, i64),
}

fn act() -> impl Strategy<Value = Act> {
    // Mostly a few, so that they meet.
    let id = prop_oneof![6 => 0_u8..8, 1 => 8_u8..120].boxed();
    let time = || prop_oneof![12 => -4_i64..70, 2 => -30_i64..120, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    let weight =
        || prop_oneof![6 => Just(1_u64), 2 => 2_u64..4, 1 => select(&[1_001, MAX, u64::MAX][..])];
    prop_oneof![
        6 => (id.clone(), time(), weight()).prop_map(|event| Act::Add(vec![event])),
        2 => many(id.clone(), time(), weight()).prop_map(|mut events| {
            events.sort_unstable();
            events.dedup_by_key(|event| event.0);
            Act::Add(events)
        }),
        3 => (id.clone(), time()).prop_map(|(id, time)| Act::Reschedule(id, time)),
        3 => id.clone().prop_map(Act::Cancel),
        2 => (time(), weight()).prop_map(|(from, weight)| Act::NextFree(from, weight)),
        5 => (id, time(), weight()).prop_map(|(id, from, weight)| Act::ReserveNext(id, from, weight)),
        1 => (time(), time()).prop_map(|(from, until)| Act::List(from, until)),
    ]
}

/// Returns a few events, or dozens.
fn many(
    id: impl Strategy<Value = u8> + Clone,
    time: impl Strategy<Value = i64> + Clone,
    weight: impl Strategy<Value = u64> + Clone,
) -> impl Strategy<Value = Vec<(u8, i64, u64)>> {
    let few = prop::collection::vec((id, time.clone(), weight.clone()), 1..5);
    let dozens = prop::collection::vec((8_u8..120, time, weight), 5..60);
    prop_oneof![2 => few, 1 => dozens]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![5 => Just(0_i64), 4 => 1_i64..8, 2 => 8_i64..60, 2 => -12_i64..0];
    let terms = prop_oneof![6 => Just(0_usize), 2 => 1_usize..5];
    let step = (terms, moved, act());
    let step = step.prop_map(|(terms, moved, act)| Step { terms, moved, act });
    prop::collection::vec(step, 1..30)
}

/// The ids below eight; others are numbers.
const IDS: [&str; 8] = ["-", "c", "w", "e", "w1", "1", "a\0b", "\u{e9}"];

fn id_of(number: u8) -> &'static str {
    match IDS.get(usize::from(number)) {
        Some(id) => id,
        None => id(number.into()),
    }
}

fn operation(act: &Act, time: impl Fn(i64) -> Timestamp) -> Operation<'static> {
    let event = |id: u8, at: i64, weight: u64| Event::new(id_of(id), time(at)).with_weight(weight);
    match *act {
        Act::Add(ref events) => {
            let events = events.iter();
            let events = events.map(|(id, at, weight)| event(*id, *at, *weight));
            Operation::Add(events.collect())
        }
        Act::Reschedule(id, to) => Operation::Reschedule(event(id, to, 1)),
        Act::Cancel(id) => Operation::Cancel(id_of(id).as_bytes()),
        Act::NextFree(from, weight) => Operation::NextFree {
            from: time(from),
            weight,
        },
        Act::ReserveNext(id, from, weight) => Operation::ReserveNext(event(id, from, weight)),
        Act::List(from, until) => Operation::List {
            from: time(from),
            until: time(until),
        },
    }
}

/// What a server holds: the events with their weights, the instant of the last change, and the last
/// millisecond in which the key can be read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Held {
    pub(crate) events: Vec<(Vec<u8>, u64, u64)>,
    latest: u64,
    ends: u64,
    changes: u64,
}

/// Takes a number off a state.
fn take(state: &mut &[u8]) -> u64 {
    let (word, rest) = state.split_first_chunk().unwrap();
    *state = rest;
    let number = f64::from_le_bytes(*word);
    format!("{number}").parse().expect("a whole number")
}

/// Returns the events in a state, and the latest instant.
fn decode(mut state: &[u8]) -> (Vec<(Vec<u8>, u64, u64)>, u64) {
    if state.is_empty() {
        return (Vec::new(), 0);
    }
    let latest = take(&mut state);
    let (&[a, b, c, d, width, weighted], mut state) = state.split_first_chunk().unwrap();
    let held = u32::from_le_bytes([a, b, c, d]) as usize;
    let times: Vec<u64> = (0..held).map(|_| take(&mut state)).collect();
    let weights: Vec<u64> = match weighted {
        0 => vec![1; held],
        1 => (0..held).map(|_| take(&mut state)).collect(),
        other => panic!("{other} is no flag"),
    };
    assert_eq!(state.len(), held * (1 + usize::from(width)));
    assert!(times.is_sorted());
    let ids = state.chunks(1 + usize::from(width)).map(|id| {
        let (id, zeros) = id[1..].split_at(usize::from(id[0]));
        assert!(zeros.iter().all(|&zero| zero == 0));
        id.to_vec()
    });
    let events = ids.zip(times).zip(weights);
    let events = events.map(|((id, time), weight)| (id, time, weight));
    let mut events: Vec<_> = events.collect();
    events.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    (events, latest)
}

/// Takes the first bytes of `text`.
fn bytes<const N: usize>(text: &mut &[u8]) -> [u8; N] {
    let (bytes, rest) = text.split_first_chunk().unwrap();
    *text = rest;
    *bytes
}

/// Returns the hash of an id in a hash of chunks.
fn hash(id: &[u8]) -> u32 {
    let length = u8::try_from(id.len()).unwrap();
    let digest = sha1_smol::Sha1::from([&[length], id].concat()).digest();
    u32::from_be_bytes(*digest.bytes().first_chunk().unwrap())
}

/// Returns the events in a hash of chunks, and the latest instant.
fn decode_hash(fields: &[Reply]) -> (Vec<(Vec<u8>, u64, u64)>, u64) {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    };
    let pairs = fields.chunks(2);
    let mut fields: BTreeMap<Vec<u8>, Vec<u8>> =
        pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
    let head = fields.remove(&b"c"[..]).unwrap();
    let mut head = &head[..];
    let latest = take(&mut head);
    let held = u32::from_le_bytes(bytes(&mut head)) as usize;
    let [weighted] = bytes(&mut head);
    let next = u32::from_le_bytes(bytes(&mut head));
    assert!(head.is_empty() && weighted <= 1);
    let directory = fields.remove(&b"d"[..]).unwrap();
    let chunks = directory.len() / 26;
    let (mut counts, mut entries) = directory.split_at(2 * chunks);
    let (mut events, mut last) = (Vec::new(), (0, 0));
    let mut entry_of = BTreeMap::new();
    for _ in 0..chunks {
        let count = usize::from(u16::from_le_bytes(bytes(&mut counts)));
        let (first, sum) = (take(&mut entries), take(&mut entries));
        let number = u32::from_le_bytes(bytes(&mut entries));
        let first_hash = u32::from_le_bytes(bytes(&mut entries));
        assert!(number < next && count > 0);
        let name = |kind: char| format!("{kind}{number}").into_bytes();
        let times = fields.remove(&name('t')).unwrap();
        let ids = fields.remove(&name('i')).unwrap();
        let (mut times, mut weights) = times.split_at(8 * count);
        let has_weights = !weights.is_empty();
        let size = ids.len() / count;
        assert_eq!(ids.len(), count * size);
        let mut total = 0;
        for id in ids.chunks(size) {
            let time = take(&mut times);
            let weight = if has_weights { take(&mut weights) } else { 1 };
            let (id, zeros) = id[1..].split_at(usize::from(id[0]));
            assert!(zeros.iter().all(|&zero| zero == 0));
            let hash = hash(id);
            assert!((time, hash) >= last, "chunks out of order");
            let is_first = (time, hash) == (first, first_hash);
            assert!(total > 0 || is_first, "not the first of its chunk");
            (last, total) = ((time, hash), total + weight);
            events.push((id.to_vec(), time, weight));
        }
        assert!(times.is_empty() && weights.is_empty());
        assert_eq!(total, sum);
        assert!(!has_weights || (total > count as u64 && weighted == 1));
    }
    assert_eq!(events.len(), held);
    for (name, entries) in &fields {
        let &[b'h', bucket] = &name[..] else {
            panic!("{name:?} is left");
        };
        for mut entry in entries.chunks(12) {
            let hash: [u8; 4] = bytes(&mut entry);
            assert_eq!(hash[0], bucket);
            *entry_of.entry((hash, take(&mut entry))).or_insert(0) += 1;
        }
    }
    for (id, time, _) in &events {
        let key = (hash(id).to_le_bytes(), *time);
        assert!(entry_of.contains_key(&key), "{id:?} cannot be found");
    }
    events.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    (events, latest)
}

/// Returns what a server holds for `k`, and its time in milliseconds.
pub(crate) fn look(store: &WireStore<Raw>) -> (Held, u64) {
    let prefix = store.options().prefix();
    let key = format!("{prefix}:plans:schedule:v1-caller:{{k}}");
    let look = store.engine().look(key.as_bytes());
    let (events, latest) = match &look.value {
        Reply::Bulk(state) => decode(state),
        fields => decode_hash(fields.items()),
    };
    let held = Held {
        events,
        latest,
        ends: look.ends,
        changes: look.changes,
    };
    (held, look.millis)
}

/// Returns the events of the machine's state at an instant, which it shows to a list.
fn shown(
    terms: &schedule::Terms,
    state: &schedule::State,
    at: Timestamp,
) -> Vec<(Vec<u8>, u64, u64)> {
    let mut state = state.clone();
    let answer = schedule::Request::new(terms, "k", list(0, MAX)).decide_on(&mut state, at);
    let Answer::Events(events) = answer else {
        panic!("{answer:?}");
    };
    let events = events.iter().map(|event| {
        let time = event.time().as_micros();
        (event.id().to_vec(), time, event.weight())
    });
    events.collect()
}

fn run(flavor: Flavor, store: &WireStore<Raw>, family: &Family, start: u64, steps: &[Step]) {
    let mut state = schedule::State::default();
    let mut clock = start;
    for step in steps {
        let terms = &family.terms[step.terms % family.terms.len()];
        let moved = i128::from(clock) + i128::from(step.moved) * i128::from(family.unit);
        clock = u64::try_from(moved.clamp(0, MAX.into())).unwrap();
        let time = |units: i64| {
            let at = i128::from(clock) + i128::from(units) * i128::from(family.unit);
            Timestamp::from_micros(u64::try_from(at.clamp(0, MAX.into())).unwrap()).unwrap()
        };
        let at = time(0);
        let mut request = schedule::Request::new(terms, "k", operation(&step.act, time)).at(at);
        let mut widenings = 0;
        loop {
            let what = format!("{step:?} at {clock} by {terms:?}, {flavor}");
            let (before, sent) = look(store);
            let old = state.clone();
            let expected = request.decide_on(&mut state, at);
            let answer = now(store.schedule(&request)).unwrap_or_else(|error| {
                panic!("{what}: {error}, expected {expected:?}");
            });
            let (after, received) = look(store);
            assert_eq!(answer, expected, "{what}");
            // A server drops what is over by these terms, although others may count it again. The
            // machine drops it when its store does.
            if after.ends == 0 && state.is_fresh(terms, at) {
                state = schedule::State::default();
            }
            // The machine drops a state without events; a server keeps nothing of it either.
            assert_eq!(
                shown(terms, &state, at),
                {
                    let events = after.events.iter().cloned();
                    let until = at.as_micros().max(after.latest);
                    let gone = until.checked_sub(kept_us(terms));
                    // A list ends before its last instant.
                    let kept = events
                        .filter(|event| gone.is_none_or(|gone| event.1 > gone) && event.1 < MAX);
                    kept.collect::<Vec<_>>()
                },
                "{what}"
            );
            assert_eq!(after.events.len(), state.len(), "{what}");
            let writes = state != old;
            assert_eq!(after.changes > before.changes, writes, "{what}");
            if !writes {
                assert_eq!(after, before, "{what}");
            } else if let Some(last) = after.events.last() {
                // Negative for an event that is over, which only a cancelled one can leave behind.
                let needs = i64::try_from(last.1 + kept_us(terms)).unwrap();
                let needs = needs - i64::try_from(clock).unwrap();
                let needs = needs.div_euclid(1_000) + i64::from(needs.rem_euclid(1_000) > 0);
                // One more, because `PEXPIRE` deletes a key at once if its last millisecond begins while
                // the command runs.
                let lives = u64::try_from(needs + SLACK).unwrap_or(0) + 1;
                if lives < 100 {
                    std::thread::sleep(std::time::Duration::from_millis(lives + 3));
                    state = schedule::State::default();
                }
                assert_ends(after.ends, lives, [sent, received], &what);
            }
            match answer {
                Answer::Uncovered(at) => request.widen(at),
                _ => break,
            }
            widenings += 1;
            assert!(widenings < 24, "{what}");
        }
    }
}

/// Returns how long an event is kept after its time: the longest window, and the tolerance.
fn kept_us(terms: &schedule::Terms) -> u64 {
    let counting = terms.quotas().iter();
    let counting = counting.filter(|quota| quota.closed_times().is_none());
    let longest = counting.map(|quota| {
        let text = quota.to_string();
        let (_, window) = text.split_once('/').unwrap();
        match window.split_once('@') {
            Some(("day", _)) => 50 * HOUR,
            Some(("week", _)) => (8 * 24 + 2) * HOUR,
            Some(("month", _)) => (32 * 24 + 2) * HOUR,
            _ => {
                let quota: tollgate_core::Quota = text.parse().unwrap();
                u64::try_from(quota.window().as_micros()).unwrap()
            }
        }
    });
    let tolerance = u64::try_from(terms.tolerance().as_micros()).unwrap();
    longest.max().unwrap() + tolerance
}

/// Up to 128 events are a string, and there are never more here.
#[test]
fn histories_of_strings_leave_what_the_machine_says() {
    play(128);
}

#[test]
fn histories_of_chunks_leave_what_the_machine_says() {
    play(0);
}

#[test]
fn histories_of_strings_that_become_chunks_leave_what_the_machine_says() {
    play(3);
}

/// Plays histories in which up to `small` events are a string.
fn play(small: u32) {
    let config = config(400);
    // Servers of this test's own, because it counts what they write.
    let stores: Vec<_> = Flavor::chosen()
        .into_iter()
        .map(|flavor| {
            let server = Server::start(flavor);
            let raw = Raw::over(server.connection(), None);
            let options = Options::new().with_small_schedule(small);
            let options = options.with_schedule_chunk(if small == 0 { 8 } else { 2 });
            (flavor, WireStore::new(raw, options), server)
        })
        .collect();
    let families = families();
    const STARTS: [u64; 7] = [START, START, START, 0, 30, 8_760 * HOUR, MAX - 100];
    let histories = (
        0..stores.len(),
        0..families.len(),
        select(&STARTS[..]),
        steps(),
    );
    TestRunner::new(config)
        .run(&histories, |(store, family, start, steps)| {
            let (flavor, store, server) = &stores[store];
            // The last day of all time has no end, so no request brings it.
            let has_days = families[family].unit == HOUR;
            let start = if has_days { start.min(START) } else { start };
            server.command(&["FLUSHALL"]);
            run(*flavor, store, &families[family], start, &steps);
            Ok(())
        })
        .unwrap();
    assert_mostly_on_time();
}

/// Stores of each server: one that holds events as strings, and one that holds them as chunks.
struct Stores(Vec<WireStore<Raw>>);

impl Stores {
    fn open() -> Self {
        let stores = Flavor::chosen().into_iter().flat_map(|flavor| {
            [128, 0].map(|small| {
                let options = Options::new().with_small_schedule(small);
                store_with(flavor, options.with_schedule_chunk(4))
            })
        });
        Self(stores.collect())
    }

    /// Asks every store and the machine for each operation, by its terms and at its instant, and
    /// returns the last answer.
    fn by(&self, calls: &[(&schedule::Terms, u64, Operation<'static>)]) -> Answer {
        let mut last = None;
        for store in &self.0 {
            let mut state = schedule::State::default();
            now(store.reset_schedule(calls[0].0, "k".into())).unwrap();
            for (terms, clock, operation) in calls {
                let request = schedule::Request::new(terms, "k", operation.clone());
                let request = request.at(stamp(*clock));
                let expected = request.decide_on(&mut state, stamp(*clock));
                let answer = now(store.schedule(&request)).unwrap();
                let prefix = store.options().prefix();
                assert_eq!(answer, expected, "{request:?} of {prefix}");
                last = Some(answer);
            }
        }
        last.unwrap()
    }

    /// The same, by one quota or several and at one instant.
    fn at<const N: usize>(
        &self,
        quotas: &[&str],
        clock: u64,
        operations: [Operation<'static>; N],
    ) -> Answer {
        let terms = terms(quotas);
        self.by(&operations.map(|operation| (&terms, clock, operation)))
    }
}

/// Returns terms with a tolerance of 20 microseconds, if their windows are short.
fn terms(quotas: &[&str]) -> schedule::Terms {
    let terms = schedule::Terms::new("plans", quotas.iter().copied()).unwrap();
    match quotas[0].ends_with("us") {
        true => terms.with_tolerance(micros(20, 1)).unwrap(),
        false => terms,
    }
}

pub(crate) fn id(number: u64) -> &'static str {
    format!("id{number}").leak()
}

pub(crate) fn add(events: impl IntoIterator<Item = Event<'static>>) -> Operation<'static> {
    Operation::Add(events.into_iter().collect())
}

pub(crate) fn next(micros: u64, weight: u64) -> Operation<'static> {
    let from = stamp(micros);
    Operation::NextFree { from, weight }
}

pub(crate) fn list(from: u64, until: u64) -> Operation<'static> {
    let (from, until) = (stamp(from), stamp(until));
    Operation::List { from, until }
}

pub(crate) fn found(micros: u64) -> Answer {
    Answer::Found(Some(stamp(micros)))
}

/// Returns how many events a list has.
#[track_caller]
pub(crate) fn listed(answer: Answer) -> usize {
    match answer {
        Answer::Events(events) => events.len(),
        other => panic!("{other:?}"),
    }
}

/// Returns which event was refused, and the next free time.
#[track_caller]
pub(crate) fn refused(answer: Answer) -> (usize, Option<u64>) {
    match answer {
        Answer::Refused { index, refusal } => {
            (index, refusal.next_free().map(Timestamp::as_micros))
        }
        other => panic!("{other:?}"),
    }
}

fn event(id: &'static str, micros: u64) -> Event<'static> {
    Event::new(id, stamp(micros))
}

/// Events of one call count for each other at every distance within a window and a day, also beside
/// an event that is there already.
#[test]
fn events_of_one_call_count_for_each_other_to_the_microsecond() {
    let stores = Stores::open();
    // The first instant of a day.
    let start = START / DAY * DAY + DAY;
    for (quota, window) in [("1/10us", 10), ("1/day@UTC", DAY)] {
        for (apart, planned) in [
            (0, false),
            (1, false),
            (window - 1, false),
            (window, true),
            (window + 1, true),
        ] {
            for [first, second] in [[start, start + apart], [start + apart, start]] {
                let batch = || add([event("a", first), event("b", second)]);
                let far = add([event("far", start + 4 * window)]);
                for answer in [
                    stores.at(&[quota], start, [batch()]),
                    stores.at(&[quota], start, [far, batch()]),
                ] {
                    assert_eq!(answer == Answer::Added(2), planned, "{quota} {apart}");
                }
            }
        }
    }
    // Each weight stays with its event, in whatever order the events of one call come.
    let heavy = |id, at, weight| event(id, START + at).with_weight(weight);
    for (last, planned) in [(2, true), (3, false)] {
        let batch = || {
            let events = [heavy("a", 20, 3), heavy("b", 10, 1), heavy("c", 22, last)];
            add(events.into_iter().chain([heavy("d", 0, 1)]))
        };
        let there = add([heavy("there", 60, 1)]);
        for answer in [
            stores.at(&["5/10us"], START, [batch()]),
            stores.at(&["5/10us"], START, [there, batch()]),
        ] {
            assert_eq!(answer == Answer::Added(4), planned, "{last}");
        }
    }
    // A day of no events is no closed time: it has a weight, which is too much.
    let events = || add([1, 2].map(|number| event(id(number), START + number * HOUR)));
    let answer = stores.at(&["2/1h", "0/day@UTC"], START, [events()]);
    assert_eq!(refused(answer), (0, None));
    // In the last month of all time, a request brings no other one: 2 June 2255.
    let day = 104_246 * DAY;
    let month = terms(&["1/month@UTC"]);
    let month = month.with_horizon(micros(48, HOUR)).unwrap();
    let [one, two] = ["a", "b"].map(|id| (&month, day, add([event(id, day)])));
    assert_eq!(stores.by(std::slice::from_ref(&one)), Answer::Added(1));
    assert_eq!(refused(stores.by(&[one, two])).0, 0);
}

/// An event of another weight is another event, events of one time are listed by id, and an id that
/// contains what looks like the beginning of another id is not mistaken for it.
#[test]
fn weights_and_ids_tell_events_apart() {
    let stores = Stores::open();
    let hour = &["9/1h"];
    for (first, second) in [(1, 2), (2, 1), (2, 3)] {
        let add = |id, weight| add([event(id, START).with_weight(weight)]);
        let adds = || [add("b", first), add("a", 1), add("b", second)];
        assert_eq!(refused(stores.at(hour, START, adds())).0, 0);
        let [one, two, three] = adds();
        let all = [one, two, three, list(0, MAX)];
        let Answer::Events(events) = stores.at(hour, START, all) else {
            panic!("no list");
        };
        assert!(events.iter().map(|event| event.id()).eq([b"a", b"b"]));
    }
    for (first, second) in [
        ("\u{1}a", "a"),
        ("x\u{1}", "\u{1}"),
        ("\u{1}\u{1}", "\u{1}"),
    ] {
        let [first, second] =
            [(first, START), (second, START + 1)].map(|(id, at)| move || add([event(id, at)]));
        let new = stores.at(hour, START, [first(), second()]);
        assert_eq!(new, Answer::Added(1));
        let again = stores.at(hour, START, [first(), second(), second()]);
        assert_eq!(again, Answer::Added(0));
    }
}

/// Searches and lists read 64 events at a time, and count the last ones, too.
#[test]
fn more_events_than_are_read_at_once_are_counted_and_listed() {
    let stores = Stores::open();
    let all = add((0..65).map(|number| event(id(number), START + number)));
    let calls = [all, next(START, 1)];
    assert_eq!(stores.at(&["65/1h"], START, calls), found(START + HOUR));
    // A search follows a chain of events that is longer, and finds its end.
    let quotas = &["1/10us", "1000/100ms"];
    let chain = || add((0..70).map(|number| event(id(number), START + 10 * number)));
    let answer = stores.at(quotas, START, [chain(), next(START + 5, 1)]);
    assert_eq!(answer, found(START + 700));
    // Events of this call come in between, before and after.
    for first in [START + 2_000, START - 15] {
        let batch = add([event("a", first), event("b", START + 655)]);
        let answer = stores.at(quotas, START, [chain(), batch]);
        assert_eq!(refused(answer).0, 1);
    }
    // Of other weights than 1, in one day.
    let day = START / DAY * DAY + DAY;
    for (quota, free) in [("140/day@UTC", day + DAY), ("141/day@UTC", day)] {
        let heavy = |number| event(id(number), day + number).with_weight(2);
        let calls = [add((0..70).map(heavy)), next(day, 1)];
        assert_eq!(stores.at(&[quota], START, calls), found(free));
    }
    for heavy in [1, 2] {
        for count in [63, 64, 65, 128] {
            let event = |number| event(id(number), START + number).with_weight(heavy);
            let [first, rest] = [0..60, 60..count].map(|numbers| add(numbers.map(event)));
            let answer = stores.at(&["1000/1h"], START, [first, rest, list(0, MAX)]);
            assert_eq!(listed(answer) as u64, count);
        }
    }
}

/// An event that is moved does not stand in its own way, in whatever part of its day it is.
#[test]
fn a_day_does_not_count_the_event_that_is_moved() {
    let stores = Stores::open();
    let day = START / DAY * DAY + 2 * DAY;
    let [one, three] = ["1/day@UTC", "3/day@UTC"].map(|quota| terms(&[quota]));
    // The terms by which events are planned, another event, the one that is moved, and whether it
    // may be.
    let cases: [(&schedule::Terms, Option<u64>, u64, bool); 5] = [
        (&one, None, day, true),
        (&one, None, day + DAY - 1, true),
        (&one, Some(day + HOUR), day + DAY, false),
        (&one, Some(day + HOUR), day - 1, false),
        (&three, Some(day + HOUR), day, false),
    ];
    for (before, other, at, is_planned) in cases {
        let other = other.map(|other| event("other", other));
        let there = [event("far", day + 20 * DAY), event("moved", at)];
        let there = there.into_iter().chain(other);
        let mut calls: Vec<_> = there.map(|event| (before, START, add([event]))).collect();
        let to = Operation::Reschedule(event("moved", day + 2 * HOUR));
        calls.push((&one, START, to));
        let is_refused = matches!(stores.by(&calls), Answer::Refused { .. });
        assert_eq!(is_refused, !is_planned, "{at}");
    }
}

/// An event counts in the day and the week that begin with it, not in those that end with it, also once a
/// search has looked up so many of them that it reads all events.
#[test]
fn periods_have_their_first_instant_but_not_their_end() {
    let stores = Stores::open();
    let days_to_monday = 7 - (START / DAY + 3) % 7;
    let day = |number: u64| (START / DAY + days_to_monday + number) * DAY;
    for full in 0..7 {
        // Nine days have an event at either end, and the first ones one more.
        let ends = (0..9).flat_map(|number| [day(number), day(number + 1) - 1]);
        let times = ends.chain((0..full).map(|number| day(number) + HOUR));
        let events = || {
            times
                .clone()
                .zip(0..)
                .map(|(at, number)| event(id(number), at))
        };
        let week = format!("{}/week@UTC", 14 + full);
        for (quotas, weight, free) in [
            (&["3/day@UTC"][..], 1, full),
            (&["3/day@UTC"], 2, 9),
            (&["3/day@UTC", &week], 1, 7),
        ] {
            let answer = stores.at(quotas, START, [add(events()), next(day(0), weight)]);
            assert_eq!(answer, found(day(free)), "{quotas:?}, {weight}, {full}");
        }
    }
}

/// A search moves to the last time there is by the second quota, where the first has no room.
#[test]
fn searches_end_with_the_last_time_there_is() {
    let stores = Stores::open();
    let short = schedule::Terms::new("plans", ["2/10us", "3/25us"]).unwrap();
    let short = short.with_tolerance(micros(100, 1)).unwrap();
    let short = short.with_horizon(micros(100, 1)).unwrap();
    let events = [("a", 75), ("b", 95), ("c", 95)].map(|(id, at)| event(id, START + at));
    let calls = [add(events), next(START + 80, 1)];
    let answer = stores.by(&calls.map(|operation| (&short, START, operation)));
    assert_eq!(answer, Answer::Found(None));
    // What a server holds beside events is no event, not even at the epoch; and once no event is left
    // whose weight is not 1, each of the others counts once.
    let heavy = || add([event("a", 40).with_weight(2)]);
    let answer = stores.at(&["2/10us"], 15, [heavy(), next(5, 2)]);
    assert_eq!(answer, found(5));
    let light = add([event("b", 80), event("c", 81)]);
    let calls = [heavy(), light, Operation::Cancel(b"a"), next(72, 1)];
    assert_eq!(stores.at(&["2/10us"], 0, calls), found(90));
}

/// A list begins with its first instant and the first event that still counts, and ends before its
/// end; an event is remembered for as long as a window around it can hold a time that is not past.
#[test]
fn lists_have_what_still_counts_to_the_microsecond() {
    let stores = Stores::open();
    let terms = terms(&["9/10ms"]);
    let terms = terms.with_tolerance(micros(5, 1)).unwrap();
    let events = || add([event("a", START), event("b", START + 1)]);
    for (begin, end, later, expected) in [
        (START, MAX, 0, 2),
        (START + 1, MAX, 0, 1),
        (START + 2, MAX, 0, 0),
        (START, START + 1, 0, 1),
        (START, START + 2, 0, 2),
        (0, MAX, 10_004, 2),
        (0, MAX, 10_005, 1),
        (0, MAX, 10_006, 0),
    ] {
        let calls = [(START, events()), (START + later, list(begin, end))];
        let answer = stores.by(&calls.map(|(at, operation)| (&terms, at, operation)));
        assert_eq!(listed(answer), expected, "{begin} {end} {later}");
    }
    for (later, was_planned) in [(10_004, true), (10_005, false)] {
        let calls = [(START, events()), (START + later, Operation::Cancel(b"a"))];
        let answer = stores.by(&calls.map(|(at, operation)| (&terms, at, operation)));
        assert_eq!(answer, Answer::Cancelled(was_planned), "{later}");
    }
}

/// Searches pass closed times over, from one to the next and to where none is known.
#[test]
fn closed_times_are_passed_over() {
    let stores = Stores::open();
    let midnight = START / DAY * DAY;
    let hour = |of: u64| midnight + of * HOUR;
    let rules = &[
        "1/1h",
        "closed 22:00-08:00@UTC",
        "closed 08:00-09:00@UTC",
        "3/day@UTC",
    ];
    // A day that is full, between nights.
    let full = || add([33, 35, 45].map(|at| event(id(at), hour(at))));
    let none = || Operation::Cancel(b"none");
    for (before, search, expected) in [
        (none(), next(hour(22), 1), hour(33)),
        (none(), next(hour(22) - 1, 1), hour(22) - 1),
        (none(), next(hour(33), 1), hour(33)),
        (full(), next(hour(24), 1), hour(57)),
    ] {
        let answer = stores.at(rules, hour(10), [before, search.clone()]);
        assert_eq!(answer, found(expected), "{search:?}");
    }
    // Of several events, the first of the call that is at night is refused.
    let events = [(5, 60), (1, 50), (4, 49), (2, 58), (3, 36)];
    let events = events.map(|(number, at)| event(id(number), hour(at)));
    let answer = stores.at(rules, hour(10), [add(events)]);
    assert_eq!(refused(answer), (1, Some(hour(57))));
}

/// What a server holds has no weights until an event has another than 1, and becomes a hash when there
/// are more events than a string may hold.
#[test]
fn events_of_weight_one_take_no_room_for_weights() {
    for flavor in Flavor::chosen() {
        let store = store_with(flavor, Options::new().with_small_schedule(2));
        let stores = Stores(vec![store]);
        let size = |events: u64, command: &[u8], field: &[&[u8]]| {
            let events = ["a", "b", "c", "d"].into_iter().zip(START..START + events);
            let events = events.map(|(id, at)| add([event(id, at)]));
            let terms = terms(&["9/1h"]);
            stores.by(&events.map(|add| (&terms, START, add)).collect::<Vec<_>>());
            let raw = stores.0[0].engine();
            let key = raw.keys(stores.0[0].options()).remove(0);
            let words = [&[command, &key], field].concat();
            raw.command(&words).integer().unwrap()
        };
        // The time, and a byte for the length of the id, which has one.
        assert_eq!(size(2, b"STRLEN", &[]), 14 + 2 * (8 + 2), "{flavor}");
        // The times of the first chunk.
        assert_eq!(size(3, b"HSTRLEN", &[b"t0"]), 3 * 8, "{flavor}");
        assert_eq!(size(4, b"HSTRLEN", &[b"t0"]), 4 * 8, "{flavor}");
    }
}
