//! `Report`: self-contained HTML reports, readable without a network.

pub(crate) mod axis;
mod comparison;
mod keys;
mod options;
pub(crate) mod page;
pub(crate) mod svg;
mod timeline;

pub(crate) use options::AnswerOptions;
pub(crate) use timeline::Timeline;

use std::fmt;
use std::path::Path;

use self::page::{start, tile, write_page};
use self::svg::Escaped;
use crate::decisions::{Comparison, Summary};
use crate::failure::Failure;
use crate::text::{Grouped, Share, noun, utc_second};

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

    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.summary.span;
        start(
            f,
            &self.title,
            &self.conclusion,
            format_args!(
                "{} · counted by <b>{}</b> · {} to {} UTC",
                Escaped(&self.source),
                Escaped(&self.key),
                utc_second(first),
                utc_second(last),
            ),
        )
    }

    fn tiles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.summary;
        let share = |part| Share(part, summary.requests).to_string();
        f.write_str("<ul class=\"tiles\">\n")?;
        tile(
            f,
            "",
            summary.requests,
            noun(summary.requests, "request", "requests"),
            "",
        )?;
        tile(
            f,
            "admitted",
            summary.allowed,
            "admitted",
            &share(summary.allowed),
        )?;
        tile(
            f,
            "denied",
            summary.denied,
            "denied",
            &share(summary.denied),
        )?;
        let denied = format!("{} of them denied", Grouped(summary.denied_keys));
        tile(
            f,
            "",
            summary.keys,
            noun(summary.keys, "key", "keys"),
            &denied,
        )?;
        tile(
            f,
            "",
            summary.skipped_lines,
            noun(summary.skipped_lines, "line skipped", "lines skipped"),
            "",
        )?;
        f.write_str("</ul>\n")
    }

    fn limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<section><h2>Limits</h2>\n")?;
        if self.summary.limits.len() > 1 {
            f.write_str(
                "<p>All of them decide together: a request is admitted only if each of them \
                 allows it, and a denied request consumes nothing, except of limits that count \
                 denials. A request that several refused counts for each.</p>\n",
            )?;
        }
        f.write_str(
            "<table><thead><tr><th>Limit</th><th class=\"n\">Refused</th>\
             <th class=\"n\">Share</th></tr></thead><tbody>\n",
        )?;
        for limit in &self.summary.limits {
            writeln!(
                f,
                "<tr><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                Escaped(&limit.limit),
                Grouped(limit.refused),
                Escaped(&Share(limit.refused, self.summary.requests).to_string()),
            )?;
        }
        f.write_str("</tbody></table></section>\n")
    }
}

/// Writes the whole page.
impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.tiles(f)?;
        self.limits(f)?;
        self.timeline.chart(f)?;
        keys::chart(f, self.summary)?;
        for comparison in &self.comparisons {
            comparison::section(f, comparison, self.summary.requests)?;
        }
        f.write_str(
            "<footer>Every request was decided at its own time, in order of time, by the same \
             state machines that decide live traffic. Written by tollgate.</footer>\n\
             </main></body></html>\n",
        )
    }
}
