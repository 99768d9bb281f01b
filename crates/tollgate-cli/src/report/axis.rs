//! `TimeAxis`: the times below a chart.

use std::fmt::{self, Write};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp as Instant};
use tollgate_core::Timestamp;

use super::svg::{Escaped, Length};
use crate::text::{utc, zoned};

const SECOND_US: u64 = 1_000_000;
pub(crate) const DAY: u64 = 86_400;

/// Round time spans in seconds, for bars and labels.
const SPANS: [u64; 19] = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    DAY,
    7 * DAY,
];

const MOST_LABELS: u64 = 9;

/// A time axis, in seconds since the Unix epoch.
pub(crate) struct TimeAxis<'z> {
    /// The zone in which the labels are round times.
    pub(crate) zone: &'z TimeZone,
    pub(crate) start: u64,
    /// The labels stand before this.
    pub(crate) end: u64,
    /// The least time between two labels.
    pub(crate) least_step: u64,
}

impl TimeAxis<'_> {
    /// Draws the axis at the height `base`, with its title around `middle`. `x_of` returns the
    /// position of a time.
    pub(crate) fn draw(
        &self,
        f: &mut impl Write,
        base: u64,
        middle: u64,
        x_of: impl Fn(u64) -> Length,
    ) -> fmt::Result {
        let step = span_for(self.start, self.end, MOST_LABELS).max(self.least_step);
        let mut shown_day = None;
        let mut local = self.local(self.start).div_euclid(step_i64(step)) * step_i64(step);
        loop {
            let at = self.instant(local);
            local += step_i64(step);
            if at.is_none_or(|at| at >= self.end) {
                break;
            }
            let Some(at) = at.filter(|at| *at >= self.start) else {
                continue;
            };
            let x = x_of(at);
            let (y1, y2) = (base, base + 5);
            let when = |format| zoned(instant_of(at), self.zone, format);
            let (time, date) = if step >= DAY {
                (when("%-d %b"), when("%Y"))
            } else if step >= 60 {
                (when("%H:%M"), when("%-d %b %Y"))
            } else {
                (when("%H:%M:%S"), when("%-d %b %Y"))
            };
            writeln!(
                f,
                "<line class=\"axis\" x1=\"{x}\" x2=\"{x}\" y1=\"{y1}\" y2=\"{y2}\"/>\
                 <text class=\"mean\" x=\"{x}\" y=\"{}\">{time}</text>",
                y2 + 14,
            )?;
            if shown_day.as_ref() != Some(&date) {
                writeln!(
                    f,
                    "<text class=\"mean soft\" x=\"{x}\" y=\"{}\">{date}</text>",
                    y2 + 29
                )?;
                shown_day = Some(date);
            }
        }
        writeln!(
            f,
            "<text class=\"title mean\" x=\"{middle}\" y=\"{}\">time ({})</text>",
            base + 58,
            Escaped(self.zone.iana_name().unwrap_or("local")),
        )
    }

    /// Returns the local time of `at`, in seconds since the local beginning of 1970.
    fn local(&self, at: u64) -> i64 {
        let instant = Instant::from(instant_of(at));
        instant.as_second() + i64::from(self.zone.to_offset(instant).seconds())
    }

    /// Returns the instant of a local time: the first one, or after a gap that holds it.
    fn instant(&self, local: i64) -> Option<u64> {
        let since = SignedDuration::from_secs(local);
        let local = DateTime::constant(1970, 1, 1, 0, 0, 0, 0)
            .checked_add(since)
            .ok()?;
        let instant = self.zone.to_timestamp(local).ok()?;
        u64::try_from(instant.as_second()).ok()
    }
}

fn step_i64(step: u64) -> i64 {
    i64::try_from(step).unwrap_or(i64::MAX)
}

fn instant_of(seconds: u64) -> Timestamp {
    Timestamp::saturating_from_micros(seconds.saturating_mul(SECOND_US))
}

/// Returns the whole seconds of `at`.
pub(crate) fn seconds(at: Timestamp) -> u64 {
    at.as_micros() / SECOND_US
}

/// Formats a time in UTC.
pub(crate) fn when(seconds: u64, format: &str) -> String {
    utc(instant_of(seconds), format)
}

/// Returns the smallest round span that covers `first..=last` in at most `most` pieces.
pub(crate) fn span_for(first: u64, last: u64, most: u64) -> u64 {
    let fits = |&span: &u64| last / span - first / span < most;
    let weeks = || {
        let week = 7 * DAY;
        week * ((last - first) / (week * (most - 1)) + 1)
    };
    SPANS.into_iter().find(fits).unwrap_or_else(weeks)
}
