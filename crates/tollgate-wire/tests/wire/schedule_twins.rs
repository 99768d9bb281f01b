//! The script of schedules against the machine: every answer, everything that a server holds after
//! it, and for how long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use tollgate_core::Timestamp;
use tollgate_core::schedule::{self, Event};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Options, WireStore};

use crate::engine::{Raw, now};

/// What a store keeps events longer for that were planned at a caller's instant, in milliseconds.
const SLACK: i64 = 600_000;
const START: u64 = 1_780_000_000_000_000;
const HOUR: u64 = 3_600_000_000;
/// The last instant that there is.
const MAX: u64 = (1 << 53) - 1;

/// schedule::Terms that may take each other's place while a schedule is in use: other amounts, windows,
/// horizons and tolerances, and calendars that come and go. All times are multiples of the unit.
struct Family {
    unit: u64,
    terms: Vec<schedule::Terms>,
}

fn micros(units: u64, unit: u64) -> std::time::Duration {
    std::time::Duration::from_micros(units * unit)
}

fn families() -> Vec<Family> {
    let terms = |quotas: &[&str], horizon: u64, tolerance: u64, unit: u64| {
        let terms = schedule::Terms::new("plans", quotas.iter().copied()).unwrap();
        let terms = terms.with_tolerance(micros(tolerance, unit)).unwrap();
        terms.with_horizon(micros(horizon, unit)).unwrap()
    };
    vec![
        Family {
            unit: 1,
            terms: vec![
                terms(&["2/10us", "3/25us"], 60, 3, 1),
                terms(&["1/10us", "3/25us"], 60, 3, 1),
                terms(&["5/7us"], 40, 0, 1),
                terms(&["2/40us", "0/1us"], 60, 3, 1),
                terms(&["4/30us", "2/3us", "6/60us"], 90, 12, 1),
            ],
        },
        Family {
            unit: HOUR,
            terms: vec![
                terms(&["2/10h", "3/day@Europe/Berlin"], 24 * 40, 2, HOUR),
                terms(&["2/10h"], 24 * 40, 2, HOUR),
                terms(
                    &["2/day@Asia/Kolkata", "5/week@Europe/Berlin"],
                    24 * 90,
                    30,
                    HOUR,
                ),
                terms(&["9/month@America/New_York", "3/1d"], 24 * 60, 0, HOUR),
            ],
        },
        // Closed times before and after quotas, by day, weekday and date.
        Family {
            unit: HOUR,
            terms: vec![
                terms(
                    &[
                        "closed 22:00-08:00@Europe/Berlin",
                        "2/10h",
                        "closed sat,sun@UTC",
                    ],
                    24 * 40,
                    2,
                    HOUR,
                ),
                terms(
                    &[
                        "2/day@Asia/Kolkata",
                        "closed 09:00-17:00@America/New_York",
                        "9/month@UTC",
                    ],
                    24 * 90,
                    30,
                    HOUR,
                ),
                terms(
                    &["3/1d", "closed 2026-01-01..2026-12-31@UTC"],
                    24 * 300,
                    1,
                    HOUR,
                ),
                terms(&["closed 1970-01-01@UTC", "2/10h"], 24 * 60, 9, HOUR),
                terms(&["2/10h"], 24 * 40, 2, HOUR),
            ],
        },
        // Windows of whole milliseconds and less.
        Family {
            unit: 700,
            terms: vec![
                terms(&["2/7ms", "3/20ms"], 60, 3, 700),
                terms(&["3/7500us"], 60, 3, 700),
            ],
        },
    ]
}

/// A step: the index of the terms, how far the clock moves before, and the request.
#[derive(Clone, Debug)]
struct Step {
    terms: usize,
    moved: i64,
    act: Act,
    wants_latest: bool,
}

/// An operation, with times relative to the clock.
#[derive(Clone, Debug)]
enum Act {
    Add(Vec<(u8, i64, u64)>),
    Reschedule(u8, i64),
    Cancel(u8),
    NextFree(i64, u64),
    LatestFree(i64, u64),
    ReserveNext(u8, i64, u64),
    List(i64, i64),
}

