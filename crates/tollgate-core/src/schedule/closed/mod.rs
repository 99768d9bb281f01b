//! `ClosedTimes`: local times at which nothing is planned.

mod text;

use std::sync::Arc;
use std::time::Duration;

use jiff::ToSpan;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;

use super::{Period, Zone};
use crate::cycle::seconds;
use crate::error::{LimitError, LimitErrorKind};
use crate::time::Timestamp;

const SECOND_US: i64 = 1_000_000;
const DAY: u32 = 86_400;
const DAY_US: i64 = 86_400 * SECOND_US;
const EVERY_DAY: u8 = 0b111_1111;
/// The year of dates that are meant in every year; it has a 29th of February.
const EACH_YEAR: i16 = 0;
/// The year of dates in January whose days are meant in each month.
const EACH_MONTH: i16 = -1;

/// Local times of a zone at which nothing is planned: at night, on Sundays, or on holidays.
///
/// As text, they are `closed`, days or times or both, and a zone:
///
/// | text | closed |
/// |---|---|
/// | `closed 22:00-08:00@Europe/Berlin` | every night, from 22:00 until before 08:00 |
/// | `closed sat,sun@Europe/Berlin` | on Saturdays and Sundays |
/// | `closed mon-fri 12:00-13:00@Europe/Berlin` | at noon, from Monday to Friday |
/// | `closed 2026-12-24..2026-12-26,2027-01-01@Europe/Berlin` | on these days |
/// | `closed 12-24..12-26@Europe/Berlin` | on these days of every year |
/// | `closed 1st,15th..17th@Europe/Berlin` | on these days of each month |
///
/// Times whose end is not after their beginning last until the next day, and belong to the day on
/// which they begin: `closed sat 22:00-08:00` ends on Sunday. `24:00` is the end of the day.
///
/// An instant is closed if and only if its local time is: both times that a zone repeats when clocks
/// go back, and none that it skips.
///
/// # Examples
///
/// ```
/// use jiff::civil::{Weekday, time};
/// use jiff::tz::TimeZone;
/// use tollgate_core::{LimitError, LimitErrorKind};
/// use tollgate_core::schedule::{self, ClosedTimes, Schedule};
///
/// let zone = TimeZone::get("Europe/Berlin")?;
/// let (evening, morning) = (time(22, 0, 0, 0), time(8, 0, 0, 0));
/// let night = ClosedTimes::daily(evening, morning, zone.clone());
/// assert_eq!(night.to_string(), "closed 22:00-08:00@Europe/Berlin");
/// let weekend = ClosedTimes::on_weekdays(Weekday::Saturday, Weekday::Sunday, zone);
/// assert_eq!(weekend.to_string(), "closed sat,sun@Europe/Berlin");
/// let quota = schedule::Quota::closed("night", night)?;
/// assert_eq!(quota, "night=closed 22:00-08:00@Europe/Berlin".parse()?);
///
/// // At least one quota must count events. Times that are never open are an error, too.
/// let terms = schedule::Terms::new("reminders", ["10/1d", "closed sun@Europe/Berlin"]);
/// assert!(terms.is_ok());
/// let never = schedule::Terms::new("reminders", ["10/1d", "closed mon-sun@Europe/Berlin"]);
/// assert_eq!(never.unwrap_err().kind(), LimitErrorKind::NeverOpen);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClosedTimes {
    /// A bit for each weekday: the lowest is Monday.
    weekdays: u8,
    /// The first and the last of consecutive days, sorted; both in [`EACH_YEAR`] or [`EACH_MONTH`], or neither.
    dates: Arc<[(Date, Date)]>,
    /// The seconds of the day at which they begin, below a day, and end, up to a day.
    from: u32,
    until: u32,
    zone: Zone,
}

impl ClosedTimes {
    /// Returns the times from `from` until before `until` of every day, until before that time of the
    /// next day if it is not later. Fractions of a second are cut off.
    #[must_use]
    pub fn daily(from: Time, until: Time, zone: impl Into<Zone>) -> Self {
        Self::of(EVERY_DAY, Vec::new(), zone.into()).between(from, until)
    }

    /// Returns all times of the weekdays from `first` to `last`, which may be in the next week.
    #[must_use]
    pub fn on_weekdays(first: Weekday, last: Weekday, zone: impl Into<Zone>) -> Self {
        let number = |day: Weekday| usize::from(day.to_monday_zero_offset().unsigned_abs());
        Self::of(
            weekdays(number(first), number(last)),
            Vec::new(),
            zone.into(),
        )
    }

