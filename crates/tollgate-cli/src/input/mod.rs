//! `Input`: reads log files into a trace.

mod access_log;
mod instant;
mod json;
mod lines;
mod reader;
mod record;
mod source;

pub(crate) use record::Record;
pub(crate) use source::{Source, is_read_from, is_standard_input};

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use self::reader::{Reader, Stream, in_order};
use crate::cli::LogOptions;
use crate::failure::Failure;
use crate::jobs::Jobs;
use crate::key::KeyParts;
use crate::progress::Progress;
use crate::text::plural;
use crate::trace::Trace;

/// The number of skipped lines to show.
const SHOWN: usize = 5;

/// The requests of all logs in time order, and the skipped lines.
pub(crate) struct Input {
    pub(crate) trace: Trace,
    pub(crate) skipped: Skipped,
}

/// The lines that could not be parsed.
#[derive(Default)]
pub(crate) struct Skipped {
    pub(crate) count: u64,
    /// The first few, as `FILE:LINE: REASON`.
    pub(crate) first: Vec<String>,
}

impl Input {
    /// Reads the logs of `options` into the empty `trace`, and sorts their requests by time.
    pub(crate) fn read(
        options: &LogOptions,
        key: &KeyParts,
        mut trace: Trace,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let files = &options.files;
        // Nothing would be left for the second time.
        if files.iter().filter(|path| is_standard_input(path)).count() > 1 {
            return Err(Failure::StandardInputTwice);
        }
        let sources = files
            .iter()
            .map(|path| Source::new(path))
            .collect::<Result<Vec<_>, _>>()?;
        progress.start_reading(sources.iter().map(Source::bytes).sum());
        let stream = Mutex::new(Stream::new(sources, progress));
        let jobs = Jobs::new(options.jobs);
        let readers = (0..jobs.count()).map(|_| Reader::new(options, key));
        let readers: Vec<_> = readers.collect();
        let readers = jobs.each(readers, |reader| reader.read(&stream));
        let readers = readers.into_iter().collect::<Result<Vec<_>, _>>()?;
        progress.say("sorting");
        let (skipped, keys, batches) = in_order(files, readers);
        trace.fill(keys, batches)?;
        if trace.requests() == 0 {
            return Err(Failure::Empty {
                files: names(files),
                skipped: skipped.hint(),
            });
        }
        trace.sort();
        Ok(Self { trace, skipped })
    }
}

impl Skipped {
    /// Returns the first reason in brackets; empty without skipped lines.
    fn hint(&self) -> String {
        let lines = plural(self.count, "line", "lines");
        let hint = |first| format!(" ({lines} skipped, the first {first})");
        self.first.first().map(hint).unwrap_or_default()
    }

    /// Returns the message about skipped lines; empty without any.
    pub(crate) fn remark(&self) -> String {
        if self.count == 0 {
            return String::new();
        }
        let lines = if self.count == 1 { "line" } else { "lines" };
        let mut text = format!("tollgate: {} {lines} skipped\n", self.count);
        for line in &self.first {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
        let shown = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        if self.count > shown {
            text.push_str(&format!("  and {} more\n", self.count - shown));
        }
        text
    }
}

/// Returns the names of the logs.
pub(crate) fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// Returns the failure to read `path`.
pub(crate) fn unreadable(path: &Path, source: std::io::Error) -> Failure {
    Failure::Read {
        path: path.to_owned(),
        source,
    }
}