fn act() -> impl Strategy<Value = Act> {
    let id = 0_u8..8;
    let time = || prop_oneof![12 => -4_i64..70, 2 => -30_i64..120, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    let weight =
        || prop_oneof![6 => Just(1_u64), 2 => 2_u64..4, 1 => select(&[1_001, MAX, u64::MAX][..])];
    prop_oneof![
        6 => (id.clone(), time(), weight()).prop_map(|event| Act::Add(vec![event])),
        2 => prop::collection::vec((id.clone(), time(), weight()), 1..5).prop_map(|mut events| {
            events.sort_unstable();
            events.dedup_by_key(|event| event.0);
            Act::Add(events)
        }),
        3 => (id.clone(), time()).prop_map(|(id, time)| Act::Reschedule(id, time)),
        3 => id.clone().prop_map(Act::Cancel),
        2 => (time(), weight()).prop_map(|(from, weight)| Act::NextFree(from, weight)),
        2 => (time(), weight()).prop_map(|(until, weight)| Act::LatestFree(until, weight)),
        5 => (id, time(), weight()).prop_map(|(id, from, weight)| Act::ReserveNext(id, from, weight)),
        1 => (time(), time()).prop_map(|(from, until)| Act::List(from, until)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![5 => Just(0_i64), 4 => 1_i64..8, 2 => 8_i64..60, 2 => -12_i64..0];
    let terms = prop_oneof![6 => Just(0_usize), 2 => 1_usize..5];
    let step = (terms, moved, act(), any::<bool>());
    let step = step.prop_map(|(terms, moved, act, wants_latest)| Step {
        terms,
        moved,
        act,
        wants_latest,
    });
    prop::collection::vec(step, 1..30)
}

const IDS: [&str; 8] = ["-", "c", "w", "e", "w1", "1", "a\0b", "\u{e9}"];

fn operation(act: &Act, time: impl Fn(i64) -> Timestamp) -> schedule::Operation<'static> {
    let event = |id: u8, at: i64, weight: u64| {
        Event::new(IDS[usize::from(id)], time(at)).with_weight(weight)
    };
    match *act {
        Act::Add(ref events) => {
            let events = events
                .iter()
                .map(|(id, at, weight)| event(*id, *at, *weight));
            schedule::Operation::Add(events.collect())
        }
        Act::Reschedule(id, to) => schedule::Operation::Reschedule(event(id, to, 1)),
        Act::Cancel(id) => schedule::Operation::Cancel(IDS[usize::from(id)].as_bytes()),
        Act::NextFree(from, weight) => schedule::Operation::NextFree {
            from: time(from),
            weight,
        },
        Act::LatestFree(until, weight) => schedule::Operation::LatestFree {
            until: time(until),
            weight,
        },
        Act::ReserveNext(id, from, weight) => {
            schedule::Operation::ReserveNext(event(id, from, weight))
        }
        Act::List(from, until) => schedule::Operation::List {
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
    let mut events: Vec<_> = events
        .map(|((id, time), weight)| (id, time, weight))
        .collect();
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
    let all = schedule::Operation::List {
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::MAX,
    };
    let mut state = state.clone();
    let answer = schedule::Request::new(terms, "k", all).decide_on(&mut state, at);
    let schedule::Answer::Events(events) = answer else {
        panic!("{answer:?}");
    };
    let events = events.iter();
    events
        .map(|event| {
            (
                event.id().to_vec(),
                event.time().as_micros(),
                event.weight(),
            )
        })
        .collect()
}

/// How many keys ended when they should, and how many a millisecond or two early, because a server
/// reads its clock less often.
static ON_TIME: AtomicU64 = AtomicU64::new(0);
static EARLY: AtomicU64 = AtomicU64::new(0);

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
        if step.wants_latest {
            request = request.with_latest();
        }
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
                    let gone = gone(terms, at.as_micros().max(after.latest));
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
                let lives = u64::try_from(needs + SLACK).unwrap_or(0).max(1);
                // Servers read the clock that keys expire by less often than `TIME` does, and the
                // oldest tells only how long a key has left.
                let slack = 2;
                if lives < 100 {
                    std::thread::sleep(std::time::Duration::from_millis(lives + 3));
                    state = schedule::State::default();
                }
                let is_early = after.ends < lives + sent;
                [&ON_TIME, &EARLY][usize::from(is_early)].fetch_add(1, Relaxed);
                assert!(
                    (sent - slack..=received + slack).contains(&(after.ends - lives)),
                    "{what}: ends {} ms, not {lives} after {sent} to {received}",
                    after.ends
                );
            }
            match answer {
                schedule::Answer::Uncovered(at) => request.widen(at),
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

fn gone(terms: &schedule::Terms, now: u64) -> Option<u64> {
    now.checked_sub(kept_us(terms))
}

/// Up to so many events are a string: here, always.
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
    let config = ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // Servers of this test's own, because it counts what they write.
    let stores: Vec<_> = Flavor::chosen()
        .into_iter()
        .map(|flavor| {
            let server = Server::start(flavor);
            let raw = Raw::over(server.connection(), None);
            let options = Options::new()
                .with_small_schedule(small)
                .with_schedule_chunk(2);
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
    let (on_time, early) = (ON_TIME.load(Relaxed), EARLY.load(Relaxed));
    assert!(on_time > 4 * early, "{early} early, {on_time} on time");
}

/// Asks both for each operation at `clock`, and returns the last answer.
fn both(
    store: &WireStore<Raw>,
    terms: &schedule::Terms,
    clock: u64,
    operations: impl IntoIterator<Item = schedule::Operation<'static>>,
) -> schedule::Answer {
    let operations = operations.into_iter().map(|operation| (clock, operation));
    both_at(store, terms, operations)
}

/// Asks both for each operation at its instant, and returns the last answer.
fn both_at(
    store: &WireStore<Raw>,
    terms: &schedule::Terms,
    operations: impl IntoIterator<Item = (u64, schedule::Operation<'static>)>,
) -> schedule::Answer {
    let operations = operations.into_iter();
    both_by(
        store,
        operations.map(|(clock, operation)| (terms, clock, operation)),
    )
}

/// Asks both for each operation by its terms and at its instant, and returns the last answer.
fn both_by<'t>(
    store: &WireStore<Raw>,
    operations: impl IntoIterator<Item = (&'t schedule::Terms, u64, schedule::Operation<'static>)>,
) -> schedule::Answer {
    let mut state = schedule::State::default();
    let mut last = None;
    for (terms, clock, operation) in operations {
        if last.is_none() {
            now(store.reset_schedule(terms, "k".into())).unwrap();
        }
        let at = Timestamp::from_micros(clock).unwrap();
        let request = schedule::Request::new(terms, "k", operation);
        let request = request.with_latest().at(at);
        let expected = request.decide_on(&mut state, at);
        let answer = now(store.schedule(&request)).unwrap();
        assert_eq!(answer, expected, "{request:?}");
        last = Some(answer);
    }
    last.unwrap()
}

/// Returns two stores: one that holds events as strings, and one that holds them as chunks.
fn forms(flavor: Flavor) -> [WireStore<Raw>; 2] {
    [128, 0].map(|small| {
        let options = Options::new().with_small_schedule(small);
        crate::engine::store_with(flavor, options.with_schedule_chunk(4))
    })
}

/// Returns an id for each number.
fn id(number: u64) -> &'static str {
    format!("id{number}").leak()
}

fn add(events: impl IntoIterator<Item = Event<'static>>) -> schedule::Operation<'static> {
    schedule::Operation::Add(events.into_iter().collect())
}

fn next(micros: u64, weight: u64) -> schedule::Operation<'static> {
    let from = Timestamp::from_micros(micros).unwrap();
    schedule::Operation::NextFree { from, weight }
}

fn latest(micros: u64, weight: u64) -> schedule::Operation<'static> {
    let until = Timestamp::from_micros(micros).unwrap();
    schedule::Operation::LatestFree { until, weight }
}

fn found(micros: u64) -> schedule::Answer {
    schedule::Answer::Found(Some(Timestamp::from_micros(micros).unwrap()))
}

fn event(id: &'static str, micros: u64) -> Event<'static> {
    Event::new(id, Timestamp::from_micros(micros).unwrap())
}

/// Events of one call count for each other at every distance within a window and a day.
#[test]
fn events_of_one_call_count_for_each_other_to_the_microsecond() {
    const DAY: u64 = 24 * HOUR;
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            for (quota, window) in [("1/10us", 10), ("1/day@UTC", DAY)] {
                let terms = schedule::Terms::new("plans", [quota]).unwrap();
                let terms = terms.with_tolerance(micros(0, 1)).unwrap();
                // The first instant of a day.
                let start = START / DAY * DAY + DAY;
                for (apart, planned) in [
                    (0, false),
                    (1, false),
                    (window - 1, false),
                    (window, true),
                    (window + 1, true),
                ] {
                    for [first, second] in [[start, start + apart], [start + apart, start]] {
                        let batch = vec![event("a", first), event("b", second)];
                        // With an event that is there already, they are added to a set.
                        for far in [None, Some(event("far", start + 4 * window))] {
                            let far = far.map(|far| add([far]));
                            let calls = far.into_iter().chain([add(batch.clone())]);
                            let answer = both(&store, &terms, start, calls);
                            let is_planned = answer == schedule::Answer::Added(2);
                            assert_eq!(is_planned, planned, "{quota} {apart} {flavor}: {answer:?}");
                        }
                    }
                }
            }
        }
    }
}

/// An event of another weight is another event, and events of one time are listed by id.
#[test]
fn weights_and_ids_tell_events_apart() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["9/1h"]).unwrap();
            let all = schedule::Operation::List {
                from: Timestamp::UNIX_EPOCH,
                until: Timestamp::MAX,
            };
            for (first, second) in [(1, 2), (2, 1), (2, 3)] {
                let add = |id, weight: u64| {
                    schedule::Operation::Add(vec![event(id, START).with_weight(weight)])
                };
                let adds = [add("b", first), add("a", 1), add("b", second)];
                let answer = both(&store, &terms, START, adds.clone());
                assert!(
                    matches!(answer, schedule::Answer::Refused { .. }),
                    "{answer:?}"
                );
                let answer = both(&store, &terms, START, adds.into_iter().chain([all.clone()]));
                let schedule::Answer::Events(events) = answer else {
                    panic!("{answer:?}");
                };
                assert!(events.iter().map(|event| event.id()).eq([b"a", b"b"]));
            }
        }
    }
}

