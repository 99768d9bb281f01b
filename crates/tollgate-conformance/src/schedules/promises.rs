//! The promises about schedules.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use tollgate_core::schedule::{
    self, CalendarQuota, CalendarUnit, Event, MAX_EVENTS_PER_CALL, Placement, Reason, Schedule,
};
use tollgate_core::{ErrorKind, Key, LimitError, Quota, Timestamp};

use super::Schedules;
use super::naive::{NaiveSchedule, Rule};
use crate::clock::wall_clock;
use crate::harness::{OwnedKey, fresh_key};
use crate::plan::Plan;
use crate::race::race;
use crate::session::{Outcome, Stop};

/// An instant that is no boundary of anything.
const START: u64 = 1_780_000_123_456_789;
const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;

/// An operation, with times relative to the start.
#[derive(Clone, Debug)]
enum Act {
    Add(Vec<(u8, u64, u64)>),
    Reschedule(u8, u64),
    Cancel(u8),
    NextFree(u64, u64),
    LatestFree(u64, u64),
    ReserveNext(u8, u64, u64),
    List(u64, u64),
}

/// An operation, how far the clock has moved before, and whether refusals name earlier times.
#[derive(Clone, Debug)]
struct Step {
    moved: i64,
    act: Act,
    wants_latest: bool,
}

/// What a history is about: the lengths are multiples of a unit.
#[derive(Clone, Debug)]
struct Setup {
    quotas: Vec<(u64, u64)>,
    daily: Option<u64>,
    horizon: u64,
    tolerance: u64,
}

impl Setup {
    fn terms(&self, unit: u64) -> schedule::Terms {
        let sliding = self
            .quotas
            .iter()
            .enumerate()
            .map(|(index, (amount, length))| {
                let quota = Quota::new(*amount, Duration::from_micros(length * unit)).unwrap();
                schedule::Quota::new(&format!("q{index}"), quota).unwrap()
            });
        let daily = self.daily.map(|amount| {
            let zone = "Europe/Berlin";
            format!("daily={amount}/day@{zone}").parse().unwrap()
        });
        let terms = schedule::Terms::new("plans", sliding.chain(daily)).unwrap();
        let tolerance = Duration::from_micros(self.tolerance * unit);
        let terms = terms.with_tolerance(tolerance).unwrap();
        let horizon = Duration::from_micros(self.horizon * unit);
        match terms.clone().with_horizon(horizon) {
            // With many quotas, a key may hold fewer events.
            Err(LimitError::BadHorizon { most, .. }) => terms.with_horizon(most),
            fits => fits,
        }
        .unwrap()
    }

    /// Returns the same quotas for the naive definition.
    fn rules(&self, unit: u64) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self
            .quotas
            .iter()
            .map(|(amount, length)| {
                Rule::Sliding(Quota::new(*amount, Duration::from_micros(length * unit)).unwrap())
            })
            .collect();
        if let Some(amount) = self.daily {
            let zone = "Europe/Berlin".parse_zone();
            let days = CalendarQuota::new(amount, CalendarUnit::Day, zone);
            let (from, until) = (START - 60 * DAY_US, START + 200 * DAY_US);
            rules.push(Rule::Calendar(
                amount,
                days.periods(stamp(from), stamp(until)),
            ));
        }
        rules
    }
}

trait ParseZone {
    fn parse_zone(&self) -> jiff::tz::TimeZone;
}

impl ParseZone for str {
    fn parse_zone(&self) -> jiff::tz::TimeZone {
        jiff::tz::TimeZone::get(self).unwrap()
    }
}

fn stamp(micros: u64) -> Timestamp {
    Timestamp::saturating_from_micros(micros)
}

/// Small quotas, windows and horizons, so that histories reach all of their edges.
fn setups() -> impl Strategy<Value = Setup> {
    let quotas = vec((0_u64..6, 1_u64..24), 1..4);
    (quotas, 20_u64..90, 0_u64..6).prop_map(|(quotas, horizon, tolerance)| Setup {
        quotas,
        daily: None,
        horizon,
        tolerance,
    })
}

/// Quotas whose unit is an hour, with one per day of Berlin.
fn setups_with_days() -> impl Strategy<Value = Setup> {
    let quotas = vec((1_u64..6, 1_u64..40), 0..3);
    (quotas, 1_u64..5, 30_u64..1_500, 0_u64..4).prop_map(|(quotas, daily, horizon, tolerance)| {
        Setup {
            quotas,
            daily: Some(daily),
            horizon,
            tolerance,
        }
    })
}

