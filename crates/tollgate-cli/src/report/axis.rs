//! `TimeAxis`: the times below a chart.

use std::fmt::{self, Write};

use tollgate_core::Timestamp;

use super::svg::Length;
use crate::text::utc;

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
pub(crate) struct TimeAxis {
    pub(crate) start: u64,
    /// The labels stand before this.
    pub(crate) end: u64,
    /// The least time between two labels.
    pub(crate) least_step: u64,
}

impl TimeAxis {
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
        let mut at = self.start.div_ceil(step) * step;
        while at < self.end {
            let x = x_of(at);
            let (y1, y2) = (base, base + 5);
            let day = at / DAY;
            let (time, date) = if step >= DAY {
                (when(at, "%-d %b"), when(at, "%Y"))
            } else if step >= 60 {
                (when(at, "%H:%M"), when(at, "%-d %b %Y"))
            } else {
                (when(at, "%H:%M:%S"), when(at, "%-d %b %Y"))
            };
            writeln!(
                f,
                "<line class=\"axis\" x1=\"{x}\" x2=\"{x}\" y1=\"{y1}\" y2=\"{y2}\"/>\
                 <text class=\"mean\" x=\"{x}\" y=\"{}\">{time}</text>",
                y2 + 14,
            )?;
            let group = if step >= DAY {
                date.clone()
            } else {
                day.to_string()
            };
            if shown_day.as_ref() != Some(&group) {
                writeln!(
                    f,
                    "<text class=\"mean soft\" x=\"{x}\" y=\"{}\">{date}</text>",
                    y2 + 29
                )?;
                shown_day = Some(group);
            }
            at += step;
        }
        writeln!(
            f,
            "<text class=\"title mean\" x=\"{middle}\" y=\"{}\">time (UTC)</text>",
            base + 58,
        )
    }
}

/// Returns the whole seconds of `at`.
pub(crate) fn seconds(at: Timestamp) -> u64 {
    at.as_micros() / SECOND_US
}

/// Formats a time in UTC.
pub(crate) fn when(seconds: u64, format: &str) -> String {
    utc(
        Timestamp::saturating_from_micros(seconds.saturating_mul(SECOND_US)),
        format,
    )
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