/// A search reads 64 events at a time, and counts the last ones, too.
#[test]
fn a_window_with_more_events_than_are_read_at_once_is_full() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["65/1h"]).unwrap();
            let all = (0..65).map(|number| event(id(number), START + number));
            let full = [add(all), latest(START + HOUR - 1, 1), next(START, 1)];
            let answer = both(&store, &terms, START, full);
            assert_eq!(answer, found(START + HOUR), "{flavor}");
        }
    }
}

/// A search follows a chain of events that is longer than what is read at once, and finds its end.
#[test]
fn a_search_reads_on_in_both_directions() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["1/10us", "1000/100ms"]).unwrap();
            let terms = terms.with_tolerance(micros(1_000, 1)).unwrap();
            let chain = || add((0..70).map(|number| event(id(number), START + 10 * number)));
            for (search, end) in [
                (next(START + 5, 1), START + 700),
                (latest(START + 695, 1), START - 10),
            ] {
                let answer = both(&store, &terms, START, [chain(), search]);
                assert_eq!(answer, found(end), "{flavor}");
            }
            // Events of this call come in between, before and after.
            for first in [START + 2_000, START - 50] {
                let batch = add([event("a", first), event("b", START + 655)]);
                let answer = both(&store, &terms, START, [chain(), batch]);
                let is_refused = matches!(answer, schedule::Answer::Refused { index: 1, .. });
                assert!(is_refused, "{answer:?}, {flavor}");
            }
        }
    }
}

