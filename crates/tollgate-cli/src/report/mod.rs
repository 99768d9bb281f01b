//! `Report`: self-contained HTML reports, readable without a network.

mod comparison;
pub(crate) mod page;
mod timeline;

pub(crate) use timeline::{Captions, Timeline};

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::tz::TimeZone;
use tollgate_core::Timestamp;

use self::page::{Cell, Escaped, Page};
use self::timeline::REQUESTS;
use crate::decisions::{Comparison, Summary};
use crate::failure::Failure;
use crate::input::ReadAs;
use crate::text::{grouped, listed, share, utc_second};

/// How `advise` and `replay` answer.
#[derive(Args, Debug)]
pub(crate) struct AnswerOptions {
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write an HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// The number of keys to show, those that are denied most
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
}

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
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let about = About {
            title: &self.title,
            conclusion: &self.conclusion,
            source: &self.source,
            key: &self.key,
            read_as: &self.summary.read_as,
            span: self.summary.span,
        };
        let mut page = about.page();
        let limits = self.limits_named();
        let by = Escaped(&limits);
        page.add(&format!("<p class=\"sub\">Decided by <b>{by}</b>:</p>"));
        self.tiles(&mut page);
        self.limits(&mut page);
        let captions = Captions {
            title: format!("Requests admitted and denied over time by {limits}"),
            unit: "requests",
            series: REQUESTS,
        };
        self.timeline.chart(&mut page, &captions, &TimeZone::UTC);
        self.keys(&mut page);
        for comparison in &self.comparisons {
            comparison::section(&mut page, comparison, self.summary.requests);
        }
        let how = "Every request was decided at its own time, in order of time, by the same state machines \
                   that decide live traffic.";
        page.write(how, path)
    }

    /// Returns the limits that decided, as a heading names them.
    fn limits_named(&self) -> String {
        let limits = &self.summary.limits;
        match limits.len() {
            0..=2 => listed(limits.iter().map(|limit| limit.limit.clone())),
            many => format!("all {many} limits together"),
        }
    }

    fn tiles(&self, page: &mut Page) {
        let summary = self.summary;
        let share = |part| share(part, summary.requests);
        let [allowed, denied] = [summary.allowed, summary.denied];
        let of_keys = format!("{} of them denied", grouped(summary.denied_keys));
        page.tiles(&[
            ("", summary.requests, ["request", "requests"], ""),
            ("admitted", allowed, ["admitted"; 2], &share(allowed)),
            ("denied", denied, ["denied"; 2], &share(denied)),
            ("", summary.keys, ["key", "keys"], &of_keys),
            ("", summary.skipped_lines, SKIPPED, ""),
        ]);
    }

    fn limits(&self, page: &mut Page) {
        page.section("Limits", |page| {
            if self.summary.limits.len() > 1 {
                page.add(
                    "<p>All of them decide together: a request is admitted only if each of them \
                     allows it, and a denied request consumes nothing, except of limits that count \
                     denials. A request that several denied counts for each.</p>",
                );
            }
            let rows = self.summary.limits.iter().map(|limit| {
                let share = Cell::share(limit.denied, self.summary.requests);
                let name = Cell::Code(limit.limit.clone());
                (false, vec![name, Cell::count(limit.denied), share])
            });
            page.table(&["Limit", "#Denied", "#Share"], rows);
        });
    }

    fn keys(&self, page: &mut Page) {
        let title = format!("Keys denied most by {}", self.limits_named());
        let keys = &self.summary.top_denied;
        page.section(&title, |page| {
            if keys.is_empty() {
                return page.add(match self.summary.denied {
                    0 => "<p>No request was denied.</p>",
                    _ => "<p>None were asked for.</p>",
                });
            }
            page.legend(REQUESTS);
            let most = keys.iter().map(|key| key.requests).max().unwrap_or(0);
            let rows = keys.iter().map(|key| {
                let bars = [("d", key.denied), ("a", key.requests - key.denied)];
                let cells = vec![
                    Cell::Text(key.key.clone()),
                    Cell::bars(bars, most),
                    Cell::count(key.denied),
                    Cell::count(key.requests),
                    Cell::share(key.denied, key.requests),
                ];
                (false, cells)
            });
            page.table(&["Key", "Requests", "#Denied", "#Of", "#Share"], rows);
        });
    }
}

/// What a tile says of lines that are no requests.
pub(crate) const SKIPPED: [&str; 2] = ["line skipped", "lines skipped"];

/// What the head of a page says of its requests.
pub(crate) struct About<'a> {
    pub(crate) title: &'a str,
    pub(crate) conclusion: &'a str,
    pub(crate) source: &'a str,
    pub(crate) key: &'a str,
    pub(crate) read_as: &'a ReadAs,
    pub(crate) span: (Timestamp, Timestamp),
}

impl About<'_> {
    pub(crate) fn page(&self) -> Page {
        let about = format!(
            "{} · counted by <b>{}</b> · {} to {} UTC. {}",
            Escaped(self.source),
            Escaped(self.key),
            utc_second(self.span.0),
            utc_second(self.span.1),
            Escaped(&self.read_as.remarks()),
        );
        Page::new(self.title, self.conclusion, &about)
    }
}
