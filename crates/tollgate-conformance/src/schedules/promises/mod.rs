//! The promises about schedules.

mod agreement;
mod bounds;
mod days;
mod placing;

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

pub use agreement::{
    agrees_with_the_definition, agrees_with_the_machine, agrees_with_the_machine_at_its_own_clock,
};
pub use bounds::{
    events_that_are_over_count_no_more, keys_are_independent, malformed_requests_change_nothing,
    times_outside_the_horizon_are_refused,
};
pub use days::days_follow_the_time_zone;
pub use placing::{
    a_call_repeated_changes_nothing, concurrent_callers_break_no_quota,
    next_free_is_the_first_free_time, the_order_of_additions_makes_no_difference,
};

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