/// Events of other weights than 1 in one day: more than are read at once.
#[test]
fn a_day_with_more_events_than_are_read_at_once_is_summed_up() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            for (quota, is_full) in [("140/day@UTC", true), ("141/day@UTC", false)] {
                let terms = schedule::Terms::new("plans", [quota]).unwrap();
                let day = START / (24 * HOUR) * 24 * HOUR + 24 * HOUR;
                let heavy = |number| event(id(number), day + number).with_weight(2);
                let all = add((0..70).map(heavy));
                let answer = both(&store, &terms, START, [all, next(day, 1)]);
                let free = day + if is_full { 24 * HOUR } else { 0 };
                assert_eq!(answer, found(free), "{quota} {flavor}");
            }
        }
    }
}

/// An event that is moved does not stand in its own way, in whatever part of its day it is.
#[test]
fn a_day_does_not_count_the_event_that_is_moved() {
    const DAY: u64 = 24 * HOUR;
    let day = START / DAY * DAY + 2 * DAY;
    let terms =
        ["1/day@UTC", "3/day@UTC"].map(|quota| schedule::Terms::new("plans", [quota]).unwrap());
    let [one, three] = &terms;
    // The terms by which events are planned, another event, the one that is moved, and whether it
    // may be.
    let cases: [(&schedule::Terms, Option<u64>, u64, bool); 5] = [
        (one, None, day, true),
        (one, None, day + DAY - 1, true),
        (one, Some(day + HOUR), day + DAY, false),
        (one, Some(day + HOUR), day - 1, false),
        (three, Some(day + HOUR), day, false),
    ];
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            for (before, other, at, is_planned) in cases {
                let other = other.map(|other| event("other", other));
                let there = [event("far", day + 20 * DAY), event("moved", at)];
                let there = there.into_iter().chain(other);
                let there = there.map(|event| (before, START, add([event])));
                let to = schedule::Operation::Reschedule(event("moved", day + 2 * HOUR));
                let answer = both_by(&store, there.chain([(one, START, to)]));
                let is_refused = matches!(answer, schedule::Answer::Refused { .. });
                assert_eq!(is_refused, !is_planned, "{at} {flavor}: {answer:?}");
            }
        }
    }
}