    /// Returns all times of the days from `first` to `last`.
    #[must_use]
    pub fn on_dates(first: Date, last: Date, zone: impl Into<Zone>) -> Self {
        let [first, last] = [first, last].map(|date| date.max(Date::constant(1, 1, 1)));
        Self::of(0, vec![(first.min(last), first.max(last))], zone.into())
    }

    /// Returns all times of the days from the month and day of `first` to those of `last` in every year, over
    /// the end of the year if they are earlier.
    #[must_use]
    pub fn every_year(first: Date, last: Date, zone: impl Into<Zone>) -> Self {
        let day = |date: Date| date.with().year(EACH_YEAR).build().unwrap_or(date);
        Self::of(0, over_new_year(day(first), day(last)), zone.into())
    }

    /// Returns all times of the days from `first` to `last` of each month that has them.
    ///
    /// # Errors
    ///
    /// [`Day`](LimitErrorKind::Day) unless `first` is at least 1, `last` at least `first`, and at most 31.
    pub fn every_month(first: u8, last: u8, zone: impl Into<Zone>) -> Result<Self, LimitError> {
        let day = |day| i8::try_from(day).map(|day| Date::new(EACH_MONTH, 1, day));
        match (day(first), day(last)) {
            (Ok(Ok(first)), Ok(Ok(last))) if first <= last => {
                Ok(Self::of(0, vec![(first, last)], zone.into()))
            }
            _ => {
                let message = format!("{first} to {last} are not days of a month: choose 1 to 31");
                Err(LimitError::new(LimitErrorKind::Day, message))
            }
        }
    }

    /// Keeps only the times from `from` until before `until` of these days, until before that time of
    /// the next day if it is not later. Fractions of a second are cut off.
    #[must_use]
    pub fn between(mut self, from: Time, until: Time) -> Self {
        self.from = seconds(from);
        self.until = end_of_day(seconds(until));
        self
    }

    fn of(weekdays: u8, mut dates: Vec<(Date, Date)>, zone: Zone) -> Self {
        if weekdays == EVERY_DAY {
            dates.clear();
        }
        dates.sort_unstable();
        let mut merged: Vec<(Date, Date)> = Vec::with_capacity(dates.len());
        for (first, last) in dates {
            match merged.last_mut() {
                Some((_, end))
                    if (end.year() > 0 || end.year() == first.year())
                        && number(first) <= number(*end) + 1 =>
                {
                    *end = last.max(*end);
                }
                _ => merged.push((first, last)),
            }
        }
        Self {
            weekdays,
            dates: merged.into(),
            from: 0,
            until: DAY,
            zone,
        }
    }

    /// Returns the zone.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the open times from `from` to `until`, in `zone` instead of these times' own.
    ///
    /// The first begins at `from`, and the last ends a microsecond after `until`. If it is closed
    /// there, these are empty.
    #[must_use]
    pub fn open_times(&self, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Period> {
        let (from, end) = (exact(from), exact(until.max(from)) + 1);
        let mut closed = Vec::new();
        self.close(zone, from, end, &mut closed);
        outside(closed, from, end)
    }

    /// Adds the times from `from` until before `end` that are closed in `zone`.
    fn close(&self, zone: &TimeZone, from: i64, end: i64, closed: &mut Vec<(i64, i64)>) {
        let mut at = from;
        // Between two changes of a zone's offset, local times go by like all others.
        while at < end {
            let instant = jiff::Timestamp::from(stamp(at));
            let offset = i64::from(zone.to_offset(instant).seconds()) * SECOND_US;
            let change = zone.following(instant).next();
            let stops = change.map_or(end, |change| change.timestamp().as_microsecond().min(end));
            let day_of = |at: i64| (at + offset).div_euclid(DAY_US);
            for day in day_of(at - DAY_US)..=day_of(stops) {
                if self.has_day(day) {
                    let closes = day * DAY_US + i64::from(self.from) * SECOND_US - offset;
                    let opens = closes + i64::from(self.length()) * SECOND_US;
                    let (closes, opens) = (closes.max(at), opens.min(stops));
                    closed.extend((closes < opens).then_some((closes, opens)));
                }
            }
            at = stops;
        }
    }

    /// Returns whether these times begin on the day that is `day` days after the epoch.
    fn has_day(&self, day: i64) -> bool {
        // The epoch was a Thursday.
        let weekday = (day + 3).rem_euclid(7);
        if self.weekdays >> weekday & 1 == 1 {
            return true;
        }
        let Ok(date) = EPOCH.checked_add(day.days()) else {
            return false;
        };
        let is_within = |(first, last): &(Date, Date)| {
            let date = match first.year() {
                EACH_YEAR => Date::new(EACH_YEAR, date.month(), date.day()),
                EACH_MONTH => Date::new(EACH_MONTH, 1, date.day()),
                _ => Ok(date),
            };
            date.is_ok_and(|date| (*first..=*last).contains(&date))
        };
        self.dates.iter().any(is_within)
    }

    /// Returns how many seconds of local time are closed together.
    fn length(&self) -> u32 {
        let next_day = if self.until <= self.from { DAY } else { 0 };
        next_day + self.until - self.from
    }
}

/// Returns the times from `from` to `until` that are open under all of `rules`, as
/// [`ClosedTimes::open_times`] does, in the zone that a call `brought` where a rule is `@local`; or
/// `None` if it brought none.
pub(super) fn open_times<'r>(
    rules: impl Iterator<Item = &'r ClosedTimes>,
    brought: Option<&TimeZone>,
    from: Timestamp,
    until: Timestamp,
) -> Option<Vec<Period>> {
    let (from, end) = (exact(from), exact(until.max(from)) + 1);
    let mut closed = Vec::new();
    for rule in rules {
        rule.close(rule.zone.of_call(brought)?, from, end, &mut closed);
    }
    Some(outside(closed, from, end))
}