fn acts(span: u64) -> impl Strategy<Value = Act> {
    let id = 0_u8..10;
    let time = 0..span;
    let weight = || prop_oneof![4 => Just(1_u64), 1 => 1_u64..4];
    prop_oneof![
        6 => (id.clone(), time.clone(), weight()).prop_map(|event| Act::Add(vec![event])),
        1 => vec((id.clone(), time.clone(), weight()), 1..5).prop_map(|mut events| {
            events.sort_unstable();
            events.dedup_by_key(|event| event.0);
            Act::Add(events)
        }),
        2 => (id.clone(), time.clone()).prop_map(|(id, time)| Act::Reschedule(id, time)),
        2 => id.clone().prop_map(Act::Cancel),
        2 => (time.clone(), weight()).prop_map(|(from, weight)| Act::NextFree(from, weight)),
        1 => (time.clone(), weight()).prop_map(|(until, weight)| Act::LatestFree(until, weight)),
        4 => (id, time.clone(), weight()).prop_map(|(id, from, weight)| Act::ReserveNext(id, from, weight)),
        1 => (time.clone(), time).prop_map(|(from, until)| Act::List(from, until)),
    ]
}

fn steps(span: u64) -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![5 => Just(0_i64), 3 => 1_i64..6, 1 => 6_i64..40, 1 => -8_i64..0];
    let step = (moved, acts(span), any::<bool>()).prop_map(|(moved, act, wants_latest)| Step {
        moved,
        act,
        wants_latest,
    });
    vec(step, 1..40)
}

/// Calls `run` with the request that `step` means.
fn request<'a>(
    terms: &'a schedule::Terms,
    key: Key<'a>,
    step: &Step,
    ids: &'a [String],
    unit: u64,
    start: u64,
) -> schedule::Request<'a> {
    let time = |of: u64| stamp(start + of * unit);
    let event = |id: u8, of: u64, weight: u64| {
        Event::new(&ids[usize::from(id)], time(of)).with_weight(weight)
    };
    let operation = match &step.act {
        Act::Add(events) => schedule::Operation::Add(
            events
                .iter()
                .map(|(id, of, weight)| event(*id, *of, *weight))
                .collect(),
        ),
        Act::Reschedule(id, to) => schedule::Operation::Reschedule(event(*id, *to, 1)),
        Act::Cancel(id) => schedule::Operation::Cancel(ids[usize::from(*id)].as_bytes()),
        Act::NextFree(from, weight) => schedule::Operation::NextFree {
            from: time(*from),
            weight: *weight,
        },
        Act::LatestFree(until, weight) => schedule::Operation::LatestFree {
            until: time(*until),
            weight: *weight,
        },
        Act::ReserveNext(id, from, weight) => {
            schedule::Operation::ReserveNext(event(*id, *from, *weight))
        }
        Act::List(from, until) => schedule::Operation::List {
            from: time(*from),
            until: time(*until),
        },
    };
    let request = schedule::Request::new(terms, key, operation);
    if step.wants_latest {
        request.with_latest()
    } else {
        request
    }
}

fn ids() -> Vec<String> {
    // Ids that a store may mix up with each other, or with what it holds beside them.
    ["", "c", "w", "e", "w1", "1", "é", "a b", "a\u{0}b", "A"]
        .iter()
        .enumerate()
        .map(|(index, id)| {
            if index == 0 {
                "-".to_owned()
            } else {
                (*id).to_owned()
            }
        })
        .collect()
}

/// Asks the store, with more of the calendars' periods as often as it needs them.
async fn ask(store: &dyn schedule::Store, mut request: schedule::Request<'_>) -> schedule::Answer {
    for _ in 0..24 {
        match store.schedule(&request).await.unwrap() {
            schedule::Answer::Uncovered(at) => request.widen(at),
            answer => return answer,
        }
    }
    panic!("the store does not find its periods in {request:?}");
}

fn ask_machine(
    state: &mut schedule::State,
    mut request: schedule::Request<'_>,
    now: Timestamp,
) -> schedule::Answer {
    for _ in 0..24 {
        match request.decide_on(state, now) {
            schedule::Answer::Uncovered(at) => request.widen(at),
            answer => return answer,
        }
    }
    panic!("the machine does not find its periods in {request:?}");
}

