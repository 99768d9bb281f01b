//! `Parser`: parses log lines, each format with a parser of its own.

mod access_log;
mod balancer;
mod haproxy;
mod json;
mod pattern;
mod quoted;
mod w3c;

pub(crate) use self::pattern::Pattern;
pub(super) use self::w3c::Columns;

use std::sync::Arc;

use memchr::{memchr, memmem};

use self::access_log::AccessLog;
use self::json::JsonLines;
use self::w3c::is_fields;
use crate::input::format::{Format, Shape};
use crate::input::key::KeyParts;
use crate::input::options::LogOptions;
use crate::input::record::{Record, Skip};

/// Parses lines of every format.
pub(crate) struct Parser<'n> {
    access_log: AccessLog,
    json: JsonLines<'n>,
    pattern: Option<&'n Pattern>,
    /// In a W3C log: the columns of the lines from here on.
    columns: Option<Arc<Columns>>,
    options: &'n LogOptions,
    key: &'n KeyParts,
}

impl<'n> Parser<'n> {
    pub(super) fn new(
        options: &'n LogOptions,
        pattern: Option<&'n Pattern>,
        key: &'n KeyParts,
    ) -> Self {
        Self {
            access_log: AccessLog::new(),
            json: JsonLines::new(&options.fields, key),
            pattern,
            columns: None,
            options,
            key,
        }
    }

    /// Continues a log before which a `#Fields` line named these columns.
    pub(super) fn continue_with(&mut self, columns: Option<Arc<Columns>>) {
        self.columns = columns;
    }

    /// Returns the columns that the last `#Fields` line named.
    pub(super) fn columns(&self) -> Option<&Arc<Columns>> {
        self.columns.as_ref()
    }

    /// Reads the last `#Fields` line of `text`, if there is one.
    pub(super) fn read_last_fields(&mut self, text: &[u8]) {
        let start = match memmem::rfind(text, b"\n#Fields:") {
            Some(end_before) => end_before + 1,
            None if is_fields(text) => 0,
            None => return,
        };
        let line = &text[start..];
        self.read_fields(memchr(b'\n', line).map_or(line, |end| &line[..end]));
    }

    /// Reads a `#Fields` line.
    fn read_fields(&mut self, line: &[u8]) {
        let columns = Columns::new(line, &self.options.fields, self.key);
        self.columns = Some(Arc::new(columns));
    }

    /// Returns why `record` has no key, if it has none.
    pub(super) fn has_key(&self, record: &Record<'_>) -> Result<(), Skip> {
        self.key.of(record, &mut Vec::new()).map(|_| ())
    }

    /// Parses `line` as one of `shape`.
    #[inline]
    pub(super) fn parse<'a>(&mut self, shape: Shape, line: &'a [u8]) -> Result<Record<'a>, Skip> {
        // Every JSON object starts with a brace, and no line of these other formats does.
        if self.options.format == Format::Auto
            && shape != Shape::Pattern
            && line.trim_ascii_start().first() == Some(&b'{')
        {
            return self.json.parse(line);
        }
        match shape {
            Shape::Combined | Shape::Vhost => self.access_log.parse(line),
            Shape::Haproxy => haproxy::parse(line),
            Shape::Json => self.json.parse(line),
            Shape::LoadBalancer => balancer::parse(line),
            Shape::Pattern => match self.pattern {
                Some(pattern) => pattern.parse(line),
                None => Err(Skip::NotAsPattern),
            },
            Shape::W3c => {
                if is_fields(line) {
                    self.read_fields(line);
                }
                w3c::parse(line, self.columns.as_deref())
            }
        }
    }
}