/// The second quota moves a search to the last time there is, where the first has no room.
#[test]
fn the_last_time_of_a_search_is_free_only_if_every_quota_has_room() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["2/10us", "3/25us"]).unwrap();
            let terms = terms.with_tolerance(micros(100, 1)).unwrap();
            let terms = terms.with_horizon(micros(100, 1)).unwrap();
            let at = |micros| Timestamp::from_micros(START + micros - 1_000).unwrap();
            let ends = [
                (
                    [1_075, 1_095, 1_095],
                    schedule::Operation::NextFree {
                        from: at(1_080),
                        weight: 1,
                    },
                ),
                (
                    [925, 905, 905],
                    schedule::Operation::LatestFree {
                        until: at(920),
                        weight: 1,
                    },
                ),
            ];
            for ([single, pair, other], search) in ends {
                let events = [("a", single), ("b", pair), ("c", other)];
                let events = events.map(|(id, micros)| event(id, START + micros - 1_000));
                let add = schedule::Operation::Add(events.to_vec());
                let answer = both(&store, &terms, START, [add, search]);
                assert_eq!(answer, schedule::Answer::Found(None), "{flavor}");
            }
        }
    }
}

#[test]
fn a_list_ends_before_its_end() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["9/1h"]).unwrap();
            for (end, listed) in [(5, 1), (6, 2), (7, 2)] {
                let add = schedule::Operation::Add(vec![event("a", START), event("b", START + 5)]);
                let list = schedule::Operation::List {
                    from: Timestamp::from_micros(START).unwrap(),
                    until: Timestamp::from_micros(START + end).unwrap(),
                };
                let answer = both(&store, &terms, START, [add, list]);
                let schedule::Answer::Events(events) = answer else {
                    panic!("{answer:?}");
                };
                assert_eq!(events.len(), listed, "{end} {flavor}");
            }
        }
    }
}

