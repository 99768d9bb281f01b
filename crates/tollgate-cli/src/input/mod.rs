//! `Input`: reads log files into a trace.

mod account;
mod address;
mod content;
mod gzip;
mod instant;
mod lines;
mod prefix;
mod reader;
mod recognize;
mod record;
mod shape;
mod source;

pub(crate) use account::{ReadAs, Skipped};
pub(crate) use content::NotText;
pub(crate) use record::{Record, Skip};
#[cfg(test)]
pub(crate) use shape::Shape;
pub(crate) use source::{Source, is_read_from, is_standard_input};

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use self::reader::{Read, Reader, Stream, in_order};
use self::shape::{Parser, Pattern};
use crate::cli::LogOptions;
use crate::failure::Failure;
use crate::jobs::Jobs;
use crate::key::KeyParts;
use crate::progress::Progress;
use crate::trace::Trace;

/// The requests of all logs in time order, and how they were read.
pub(crate) struct Input {
    pub(crate) trace: Trace,
    pub(crate) read_as: ReadAs,
    pub(crate) skipped: Skipped,
}

impl Input {
    /// Reads the logs of `options` into the empty `trace`, and sorts their requests by time.
    pub(crate) fn read(
        options: &LogOptions,
        key: &KeyParts,
        mut trace: Trace,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let pattern = options.pattern.as_deref().map(|text| {
            let pattern: Pattern = text.parse()?;
            pattern.check(text, key).map(|()| pattern)
        });
        let pattern = pattern.transpose()?;
        let parser = || Parser::new(options, pattern.as_ref(), key);
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
        let stream = Mutex::new(Stream::new(sources, progress, options, parser()));
        let jobs = Jobs::new(options.jobs);
        let readers = (0..jobs.count()).map(|_| Reader::new(parser(), key));
        let readers: Vec<_> = readers.collect();
        let readers = jobs.each(readers, |reader| reader.read(&stream));
        let readers = readers.into_iter().collect::<Result<Vec<_>, _>>()?;
        progress.say("sorting");
        let Read {
            skipped,
            read_as,
            keys,
            batches,
        } = in_order(files, readers);
        trace.fill(keys, batches)?;
        if trace.requests() == 0 {
            return Err(Failure::Empty {
                files: names(files),
                skipped: skipped.hint(),
            });
        }
        trace.sort();
        Ok(Self {
            trace,
            read_as,
            skipped,
        })
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

/// Returns the failure to read `path`; `source` may hold a [`NotText`].
pub(crate) fn unreadable(path: &Path, source: std::io::Error) -> Failure {
    let path = path.to_owned();
    match source.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(&content) => Failure::Content { path, content },
        None => Failure::Read { path, source },
    }
}
