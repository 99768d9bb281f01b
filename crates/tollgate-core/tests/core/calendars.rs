//! Windows of the calendar, against local dates from another library with its own database of time
//! zones.

use std::time::Duration;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use tollgate_core::store::{Check, Request, State};
use tollgate_core::{CalendarUnit, CalendarWindow, Limit, LimitError, Timestamp};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;
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

fn instant(text: &str) -> i64 {
    text.parse::<DateTime<Utc>>().unwrap().timestamp_micros()
}

#[test]
fn a_boundary_that_comes_twice_is_the_first_and_one_that_is_skipped_the_end_of_the_gap() {
    for (unit, zone, within, begins, ends) in [
        // Clocks go from midnight to 1:00.
        (
            "day",
            "America/Asuncion",
            "2019-10-06T12:00:00Z",
            "2019-10-06T04:00:00Z",
            "2019-10-07T03:00:00Z",
        ),
        // They go from 1:00 back to midnight.
        (
            "day",
            "America/Havana",
            "2019-11-03T12:00:00Z",
            "2019-11-03T04:00:00Z",
            "2019-11-04T05:00:00Z",
        ),
        // They go from midnight back to 23:00, so that it is the day before again.
        (
            "day",
            "America/Sao_Paulo",
            "2018-02-18T02:30:00Z",
            "2018-02-17T02:00:00Z",
            "2018-02-18T03:00:00Z",
        ),
        // The 30th of December was skipped.
        (
            "day",
            "Pacific/Apia",
            "2011-12-30T09:59:00Z",
            "2011-12-29T10:00:00Z",
            "2011-12-30T10:00:00Z",
        ),
        (
            "week",
            "Pacific/Apia",
            "2011-12-28T00:00:00Z",
            "2011-12-26T10:00:00Z",
            "2012-01-01T10:00:00Z",
        ),
        (
            "month",
            "Europe/Berlin",
            "2026-03-29T12:00:00Z",
            "2026-02-28T23:00:00Z",
            "2026-03-31T22:00:00Z",
        ),
        (
            "year",
            "Australia/Lord_Howe",
            "2026-06-01T00:00:00Z",
            "2025-12-31T13:00:00Z",
            "2026-12-31T13:00:00Z",
        ),
    ] {
        let limit = format!("calendar=fixed-window:1/{unit}@{zone}");
        let limit: Limit = limit.parse().unwrap();
        let (begins, ends) = (instant(begins), instant(ends));
        assert_eq!(end(&limit, begins - 1), begins, "{limit}");
        assert_eq!(end(&limit, instant(within)), ends, "{limit}");
        assert_eq!(end(&limit, begins), ends, "{limit}");
    }
}

/// Where clocks go back over midnight by less than a day, the first midnight begins the next day: what
/// comes after it is not counted in the day before, though its date says so.
#[test]
fn a_repeated_evening_belongs_to_the_next_day() {
    // In Newfoundland, clocks went from 0:01 back to 23:01 until 2010.
    let limit: Limit = "calendar=fixed-window:1/day@America/St_Johns"
        .parse()
        .unwrap();
    let begins = instant("2010-11-07T02:30:00Z");
    assert_eq!(end(&limit, begins - 1), begins);
    // A minute later it is 23:01 again.
    let repeated = instant("2010-11-07T02:45:00Z");
    assert_eq!(
        date(Tz::America__St_Johns, repeated),
        NaiveDate::from_ymd_opt(2010, 11, 6).unwrap()
    );
    assert_eq!(end(&limit, repeated), instant("2010-11-08T03:30:00Z"));
}

#[test]
fn zones_are_named_as_the_database_spells_them() {
    let window = CalendarWindow::new(3, CalendarUnit::Day, "europe/berlin").unwrap();
    assert_eq!(window.zone(), "Europe/Berlin");
    let same = CalendarWindow::new(3, CalendarUnit::Day, "Europe/Berlin").unwrap();
    assert_eq!(window, same);
    for other in [
        CalendarWindow::new(4, CalendarUnit::Day, "Europe/Berlin"),
        CalendarWindow::new(3, CalendarUnit::Week, "Europe/Berlin"),
        CalendarWindow::new(3, CalendarUnit::Day, "Europe/Paris"),
    ] {
        assert_ne!(window, other.unwrap());
    }
    for zone in [
        "",
        "Europe/Atlantis",
        "CET-1",
        "../etc/passwd",
        "localtime",
        "posixrules",
    ] {
        let error = CalendarWindow::new(3, CalendarUnit::Day, zone).unwrap_err();
        let zone = zone.to_owned();
        assert_eq!(error, LimitError::UnknownZone { zone });
    }
}

#[test]
fn text_says_what_is_wrong_with_a_calendar() {
    for (text, expected) in [
        ("a=fixed-window:5/month@Europe/Berlin", ""),
        ("a=fixed-window:5/year@UTC,shadow", ""),
        (
            "a=fixed-window:5/1d@UTC",
            "`/` and a unit of the calendar: day, week, month or year",
        ),
        (
            "a=fixed-window:5/month",
            "a unit: us, ms, s, m, h or d, which is 24 hours; or a time zone after a unit of the \
             calendar, as `5/day@UTC` in a schedule, or `fixed-window:5/day@UTC`",
        ),
        ("a=fixed-window:5/month@", "\"\" is no time zone"),
        (
            "a=fixed-window:5/month@Berlin",
            "\"Berlin\" is no time zone",
        ),
        (
            "a=fixed-window:5/month@UTC,anchored",
            "a window of a calendar has no options",
        ),
        ("a=gcra:5/1d@UTC", "`,` and an option, or the end"),
        (
            "a=fixed-window:9007199254740992/month@UTC",
            "an amount of 9007199254740992 is too large",
        ),
    ] {
        match text.parse::<Limit>() {
            Ok(limit) => assert_eq!((limit.to_string(), expected), (text.to_owned(), "")),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    !expected.is_empty() && error.contains(expected),
                    "{text}: {error}"
                );
            }
        }
    }
}

/// A new database of time zones may move a boundary: what was counted stays in its period.
#[test]
fn what_was_counted_before_a_period_began_is_not_counted_in_it() {
    let limit: Limit = "calendar=fixed-window:5/day@UTC".parse().unwrap();
    let at = |hours: i64| {
        Timestamp::from_micros(
            u64::try_from(instant("2026-03-01T00:00:00Z") + hours * HOUR_US).unwrap(),
        )
        .unwrap()
    };
    let mut state = State::default();
    let mut consume = |cost, now| {
        let call = Request::consume(Check::new(&limit, "k", cost));
        call.decide_on(&mut state, now).remaining()
    };
    assert_eq!(consume(2, at(1)), 3);
    assert_eq!(consume(1, at(23)), 2);
    assert_eq!(consume(1, at(24)), 4);
    // The clock stepped back: this is counted in the second day.
    assert_eq!(consume(1, at(23)), 3);
    assert_eq!(consume(1, at(24).saturating_add(Duration::from_secs(1))), 2);
}