fn differs(step: &Step, found: &schedule::Answer, expected: &schedule::Answer) -> Stop {
    Stop::Broken(format!(
        "{step:?}\n  answered {found:?}\n  expected {expected:?}"
    ))
}

/// Every answer equals that of the state machine, whatever the clock does.
///
/// # Panics
///
/// When the promise is broken.
pub async fn agrees_with_the_machine(harness: &Schedules, plan: &Plan) {
    check(harness, plan, false).await;
}

/// Every answer equals that of the second definition, which keeps all events and tries all windows.
///
/// # Panics
///
/// When the promise is broken.
pub async fn agrees_with_the_definition(harness: &Schedules, plan: &Plan) {
    check(harness, plan, true).await;
}

async fn check(harness: &Schedules, plan: &Plan, by_definition: bool) {
    let ids = ids();
    let run = async |(setup, steps): (Setup, Vec<Step>), unit: u64| -> Outcome {
        let store = harness.store().await;
        let (terms, rules) = (setup.terms(unit), setup.rules(unit));
        let key = OwnedKey::fresh("alice");
        let (mut state, mut naive) = (schedule::State::default(), NaiveSchedule::default());
        let mut now = START;
        for step in &steps {
            now = now.saturating_add_signed(step.moved * i64::try_from(unit).unwrap());
            // The naive definition never forgets, so it needs no clock that steps back.
            if by_definition {
                now = now.max(START);
            }
            let request = request(&terms, key.key(), step, &ids, unit, START).at(stamp(now));
            let found = ask(&*store, request.clone()).await;
            let expected = if by_definition {
                naive.decide(&request, &rules, stamp(now))
            } else {
                ask_machine(&mut state, request, stamp(now))
            };
            if found != expected {
                return Err(differs(step, &found, &expected));
            }
        }
        Ok(())
    };
    plan.check(&(setups(), steps(100)), async |history| {
        run(history, 1).await
    });
    plan.check(&(setups_with_days(), steps(1_600)), async |history| {
        run(history, HOUR_US).await
    });
}

/// At the store's own clock, answers equal those of the state machine for times that are neither
/// past nor near the horizon.
///
/// # Panics
///
/// When the promise is broken.
pub async fn agrees_with_the_machine_at_its_own_clock(harness: &Schedules, plan: &Plan) {
    let ids = ids();
    plan.check(&(setups(), steps(100)), async |(mut setup, steps)| {
        // Cases take seconds, not hours.
        (setup.horizon, setup.tolerance) = (1_000, 1);
        let (terms, unit) = (setup.terms(HOUR_US), HOUR_US);
        let store = harness.store().await;
        let key = OwnedKey::fresh("alice");
        let mut state = schedule::State::default();
        let now = wall_clock();
        for step in &steps {
            // Searches for earlier times end at the clock, which the machine does not know.
            if matches!(step.act, Act::LatestFree(..)) {
                continue;
            }
            let step = Step {
                wants_latest: false,
                ..step.clone()
            };
            let start = now.as_micros() + 24 * HOUR_US;
            let request = request(&terms, key.key(), &step, &ids, unit, start);
            let found = ask(&*store, request.clone()).await;
            let expected = ask_machine(&mut state, request, now);
            if found != expected {
                return Err(differs(&step, &found, &expected));
            }
        }
        Ok(())
    });
}

/// Adding, moving, reserving or cancelling again what is planned already changes nothing, and says
/// so.
///
/// # Panics
///
/// When the promise is broken.
pub async fn a_call_repeated_changes_nothing(harness: &Schedules, plan: &Plan) {
    let ids = ids();
    plan.check(&(setups(), steps(100)), async |(setup, steps)| {
        let store = harness.store().await;
        let terms = setup.terms(1);
        let key = OwnedKey::fresh("alice");
        let everything = schedule::Operation::List {
            from: Timestamp::UNIX_EPOCH,
            until: Timestamp::MAX,
        };
        let now = stamp(START);
        for step in &steps {
            let ask_once = async || {
                let request = request(&terms, key.key(), step, &ids, 1, START).at(now);
                ask(&*store, request).await
            };
            let list = async || {
                let request = schedule::Request::new(&terms, key.key(), everything.clone()).at(now);
                ask(&*store, request).await
            };
            let first = ask_once().await;
            let before = list().await;
            let second = ask_once().await;
            let expected = match first.clone() {
                schedule::Answer::Added(_) => schedule::Answer::Added(0),
                schedule::Answer::Planned { time, .. } => schedule::Answer::Planned {
                    time,
                    is_new: false,
                },
                schedule::Answer::Cancelled(_) => schedule::Answer::Cancelled(false),
                other => other,
            };
            if second != expected {
                return Err(differs(step, &second, &expected));
            }
            let after = list().await;
            if after != before {
                return Err(differs(step, &after, &before));
            }
        }
        Ok(())
    });
}

