//! `Reader`: parses blocks of lines, while other readers parse other blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::vec;

use super::account::{ReadAs, Skipped};
use super::format::Shape;
use super::key::KeyParts;
use super::lines::{Block, Cutter, Line};
use super::options::LogOptions;
use super::recognize::Layout;
use super::record::Skip;
use super::shape::Parser;
use crate::failure::Failure;
use crate::file::{self, NotText, Source, has_bare_returns, unreadable};
use crate::progress::Progress;
use crate::trace::{Event, Keys};

/// The blocks of all logs, in order.
pub(super) struct Stream<'s> {
    /// The logs that are not open yet.
    sources: vec::IntoIter<Source<'s>>,
    open: Option<Open<'s>>,
    /// How many logs were opened.
    opened: usize,
    /// How many blocks were read.
    blocks: usize,
    progress: &'s Progress,
    candidates: &'static [Shape],
    parser: Parser<'s>,
}

/// The log that is being read.
struct Open<'s> {
    path: &'s Path,
    cutter: Cutter<file::Reader<'s>>,
    /// How its lines are to be read, from the first block with requests on.
    layout: Option<Layout>,
    /// How many of its blocks were read.
    blocks: usize,
}

/// Where a block comes from, and how its lines are to be read.
struct Place {
    /// The number of blocks before it.
    block: usize,
    /// The number of its log, from 1 on.
    file: usize,
    layout: Layout,
}

impl<'s> Stream<'s> {
    pub(super) fn new(
        sources: Vec<Source<'s>>,
        progress: &'s Progress,
        options: &LogOptions,
        parser: Parser<'s>,
    ) -> Self {
        Self {
            sources: sources.into_iter(),
            open: None,
            opened: 0,
            blocks: 0,
            progress,
            candidates: Shape::candidates(options.format, options.pattern.is_some()),
            parser,
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
            if let Some(open) = &mut self.open
                && open.fill(block)?
            {
                let layout = open.layout(block, self.candidates, &mut self.parser);
                let place = Place {
                    block: self.blocks,
                    file: self.opened,
                    layout,
                };
                self.blocks += 1;
                return Ok(Some(place));
            }
            // Closes the log before it opens another one.
            self.open = None;
            let Some(source) = self.sources.next() else {
                return Ok(None);
            };
            let path = source.path();
            let reader = source.reader(self.progress);
            let reader = reader.map_err(|error| unreadable(path, error))?;
            self.open = Some(Open {
                path,
                cutter: Cutter::new(reader),
                layout: None,
                blocks: 0,
            });
            self.parser.continue_with(None);
            self.opened += 1;
        }
    }
}

impl Open<'_> {
    /// Fills `block` with the next lines; `false` at the end.
    fn fill(&mut self, block: &mut Block) -> Result<bool, Failure> {
        let filled = self.cutter.fill(block);
        let filled = filled.map_err(|error| unreadable(self.path, error))?;
        if filled && self.blocks == 0 && has_bare_returns(block.text()) {
            let error = io::Error::new(io::ErrorKind::InvalidData, NotText::CarriageReturns);
            return Err(unreadable(self.path, error));
        }
        self.blocks += 1;
        Ok(filled)
    }

    /// Returns how the lines of `block` are to be read. `parser` knows the columns that the lines
    /// before it have named, and then those that the block names last.
    fn layout(
        &mut self,
        block: &Block,
        candidates: &'static [Shape],
        parser: &mut Parser<'_>,
    ) -> Layout {
        let columns = parser.columns().cloned();
        let mut layout = match &self.layout {
            Some(layout) => layout.clone(),
            None => {
                let (layout, has_requests) = Layout::of(block.lines(), candidates, parser);
                if has_requests {
                    self.layout = Some(layout.clone());
                }
                layout
            }
        };
        layout.columns.clone_from(&columns);
        parser.continue_with(columns);
        if layout.shape == Shape::W3c {
            parser.read_last_fields(block.text());
        }
        layout
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
    /// How many requests had each format.
    shapes: Vec<(Shape, u64)>,
    /// Why lines were skipped: how many lines of the block come before the first, and how many were.
    skipped: Vec<(Skip, u64, u64)>,
}

impl<'n> Reader<'n> {
    pub(super) fn new(parser: Parser<'n>, key: &'n KeyParts) -> Self {
        Self {
            parser,
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
            shapes: Vec::new(),
            skipped: Vec::new(),
        };
        self.parser
            .continue_with(batch.place.layout.columns.clone());
        let mut buffer = Vec::new();
        for line in block.lines() {
            let record = match line {
                Line::Whole(line) => batch.place.layout.parse(line, &mut self.parser),
                Line::TooLong => Err(Skip::TooLong),
            };
            let key = record
                .as_ref()
                .map_err(|&skip| skip)
                .and_then(|record| Ok((record, self.key.of(record, &mut buffer)?)));
            match key {
                Ok((record, key)) => {
                    let key = self.keys.intern(key)?;
                    batch.events.push(Event { at: record.at, key });
                    batch.count(record.shape);
                }
                Err(Skip::Directive) => {}
                Err(reason) => batch.skip(reason),
            }
            batch.lines += 1;
        }
        self.batches.push(batch);
        Ok(())
    }
}

impl Batch {
    #[inline]
    fn count(&mut self, shape: Shape) {
        match self.shapes.iter_mut().find(|(of, _)| *of == shape) {
            Some((_, count)) => *count += 1,
            None => self.shapes.push((shape, 1)),
        }
    }

    #[cold]
    fn skip(&mut self, reason: Skip) {
        match self.skipped.iter_mut().find(|(of, ..)| *of == reason) {
            Some((_, _, count)) => *count += 1,
            None => self.skipped.push((reason, self.lines, 1)),
        }
    }
}

/// What several readers have read of the logs.
pub(super) struct Read<B> {
    pub(super) skipped: Skipped,
    pub(super) read_as: ReadAs,
    /// The keys of each reader.
    pub(super) keys: Vec<Keys>,
    /// The requests in order, each batch with the index of its reader.
    pub(super) batches: B,
}

/// Puts together what `readers` have read.
pub(super) fn in_order(
    files: &[PathBuf],
    readers: Vec<Reader<'_>>,
) -> Read<impl Iterator<Item = (usize, Vec<Event>)>> {
    let mut keys = Vec::new();
    let mut batches = Vec::new();
    for (index, reader) in (0..).zip(readers) {
        keys.push(reader.keys);
        batches.extend(reader.batches.into_iter().map(|batch| (index, batch)));
    }
    batches.sort_unstable_by_key(|(_, batch)| batch.place.block);
    let mut skipped = Skipped::default();
    let mut read_as = ReadAs::default();
    let (mut file, mut lines) = (0, 0);
    for (_, batch) in &batches {
        if file != batch.place.file {
            (file, lines) = (batch.place.file, 0);
        }
        for &(reason, before, count) in &batch.skipped {
            let line = lines + before + 1;
            skipped.add(reason, count, || {
                format!("{}:{line}", files[file - 1].display())
            });
        }
        for &(shape, count) in &batch.shapes {
            read_as.add(batch.place.layout.prefix, shape, count);
        }
        lines += batch.lines;
    }
    read_as.sort();
    let batches = batches.into_iter();
    let batches = batches.map(|(reader, batch)| (reader, batch.events));
    Read {
        skipped,
        read_as,
        keys,
        batches,
    }
}
