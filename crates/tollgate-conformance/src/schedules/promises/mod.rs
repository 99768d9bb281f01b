//! The promises about schedules: each function panics when its promise is broken.

mod agreement;
mod bounds;
mod closed;
mod days;
mod placing;

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Time;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use tollgate_core::schedule::{
    self, CalendarQuota, Event, MAX_EVENTS_PER_CALL, Placement, Reason, Schedule,
};
use tollgate_core::{CalendarCycle, ErrorKind, Key, Quota, Timestamp};

use super::Schedules;
use super::closed::{ClosedDays, ClosedRule};
use super::naive::{NaiveSchedule, Rule};
use crate::clock::wall_clock;
use crate::harness::{OwnedKey, fresh_key};
use crate::plan::{Outcome, Plan, Stop};
use crate::race::race;

pub use agreement::{
    agrees_with_the_definition, agrees_with_the_machine, agrees_with_the_machine_at_its_own_clock,
};
pub use bounds::{
    events_that_are_over_count_no_more, keys_are_independent, malformed_requests_change_nothing,
    times_outside_the_horizon_are_refused,
};
pub use closed::{a_call_brings_its_time_zone, nothing_is_planned_at_closed_times};
pub use days::days_follow_the_time_zone;
pub use placing::{
    a_call_repeated_changes_nothing, concurrent_callers_break_no_quota,
    next_free_is_the_first_free_time, the_order_of_additions_makes_no_difference,
};

/// An instant that is no boundary of anything.
const START: u64 = 1_780_000_123_456_789;
const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;
/// Lists all events.
const EVERYTHING: schedule::Operation<'static> = schedule::Operation::List {
    from: Timestamp::UNIX_EPOCH,
    until: Timestamp::MAX,
};

/// An operation, with times relative to the start.
#[derive(Clone, Debug)]
enum Act {
    Add(Vec<(u8, u64, u64)>),
    Reschedule(u8, u64),
    Cancel(u8),
    NextFree(u64, u64),
    ReserveNext(u8, u64, u64),
    List(u64, u64),
}

/// An operation, and how far the clock has moved before.
#[derive(Clone, Debug)]
struct Step {
    moved: i64,
    act: Act,
    /// The index of the zone that the call brings.
    zone: usize,
}

/// The zones that calls bring.
const ZONES: [&str; 3] = ["Europe/Berlin", "Asia/Tokyo", "America/Havana"];

/// What a history is about: the lengths are multiples of a unit.
#[derive(Clone, Debug)]
struct Setup {
    /// The first instant of the history.
    start: u64,
    quotas: Vec<(u64, u64)>,
    daily: Option<u64>,
    closed: Vec<ClosedRule>,
    /// Whether days and closed times are those of the zones that calls bring.
    is_local: bool,
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
            let zone = self.zone("Europe/Berlin", "local");
            let at = if amount % 2 == 0 { "" } else { ",at=02:30" };
            format!("daily={amount}/day@{zone}{at}").parse().unwrap()
        });
        let closed = self.closed.iter();
        let closed = closed.map(|rule| rule.text(self.zone(rule.zone, "local")));
        let closed = closed.map(|text| text.parse().unwrap());
        let quotas = sliding.chain(daily).chain(closed);
        let terms = schedule::Terms::new("plans", quotas).unwrap();
        let tolerance = Duration::from_micros(self.tolerance * unit);
        let terms = terms.with_tolerance(tolerance).unwrap();
        let horizon = Duration::from_micros(self.horizon * unit);
        // With many quotas, a key may hold fewer events.
        let longest = terms.longest_horizon();
        terms.with_horizon(horizon.min(longest)).unwrap()
    }

    /// Returns the zone of a quota: its own, unless that is the zone which calls bring.
    fn zone<'z>(&self, own: &'z str, local: &'z str) -> &'z str {
        if self.is_local { local } else { own }
    }

    /// Returns the same quotas for the naive definition, as of a call that brings this zone.
    fn rules(&self, unit: u64, local: &str) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self
            .quotas
            .iter()
            .map(|(amount, length)| {
                Rule::Sliding(Quota::new(*amount, Duration::from_micros(length * unit)).unwrap())
            })
            .collect();
        let (from, until) = (self.start - 60 * DAY_US, self.start + 200 * DAY_US);
        if let Some(amount) = self.daily {
            let zone = self.zone("Europe/Berlin", local).parse_zone();
            let at = if amount % 2 == 0 { (0, 0) } else { (2, 30) };
            let days = CalendarCycle::daily().at(Time::constant(at.0, at.1, 0, 0));
            let days = CalendarQuota::new(amount, days, zone.clone());
            rules.push(Rule::Calendar(
                amount,
                days.periods(&zone, stamp(from), stamp(until)),
            ));
        }
        rules.extend(self.closed.iter().map(|rule| {
            let zone = self.zone(rule.zone, local).parse_zone();
            let edges = rule.edges(&zone, from, until);
            Rule::Closed(rule.clone(), zone, edges)
        }));
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