/// A set of events that fits can be added in any order, and one by one or together.
///
/// # Panics
///
/// When the promise is broken.
pub async fn the_order_of_additions_makes_no_difference(harness: &Schedules, plan: &Plan) {
    let times = vec((0_u64..100, any::<u32>()), 1..30);
    plan.check(&(setups(), times), async |(mut setup, times)| {
        (setup.horizon, setup.tolerance) = (200, 0);
        let store = harness.store().await;
        let terms = setup.terms(1);
        let (first, second, third) = (
            OwnedKey::fresh("first"),
            OwnedKey::fresh("second"),
            OwnedKey::fresh("third"),
        );
        let now = stamp(START);
        let ids: Vec<String> = (0..times.len())
            .map(|index| format!("id-{index}"))
            .collect();
        let event = |index: usize| Event::new(&ids[index], stamp(START + times[index].0));
        let add = async |key: &OwnedKey, events: Vec<Event<'_>>| {
            let operation = schedule::Operation::Add(events);
            ask(
                &*store,
                schedule::Request::new(&terms, key.key(), operation).at(now),
            )
            .await
        };
        let mut fitting = Vec::new();
        for index in 0..times.len() {
            if add(&first, vec![event(index)]).await == schedule::Answer::Added(1) {
                fitting.push(index);
            }
        }
        if fitting.is_empty() {
            return Ok(());
        }
        fitting.sort_by_key(|index| times[*index].1);
        for index in &fitting {
            let answer = add(&second, vec![event(*index)]).await;
            if answer != schedule::Answer::Added(1) {
                return Err(Stop::Broken(format!(
                    "in another order, {index} was {answer:?}"
                )));
            }
        }
        let together = add(&third, fitting.iter().map(|index| event(*index)).collect()).await;
        if together != schedule::Answer::Added(fitting.len()) {
            return Err(Stop::Broken(format!("together, they were {together:?}")));
        }
        // What one of them refuses, all of them refuse, and none has changed by it.
        for time in 0..100 {
            let probe = Event::new("probe", stamp(START + time));
            let mut answers = Vec::new();
            for key in [&first, &second, &third] {
                let answer = add(key, vec![probe]).await;
                if answer == schedule::Answer::Added(1) {
                    let operation = schedule::Operation::Cancel(b"probe");
                    let request = schedule::Request::new(&terms, key.key(), operation).at(now);
                    assert_eq!(
                        ask(&*store, request).await,
                        schedule::Answer::Cancelled(true)
                    );
                }
                answers.push(answer);
            }
            if answers[0] != answers[1] || answers[0] != answers[2] {
                return Err(Stop::Broken(format!("at {time} they differ: {answers:?}")));
            }
        }
        Ok(())
    });
}

