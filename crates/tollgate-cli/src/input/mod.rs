//! `Input`: reads log files into a trace.

mod access_log;
mod instant;
mod json;
mod lines;
mod record;
mod source;

pub(crate) use record::{Record, Skip};
pub(crate) use source::{Source, is_read_from, is_standard_input};

use std::path::Path;

use self::access_log::AccessLog;
use self::json::JsonLines;
use self::lines::Line;
use crate::cli::{Format, LogOptions};
use crate::failure::Failure;
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
    /// Reads the logs of `options` and sorts their requests by time.
    pub(crate) fn read(
        options: &LogOptions,
        key: &KeyParts,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let files = &options.files;
        let mut input = Self {
            trace: Trace::default(),
            skipped: Skipped::default(),
        };
        // Standard input is locked while it is read, so reading it twice would deadlock.
        if files.iter().filter(|path| is_standard_input(path)).count() > 1 {
            return Err(Failure::StandardInputTwice);
        }
        let sources = files
            .iter()
            .map(|path| Source::new(path))
            .collect::<Result<Vec<_>, _>>()?;
        progress.start_reading(sources.iter().map(Source::bytes).sum());
        let mut parser = Parser {
            access_log: AccessLog::new(),
            json: JsonLines::new(&options.fields, key),
            format: options.format,
        };
        for source in sources {
            input.read_one(source, key, &mut parser, progress)?;
        }
        if input.trace.events().is_empty() {
            let files: Vec<_> = files
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            return Err(Failure::Empty {
                files: files.join(", "),
                skipped: input.skipped.hint(),
            });
        }
        progress.say("sorting");
        input.trace.sort();
        Ok(input)
    }

    fn read_one(
        &mut self,
        source: Source<'_>,
        key: &KeyParts,
        parser: &mut Parser<'_>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let path = source.path();
        let mut number = 0;
        let mut buffer = Vec::new();
        let mut reader = source
            .reader(progress)
            .map_err(|error| unreadable(path, error))?;
        lines::for_each(
            &mut reader,
            |error| unreadable(path, error),
            |line| {
                number += 1;
                match parser.parse(line) {
                    Ok(record) => self.trace.push(record.at, key.of(&record, &mut buffer))?,
                    Err(skip) => self.skipped.add(path, number, skip),
                }
                Ok(())
            },
        )
    }
}

impl Skipped {
    #[cold]
    fn add(&mut self, path: &Path, line: u64, reason: Skip) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first
                .push(format!("{}:{line}: {reason}", path.display()));
        }
    }

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

struct Parser<'n> {
    access_log: AccessLog,
    json: JsonLines<'n>,
    format: Format,
}

impl Parser<'_> {
    #[inline]
    fn parse<'a>(&mut self, line: Line<'a>) -> Result<Record<'a>, Skip> {
        let Line::Whole(line) = line else {
            return Err(Skip::TooLong);
        };
        // Some programs start a file with a UTF-8 byte order mark.
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let is_json = match self.format {
            // Every JSON object starts with a brace, and no host name does.
            Format::Auto => line.trim_ascii_start().first() == Some(&b'{'),
            Format::AccessLog => false,
            Format::Json => true,
        };
        if is_json {
            self.json.parse(line)
        } else {
            self.access_log.parse(line)
        }
    }
}

/// Returns the failure to read `path`.
pub(crate) fn unreadable(path: &Path, source: std::io::Error) -> Failure {
    Failure::Read {
        path: path.to_owned(),
        source,
    }
}
