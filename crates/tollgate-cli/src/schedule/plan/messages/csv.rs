//! Reads messages from CSV with a heading.

use csv::{ByteRecord, ReaderBuilder};

use super::{BadLine, Fields, shown};

const NAMES: [&str; 3] = ["key", "id", "time"];

/// Calls `each` with the fields of every record of `text`.
pub(super) fn for_each(
    text: &[u8],
    mut each: impl FnMut(Fields<'_>) -> Result<(), BadLine>,
) -> Result<(), BadLine> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        // A wrong number of fields gets a message that says what to do.
        .flexible(true)
        .from_reader(text);
    let mut columns = None;
    let mut record = ByteRecord::new();
    loop {
        let start = reader.position().clone();
        let is_record = reader.read_byte_record(&mut record);
        // The reader passes over empty lines before the record.
        let skipped = usize::try_from(start.byte()).ok();
        let skipped = skipped.and_then(|byte| text.get(byte..)).unwrap_or(&[]);
        let skipped = skipped.iter().take_while(|byte| b"\r\n".contains(byte));
        let skipped = skipped.filter(|&&byte| byte == b'\n').count();
        let line = start.line() + u64::try_from(skipped).unwrap_or(0);
        let bad = |reason| BadLine { line, reason };
        match is_record {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => return Err(bad(error.to_string())),
        }
        if record.len() == 1 && record[0].trim_ascii().is_empty() {
            continue;
        }
        let Some((columns, count)) = columns else {
            columns = Some((heading(&record).map_err(bad)?, record.len()));
            continue;
        };
        if record.len() != count {
            return Err(bad(format!(
                "{} fields where the heading has {count}: quote a field that contains a comma or a \
                 line end, and close every quote",
                record.len(),
            )));
        }
        let field = |index: usize| {
            let bytes = record.get(columns[index]).unwrap_or(&[]);
            let name = NAMES[index];
            std::str::from_utf8(bytes)
                .map_err(|_| bad(format!("the field {name} is not UTF-8: convert the file")))
        };
        each(Fields {
            line,
            key: field(0)?,
            id: field(1)?,
            time: field(2)?,
        })?;
    }
}

/// Returns the columns of the fields.
fn heading(record: &ByteRecord) -> Result<[usize; 3], String> {
    let column = |name: &str| {
        let mut columns = (0..).zip(record.iter());
        let found = columns.find(|(_, field)| field.trim_ascii() == name.as_bytes());
        found.map(|(column, _)| column).ok_or_else(|| {
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
