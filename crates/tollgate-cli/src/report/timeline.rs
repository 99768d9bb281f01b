//! `Timeline`: the report's chart of admitted and denied requests over time.

use std::fmt::{self, Write};

use tollgate_core::{Timestamp, Verdicts};

use super::legend;
use super::svg::{self, Length, Scale, UNIT};
use crate::text::{Grouped, utc};
use crate::trace::{Event, Trace};

const SECOND_US: u64 = 1_000_000;
const DAY: u64 = 86_400;

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

const MOST_BARS: u64 = 120;
const MOST_LABELS: u64 = 9;

const WIDTH: u64 = 1_000;
const HEIGHT: u64 = 320;
const LEFT: u64 = 70;
const RIGHT: u64 = 12;
const TOP: u64 = 12;
const BOTTOM: u64 = 62;

/// Counts decisions per time span.
pub(crate) struct Timeline {
    /// In seconds.
    span: u64,
    /// The index of the first span, counted from the Unix epoch.
    first: u64,
    counts: Vec<Count>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    admitted: u64,
    denied: u64,
}

impl Timeline {
    /// Returns a timeline that covers `trace`.
    pub(crate) fn new(trace: &Trace) -> Self {
        let (first, last) = trace.span();
        let (first, last) = (seconds(first), seconds(last));
        let span = span_for(first, last, MOST_BARS);
        let bars = last / span - first / span + 1;
        Self {
            span,
            first: first / span,
            // The conversion cannot fail: the number of bars is bounded.
            counts: vec![Count::default(); usize::try_from(bars).unwrap_or_default()],
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, event: &Event, decision: &Verdicts) {
        let index = seconds(event.at) / self.span - self.first;
        let count = usize::try_from(index)
            .ok()
            .and_then(|index| self.counts.get_mut(index));
        if let Some(count) = count {
            if decision.is_allowed() {
                count.admitted += 1;
            } else {
                count.denied += 1;
            }
        }
    }

    /// Writes the section of the chart.
    pub(super) fn chart(&self, f: &mut impl Write) -> fmt::Result {
        f.write_str("<section><h2>Admitted and denied over time</h2>\n")?;
        legend(f)?;
        svg::open(f, WIDTH, HEIGHT, "Requests admitted and denied over time")?;
        let most = self.counts.iter().map(|c| c.admitted + c.denied).max();
        let scale = Scale::new(most.unwrap_or(0), HEIGHT - TOP - BOTTOM);
        self.value_axis(f, scale)?;
        self.bars(f, scale)?;
        self.time_axis(f)?;
        f.write_str("</svg></section>\n")
    }

    fn value_axis(&self, f: &mut impl Write, scale: Scale) -> fmt::Result {
        let base = (HEIGHT - BOTTOM) * UNIT;
        for value in scale.ticks() {
            let y = Length(base - scale.length(value).0);
            writeln!(
                f,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\
                 <text class=\"end mid\" x=\"{}\" y=\"{y}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8,
                Grouped(value),
            )?;
        }
        let middle = TOP + (HEIGHT - TOP - BOTTOM) / 2;
        writeln!(
            f,
            "<text class=\"title mean\" transform=\"translate(14 {middle}) rotate(-90)\">\
             requests per {}</text>",
            span_name(self.span),
        )
    }

    fn bars(&self, f: &mut impl Write, scale: Scale) -> fmt::Result {
        let base = (HEIGHT - BOTTOM) * UNIT;
        let slot = self.slot();
        // A small gap between bars, if they are wide enough.
        let width = Length(slot - (slot / 8).min(2 * UNIT));
        for (index, count) in (0_u64..).zip(&self.counts) {
            if count.admitted + count.denied == 0 {
                continue;
            }
            let x = Length(LEFT * UNIT + index * slot);
            let from = (self.first + index) * self.span;
            write!(
                f,
                "<g><title>{} UTC: {} admitted, {} denied</title>",
                when(from, "%-d %b %Y %H:%M:%S"),
                Grouped(count.admitted),
                Grouped(count.denied),
            )?;
            let admitted = scale.length(count.admitted);
            let denied = scale.length(count.denied);
            let y = base - admitted.0;
            svg::bar(f, "a", [x, Length(y), width, admitted])?;
            let y = Length(y.saturating_sub(denied.0));
            svg::bar(f, "d", [x, y, width, denied])?;
            f.write_str("</g>\n")?;
        }
        Ok(())
    }

    fn time_axis(&self, f: &mut impl Write) -> fmt::Result {
        let bars = u64::try_from(self.counts.len()).unwrap_or(1);
        let (start, end) = (self.first * self.span, (self.first + bars) * self.span);
        let step = span_for(start, end, MOST_LABELS).max(self.span);
        let slot = self.slot();
        let mut shown_day = None;
        let mut at = start.div_ceil(step) * step;
        while at < end {
            // Labels stand exactly at their instants, even within a bar.
            let x = Length(LEFT * UNIT + (at - start) * slot / self.span);
            let (y1, y2) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM + 5);
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
            "<text class=\"title mean\" x=\"{}\" y=\"{}\">time (UTC)</text>",
            LEFT + (WIDTH - LEFT - RIGHT) / 2,
            HEIGHT - 4,
        )
    }

    /// Returns the width of a bar with its gap, in hundredths.
    fn slot(&self) -> u64 {
        let bars = u64::try_from(self.counts.len()).unwrap_or(1).max(1);
        (WIDTH - LEFT - RIGHT) * UNIT / bars
    }
}

fn seconds(at: Timestamp) -> u64 {
    at.as_micros() / SECOND_US
}

fn when(seconds: u64, format: &str) -> String {
    utc(
        Timestamp::saturating_from_micros(seconds.saturating_mul(SECOND_US)),
        format,
    )
}

/// Returns the smallest round span that covers `first..=last` in at most `most` pieces.
fn span_for(first: u64, last: u64, most: u64) -> u64 {
    let fits = |&span: &u64| last / span - first / span < most;
    let weeks = || {
        let week = 7 * DAY;
        week * ((last - first) / (week * (most - 1)) + 1)
    };
    SPANS.into_iter().find(fits).unwrap_or_else(weeks)
}

fn span_name(span: u64) -> String {
    let units = [
        (7 * DAY, "week"),
        (DAY, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| span.is_multiple_of(*unit))
        .unwrap_or((1, "second"));
    match span / unit {
        1 => name.to_owned(),
        count => format!("{count} {name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timelines_have_few_spans_of_round_length() {
        assert_eq!(span_for(0, 0, MOST_BARS), 1);
        assert_eq!(span_for(0, 3 * DAY, MOST_BARS), 3_600);
        for last in [1, 100, DAY, 400 * DAY, 9_000_000_000] {
            let span = span_for(17, 17 + last, MOST_BARS);
            assert!((17 + last) / span - 17 / span < MOST_BARS, "{last}");
        }
        assert_eq!(span_name(3_600), "hour");
        assert_eq!(span_name(900), "15 minutes");
        assert_eq!(span_name(14 * DAY), "2 weeks");
    }
}
