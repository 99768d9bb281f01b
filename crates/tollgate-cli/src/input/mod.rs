//! `Input`: reads log files into a trace.

mod account;
mod address;
mod callers;
mod instant;
mod json;
mod key;
mod lines;
mod options;
mod parser;
mod pattern;
mod record;
mod table;
#[cfg(test)]
mod tests;
mod w3c;
mod wanted;

pub(crate) use account::ReadAs;
pub(crate) use address::typed_address;
pub(crate) use callers::{Caller, Callers};
pub(crate) use key::{IPV6_PREFIX, KeyParts};
pub(crate) use options::LogOptions;

use std::io::BufReader;
use std::path::PathBuf;

use self::account::Skipped;
use self::lines::{Line, Lines};
use self::parser::Parser;
use self::record::Skip;
use crate::failure::Failure;
use crate::file::{NotText, Source, has_bare_returns, is_standard_input, unreadable};
use crate::progress::Progress;
use crate::trace::Trace;

/// The requests of all logs in time order, and how they were read.
#[derive(Default)]
pub(crate) struct Input {
    pub(crate) trace: Trace,
    pub(crate) read_as: ReadAs,
    pub(crate) skipped: Skipped,
    /// Who made the requests, if that is noted.
    pub(crate) callers: Callers,
}

impl Input {
    /// Reads the logs of `options`, and sorts their requests by time. Notes who made them if it `has_callers`.
    pub(crate) fn read(
        options: &LogOptions,
        key: &KeyParts,
        has_callers: bool,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let mut parser = Parser::new(options, key)?;
        if has_callers {
            parser.note_callers();
        }
        let files = &options.files;
        // Nothing would be left for the second time.
        if files.iter().filter(|path| is_standard_input(path)).count() > 1 {
            return Err(Failure::StandardInputTwice);
        }
        let sources = files.iter().map(|path| Source::new(path));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        progress.say("reading");
        let mut input = Self::default();
        for source in sources {
            input.read_log(source, &mut parser, progress)?;
        }
        input.read_as.sort();
        if input.trace.requests() == 0 {
            let (files, skipped) = (names(files), input.skipped.hint());
            return Err(match input.read_as.left_out {
                0 => Failure::Empty { files, skipped },
                left_out => Failure::NothingLeft {
                    files,
                    left_out,
                    skipped,
                },
            });
        }
        input.trace.sort();
        Ok(input)
    }

    fn read_log(
        &mut self,
        source: Source<'_>,
        parser: &mut Parser<'_>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let path = source.path();
        let failed = |error| unreadable(path, error);
        let changed = source.changed();
        let reader = source.reader(progress).map_err(failed)?;
        let mut lines = Lines::new(BufReader::with_capacity(64 * 1024, reader));
        // From the first block with requests on.
        let mut layout = None;
        let (mut number, mut key) = (0_u64, Vec::new());
        parser.begin(changed);
        while lines.read().map_err(failed)? {
            let text = lines.text();
            if number == 0 && has_bare_returns(text.strip_suffix(b"\n").unwrap_or(text)) {
                return Err(failed(NotText::CarriageReturns.into()));
            }
            let likely = layout.unwrap_or_else(|| {
                let (likely, has_requests) = parser.layout(lines.iter());
                layout = has_requests.then_some(likely);
                likely
            });
            for line in lines.iter() {
                number += 1;
                let read = match line {
                    Line::Whole(line) => parser.read(likely, line, &mut key),
                    Line::TooLong => Err(Skip::TooLong),
                };
                match read {
                    Ok((at, format)) => {
                        let key = self.trace.push(at, &key)?;
                        if let Some(seen) = parser.seen() {
                            self.callers.push(key, seen)?;
                        }
                        if let Some(year) = parser.assumed_year() {
                            self.read_as.assume(year);
                        }
                        self.read_as.add(likely.prefix, format);
                    }
                    Err(Skip::Directive) => {}
                    Err(Skip::LeftOut) => self.read_as.left_out += 1,
                    Err(skip) => {
                        let place = || format!("{}:{number}", path.display());
                        self.skipped.add(skip, place);
                    }
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn names(files: &[PathBuf]) -> String {
    let names = files.iter().map(|path| path.display().to_string());
    let names: Vec<_> = names.collect();
    names.join(", ")
}
