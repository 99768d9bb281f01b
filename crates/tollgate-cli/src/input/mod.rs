//! `Input`: reads log files into a trace.

mod account;
mod address;
mod format;
mod instant;
mod key;
mod lines;
mod options;
mod prefix;
mod reader;
mod recognize;
mod record;
mod shape;

pub(crate) use account::ReadAs;
pub(crate) use key::KeyParts;
pub(crate) use options::LogOptions;

use std::path::PathBuf;
use std::sync::Mutex;

use self::account::Skipped;
use self::reader::{Read, Reader, Stream, in_order};
use self::shape::{Parser, Pattern};
use crate::failure::Failure;
use crate::file::{Source, is_standard_input};
use crate::jobs::Jobs;
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