/// Returns whether some time is open under all of `rules`. Those whose zones the calls bring are
/// together open at some local time.
pub(super) fn are_ever_open<'r>(rules: impl Iterator<Item = &'r ClosedTimes>) -> bool {
    let (local, fixed): (Vec<_>, Vec<_>) = rules.partition(|rule| rule.zone == Zone::Local);
    let (first, last) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    [local, fixed]
        .iter()
        .all(|rules| are_open(rules, Some(&TimeZone::UTC), first, last))
}

/// Returns whether some time from `from` to `until` is open under all of `rules`.
pub(super) fn are_open(
    rules: &[&ClosedTimes],
    brought: Option<&TimeZone>,
    mut from: Timestamp,
    until: Timestamp,
) -> bool {
    // Nearly always, the first few days tell.
    const STEP: Duration = Duration::from_secs(40 * 86_400);
    loop {
        let to = from.saturating_add(STEP).min(until);
        let open = open_times(rules.iter().copied(), brought, from, to);
        let has_some = |open: Vec<Period>| open.iter().any(|open| open.start() < open.end());
        if open.is_some_and(has_some) {
            return true;
        }
        if to == until {
            return false;
        }
        from = to;
    }
}

/// Returns the times from `from` until before `end` that are in none of the `closed` ones, and empty
/// ones at either end if that is closed.
fn outside(mut closed: Vec<(i64, i64)>, from: i64, end: i64) -> Vec<Period> {
    closed.sort_unstable();
    let mut open = Vec::with_capacity(closed.len() + 1);
    let mut opens = from;
    for (closes, opens_again) in closed {
        if closes > opens || open.is_empty() {
            open.push(Period::new(stamp(opens), stamp(closes)));
        }
        opens = opens.max(opens_again);
    }
    open.push(Period::new(stamp(opens), stamp(end)));
    open
}

/// Returns the bits of the weekdays from `first` to `last`.
fn weekdays(first: usize, last: usize) -> u8 {
    let length = (last + 7 - first) % 7;
    (0..=length).fold(0, |days, day| days | 1 << ((first + day) % 7))
}

/// Midnight at the end is that of the next day.
fn end_of_day(until: u32) -> u32 {
    if until == 0 { DAY } else { until }
}

/// Returns the days of each year from `first` to `last`.
fn over_new_year(first: Date, last: Date) -> Vec<(Date, Date)> {
    match first <= last {
        true => vec![(first, last)],
        false => vec![(first, first.last_of_year()), (last.first_of_year(), last)],
    }
}

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Returns how many days after the epoch `date` is.
fn number(date: Date) -> i64 {
    date.duration_since(EPOCH).as_hours() / 24
}

fn exact(time: Timestamp) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the time `micros` microseconds after the epoch, and no later one than the end of the latest instant.
fn stamp(micros: i64) -> Timestamp {
    let micros = u64::try_from(micros).unwrap_or_default();
    Timestamp::from_micros(micros).unwrap_or(Timestamp::END)
}
