//! Windows of the calendar, against local dates from another library with its own database of time
//! zones.

use chrono::{
    DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc,
};
use chrono_tz::{TZ_VARIANTS, Tz};
use tollgate_core::Limit;
use tollgate_core::store::{Check, Request, State};
use tollgate_core::{LimitErrorKind, Timestamp};

const DAY_US: i64 = 86_400_000_000;
/// Minutes of the day at which periods begin.
const TIMES: [u32; 8] = [0, 30, 60, 120, 150, 180, 240, 24 * 60 - 1];

/// Returns the local time in `zone` at this instant, in microseconds.
fn local(zone: Tz, at: i64) -> NaiveDateTime {
    let at = DateTime::<Utc>::from_timestamp_micros(at).unwrap();
    at.with_timezone(&zone).naive_local()
}

/// Returns the first instant at which it is this time in `zone`, or later if clocks skip it.
fn start_of(zone: Tz, time: NaiveDateTime) -> i64 {
    if let Some(first) = zone.from_local_datetime(&time).earliest() {
        return first.timestamp_micros();
    }
    // The gap ends within two days, since a zone may skip a whole one.
    let middle = time.and_utc().timestamp_micros();
    let (mut before, mut after) = (middle - 2 * DAY_US, middle + 2 * DAY_US);
    while after - before > 1 {
        let between = before + (after - before) / 2;
        if local(zone, between) < time {
            before = between;
        } else {
            after = between;
        }
    }
    after
}

/// Days, weeks, months or years, of which one begins on `day`, as far as its month is long enough.
#[derive(Clone, Copy)]
enum Unit {
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    /// Returns the limit whose periods begin so.
    fn text(self, zone: Tz, day: NaiveDate, time: u32) -> String {
        let (month, number, weekday) = (day.month(), day.day(), day.weekday().to_string());
        let unit = match self {
            Self::Day => format!("day@{zone}"),
            Self::Week => format!("week@{zone},start={}", weekday.to_lowercase()),
            Self::Month => format!("month@{zone},day={number}"),
            Self::Year => format!("year@{zone},month={month},day={number}"),
        };
        format!(
            "calendar=fixed-window:1/{unit},at={:02}:{:02}",
            time / 60,
            time % 60
        )
    }

    /// Returns on which day the `steps`th period after this one begins.
    fn after(self, day: NaiveDate, steps: u32) -> NaiveDate {
        match self {
            Self::Day => day + Days::new(steps.into()),
            Self::Week => day + Days::new(u64::from(steps) * 7),
            // Both keep the day, as far as the month has it.
            Self::Month => day + Months::new(steps),
            Self::Year => day + Months::new(12 * steps),
        }
    }
}

/// Returns when the period ends that a call at this instant is counted in.
fn end(limit: &Limit, at: i64) -> i64 {
    let now = Timestamp::from_micros(u64::try_from(at).unwrap()).unwrap();
    let consume = Request::consume(Check::new(limit, "k", 1));
    let decided = consume.decide_on(&mut State::default(), now);
    at + i64::try_from(decided.reset_after().as_micros().unwrap()).unwrap()
}

/// Returns the first difference about two periods of which the first begins with this day.
fn difference(unit: Unit, zone: Tz, day: NaiveDate, time: u32) -> Option<String> {
    let limit: Limit = unit.text(zone, day, time).parse().unwrap();
    let time = NaiveTime::from_num_seconds_from_midnight_opt(time * 60, 0).unwrap();
    let begins = |steps| start_of(zone, unit.after(day, steps).and_time(time));
    let (start, middle, after) = (begins(0), begins(1), begins(2));
    // A zone may skip a day.
    if start <= 0 || start == middle || middle == after {
        return None;
    }
    // Each instant is in one period, and the next begins where that ends.
    let all = [
        (start - 1, start),
        (start, middle),
        (middle - 1, middle),
        (middle, after),
        (after - 1, after),
    ];
    let differ = |&&(at, expected): &&(i64, i64)| end(&limit, at) != expected;
    let (at, expected) = *all.iter().find(differ)?;
    let ends = end(&limit, at);
    Some(format!(
        "{limit}: {at} is in a period up to {ends}, not {expected}"
    ))
}

/// All zones, from 1970 to 2070: months that begin on each day, and all units around each change of clocks.
#[test]
fn periods_are_those_of_another_database() {
    let (mut compared, mut differ) = (0, Vec::new());
    for zone in TZ_VARIANTS {
        let plain = format!("calendar=fixed-window:1/day@{zone}").parse::<Limit>();
        match plain.map_err(|error| error.kind()) {
            // A system may leave out some names.
            Err(LimitErrorKind::Name) => continue,
            plain => drop(plain.unwrap()),
        }
        let weeks: Vec<_> = (1..100 * 365 / 7)
            .map(|week| local(zone, week * 7 * DAY_US))
            .collect();
        let changes = weeks
            .windows(2)
            .filter(|pair| pair[0].time() != pair[1].time());
        let days = changes.flat_map(|pair| (0..9).map(|day| pair[0].date() + Days::new(day)));
        let all = [Unit::Day, Unit::Week, Unit::Month, Unit::Year];
        // Few enough for some seconds; every zone takes another of the nine days.
        let near = days
            .zip(0..)
            .skip(compared % 9)
            .step_by(8)
            .map(|(day, step)| (day, &all[..], step));
        // January has all days.
        let months = (compared % 31..31 * 40).step_by(17).map(|step| {
            let years = Months::new(12 * u32::try_from(step / 31).unwrap());
            let day = NaiveDate::default() + years + Days::new((step % 31) as u64);
            (day, &all[2..3], step)
        });
        let found = near.chain(months).find_map(|(day, units, step)| {
            let times = TIMES.iter().cycle().skip(step % TIMES.len());
            units
                .iter()
                .zip(times)
                .find_map(|(unit, time)| difference(*unit, zone, day, *time))
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
