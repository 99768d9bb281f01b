//! Reads the fields of messages from CSV with a heading, or from JSON lines.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::shown;
use crate::failure::Failure;
use crate::file::unreadable;

/// The longest record that is read, so that a file without line ends does not fill the memory.
const LONGEST: usize = 1024 * 1024;

/// What some programs begin a UTF-8 file with.
const MARK: &[u8] = b"\xef\xbb\xbf";

const EXAMPLE: &str = r#"{"key":"alice","id":"msg-1","time":"2026-03-01T08:00:00Z"}"#;

/// A message as the file has it.
#[derive(Deserialize)]
pub(super) struct Fields {
    #[serde(deserialize_with = "text_or_number")]
    pub(super) key: String,
    #[serde(deserialize_with = "text_or_number")]
    pub(super) id: String,
    pub(super) time: String,
    /// The recipient's time zone, or nothing.
    #[serde(default)]
    pub(super) time_zone: String,
}

/// Returns a number as it is written, so that no id passes through a float.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let raw = <&RawValue>::deserialize(from)?.get();
    if raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Ok(raw.to_owned());
    }
    serde_json::from_str(raw).map_err(|_| D::Error::custom("a key or an id is no text or number"))
}

/// Calls `each` with the fields of every message of the file called `name`, and its line.
///
/// # Errors
///
/// What is wrong with the first line that is not a message, or for which `each` returns a reason.
pub(super) fn for_each(
    name: &str,
    text: impl Read,
    mut each: impl FnMut(u64, Fields) -> Result<(), String>,
) -> Result<(), Failure> {
    let line = Cell::new(0);
    let records = Records {
        reader: BufReader::with_capacity(64 * 1024, text),
        line: Vec::new(),
        taken: 0,
        number: 0,
        left: LONGEST,
        first: &line,
    };
    read(records, |fields| each(line.get(), fields)).map_err(|stopped| {
        let reason = match stopped {
            Stopped::Bad(reason) => reason,
            Stopped::Unreadable(error) if error.kind() == ErrorKind::FileTooLarge => {
                "the record is longer than 1 MiB: end every record with a line end, and close every \
                 quote"
                    .to_owned()
            }
            Stopped::Unreadable(error) => return unreadable(Path::new(name), error),
        };
        Failure::Line {
            file: name.to_owned(),
            line: line.get(),
            reason,
        }
    })
}

/// Why a file was not read to its end.
enum Stopped {
    Bad(String),
    Unreadable(io::Error),
}

impl From<String> for Stopped {
    fn from(reason: String) -> Self {
        Self::Bad(reason)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<csv::Error> for Stopped {
    fn from(error: csv::Error) -> Self {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Self::Unreadable(error),
            // Nothing else can be wrong with a record of any length.
            _ => Self::Bad("a field is not UTF-8: convert the file".to_owned()),
        }
    }
}

fn read(
    mut records: Records<'_, impl Read>,
    mut each: impl FnMut(Fields) -> Result<(), String>,
) -> Result<(), Stopped> {
    let mut is_record = records.begin()?;
    // Every JSON object starts with a brace, and no heading does.
    if records.line.trim_ascii_start().starts_with(b"{") {
        while is_record {
            each(object(records.line.trim_ascii())?)?;
            is_record = records.begin()?;
        }
        return Ok(());
    }
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        // A wrong number of fields gets a message that says what to do.
        .flexible(true)
        .from_reader(records);
    let mut heading = StringRecord::new();
    if !reader.read_record(&mut heading)? {
        return Ok(());
    }
    heading.trim();
    let column = |name: &str| heading.iter().position(|field| field == name);
    let needed = |name: &str| {
        column(name).ok_or_else(|| {
            let found: Vec<_> = heading.iter().collect();
            format!(
                "the heading {:?} has no column {name}: begin the file with key,id,time, or give \
                 JSON lines",
                shown(&found.join(",")),
            )
        })
    };
    let columns = [needed("key")?, needed("id")?, needed("time")?];
    let zone = column("time_zone");
    let mut record = StringRecord::new();
    while reader.get_mut().begin()? {
        reader.read_record(&mut record)?;
        if record.len() != heading.len() {
            return Err(Stopped::Bad(format!(
                "fields: {}, and the heading has {}: quote a field that contains a comma or a line \
                 end, and close every quote",
                record.len(),
                heading.len(),
            )));
        }
        let field = |column: usize| record.get(column).unwrap_or_default().to_owned();
        let [key, id, time] = columns.map(field);
        each(Fields {
            key,
            id,
            time,
            time_zone: zone.map(field).unwrap_or_default(),
        })?;
    }
    Ok(())
}

fn object(line: &[u8]) -> Result<Fields, String> {
    let wrong = |what: &str| format!("{what}; give one object on each line, such as {EXAMPLE}");
    // A list would be read as the fields in their order.
    if !line.starts_with(b"{") {
        return Err(wrong("not a JSON object"));
    }
    serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // The line is always the first.
        let what = text.split(" at line ").next().unwrap_or_default();
        let column = error.column();
        wrong(&format!("not a message: {what} at column {column}"))
    })
}

/// The lines of a file, each with its end, in records of at most [`LONGEST`] bytes.
struct Records<'c, R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// How much of the line was read.
    taken: usize,
    number: u64,
    /// How many bytes the record may still have.
    left: usize,
    /// The number of the record's first line.
    first: &'c Cell<u64>,
}

impl<R: Read> Records<'_, R> {
    /// Begins a record at the next line that is not empty; `false` if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            self.left = LONGEST;
            self.first.set(self.number + 1);
            if !self.next_line()? {
                return Ok(false);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Goes on to the next line; `false` if there is none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::FileTooLarge`] if the record is too long, and those of the file.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.taken = 0;
        let most = u64::try_from(self.left).unwrap_or(u64::MAX);
        let most = most.saturating_add(1);
        let reader = (&mut self.reader).take(most);
        let read = { reader }.read_until(b'\n', &mut self.line)?;
        self.left = self.left.checked_sub(read).ok_or(ErrorKind::FileTooLarge)?;
        self.number += 1;
        if self.number == 1 && self.line.starts_with(MARK) {
            self.line.drain(..MARK.len());
        }
        Ok(read > 0)
    }
}

/// Hands out one line at a time, so that a reader of CSV stays within its record.
impl<R: Read> Read for Records<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.line.len() {
            self.next_line()?;
        }
        let read = (&self.line[self.taken..]).read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}
