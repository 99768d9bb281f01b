//! `Timeline`: the report's bars over time.

use jiff::tz::TimeZone;
use tollgate_core::Timestamp;

use super::page::{Cell, Page};
use crate::text::zoned;

const MOST_BARS: u64 = 60;

const SECOND_US: u64 = 1_000_000;
const DAY: u64 = 86_400;

/// Round time spans in seconds.
const SPANS: [u64; 19] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 604_800,
];

pub(crate) struct Captions {
    pub(crate) title: String,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// The names of the two colours.
    pub(crate) series: [&'static str; 2],
}

/// The names of the two colours of requests.
pub(super) const REQUESTS: [&str; 2] = ["admitted", "denied"];

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
    pub(crate) fn new((first, last): (Timestamp, Timestamp)) -> Self {
        let (first, last) = (seconds(first), seconds(last));
        let span = span_for(first, last);
        let bars = last / span - first / span + 1;
        Self {
            span,
            first: first / span,
            // The conversion cannot fail: the number of bars is bounded.
            counts: vec![Count::default(); usize::try_from(bars).unwrap_or_default()],
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, at: Timestamp, is_admitted: bool) {
        let index = seconds(at) / self.span - self.first;
        let count = usize::try_from(index)
            .ok()
            .and_then(|index| self.counts.get_mut(index));
        if let Some(count) = count {
            if is_admitted {
                count.admitted += 1;
            } else {
                count.denied += 1;
            }
        }
    }

    /// Adds the section, with times in `zone`.
    pub(crate) fn chart(&self, page: &mut Page, captions: &Captions, zone: &TimeZone) {
        page.section(&captions.title, |page| {
            page.legend(captions.series);
            let most = self.counts.iter().map(|it| it.admitted + it.denied).max();
            let most = most.unwrap_or(0);
            let rows = (self.first..).zip(&self.counts).map(|(index, count)| {
                let from = Timestamp::saturating_from_micros(index * self.span * SECOND_US);
                let bars = [("a", count.admitted), ("d", count.denied)];
                let cells = vec![
                    Cell::Text(zoned(from, zone, "%-d %b %Y %H:%M:%S %Z")),
                    Cell::bars(bars, most),
                    Cell::count(count.admitted),
                    Cell::count(count.denied),
                ];
                (false, cells)
            });
            let unit = format!("{} per {}", captions.unit, span_name(self.span));
            let series = captions.series.map(|name| format!("#{name}"));
            page.table(&["from", &unit, &series[0], &series[1]], rows);
        });
    }
}

fn seconds(at: Timestamp) -> u64 {
    at.as_micros() / SECOND_US
}

/// Returns the smallest round span that covers `first..=last` in few pieces.
fn span_for(first: u64, last: u64) -> u64 {
    let fits = |&span: &u64| last / span - first / span < MOST_BARS;
    let weeks = || {
        let week = 7 * DAY;
        week * ((last - first) / (week * (MOST_BARS - 1)) + 1)
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
        assert_eq!(span_for(0, 0), 1);
        assert_eq!(span_for(0, 2 * DAY), 3_600);
        for last in [1, 100, DAY, 400 * DAY, 9_000_000_000] {
            let span = span_for(17, 17 + last);
            assert!((17 + last) / span - 17 / span < MOST_BARS, "{last}");
        }
        assert_eq!(span_name(3_600), "hour");
        assert_eq!(span_name(900), "15 minutes");
        assert_eq!(span_name(14 * DAY), "2 weeks");
    }
}
