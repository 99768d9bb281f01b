//! Windows of the calendar, against local dates from another library with its own database of time
//! zones.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use tollgate_core::store::{Check, Request, State};
use tollgate_core::{CalendarUnit, CalendarWindow, Limit, LimitError, Timestamp};

const DAY_US: i64 = 86_400_000_000;
const UNITS: [CalendarUnit; 4] = [
    CalendarUnit::Day,
    CalendarUnit::Week,
    CalendarUnit::Month,
    CalendarUnit::Year,
];

/// Returns the local date in `zone` at this instant, in microseconds.
fn date(zone: Tz, at: i64) -> NaiveDate {
    let at = DateTime::<Utc>::from_timestamp_micros(at).unwrap();
    at.with_timezone(&zone).date_naive()
}

/// Returns the first instant at which it is `date` or later in `zone`.
fn start_of(zone: Tz, day: NaiveDate) -> i64 {
    let midnight = zone.from_local_datetime(&day.and_time(NaiveTime::MIN));
    if let Some(first) = midnight.earliest() {
        return first.timestamp_micros();
    }
    // Clocks skip midnight: the gap ends within two days, since a zone may skip a whole one.
    let middle = day.and_time(NaiveTime::MIN).and_utc().timestamp_micros();
    let (mut before, mut after) = (middle - 2 * DAY_US, middle + 2 * DAY_US);
    while after - before > 1 {
        let between = before + (after - before) / 2;
        if date(zone, between) < day {
            before = between;
        } else {
            after = between;
        }
    }
    after
}

fn first_day(unit: CalendarUnit, day: NaiveDate) -> NaiveDate {
    match unit {
        CalendarUnit::Week => day - Days::new(day.weekday().num_days_from_monday().into()),
        CalendarUnit::Month => day.with_day(1).unwrap(),
        CalendarUnit::Year => day.with_ordinal(1).unwrap(),
        _ => day,
    }
}

fn next(unit: CalendarUnit, first: NaiveDate) -> NaiveDate {
    match unit {
        CalendarUnit::Week => first + Days::new(7),
        CalendarUnit::Month => first + Months::new(1),
        CalendarUnit::Year => first + Months::new(12),
        _ => first + Days::new(1),
    }
}

/// Returns when the period ends that a call at this instant is counted in.
fn end(limit: &Limit, at: i64) -> i64 {
    let now = Timestamp::from_micros(u64::try_from(at).unwrap()).unwrap();
    let consume = Request::consume(Check::new(limit, "k", 1));
    let decided = consume.decide_on(&mut State::default(), now);
    at + i64::try_from(decided.reset_after().as_micros().unwrap()).unwrap()
}

/// Returns the first difference about the period that begins with this day.
fn difference(limit: &Limit, unit: CalendarUnit, zone: Tz, first: NaiveDate) -> Option<String> {
    let (start, after) = (start_of(zone, first), start_of(zone, next(unit, first)));
    if start <= 0 || start == after {
        return None;
    }
    for (at, expected) in [(start - 1, start), (start, after), (after - 1, after)] {
        let ends = end(limit, at);
        if ends != expected {
            return Some(format!(
                "{limit}: {at} is in a period up to {ends}, not {expected}"
            ));
        }
    }
    None
}

/// All zones, from 1970 to 2070: every fifth month, and each period within days of a change of clocks.
#[test]
fn periods_are_those_of_another_database() {
    let (mut compared, mut differ) = (0, Vec::new());
    for zone in TZ_VARIANTS {
        // A system may leave out some names.
        let windows: Result<Vec<_>, LimitError> = UNITS
            .iter()
            .map(|unit| CalendarWindow::new(1, *unit, zone.name()))
            .collect();
        let Ok(windows) = windows else { continue };
        let limits = windows
            .iter()
            .map(|window| Limit::new("calendar", *window).unwrap());
        let limits: Vec<_> = limits.zip(UNITS).collect();
        let mut days = Vec::new();
        let into_day = |week: i64| {
            let at = DateTime::<Utc>::from_timestamp_micros(week * 7 * DAY_US).unwrap();
            at.with_timezone(&zone).time()
        };
        for week in 1..100 * 365 / 7 {
            if into_day(week) != into_day(week + 1) {
                let from = date(zone, week * 7 * DAY_US);
                days.extend((0..9).map(|day| from + Days::new(day)));
            }
        }
        let months = (0..240).map(|step| NaiveDate::default() + Months::new(5 * step));
        let found = limits.iter().find_map(|(limit, unit)| {
            let near = days.iter().map(|day| first_day(*unit, *day));
            let months = months.clone().filter(|_| *unit == CalendarUnit::Month);
            near.chain(months)
                .find_map(|day| difference(limit, *unit, zone, day))
        });
        compared += 1;
        differ.extend(found);
    }
    // Databases of different years differ in what governments have decided meanwhile.
    assert!(compared > 400, "only {compared} zones were found");
    assert!(
        differ.len() < compared / 40,
        "{} of {compared} zones differ: {differ:#?}",
        differ.len()
    );
}
