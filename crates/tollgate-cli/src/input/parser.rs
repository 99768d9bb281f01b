//! `Parser`: reads lines of every format, and recognizes the format of a log from its first lines.

use std::borrow::Cow;
use std::time::SystemTime;

use tollgate_core::Timestamp;

use super::callers::Seen;
use super::instant::Clock;
use super::json::{Object, is_from_docker, unwrapped};
use super::key::KeyParts;
use super::lines::Line;
use super::options::{Format, LogOptions};
use super::pattern::{Pattern, Unlike, quoted};
use super::record::{Record, Skip};
use super::table::{Prefix, Table};
use super::w3c::Columns;
use super::wanted::Wanted;
use crate::failure::Failure;

/// How many lines that are requests decide about the format.
const ENOUGH: u64 = 100;

/// The format of a log, and what precedes its lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Layout {
    pub(super) prefix: Prefix,
    pub(super) format: Format,
}

/// A request: its time, and the name of the format that its line had.
type Request = (Timestamp, &'static str);

pub(super) struct Parser<'n> {
    table: Table,
    clock: Clock,
    /// In a W3C log: the columns of the lines from here on.
    columns: Option<Columns>,
    options: &'n LogOptions,
    counted: Counted<'n>,
}

struct Counted<'n> {
    key: &'n KeyParts,
    wanted: Wanted<'n>,
    /// Who made it, if somebody asks.
    seen: Option<Seen>,
}

impl Counted<'_> {
    #[inline]
    fn take(&mut self, record: &Record<'_>, key: &mut Vec<u8>) -> Result<(), Skip> {
        self.wanted.check(record)?;
        self.key.write(record, key)?;
        if let Some(seen) = &mut self.seen {
            seen.take(record);
        }
        Ok(())
    }
}

impl<'n> Parser<'n> {
    pub(super) fn new(options: &'n LogOptions, key: &'n KeyParts) -> Result<Self, Failure> {
        let wanted = Wanted::new(options, key)?;
        let pattern = options
            .pattern
            .as_deref()
            .map(|text| -> Result<_, Failure> {
                let pattern: Pattern = text.parse()?;
                pattern.check(text, wanted.needs)?;
                Ok(pattern.with_long_times())
            });
        Ok(Self {
            table: Table::new(pattern.transpose()?),
            clock: Clock::new(),
            columns: None,
            options,
            counted: Counted {
                key,
                wanted,
                seen: None,
            },
        })
    }

    /// Notes from here on who made each request.
    pub(super) fn note_callers(&mut self) {
        self.counted.seen = Some(Seen::default());
    }

    /// Returns who made the request that was read last, if that is noted.
    pub(super) fn seen(&self) -> Option<&Seen> {
        self.counted.seen.as_ref()
    }

    /// Begins another log, whose lines know nothing of those before, and which was changed last at the
    /// time `changed`.
    pub(super) fn begin(&mut self, changed: SystemTime) {
        self.columns = None;
        self.clock.begin(changed);
    }

    /// Returns the year that was assumed for the request that was read last, if its time has none.
    pub(super) fn assumed_year(&self) -> Option<i16> {
        self.clock.assumed_year
    }