/// `NextFree` names a time that is free, and no earlier one is; `LatestFree` the same in the other
/// direction. A refusal names the same times.
///
/// # Panics
///
/// When the promise is broken.
pub async fn next_free_is_the_first_free_time(harness: &Schedules, plan: &Plan) {
    let times = vec(0_u64..60, 1..20);
    plan.check(
        &(setups(), times, 0_u64..60),
        async |(mut setup, times, from)| {
            (setup.horizon, setup.tolerance) = (80, 0);
            let store = harness.store().await;
            let terms = setup.terms(1);
            let key = OwnedKey::fresh("alice");
            let now = stamp(START);
            let of = |operation| schedule::Request::new(&terms, key.key(), operation).at(now);
            let ids: Vec<String> = (0..times.len())
                .map(|index| format!("id-{index}"))
                .collect();
            for (id, time) in ids.iter().zip(&times) {
                let event = Event::new(id, stamp(START + time));
                ask(&*store, of(schedule::Operation::Add(vec![event]))).await;
            }
            // Adds an event at every time, and removes it again.
            let mut free = Vec::new();
            for time in START..=START + 80 {
                let add = schedule::Operation::Add(vec![Event::new("probe", stamp(time))]);
                if ask(&*store, of(add)).await == schedule::Answer::Added(1) {
                    free.push(stamp(time));
                    ask(&*store, of(schedule::Operation::Cancel(b"probe"))).await;
                }
            }
            let from = stamp(START + from);
            let next = free.iter().copied().find(|time| *time >= from);
            let latest = free.iter().copied().rev().find(|time| *time <= from);
            let weight = 1;
            for (operation, expected) in [
                (schedule::Operation::NextFree { from, weight }, next),
                (
                    schedule::Operation::LatestFree {
                        until: from,
                        weight,
                    },
                    latest,
                ),
            ] {
                let answer = ask(&*store, of(operation.clone())).await;
                if answer != schedule::Answer::Found(expected) {
                    return Err(Stop::Broken(format!(
                        "{operation:?}: {answer:?}, but free are {free:?}"
                    )));
                }
            }
            let add = schedule::Operation::Add(vec![Event::new("probe", from)]);
            match ask(&*store, of(add).with_latest()).await {
                schedule::Answer::Added(1) if next == Some(from) => Ok(()),
                schedule::Answer::Refused { refusal, .. }
                    if (refusal.next_free(), refusal.latest_free()) == (next, latest)
                        && refusal.quota().is_some() =>
                {
                    Ok(())
                }
                other => Err(Stop::Broken(format!("{other:?}, but free are {free:?}"))),
            }
        },
    );
}

/// A time before the tolerance or beyond the horizon is refused with the bound, one microsecond
/// further in it is not.
///
/// # Panics
///
/// When the promise is broken.
pub async fn times_outside_the_horizon_are_refused(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let terms = schedule::Terms::new("plans", ["5/1h"])
        .unwrap()
        .with_horizon(Duration::from_secs(7_200))
        .unwrap()
        .with_tolerance(Duration::from_secs(10))
        .unwrap();
    let key = OwnedKey::fresh("alice");
    let now = stamp(START);
    let (earliest, latest) = (START - 10_000_000, START + 7_200_000_000);
    let of = |operation| schedule::Request::new(&terms, key.key(), operation).at(now);
    let add = |id: &'static str, time| schedule::Operation::Add(vec![Event::new(id, stamp(time))]);
    let reason = |answer: schedule::Answer| match answer {
        schedule::Answer::Refused { refusal, .. } => refusal.reason().clone(),
        other => panic!("not refused: {other:?}"),
    };
    let past = ask(&*store, of(add("a", earliest - 1))).await;
    assert_eq!(reason(past), Reason::Past(stamp(earliest)));
    assert_eq!(
        ask(&*store, of(add("a", earliest))).await,
        schedule::Answer::Added(1)
    );
    let beyond = ask(&*store, of(add("b", latest + 1))).await;
    assert_eq!(reason(beyond), Reason::BeyondHorizon(stamp(latest)));
    assert_eq!(
        ask(&*store, of(add("b", latest))).await,
        schedule::Answer::Added(1)
    );
    let moved = Event::new("a", stamp(latest + 1));
    let moved = ask(&*store, of(schedule::Operation::Reschedule(moved))).await;
    assert_eq!(reason(moved), Reason::BeyondHorizon(stamp(latest)));
    let from = Event::new("c", stamp(latest + 1));
    let reserved = ask(&*store, of(schedule::Operation::ReserveNext(from))).await;
    assert_eq!(reason(reserved), Reason::BeyondHorizon(stamp(latest)));
    let from = Event::new("c", stamp(0));
    let reserved = ask(&*store, of(schedule::Operation::ReserveNext(from))).await;
    let time = stamp(earliest);
    assert_eq!(reserved, schedule::Answer::Planned { time, is_new: true });

    // By the store's own clock, too.
    let real = OwnedKey::fresh("real");
    let hour = Duration::from_secs(3_600);
    let yesterday = stamp(wall_clock().as_micros() - DAY_US);
    let tomorrow = wall_clock().saturating_add(24 * hour);
    for (time, is_past) in [(yesterday, true), (tomorrow, false)] {
        let add = schedule::Operation::Add(vec![Event::new("a", time)]);
        let answer = ask(&*store, schedule::Request::new(&terms, real.key(), add)).await;
        match reason(answer) {
            Reason::Past(earliest) => assert!(is_past && earliest > yesterday),
            Reason::BeyondHorizon(latest) => assert!(!is_past && latest < tomorrow),
            other => panic!("refused for {other:?}"),
        }
    }
}