/// Returns the instant that `text` says.
fn at(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().unwrap();
    stamp(u64::try_from(at.as_microsecond()).unwrap())
}

/// Small quotas, windows and horizons, so that histories reach all of their edges.
fn setups() -> impl Strategy<Value = Setup> {
    let quotas = vec((0_u64..6, 1_u64..24), 1..4);
    let closed =
        prop_oneof![2 => Just((START, None)), 1 => edges().prop_map(|(at, rule)| (at, Some(rule)))];
    (quotas, closed, 20_u64..90, 0_u64..6).prop_map(
        |(quotas, (start, closed), horizon, tolerance)| Setup {
            start,
            quotas,
            daily: None,
            closed: closed.into_iter().collect(),
            is_local: false,
            horizon,
            tolerance,
        },
    )
}

/// Instants 40 microseconds before a rule begins or ends to close.
fn edges() -> impl Strategy<Value = (u64, ClosedRule)> {
    let edge = |time: &str, from: &str, until: &str| {
        let rule = ClosedRule {
            days: ClosedDays::Every,
            from: from.to_owned(),
            until: until.to_owned(),
            zone: "Europe/Berlin",
        };
        Just((at(time).as_micros() - 40, rule))
    };
    prop_oneof![
        edge("2026-06-01T22:00+02", "22:00", "08:00"),
        edge("2026-06-01T08:00+02", "22:00", "08:00"),
        edge("2026-06-01T00:00+02", "20:00", "24:00"),
        // Half past two is skipped, so that it opens at three.
        edge("2026-03-29T01:00Z", "01:00", "02:30"),
        edge("2026-03-29T01:00Z", "02:30", "03:30"),
        // The hour from two is repeated.
        edge("2026-10-25T01:00Z", "01:00", "02:30"),
        edge("2026-10-25T01:00Z", "02:30", "03:30"),
    ]
}

/// Closed times of zones whose clocks change at another hour, by half an hour or by a day.
fn closed_rules() -> impl Strategy<Value = Vec<ClosedRule>> {
    let time =
        (0_u8..24, 0_u8..4).prop_map(|(hour, quarter)| format!("{hour:02}:{:02}", 15 * quarter));
    let until = prop_oneof![5 => time.clone(), 1 => Just("24:00".to_owned())];
    let zone = prop_oneof![
        Just("Europe/Berlin"),
        Just("Australia/Lord_Howe"),
        Just("America/Havana"),
        Just("Pacific/Apia"),
    ];
    let date = (0_i64..90).prop_map(|days| {
        let first = jiff::civil::date(2026, 9, 20);
        first.checked_add(jiff::Span::new().days(days)).unwrap()
    });
    let days = prop_oneof![
        3 => Just(ClosedDays::Every),
        1 => Just(ClosedDays::Weekdays(vec!["sat", "sun"])),
        1 => Just(ClosedDays::Weekdays(vec!["mon", "tue", "wed", "fri"])),
        2 => (date, 0_i64..9, any::<bool>()).prop_map(|(first, days, is_yearly)| {
            let last = first.checked_add(jiff::Span::new().days(days)).unwrap();
            match is_yearly {
                true => ClosedDays::Yearly(first, last),
                false => ClosedDays::Dates(first, last),
            }
        }),
        1 => (4_i8..12, 0_i8..9).prop_map(|(first, days)| ClosedDays::Monthly(first, first + days)),
    ];
    let rule = (days, time, until, zone).prop_map(|(days, from, until, zone)| ClosedRule {
        days,
        from,
        until,
        zone,
    });
    let rules = vec(rule, 1..4).prop_filter("always closed", |rules: &Vec<ClosedRule>| {
        let are_open = |zone: fn(&ClosedRule) -> &str| {
            let texts = rules.iter().map(|rule| rule.text(zone(rule)));
            schedule::Terms::new("plans", texts.chain(["1/1h".to_owned()])).is_ok()
        };
        are_open(|rule| rule.zone) && are_open(|_| "local")
    });
    prop_oneof![2 => Just(Vec::new()), 3 => rules]
}

