//! Reads messages from JSON lines.

use std::borrow::Cow;
use std::io::{self, Read};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fields::{BadLine, Fields, Stopped};
use super::text::Text;

/// The fields of a message, each in its own text.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    time_zone: Option<&'a RawValue>,
}

/// Calls `each` with the fields of every object of `text`, which has one on each line.
pub(super) fn for_each(
    mut text: Text<impl Read>,
    mut each: impl FnMut(Fields<'_>) -> Result<(), BadLine>,
) -> Result<(), Stopped> {
    let mut buffer = Vec::new();
    for line in text.first_line.. {
        match text.next_line(&mut buffer) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(BadLine::too_long(line, "give one object on each line").into());
            }
            Err(error) => return Err(Stopped::Unreadable(error)),
        }
        let text = buffer.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let bad = |reason| BadLine { line, reason };
        if text[0] != b'{' {
            let reason = "not a JSON object: give one object on each line".to_owned();
            return Err(bad(reason).into());
        }
        let object: Object<'_> = serde_json::from_slice(text).map_err(|error| bad(why(&error)))?;
        let [key, id] = [("key", object.key), ("id", object.id)].map(|(name, raw)| {
            let text = raw.and_then(text_or_number);
            text.ok_or_else(|| bad(missing(name, raw.is_some(), "text or a number")))
        });
        let time = object.time.and_then(text_of).ok_or_else(|| {
            let wanted = "text such as \"2026-03-01T08:00:00Z\"";
            bad(missing("time", object.time.is_some(), wanted))
        });
        let zone = match object.time_zone {
            None => Cow::Borrowed(""),
            Some(raw) => text_of(raw).ok_or_else(|| {
                let wanted = "text such as \"Europe/Berlin\"";
                bad(missing("time_zone", true, wanted))
            })?,
        };
        each(Fields {
            line,
            key: &key?,
            id: &id?,
            time: &time?,
            zone: &zone,
        })?;
    }
    Ok(())
}

fn missing(name: &str, is_there: bool, wanted: &str) -> String {
    if is_there {
        format!("the field {name} is of the wrong type: give {wanted}")
    } else {
        format!("the object has no field {name}: give {wanted}")
    }
}

/// Returns the message of `error` with its column, but without the line, which is always the first.
fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let column = error.column();
    format!("not a JSON object: {what} at column {column}; give one object on each line")
}

fn text_or_number(raw: &RawValue) -> Option<Cow<'_, str>> {
    match raw.get().as_bytes().first()? {
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(raw.get())),
        _ => text_of(raw),
    }
}

fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let is_text = raw.get().starts_with('"');
    let text = is_text.then(|| serde_json::from_str(raw.get()).ok());
    text.flatten().map(Cow::Owned)
}