/// A list begins with its first instant, and with the first event that still counts.
#[test]
fn a_list_begins_with_its_beginning() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["9/10ms"]).unwrap();
            let terms = terms.with_tolerance(micros(5, 1)).unwrap();
            for (begin, later, listed) in [
                (START, 0, 2),
                (START + 1, 0, 1),
                (START + 2, 0, 0),
                (0, 10_004, 2),
                (0, 10_005, 1),
                (0, 10_006, 0),
            ] {
                let list = schedule::Operation::List {
                    from: Timestamp::from_micros(begin).unwrap(),
                    until: Timestamp::MAX,
                };
                let events = add([event("a", START), event("b", START + 1)]);
                let answer = both_at(&store, &terms, [(START, events), (START + later, list)]);
                let schedule::Answer::Events(events) = answer else {
                    panic!("{answer:?}");
                };
                assert_eq!(events.len(), listed, "{begin} {later} {flavor}");
            }
        }
    }
}

/// A list reads 64 events at a time.
#[test]
fn a_list_of_more_events_than_are_read_at_once_is_whole() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["1000/1h"]).unwrap();
            for heavy in [1, 2] {
                for count in [63, 64, 65, 128] {
                    let event = |number| event(id(number), START + number).with_weight(heavy);
                    let [first, rest] = [0..60, 60..count].map(|numbers| add(numbers.map(event)));
                    let list = schedule::Operation::List {
                        from: Timestamp::UNIX_EPOCH,
                        until: Timestamp::MAX,
                    };
                    let answer = both(&store, &terms, START, [first, rest, list]);
                    let schedule::Answer::Events(events) = answer else {
                        panic!("{answer:?}");
                    };
                    assert_eq!(events.len() as u64, count, "{flavor}");
                }
            }
        }
    }
}

/// Searches pass closed times over, from one to the next and to where none is known.
#[test]
fn closed_times_are_passed_over_in_both_directions() {
    let midnight = START / (24 * HOUR) * 24 * HOUR;
    let hour = |of: u64| midnight + of * HOUR;
    let rules = [
        "1/1h",
        "closed 22:00-08:00@UTC",
        "closed 08:00-09:00@UTC",
        "3/day@UTC",
    ];
    let terms = schedule::Terms::new("plans", rules).unwrap();
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let ask = |operations| both(&store, &terms, hour(10), operations);
            assert_eq!(ask(vec![next(hour(22), 1)]), found(hour(33)));
            assert_eq!(ask(vec![next(hour(22) - 1, 1)]), found(hour(22) - 1));
            assert_eq!(ask(vec![latest(hour(32), 1)]), found(hour(22) - 1));
            assert_eq!(ask(vec![latest(hour(33), 1)]), found(hour(33)));
            // A day that is full, between nights.
            let full = || add([33, 35, 45].map(|at| event(id(at), hour(at))));
            assert_eq!(ask(vec![full(), next(hour(24), 1)]), found(hour(57)));
            assert_eq!(ask(vec![full(), latest(hour(56), 1)]), found(hour(22) - 1));
            // Of several events, the first of the call that is at night is refused.
            let events = [(5, 60), (1, 50), (4, 49), (2, 58), (3, 36)];
            let events = events.map(|(number, at)| event(id(number), hour(at)));
            let answer = ask(vec![add(events)]);
            let schedule::Answer::Refused { index, refusal } = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(index, 1);
            assert_eq!(refusal.next_free(), Timestamp::from_micros(hour(57)).ok());
        }
    }
}

/// A day of no events is no closed time: it has a weight, which is too much.
#[test]
fn several_events_do_not_fit_into_a_day_of_none() {
    let terms = schedule::Terms::new("plans", ["2/1h", "0/day@UTC"]).unwrap();
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let events = [1, 2].map(|number| event(id(number), START + number * HOUR));
            let answer = both(&store, &terms, START, [add(events)]);
            let schedule::Answer::Refused { index, refusal } = answer else {
                panic!("{answer:?}");
            };
            assert_eq!((index, refusal.next_free()), (0, None));
            let name = refusal.quota().map(schedule::Quota::name);
            assert_eq!(name.as_deref(), Some("0/day@UTC"));
        }
    }
}