/// Quotas whose unit is an hour, with one per day of Berlin.
fn setups_with_days() -> impl Strategy<Value = Setup> {
    let quotas = vec((1_u64..6, 1_u64..40), 0..3);
    // Clocks change in the autumn of 2026 and the spring of 2027; in 2011, Samoa skipped a day.
    let start = prop_oneof![
        2 => Just(START),
        3 => Just(START + 118 * DAY_US),
        2 => Just(START + 285 * DAY_US),
        1 => Just(START - 5_270 * DAY_US),
    ];
    (
        quotas,
        start,
        1_u64..5,
        (closed_rules(), any::<bool>()),
        30_u64..1_500,
        0_u64..4,
    )
        .prop_map(
            |(quotas, start, daily, (closed, is_local), horizon, tolerance)| Setup {
                start,
                quotas,
                daily: Some(daily),
                closed,
                is_local,
                horizon,
                tolerance,
            },
        )
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
        4 => (id, time.clone(), weight()).prop_map(|(id, from, weight)| Act::ReserveNext(id, from, weight)),
        1 => (time.clone(), time).prop_map(|(from, until)| Act::List(from, until)),
    ]
}

fn steps(span: u64) -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![5 => Just(0_i64), 3 => 1_i64..6, 1 => 6_i64..40, 1 => -8_i64..0];
    let zone = 0..ZONES.len();
    let step = (moved, acts(span), zone);
    let step = step.prop_map(|(moved, act, zone)| Step { moved, act, zone });
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
        Act::ReserveNext(id, from, weight) => {
            schedule::Operation::ReserveNext(event(*id, *from, *weight))
        }
        Act::List(from, until) => schedule::Operation::List {
            from: time(*from),
            until: time(*until),
        },
    };
    let request = schedule::Request::new(terms, key, operation);
    request.zone(ZONES[step.zone].parse_zone())
}

fn ids() -> Vec<String> {
    // Ids that a store may mix up with each other, or with what it holds beside them.
    let ids = ["-", "c", "w", "e", "w1", "1", "é", "a b", "a\u{0}b", "A"];
    ids.map(str::to_owned).to_vec()
}

/// Asks the store, with more of the calendars' periods as often as it needs them.
async fn ask(store: &dyn schedule::Store, mut request: schedule::Request<'_>) -> schedule::Answer {
    for _ in 0..24 {
        match store.schedule(request.clone()).await.unwrap() {
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
            answer => {
                // Through bytes, as a database would hold it.
                let row = state.to_bytes();
                *state = schedule::State::from_bytes(request.terms(), &row).unwrap();
                return answer;
            }
        }
    }
    panic!("the machine does not find its periods in {request:?}");
}

fn differs(step: &Step, found: &schedule::Answer, expected: &schedule::Answer) -> Stop {
    Stop::Broken(format!(
        "{step:?}\n  answered {found:?}\n  expected {expected:?}"
    ))
}