/// Events that are so long past that they affect no time that can be planned are not listed, leave
/// their ids free, and do not come back if the clock steps back.
///
/// # Panics
///
/// When the promise is broken.
pub async fn events_that_are_over_count_no_more(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let terms = schedule::Terms::new("plans", ["2/10s"])
        .unwrap()
        .with_horizon(Duration::from_secs(100))
        .unwrap()
        .with_tolerance(Duration::ZERO)
        .unwrap();
    let key = OwnedKey::fresh("alice");
    let second = 1_000_000;
    let at = |now: u64, operation| {
        schedule::Request::new(&terms, key.key(), operation).at(stamp(START + now))
    };
    let add = |id: &'static str, time| {
        schedule::Operation::Add(vec![Event::new(id, stamp(START + time))])
    };
    let all = schedule::Operation::List {
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::MAX,
    };
    let listed = async |now: u64| match ask(&*store, at(now, all.clone())).await {
        schedule::Answer::Events(events) => events.len(),
        other => panic!("no list: {other:?}"),
    };
    for id in ["a", "b"] {
        assert_eq!(
            ask(&*store, at(0, add(id, second))).await,
            schedule::Answer::Added(1)
        );
    }
    assert_eq!(listed(11 * second - 1).await, 2);
    assert_eq!(listed(11 * second).await, 0);
    let late = 20 * second;
    assert_eq!(
        ask(&*store, at(late, schedule::Operation::Cancel(b"a"))).await,
        schedule::Answer::Cancelled(false)
    );
    assert_eq!(
        ask(&*store, at(late, add("a", late))).await,
        schedule::Answer::Added(1)
    );
    // What was planned at 20 s is decided as of then, even if the clock steps back.
    let answer = ask(&*store, at(0, add("c", 2 * second))).await;
    let schedule::Answer::Refused { refusal, .. } = answer else {
        panic!("planned in a past that is forgotten: {answer:?}");
    };
    assert_eq!(*refusal.reason(), Reason::Past(stamp(START + late)));
    assert_eq!(listed(late).await, 1);
    store.reset_schedule(&terms, key.key()).await.unwrap();
    assert_eq!(listed(late).await, 0);
    assert_eq!(
        ask(&*store, at(0, add("c", 2 * second))).await,
        schedule::Answer::Added(1)
    );
}

/// Events of one key, or of one schedule, do not count for another.
///
/// # Panics
///
/// When the promise is broken.
pub async fn keys_are_independent(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let base = fresh_key("k");
    let long = "x".repeat(300);
    let keys: Vec<OwnedKey> = [
        (base.clone(), ""),
        (format!("{base}:"), ""),
        (base.clone(), ":"),
        (format!("{{{base}}}"), ""),
        (format!("{base}{long}"), ""),
        (format!("{base}{long}"), "x"),
    ]
    .into_iter()
    .map(|(partition, rest)| OwnedKey::of(partition, rest))
    .collect();
    for name in ["plans", "plans-2"] {
        let terms = schedule::Terms::new(name, ["1/1h"]).unwrap();
        for key in &keys {
            let event = Event::new("a", wall_clock().saturating_add(Duration::from_secs(600)));
            let add = schedule::Operation::Add(vec![event]);
            let answer = ask(&*store, schedule::Request::new(&terms, key.key(), add)).await;
            assert_eq!(answer, schedule::Answer::Added(1), "{name}, {key:?}");
        }
    }
    // The store's clock and callers' instants count apart.
    let terms = schedule::Terms::new("plans", ["1/1h"]).unwrap();
    let now = wall_clock();
    let event = Event::new("a", now.saturating_add(Duration::from_secs(600)));
    let add = schedule::Operation::Add(vec![event]);
    let answer = ask(
        &*store,
        schedule::Request::new(&terms, keys[0].key(), add).at(now),
    )
    .await;
    assert_eq!(answer, schedule::Answer::Added(1));
}

