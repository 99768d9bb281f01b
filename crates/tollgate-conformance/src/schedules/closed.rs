//! `ClosedRule`: the second definition of closed times. It compares the local time, written as text.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Closed times: on some days of a zone, from a time until another, such as `22:00` until `08:00`.
#[derive(Clone, Debug)]
pub(crate) struct ClosedRule {
    pub(crate) days: ClosedDays,
    pub(crate) from: String,
    pub(crate) until: String,
    pub(crate) zone: &'static str,
}

/// The days on which closed times begin.
#[derive(Clone, Debug)]
pub(crate) enum ClosedDays {
    Every,
    /// Weekdays, as three letters.
    Weekdays(Vec<&'static str>),
    Dates(Date, Date),
    /// The same month and days of every year.
    Yearly(Date, Date),
    /// The same days of each month.
    Monthly(i8, i8),
}

impl ClosedRule {
    /// Returns the text of the rule, in the zone with this name.
    pub(crate) fn text(&self, zone: &str) -> String {
        let days = match &self.days {
            ClosedDays::Every => String::new(),
            ClosedDays::Weekdays(days) => days.join(",") + " ",
            ClosedDays::Dates(first, last) => format!("{first}..{last} "),
            ClosedDays::Yearly(first, last) => {
                format!("{}..{} ", first.strftime("%m-%d"), last.strftime("%m-%d"))
            }
            // These are from the 4th to the 20th.
            ClosedDays::Monthly(first, last) => format!("{first}th..{last}th "),
        };
        let Self { from, until, .. } = self;
        format!("closed {days}{from}-{until}@{zone}")
    }

    /// Returns whether the local time of `zone` at this instant is closed.
    pub(crate) fn is_closed(&self, zone: &TimeZone, micros: u64) -> bool {
        let local = instant(micros).to_zoned(zone.clone()).datetime();
        let (date, time) = (local.date(), local.time().to_string());
        let begins = |date: Date| match &self.days {
            ClosedDays::Every => true,
            ClosedDays::Weekdays(days) => {
                days.contains(&&*date.strftime("%a").to_string().to_lowercase())
            }
            ClosedDays::Dates(first, last) => (*first..=*last).contains(&date),
            ClosedDays::Yearly(first, last) => {
                let [first, last, date] =
                    [*first, *last, date].map(|date| date.strftime("%m-%d").to_string());
                match first <= last {
                    true => first <= date && date <= last,
                    false => first <= date || date <= last,
                }
            }
            ClosedDays::Monthly(first, last) => (*first..=*last).contains(&date.day()),
        };
        if self.until > self.from {
            begins(date) && self.from <= time && time < self.until
        } else {
            let yesterday = date.yesterday().unwrap();
            begins(date) && self.from <= time || begins(yesterday) && time < self.until
        }
    }

    /// Returns every instant within these at which the rule may begin or end to close.
    pub(crate) fn edges(&self, zone: &TimeZone, from: u64, until: u64) -> Vec<u64> {
        let (first, last) = (instant(from), instant(until));
        let mut edges: Vec<Timestamp> = Vec::new();
        let changes = zone.following(first);
        let changes = changes.map(|change| change.timestamp());
        edges.extend(changes.take_while(|change| *change <= last));
        let mut date = first.to_zoned(zone.clone()).date();
        while date <= last.to_zoned(zone.clone()).date() {
            for time in [&*self.from, &*self.until, "00:00"] {
                let local = match time {
                    "24:00" => DateTime::from_parts(date.tomorrow().unwrap(), Time::midnight()),
                    time => DateTime::from_parts(date, time.parse().unwrap()),
                };
                let local = zone.to_ambiguous_timestamp(local);
                edges.extend([local.earlier(), local.later()].map(Result::unwrap));
            }
            date = date.checked_add(1.day()).unwrap();
        }
        let micros = |at: Timestamp| u64::try_from(at.as_microsecond()).unwrap();
        edges.into_iter().map(micros).collect()
    }
}

fn instant(micros: u64) -> Timestamp {
    Timestamp::from_microsecond(i64::try_from(micros).unwrap()).unwrap()
}
