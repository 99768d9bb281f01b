//! `Timeline`: the report's chart of admitted and denied requests over time.

use std::fmt::{self, Write};

use jiff::tz::TimeZone;
use tollgate_core::store::Verdicts;

use super::axis::{DAY, TimeAxis, seconds, span_for, when};
use super::page::legend;
use super::svg::{self, Length, Scale, UNIT};
use crate::text::Grouped;
use crate::trace::{Event, Trace};

const MOST_BARS: u64 = 120;

const WIDTH: u64 = 1_000;
const HEIGHT: u64 = 320;
const LEFT: u64 = 70;
const RIGHT: u64 = 12;
const TOP: u64 = 12;
const BOTTOM: u64 = 62;

/// Counts decisions per time span.
#[derive(Clone)]
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

    /// Adds the counts of `other`, which covers the same trace.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            count.admitted += other.admitted;
            count.denied += other.denied;
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
        let axis = TimeAxis {
            zone: &TimeZone::UTC,
            start: self.first * self.span,
            end: (self.first + bars) * self.span,
            least_step: self.span,
        };
        let slot = self.slot();
        // Labels stand exactly at their instants, even within a bar.
        let x_of = |at| Length(LEFT * UNIT + (at - axis.start) * slot / self.span);
        axis.draw(f, HEIGHT - BOTTOM, LEFT + (WIDTH - LEFT - RIGHT) / 2, x_of)
    }

    /// Returns the width of a bar with its gap, in hundredths.
    fn slot(&self) -> u64 {
        let bars = u64::try_from(self.counts.len()).unwrap_or(1).max(1);
        (WIDTH - LEFT - RIGHT) * UNIT / bars
    }
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
    fn timelines_of_parts_are_added() {
        let timeline = |admitted, denied| Timeline {
            span: 60,
            first: 7,
            counts: vec![Count { admitted, denied }, Count::default()],
        };
        let mut sum = timeline(1, 20);
        sum.add(&timeline(3, 40));
        assert_eq!((sum.counts[0].admitted, sum.counts[0].denied), (4, 60));
        assert_eq!((sum.counts[1].admitted, sum.counts[1].denied), (0, 0));
    }

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