/// In the last month of all time, a request brings no other one.
#[test]
fn a_month_counts_if_it_is_the_only_one_of_a_request() {
    // 2 June 2255.
    let day = 104_246 * 24 * HOUR;
    let at = Timestamp::from_micros(day).unwrap();
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["1/month@UTC"]).unwrap();
            let terms = terms.with_horizon(micros(48, HOUR)).unwrap();
            let mut state = schedule::State::default();
            for (id, is_planned) in [("a", true), ("b", false)] {
                let request = schedule::Request::new(&terms, "k", add([event(id, day)])).at(at);
                let expected = request.decide_on(&mut state, at);
                let answer = now(store.schedule(&request)).unwrap();
                assert_eq!(answer, expected, "{id} {flavor}");
                assert_eq!(
                    answer == schedule::Answer::Added(1),
                    is_planned,
                    "{answer:?}"
                );
            }
        }
    }
}

/// Ids that contain what looks like the beginning of another id.
#[test]
fn an_id_within_another_is_not_mistaken_for_it() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["9/1h"]).unwrap();
            let add = |id, at| schedule::Operation::Add(vec![event(id, START + at)]);
            for (first, second) in [
                ("\u{1}a", "a"),
                ("x\u{1}", "\u{1}"),
                ("\u{1}\u{1}", "\u{1}"),
            ] {
                let new = both(&store, &terms, START, [add(first, 0), add(second, 1)]);
                assert_eq!(new, schedule::Answer::Added(1), "{first:?} {flavor}");
                let again = [add(first, 0), add(second, 1), add(second, 1)];
                let again = both(&store, &terms, START, again);
                assert_eq!(again, schedule::Answer::Added(0), "{first:?} {flavor}");
            }
        }
    }
}

/// An event is remembered for as long as a window around it can hold a time that is not past.
#[test]
fn an_event_is_forgotten_when_it_no_longer_counts() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["1/10ms"]).unwrap();
            let terms = terms.with_tolerance(micros(5, 1)).unwrap();
            let add = schedule::Operation::Add(vec![event("a", START)]);
            for (later, was_planned) in [(10_004, true), (10_005, false)] {
                let cancel = schedule::Operation::Cancel(b"a");
                let answer = both_at(
                    &store,
                    &terms,
                    [(START, add.clone()), (START + later, cancel)],
                );
                let expected = schedule::Answer::Cancelled(was_planned);
                assert_eq!(answer, expected, "{later} {flavor}");
            }
        }
    }
}

/// Each weight stays with its event, in whatever order the events of one call come.
#[test]
fn events_of_one_call_keep_their_weights() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["5/10us"]).unwrap();
            let terms = terms.with_tolerance(micros(0, 1)).unwrap();
            let terms = terms.with_horizon(micros(100, 1)).unwrap();
            let heavy = |id, at, weight| event(id, START + at).with_weight(weight);
            for (last, planned) in [(2, true), (3, false)] {
                let mut batch = vec![heavy("a", 20, 3), heavy("b", 10, 1), heavy("c", 22, last)];
                batch.push(heavy("d", 0, 1));
                for is_first in [true, false] {
                    let there = (!is_first).then(|| add([heavy("there", 60, 1)]));
                    let calls = there.into_iter().chain([add(batch.clone())]);
                    let answer = both(&store, &terms, START, calls);
                    let is_planned = answer == schedule::Answer::Added(4);
                    assert_eq!(is_planned, planned, "{last} {flavor}: {answer:?}");
                }
            }
        }
    }
}

