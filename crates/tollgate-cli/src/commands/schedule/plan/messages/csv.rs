//! Reads messages from CSV with a heading.

use std::io::{self, Read};

use csv::{ByteRecord, ReaderBuilder};

use super::fields::{BadLine, Fields, Stopped, shown};
use super::text::Text;
use crate::text::plural;

const NAMES: [&str; 3] = ["key", "id", "time"];
/// The name of a field that need not be there.
const ZONE: &str = "time_zone";

/// Calls `each` with the fields of every record of `text`.
pub(super) fn for_each(
    text: Text<impl Read>,
    mut each: impl FnMut(Fields<'_>) -> Result<(), BadLine>,
) -> Result<(), Stopped> {
    let before = text.first_line - 1;
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        // A wrong number of fields gets a message that says what to do.
        .flexible(true)
        .from_reader(text.into_metered());
    let (mut columns, mut zone_column) = (None, None);
    let mut record = ByteRecord::new();
    loop {
        let start = reader.position().line();
        reader.get_mut().begin();
        let is_record = reader.read_byte_record(&mut record);
        let end = reader.position();
        let passed = end.line() - start;
        let within: usize = match is_record {
            Ok(_) => {
                record.iter().map(line_ends).sum::<usize>()
                    + usize::from(reader.get_ref().is_line_end(end.byte()))
            }
            // The whole record was not read.
            Err(_) => usize::try_from(passed).unwrap_or(usize::MAX),
        };
        // The reader passes over empty lines before the record.
        let skipped = passed.saturating_sub(u64::try_from(within).unwrap_or(u64::MAX));
        let line = before + start + skipped;
        let bad = |reason| BadLine { line, reason };
        match is_record {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => return Err(stopped(error, line)),
        }
        if record.len() == 1 && record[0].trim_ascii().is_empty() {
            continue;
        }
        let Some((columns, count)) = columns else {
            zone_column = column(&record, ZONE);
            columns = Some((heading(&record).map_err(bad)?, record.len()));
            continue;
        };
        if record.len() != count {
            return Err(Stopped::from(bad(format!(
                "{} where the heading has {count}: quote a field that contains a comma or a line end, \
                 and close every quote",
                plural(record.len() as u64, "field", "fields"),
            ))));
        }
        let field = |name: &str, column: usize| {
            let bytes = record.get(column).unwrap_or(&[]);
            std::str::from_utf8(bytes)
                .map_err(|_| bad(format!("the field {name} is not UTF-8: convert the file")))
        };
        each(Fields {
            line,
            key: field(NAMES[0], columns[0])?,
            id: field(NAMES[1], columns[1])?,
            time: field(NAMES[2], columns[2])?,
            zone: zone_column.map_or(Ok(""), |column| field(ZONE, column))?,
        })?;
    }
}

fn line_ends(field: &[u8]) -> usize {
    field.iter().filter(|&&byte| byte == b'\n').count()
}

/// Returns why reading stopped at the record on `line`.
fn stopped(error: csv::Error, line: u64) -> Stopped {
    let reason = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let hint = "close every quote, and end every record with a line end";
            BadLine::too_long(line, hint).into()
        }
        csv::ErrorKind::Io(error) => Stopped::Unreadable(error),
        _ => BadLine { line, reason }.into(),
    }
}

/// Returns the columns of the fields.
fn heading(record: &ByteRecord) -> Result<[usize; 3], String> {
    let column = |name: &str| {
        column(record, name).ok_or_else(|| {
            let found: Vec<_> = record.iter().map(String::from_utf8_lossy).collect();
            format!(
                "the heading {:?} has no column {name}: begin the file with key,id,time, or give \
                 JSON lines",
                shown(&found.join(","))
            )
        })
    };
    Ok([column("key")?, column("id")?, column("time")?])
}

/// Returns the column with this heading.
fn column(heading: &ByteRecord, name: &str) -> Option<usize> {
    let is_it = |field: &[u8]| field.trim_ascii() == name.as_bytes();
    heading.iter().position(is_it)
}
