//! `Skipped` and `ReadAs`: what was read of the logs, and what was not.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;

use super::record::Skip;
use super::table::Prefix;
use crate::text::{grouped, plural};

/// The lines that are not requests, by reason.
#[derive(Default)]
pub(crate) struct Skipped {
    pub(crate) count: u64,
    /// In order of first appearance.
    reasons: Vec<Reason>,
}

struct Reason {
    skip: Skip,
    count: u64,
    /// The first line with this reason, as `FILE:LINE`.
    first: String,
}

impl Skipped {
    /// Adds a line; `place` names it.
    #[cold]
    pub(super) fn add(&mut self, skip: Skip, place: impl FnOnce() -> String) {
        self.count += 1;
        match self.reasons.iter_mut().find(|reason| reason.skip == skip) {
            Some(reason) => reason.count += 1,
            None => self.reasons.push(Reason {
                skip,
                count: 1,
                first: place(),
            }),
        }
    }

    /// Returns the most frequent reason in brackets; empty without skipped lines.
    pub(super) fn hint(&self) -> String {
        let lines = plural(self.count, "line", "lines");
        // The first of the most frequent ones.
        let most = self.reasons.iter().rev().max_by_key(|reason| reason.count);
        let hint =
            |most: &Reason| format!(" ({lines} skipped, such as {}: {})", most.first, most.skip);
        most.map(hint).unwrap_or_default()
    }

    /// Returns the message about skipped lines; empty without any.
    pub(crate) fn remark(&self) -> String {
        if self.count == 0 {
            return String::new();
        }
        let lines = if self.count == 1 { "line" } else { "lines" };
        let mut text = format!("tollgate: {} {lines} skipped\n", self.count);
        for reason in &self.reasons {
            let Reason { skip, count, first } = reason;
            text.push_str(&format!("  {first}: {skip}"));
            if *count > 1 {
                text.push_str(&format!(" (and {} more)", grouped(count - 1)));
            }
            text.push('\n');
        }
        text
    }
}

/// How the logs were read.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ReadAs {
    /// The formats that requests were read from, the most frequent one first.
    read_as: Vec<Read>,
    /// How many requests were left out because they are not those that were asked for.
    #[serde(skip_serializing_if = "crate::text::is_zero")]
    pub(super) left_out: u64,
    /// The first and the last year that was assumed for a time that has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed_years: Option<[i16; 2]>,
}

/// How many requests were read from lines of a format.
#[derive(Clone, Debug, Serialize)]
struct Read {
    format: &'static str,
    prefix: Prefix,
    requests: u64,
}

impl ReadAs {
    /// Adds a request from a line of this format after `prefix`.
    #[inline]
    pub(super) fn add(&mut self, prefix: Prefix, format: &'static str) {
        let reads = &mut self.read_as;
        let same = |read: &&mut Read| (read.format, read.prefix) == (format, prefix);
        match reads.iter_mut().find(same) {
            Some(read) => read.requests += 1,
            None => reads.push(Read {
                format,
                prefix,
                requests: 1,
            }),
        }
    }

    /// Returns a line each about what was left out and what was assumed.
    pub(crate) fn remarks(&self) -> String {
        let mut text = String::new();
        if self.left_out > 0 {
            let left_out = plural(self.left_out, "request is", "requests are");
            text += &format!("{left_out} left out, by --path, --method or --status.\n");
        }
        if let Some([first, last]) = self.assumed_years {
            let years = match last - first {
                0 => format!("{last} is"),
                1 => format!("{first} and {last} are"),
                _ => format!("{first} to {last} are"),
            };
            text += &format!(
                "Times without a year: {years} assumed, from when the log was changed last.\n"
            );
        }
        text
    }

    pub(super) fn assume(&mut self, year: i16) {
        let [first, last] = self.assumed_years.unwrap_or([year; 2]);
        self.assumed_years = Some([first.min(year), last.max(year)]);
    }

    pub(super) fn sort(&mut self) {
        self.read_as.sort_by_key(|read| Reverse(read.requests));
    }
}

/// Formats a line such as `Read as combined after syslog.`, and lines about what was left out and
/// assumed; empty if nothing was read.
impl fmt::Display for ReadAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = &self.read_as;
        for (index, read) in reads.iter().enumerate() {
            f.write_str(if index == 0 { "Read as " } else { ", " })?;
            write!(f, "{}", read.format)?;
            match read.prefix {
                Prefix::None => {}
                Prefix::Wrapped => f.write_str(" within json")?,
                Prefix::Container => f.write_str(" after container")?,
                Prefix::Syslog => f.write_str(" after syslog")?,
            }
            if reads.len() > 1 {
                write!(f, " ({})", plural(read.requests, "request", "requests"))?;
            }
        }
        if !reads.is_empty() {
            f.write_str(".\n")?;
        }
        f.write_str(&self.remarks())
    }
}