/// What a server holds has no weights until an event has another than 1, and becomes a hash when there
/// are more events than a string may hold.
#[test]
fn events_of_weight_one_take_no_room_for_weights() {
    for flavor in Flavor::chosen() {
        let options = Options::new().with_small_schedule(2);
        let store = crate::engine::store_with(flavor, options);
        let terms = schedule::Terms::new("plans", ["9/1h"]).unwrap();
        let add = |id, at| schedule::Operation::Add(vec![event(id, START + at)]);
        let prefix = store.options().prefix();
        let key = format!("{prefix}:plans:schedule:v1-caller:{{k}}");
        let size = |command: &[&[u8]], added: &[(&'static str, u64)]| {
            both(
                &store,
                &terms,
                START,
                added.iter().map(|(id, at)| add(id, *at)),
            );
            let words = [&[command[0], key.as_bytes()], &command[1..]].concat();
            store.engine().command(&words).integer().unwrap()
        };
        // The time, and a byte for the length of the id, which has one.
        assert_eq!(
            size(&[b"STRLEN"], &[("a", 0), ("b", 1)]),
            14 + 2 * (8 + 2),
            "{flavor}"
        );
        // The times of the first chunk.
        let times: [&[u8]; 2] = [b"HSTRLEN", b"t0"];
        let four = [("a", 0), ("b", 1), ("c", 2), ("d", 3)];
        assert_eq!(size(&times, &four[..3]), 3 * 8, "{flavor}");
        assert_eq!(size(&times, &four), 4 * 8, "{flavor}");
    }
}

/// A search into the past ends at the epoch, even if the tolerance reaches further.
#[test]
fn no_time_before_the_epoch_is_free() {
    for flavor in Flavor::chosen() {
        let store = crate::engine::store(flavor);
        let terms = schedule::Terms::new("plans", ["1/10us"]).unwrap();
        let terms = terms.with_tolerance(micros(30, 1)).unwrap();
        let latest = schedule::Operation::LatestFree {
            until: Timestamp::from_micros(14).unwrap(),
            weight: 1,
        };
        let add = schedule::Operation::Add(vec![event("a", 7)]);
        let answer = both(&store, &terms, 15, [add, latest]);
        assert_eq!(answer, schedule::Answer::Found(None));
    }
}

/// What a set holds beside events does not count, not even at the epoch.
#[test]
fn the_mark_of_weights_is_no_event() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["2/10us"]).unwrap();
            let terms = terms.with_tolerance(micros(20, 1)).unwrap();
            let heavy = add([event("a", 40).with_weight(2)]);
            let answer = both(&store, &terms, 15, [heavy, latest(5, 2)]);
            assert_eq!(answer, found(5), "{flavor}");
        }
    }
}

/// Once no event is left whose weight is not 1, each of the others counts once, also at the epoch.
#[test]
fn events_count_once_when_the_heavy_ones_are_cancelled() {
    for flavor in Flavor::chosen() {
        for store in forms(flavor) {
            let terms = schedule::Terms::new("plans", ["2/10us"]).unwrap();
            let terms = terms.with_tolerance(micros(20, 1)).unwrap();
            let heavy = add([event("a", 40).with_weight(2)]);
            let light = add([event("b", 80), event("c", 81)]);
            let cancel = schedule::Operation::Cancel(b"a");
            let answer = both(&store, &terms, 0, [heavy, light, cancel, latest(85, 1)]);
            assert_eq!(answer, found(71), "{flavor}");
        }
    }
}

/// A search into the past finds the epoch itself.
#[test]
fn the_epoch_can_be_free() {
    for flavor in Flavor::chosen() {
        let store = crate::engine::store(flavor);
        for quota in ["1/10us", "1/day@UTC"] {
            let terms = schedule::Terms::new("plans", [quota]).unwrap();
            let terms = terms.with_tolerance(micros(20, 1)).unwrap();
            let at = |micros| Timestamp::from_micros(micros).unwrap();
            let (until, time) = match quota {
                "1/10us" => (5, 10),
                _ => (0, 24 * HOUR),
            };
            let latest = schedule::Operation::LatestFree {
                until: at(until),
                weight: 1,
            };
            let add = schedule::Operation::Add(vec![event("a", time)]);
            let answer = both(&store, &terms, 15, [add, latest]);
            assert_eq!(answer, schedule::Answer::Found(Some(at(0))), "{quota}");
        }
    }
}
