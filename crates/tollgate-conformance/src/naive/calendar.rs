//! `Calendar`: which days, weeks, months and years instants are in, by their local dates.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use tollgate_core::store::MAX_EXACT;
use tollgate_core::{Algorithm, CalendarWindow};

const DAY_US: i128 = 86_400_000_000;

/// Periods of a time zone, as the text of their limit says.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    unit: String,
    month: i8,
    day: i8,
    /// As three letters.
    weekday: String,
    at: Time,
    zone: TimeZone,
}

impl Calendar {
    pub(crate) fn of(window: &CalendarWindow) -> Self {
        let text = Algorithm::from(*window).to_string();
        let (quota, options) = text.split_once('@').unwrap();
        let option = |name, otherwise: &'static str| {
            let mut all = options
                .split(',')
                .filter_map(|option| option.split_once('='));
            all.find(|(option, _)| *option == name)
                .map_or(otherwise, |(_, value)| value)
                .to_owned()
        };
        Self {
            unit: quota.split_once('/').unwrap().1.to_owned(),
            month: option("month", "1").parse().unwrap(),
            day: option("day", "1").parse().unwrap(),
            weekday: option("start", "monday")[..3].to_owned(),
            at: option("at", "00:00").parse().unwrap(),
            zone: TimeZone::get(window.zone()).unwrap(),
        }
    }

    /// Returns whether a period begins on this day.
    fn begins_on(&self, date: Date) -> bool {
        let is_day = date.day() == self.day.min(date.days_in_month());
        match &*self.unit {
            "day" => true,
            "week" => date.strftime("%a").to_string().to_lowercase() == self.weekday,
            "month" => is_day,
            "year" => is_day && date.month() == self.month,
            other => panic!("{other} has no second definition"),
        }
    }

    /// Returns whether two instants are in one day, week, month or year.
    pub(super) fn same(&self, one: i128, other: i128) -> bool {
        self.label(one) == self.label(other)
    }

    /// Returns the first instant that is in the same as `at`.
    pub(crate) fn start(&self, at: i128) -> i128 {
        let (mut before, mut within) = (at - 370 * DAY_US, at);
        while within - before > 1 {
            let middle = before + (within - before) / 2;
            if self.same(middle, at) {
                within = middle;
            } else {
                before = middle;
            }
        }
        within
    }

    /// Returns what the instants of one period have in common: the day on which it began.
    pub(super) fn label(&self, at: i128) -> Date {
        if at > i128::from(MAX_EXACT) {
            // After the last instant there is.
            return Date::MAX;
        }
        let at = Timestamp::from_microsecond(i64::try_from(at).unwrap()).unwrap();
        let reached = self.reached(at);
        let mut date = reached.date();
        if reached.time() < self.at {
            date = date.yesterday().unwrap();
        }
        while !self.begins_on(date) {
            // No month begins between these.
            let is_far = self.unit == "year" && date.month() != self.month;
            date = match is_far {
                true => date.first_of_month().yesterday().unwrap(),
                false => date.yesterday().unwrap(),
            };
        }
        date
    }

    /// Returns the latest local time that there has been: clocks that go back begin no period anew.
    fn reached(&self, at: Timestamp) -> DateTime {
        let local = |at| self.zone.to_datetime(at);
        let changes = self
            .zone
            .preceding(at + 1.microseconds())
            .map(|change| change.timestamp());
        let changes = changes.take_while(|change| *change >= at - 26.hours());
        let before = changes.map(|change| local(change - 1.microseconds()));
        before.chain([local(at)]).max().unwrap()
    }
}