    /// Returns the layout that can be read from the most of `lines`; lines are taken until enough of
    /// them are requests. Also returns whether any was.
    pub(super) fn layout<'a>(&mut self, lines: impl Iterator<Item = Line<'a>>) -> (Layout, bool) {
        let formats: &[Format] = match (&self.options.pattern, self.options.format) {
            (Some(_), _) => &[Format::Pattern],
            // JSON is not among these: beside any of them, lines that start with a brace are JSON.
            (None, Format::Auto) => &[
                Format::AccessLog,
                Format::W3c,
                Format::LoadBalancer,
                Format::Haproxy,
            ],
            (None, format) => &[format],
        };
        let layouts = formats.iter().flat_map(|&format| {
            // A pattern is for the whole line, and `#Fields` lines have no prefix.
            let is_whole = matches!(format, Format::Pattern | Format::W3c);
            let prefixes = Prefix::ALL.into_iter();
            let prefixes = prefixes.filter(move |&prefix| !is_whole || prefix == Prefix::None);
            prefixes.map(move |prefix| Layout { prefix, format })
        });
        // How many lines are requests, and how many have a value that cannot be used.
        let mut scores: Vec<_> = layouts.map(|layout| (layout, (0, 0))).collect();
        let columns = self.columns.clone();
        let (mut requests, mut key) = (0, Vec::new());
        for line in lines {
            let Line::Whole(line) = line else {
                continue;
            };
            let mut is_request = false;
            for (layout, score) in &mut scores {
                if layout.prefix == Prefix::None && is_from_docker(line) {
                    continue;
                }
                match self.read(*layout, line, &mut key) {
                    Ok(_) | Err(Skip::LeftOut) => {
                        score.0 += 1;
                        is_request = true;
                    }
                    Err(skip) => score.1 += u64::from(skip.is_about_value()),
                }
            }
            requests += u64::from(is_request);
            if requests == ENOUGH {
                break;
            }
        }
        self.columns = columns;
        // The first of the best, since likelier ones come first.
        let best = scores.into_iter().rev().max_by_key(|&(_, score)| score);
        let best = best.filter(|&(_, score)| score > (0, 0));
        best.map_or_else(
            || {
                let (prefix, format) = (Prefix::None, formats[0]);
                (Layout { prefix, format }, false)
            },
            |(layout, (requests, _))| (layout, requests > 0),
        )
    }

    /// Reads the request of `line`, and writes its key to `key`.
    #[inline]
    pub(super) fn read(
        &mut self,
        layout: Layout,
        line: &[u8],
        key: &mut Vec<u8>,
    ) -> Result<Request, Skip> {
        match self.strip(layout.prefix, line) {
            Some(text) => self.read_bare(layout.format, &text, key),
            None if line.trim_ascii().is_empty() => Err(Skip::Blank),
            None => Err(Skip::NoPrefix),
        }
    }

    /// Returns `line` without the prefix; `None` if it does not have it.
    #[inline]
    fn strip<'a>(&mut self, prefix: Prefix, line: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let line = without_mark(line);
        let own = |(of, pattern): &(Prefix, Pattern)| {
            (*of == prefix).then(|| pattern.after(line, &mut self.clock))?
        };
        match prefix {
            Prefix::None => Some(Cow::Borrowed(line)),
            Prefix::Wrapped => unwrapped(line).map(|text| Cow::Owned(text.into_bytes())),
            _ => {
                let rest = self.table.prefixes.iter().find_map(own);
                rest.map(|rest| Cow::Borrowed(without_mark(rest)))
            }
        }
    }

    /// Reads a line without a prefix.
    #[inline]
    fn read_bare(
        &mut self,
        format: Format,
        line: &[u8],
        key: &mut Vec<u8>,
    ) -> Result<Request, Skip> {
        let first = line.trim_ascii_start().first();
        if first.is_none() {
            return Err(Skip::Blank);
        }
        // Every JSON object starts with a brace, and no line of the other formats does.
        let is_json = self.options.format == Format::Auto && first == Some(&b'{');
        if format == Format::Json || is_json && format != Format::Pattern {
            return self.read_json(line, key);
        }
        if format == Format::W3c {
            return self.read_w3c(line, key);
        }
        let mut nearest = Unlike::NOTHING;
        for (of, name, pattern) in &self.table.lines {
            if *of != format {
                continue;
            }
            match pattern.read(line, &mut self.clock) {
                Ok((mut record, rest)) => {
                    if self.counted.seen.is_some() {
                        // After the status and the size, the referrer comes first.
                        match format {
                            Format::AccessLog => record.agent = quoted(rest, 1),
                            Format::LoadBalancer => record.agent = quoted(rest, 0),
                            _ => {}
                        }
                    }
                    self.counted.take(&record, key)?;
                    return Ok((record.at, name));
                }
                Err(unlike) if unlike.pieces >= nearest.pieces => nearest = unlike,
                Err(_) => {}
            }
        }
        Err(nearest.skip)
    }

    fn read_json(&mut self, line: &[u8], key: &mut Vec<u8>) -> Result<Request, Skip> {
        let object = Object::parse(line, &self.options.fields).ok_or(Skip::NotJson)?;
        let record = object.record(self.counted.wanted.needs, &mut self.clock)?;
        self.counted.take(&record, key)?;
        Ok((record.at, "json"))
    }

    fn read_w3c(&mut self, line: &[u8], key: &mut Vec<u8>) -> Result<Request, Skip> {
        if let Some(columns) = Columns::of(line, &self.options.fields, self.counted.wanted.needs) {
            self.columns = Some(columns);
        }
        if line.starts_with(b"#") {
            return Err(Skip::Directive);
        }
        let columns = self.columns.as_ref().ok_or(Skip::NoColumns)?;
        let record = columns.read(line, &mut self.clock)?;
        self.counted.take(&record, key)?;
        Ok((record.at, "w3c"))
    }
}

/// Returns `text` without the UTF-8 byte order mark that some programs write.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}
