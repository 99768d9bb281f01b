//! `Report`: self-contained HTML reports, readable without a network.

mod comparison;
mod options;
pub(crate) mod page;
mod timeline;

pub(crate) use options::AnswerOptions;
pub(crate) use timeline::{Captions, Timeline};

use std::fmt;
use std::path::Path;

use jiff::tz::TimeZone;
use tollgate_core::Timestamp;

use self::page::{Cell, Escaped, end, legend, start, table, thousandths, tiles, write_page};
use self::timeline::REQUESTS;
use crate::decisions::{Comparison, Summary};
use crate::failure::Failure;
use crate::input::ReadAs;
use crate::text::{grouped, listed, noun, share, utc_second};

/// The contents of a report.
pub(crate) struct Report<'r> {
    pub(crate) title: String,
    /// What follows from the decisions, in one sentence.
    pub(crate) conclusion: String,
    /// Where the requests come from.
    pub(crate) source: String,
    /// What the requests are counted by.
    pub(crate) key: String,
    pub(crate) summary: &'r Summary,
    pub(crate) timeline: &'r Timeline,
    pub(crate) comparisons: Vec<Comparison>,
}

impl Report<'_> {
    /// Writes the report to `path`.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        write_page(path, &self.to_string())
    }

    /// Returns the limits that decided, as a heading names them.
    fn limits_named(&self) -> String {
        let limits = &self.summary.limits;
        match limits.len() {
            0..=2 => listed(limits.iter().map(|limit| limit.limit.clone())),
            many => format!("all {many} limits together"),
        }
    }

    fn tiles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.summary;
        let share = |part| share(part, summary.requests);
        let of_keys = format!("{} of them denied", grouped(summary.denied_keys));
        let [requests, keys, skipped] = [summary.requests, summary.keys, summary.skipped_lines];
        let lines = noun(skipped, "line skipped", "lines skipped");
        tiles(
            f,
            [
                (
                    "",
                    requests,
                    noun(requests, "request", "requests"),
                    String::new(),
                ),
                (
                    "admitted",
                    summary.allowed,
                    "admitted",
                    share(summary.allowed),
                ),
                ("denied", summary.denied, "denied", share(summary.denied)),
                ("", keys, noun(keys, "key", "keys"), of_keys),
                ("", skipped, lines, String::new()),
            ],
        )
    }

    fn limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<section><h2>Limits</h2>\n")?;
        if self.summary.limits.len() > 1 {
            f.write_str(
                "<p>All of them decide together: a request is admitted only if each of them \
                 allows it, and a denied request consumes nothing, except of limits that count \
                 denials. A request that several denied counts for each.</p>\n",
            )?;
        }
        let rows = self.summary.limits.iter().map(|limit| {
            let share = share(limit.denied, self.summary.requests);
            let cells = vec![
                Cell::Code(limit.limit.clone()),
                Cell::Number(grouped(limit.denied)),
                Cell::Number(share),
            ];
            (false, cells)
        });
        table(f, &["Limit", "#Denied", "#Share"], rows)?;
        f.write_str("</section>\n")
    }

    fn keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<section><h2>Keys denied most by {}</h2>",
            Escaped(&self.limits_named())
        )?;
        let keys = &self.summary.top_denied;
        if keys.is_empty() {
            let none = match self.summary.denied {
                0 => "No request was denied.",
                _ => "None were asked for.",
            };
            return writeln!(f, "<p>{none}</p></section>");
        }
        legend(f, REQUESTS)?;
        let most = keys.iter().map(|key| key.requests).max().unwrap_or(0);
        let rows = keys.iter().map(|key| {
            let bars = [("d", key.denied), ("a", key.requests - key.denied)];
            let cells = vec![
                Cell::Text(key.key.clone()),
                Cell::Bars(bars.map(|(class, part)| (class, thousandths(part, most)))),
                Cell::Number(grouped(key.denied)),
                Cell::Number(grouped(key.requests)),
                Cell::Number(share(key.denied, key.requests)),
            ];
            (false, cells)
        });
        table(f, &["Key", "Requests", "#Denied", "#Of", "#Share"], rows)?;
        f.write_str("</section>\n")
    }
}

/// Writes the start of a page about requests from `source`, counted by `key`.
pub(crate) fn head(
    f: &mut impl fmt::Write,
    (title, conclusion): (&str, &str),
    (source, key, read_as): (&str, &str, &ReadAs),
    (first, last): (Timestamp, Timestamp),
) -> fmt::Result {
    start(
        f,
        title,
        conclusion,
        format_args!(
            "{} · counted by <b>{}</b> · {} to {} UTC. {}",
            Escaped(source),
            Escaped(key),
            utc_second(first),
            utc_second(last),
            Escaped(&read_as.remarks()),
        ),
    )
}

/// Writes the whole page.
impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = (&*self.title, &*self.conclusion);
        head(
            f,
            texts,
            (&self.source, &self.key, &self.summary.read_as),
            self.summary.span,
        )?;
        writeln!(
            f,
            "<p class=\"sub\">Decided by <b>{}</b>:</p>",
            Escaped(&self.limits_named())
        )?;
        self.tiles(f)?;
        self.limits(f)?;
        let captions = Captions {
            title: format!(
                "Requests admitted and denied over time by {}",
                self.limits_named()
            ),
            unit: "requests",
            series: REQUESTS,
        };
        self.timeline.chart(f, &captions, &TimeZone::UTC)?;
        self.keys(f)?;
        for comparison in &self.comparisons {
            comparison::section(f, comparison, self.summary.requests)?;
        }
        end(
            f,
            "Every request was decided at its own time, in order of time, by the same state machines \
             that decide live traffic.",
        )
    }
}
