//! `Reader`: parses blocks of lines, while other readers parse other blocks.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::vec;

use super::access_log::AccessLog;
use super::json::JsonLines;
use super::lines::{Block, Cutter, Line};
use super::record::{Record, Skip};
use super::source::{self, Source};
use super::{SHOWN, Skipped, unreadable};
use crate::cli::{Format, LogOptions};
use crate::failure::Failure;
use crate::key::KeyParts;
use crate::progress::Progress;
use crate::trace::{Event, Keys};

/// The blocks of all logs, in order.
pub(super) struct Stream<'s> {
    /// The logs that are not open yet.
    sources: vec::IntoIter<Source<'s>>,
    open: Option<(&'s Path, Cutter<source::Reader<'s>>)>,
    /// How many logs were opened.
    opened: usize,
    /// How many blocks were read.
    blocks: usize,
    progress: &'s Progress,
}

/// Where a block comes from.
#[derive(Clone, Copy)]
struct Place {
    /// The number of blocks before it.
    block: usize,
    /// The number of its log, from 1 on.
    file: usize,
}

impl<'s> Stream<'s> {
    pub(super) fn new(sources: Vec<Source<'s>>, progress: &'s Progress) -> Self {
        Self {
            sources: sources.into_iter(),
            open: None,
            opened: 0,
            blocks: 0,
            progress,
        }
    }

    /// Fills `block` with the next lines; `None` at the end of the last log, and after a failure.
    fn next(&mut self, block: &mut Block) -> Result<Option<Place>, Failure> {
        let next = self.fill(block);
        if next.is_err() {
            // The other readers need not go on.
            self.sources = Vec::new().into_iter();
            self.open = None;
        }
        next
    }

    fn fill(&mut self, block: &mut Block) -> Result<Option<Place>, Failure> {
        loop {
            if let Some((path, cutter)) = &mut self.open
                && cutter
                    .fill(block)
                    .map_err(|error| unreadable(path, error))?
            {
                let (block, file) = (self.blocks, self.opened);
                self.blocks += 1;
                return Ok(Some(Place { block, file }));
            }
            // Closes the log before it opens another one.
            self.open = None;
            let Some(source) = self.sources.next() else {
                return Ok(None);
            };
            let path = source.path();
            let reader = source.reader(self.progress);
            let reader = reader.map_err(|error| unreadable(path, error))?;
            self.open = Some((path, Cutter::new(reader)));
            self.opened += 1;
        }
    }
}

/// Parses lines, and numbers their keys in order of first appearance.
pub(super) struct Reader<'n> {
    parser: Parser<'n>,
    key: &'n KeyParts,
    keys: Keys,
    batches: Vec<Batch>,
}

/// The requests of a block.
struct Batch {
    place: Place,
    lines: u64,
    events: Vec<Event>,
    /// How many lines were skipped.
    skipped: u64,
    /// The first of them: how many lines of the block come before, and why.
    first_skipped: Vec<(u64, Skip)>,
}

impl<'n> Reader<'n> {
    pub(super) fn new(options: &'n LogOptions, key: &'n KeyParts) -> Self {
        Self {
            parser: Parser {
                access_log: AccessLog::new(),
                json: JsonLines::new(&options.fields, key),
                format: options.format,
            },
            key,
            keys: Keys::default(),
            batches: Vec::new(),
        }
    }

    /// Takes blocks from `stream`, in turn with other readers, until its end.
    pub(super) fn read(mut self, stream: &Mutex<Stream<'_>>) -> Result<Self, Failure> {
        let mut block = Block::new();
        let next = |block: &mut Block| {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.next(block)
        };
        while let Some(place) = next(&mut block)? {
            self.parse(&block, place)?;
        }
        Ok(self)
    }

    fn parse(&mut self, block: &Block, place: Place) -> Result<(), Failure> {
        // Blocks have about as many lines as those before them.
        let likely = self.batches.last().map_or(0, |last| last.events.len());
        let mut batch = Batch {
            place,
            lines: 0,
            events: Vec::with_capacity(likely + likely / 8),
            skipped: 0,
            first_skipped: Vec::new(),
        };
        let mut buffer = Vec::new();
        for line in block.lines() {
            match self.parser.parse(line) {
                Ok(record) => {
                    let key = self.keys.intern(self.key.of(&record, &mut buffer))?;
                    batch.events.push(Event { at: record.at, key });
                }
                Err(reason) => batch.skip(reason),
            }
            batch.lines += 1;
        }
        self.batches.push(batch);
        Ok(())
    }
}

impl Batch {
    #[cold]
    fn skip(&mut self, reason: Skip) {
        self.skipped += 1;
        if self.first_skipped.len() < SHOWN {
            self.first_skipped.push((self.lines, reason));
        }
    }
}

/// Returns what all readers have skipped, the keys of each reader, and the requests in order, each
/// batch with the index of its reader.
pub(super) fn in_order(
    files: &[PathBuf],
    readers: Vec<Reader<'_>>,
) -> (
    Skipped,
    Vec<Keys>,
    impl Iterator<Item = (usize, Vec<Event>)>,
) {
    let mut keys = Vec::new();
    let mut batches = Vec::new();
    for (index, reader) in (0..).zip(readers) {
        keys.push(reader.keys);
        batches.extend(reader.batches.into_iter().map(|batch| (index, batch)));
    }
    batches.sort_unstable_by_key(|(_, batch)| batch.place.block);
    let mut skipped = Skipped::default();
    let (mut file, mut lines) = (0, 0);
    for (_, batch) in &batches {
        if file != batch.place.file {
            (file, lines) = (batch.place.file, 0);
        }
        skipped.count += batch.skipped;
        for &(before, reason) in &batch.first_skipped {
            if skipped.first.len() < SHOWN {
                let (path, line) = (files[file - 1].display(), lines + before + 1);
                skipped.first.push(format!("{path}:{line}: {reason}"));
            }
        }
        lines += batch.lines;
    }
    let batches = batches.into_iter();
    let batches = batches.map(|(reader, batch)| (reader, batch.events));
    (skipped, keys, batches)
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