/// A request that is not valid fails with `ErrorKind::Malformed` and changes nothing; the largest
/// valid one is planned.
///
/// # Panics
///
/// When the promise is broken.
pub async fn malformed_requests_change_nothing(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let terms = schedule::Terms::new("plans", [format!("{MAX_EVENTS_PER_CALL}/1h")])
        .unwrap()
        .with_horizon(Duration::from_secs(7_200))
        .unwrap();
    let key = OwnedKey::fresh("alice");
    let now = stamp(START);
    let later = |by: u64| stamp(START + by);
    let longest = "x".repeat(schedule::LONGEST_ID);
    let too_long = "x".repeat(schedule::LONGEST_ID + 1);
    let ids: Vec<String> = (0..=MAX_EVENTS_PER_CALL)
        .map(|id| format!("{id:0>200}"))
        .collect();
    let many = |count: usize| {
        let events = ids[..count].iter().zip(0..);
        schedule::Operation::Add(events.map(|(id, by)| Event::new(id, later(by))).collect())
    };
    let event = |id: &'static str| Event::new(id, later(1));
    for operation in [
        schedule::Operation::Add(Vec::new()),
        schedule::Operation::Add(vec![event("")]),
        schedule::Operation::Add(vec![event("a"), event("b"), event("a")]),
        schedule::Operation::Add(vec![Event::new(&too_long, later(1))]),
        schedule::Operation::Add(vec![event("a").with_weight(0)]),
        many(MAX_EVENTS_PER_CALL + 1),
        schedule::Operation::ReserveNext(event("")),
        schedule::Operation::ReserveNext(event("a").with_weight(0)),
        schedule::Operation::Reschedule(event("")),
        schedule::Operation::Cancel(too_long.as_bytes()),
        schedule::Operation::NextFree {
            from: now,
            weight: 0,
        },
        schedule::Operation::LatestFree {
            until: now,
            weight: 0,
        },
    ] {
        let request = schedule::Request::new(&terms, key.key(), operation).at(now);
        let error = store.schedule(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{request:?}: {error}");
    }
    let of = |operation| schedule::Request::new(&terms, key.key(), operation).at(now);
    let list = || {
        of(schedule::Operation::List {
            from: Timestamp::UNIX_EPOCH,
            until: Timestamp::MAX,
        })
    };
    assert_eq!(
        ask(&*store, list()).await,
        schedule::Answer::Events(Vec::new())
    );
    let answer = ask(&*store, of(many(MAX_EVENTS_PER_CALL))).await;
    assert_eq!(answer, schedule::Answer::Added(MAX_EVENTS_PER_CALL));
    let schedule::Answer::Events(events) = ask(&*store, list()).await else {
        panic!("no list");
    };
    assert_eq!(events.len(), MAX_EVENTS_PER_CALL);
    assert!(
        events
            .iter()
            .zip(&ids)
            .all(|(event, id)| event.id() == id.as_bytes())
    );
    let full = ask(
        &*store,
        of(schedule::Operation::Add(vec![Event::new(
            &longest,
            later(0),
        )])),
    )
    .await;
    assert!(matches!(full, schedule::Answer::Refused { .. }), "{full:?}");
}

/// Days of a time zone have the hours that the zone gives them, also where clocks change.
///
/// # Panics
///
/// When the promise is broken.
pub async fn days_follow_the_time_zone(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let zone = "Europe/Berlin".parse_zone();
    for (day, hours) in [("2026-03-29", 23), ("2026-07-01", 24), ("2026-10-25", 25)] {
        let date: jiff::civil::Date = day.parse().unwrap();
        let start = date.to_zoned(zone.clone()).unwrap().timestamp();
        let start = u64::try_from(start.as_microsecond()).unwrap();
        let end = start + hours * HOUR_US;
        let schedule = Schedule::with_terms(
            Arc::clone(&store),
            schedule::Terms::new("plans", ["2/day@Europe/Berlin"]).unwrap(),
        );
        let key = OwnedKey::fresh("alice");
        let now = stamp(start - DAY_US);
        let add = async |id: &str, time: u64| {
            schedule
                .add(key.key(), id, stamp(time))
                .at(now)
                .with_latest()
                .await
                .unwrap()
        };
        assert!(add("first", start).await.is_planned());
        assert!(add("last", end - 1).await.is_planned());
        let Placement::Refused(refusal) = add("noon", start + 12 * HOUR_US).await else {
            panic!("{day}: a third event was planned");
        };
        assert_eq!(refusal.next_free(), Some(stamp(end)), "{day}");
        assert_eq!(refusal.latest_free(), Some(stamp(start - 1)), "{day}");
        assert!(add("next", end).await.is_planned(), "{day}");
        assert!(add("before", start - 1).await.is_planned(), "{day}");
        // Room is far away: the store asks for more days than the first request brings.
        for index in 0..120 {
            let id = format!("id-{index}");
            let placement = schedule
                .reserve_next(key.key(), &id, stamp(start))
                .at(now)
                .await;
            assert!(placement.unwrap().is_planned(), "{day}, {index}");
        }
        let next = schedule
            .next_free(key.key(), stamp(start))
            .at(now)
            .await
            .unwrap();
        let date = date.checked_add(jiff::Span::new().days(61)).unwrap();
        let free = date.to_zoned(zone.clone()).unwrap().timestamp();
        assert_eq!(
            next,
            Some(stamp(u64::try_from(free.as_microsecond()).unwrap())),
            "{day}"
        );
    }
    has_a_last_day(store).await;
}

/// The last day reaches to the last instant.
async fn has_a_last_day(store: Arc<dyn schedule::Store>) {
    let schedule = Schedule::new(store, "plans", ["2/day@Europe/Berlin"]).unwrap();
    let (key, end) = (OwnedKey::fresh("alice"), Timestamp::MAX);
    let now = stamp(end.as_micros() - 300 * DAY_US);
    let free = schedule.latest_free(key.key(), end).at(now);
    assert_eq!(free.await.unwrap(), Some(end));
    let first = schedule.add(key.key(), "first", end).at(now);
    assert!(first.await.unwrap().is_planned());
    let second = schedule.reserve_next(key.key(), "second", end).at(now);
    assert_eq!(second.await.unwrap().permit(), Ok(end));
    let third = schedule.add(key.key(), "third", end).with_latest().at(now);
    let refusal = third.await.unwrap().permit().unwrap_err();
    assert_eq!(refusal.next_free(), None);
    let latest = refusal.latest_free();
    assert!(latest < Some(end) && latest > Some(stamp(end.as_micros() - DAY_US)));
    let free = schedule.next_free(key.key(), end).at(now);
    assert_eq!(free.await.unwrap(), None);
}

/// Of callers who reserve at once, none breaks a quota, no time is given twice where the quota is
/// one, and everyone who asks again with the same id gets the same time.
///
/// # Panics
///
/// When the promise is broken.
pub async fn concurrent_callers_break_no_quota(harness: &Schedules, _plan: &Plan) {
    const CALLERS: usize = 16;
    const EACH: usize = 4;
    for _ in 0..4 {
        let store = harness.store().await;
        let terms = schedule::Terms::new("plans", ["1/1m", "5/1h", "10/1d"]).unwrap();
        let schedule = Schedule::with_terms(store, terms);
        let key = fresh_key("alice");
        let from = wall_clock().saturating_add(Duration::from_secs(3_600));
        let planned = race(CALLERS, |caller| {
            let (schedule, key) = (schedule.clone(), key.clone());
            async move {
                let mut times = Vec::new();
                for number in 0..EACH {
                    // Every id is asked for by two callers.
                    let id = format!("{}-{number}", caller / 2);
                    let reserved = schedule.reserve_next(&key, &id, from).await.unwrap();
                    times.push((id, reserved.permit().unwrap()));
                }
                times
            }
        });
        let mut times = std::collections::BTreeMap::new();
        for (id, time) in planned.await.into_iter().flatten() {
            let first = *times.entry(id.clone()).or_insert(time);
            assert_eq!(first, time, "{id} was planned twice");
        }
        let mut sorted: Vec<u64> = times.values().map(|time| time.as_micros()).collect();
        sorted.sort_unstable();
        assert_eq!(sorted.len(), CALLERS / 2 * EACH);
        for (amount, window) in [(1, 60), (5, 3_600), (10, 86_400)] {
            for pair in sorted.windows(amount + 1) {
                let span = pair[amount] - pair[0];
                assert!(span >= window * 1_000_000, "{} in {span} us", amount + 1);
            }
        }
        // None waits longer than it must.
        let mut expected = schedule::State::default();
        let ids: Vec<String> = (0..sorted.len()).map(|id| id.to_string()).collect();
        for (id, time) in ids.iter().zip(&sorted) {
            let event = Event::new(id, from);
            let request = schedule::Request::new(
                schedule.terms(),
                Key::from(&key),
                schedule::Operation::ReserveNext(event),
            );
            let time = stamp(*time);
            let answer = ask_machine(&mut expected, request, wall_clock());
            assert_eq!(answer, schedule::Answer::Planned { time, is_new: true });
        }
    }
}
