//! `Messages`: reads the messages to plan from CSV or JSON lines.

mod csv;
mod json;

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use tollgate_core::{LONGEST_EVENT_ID, Timestamp};

use crate::failure::Failure;
use crate::input::{Source, is_standard_input, unreadable};
use crate::progress::Progress;
use crate::schedule::time;
use crate::text::printable;
use crate::trace::{KeyId, Keys};

/// How much of a wrong value an error shows.
const SHOWN: usize = 60;

/// A message to plan.
pub(crate) struct Message {
    pub(crate) key: KeyId,
    pub(crate) id: Box<str>,
    pub(crate) wanted: Timestamp,
}

/// The messages of a file, in its order.
pub(super) struct Messages {
    name: String,
    messages: Vec<Message>,
    keys: Keys,
}

/// The text of a message's fields, and its line.
struct Fields<'a> {
    line: u64,
    key: &'a str,
    id: &'a str,
    time: &'a str,
}

/// A line that is not a message, and why.
struct BadLine {
    line: u64,
    reason: String,
}

impl Messages {
    /// Reads `path`, which may be `-` for standard input.
    pub(super) fn read(path: &Path, progress: &Progress) -> Result<Self, Failure> {
        let source = Source::new(path)?;
        progress.start_reading(source.bytes());
        let mut text = Vec::new();
        let read = source.reader(progress);
        read.and_then(|mut reader| reader.read_to_end(&mut text))
            .map_err(|error| unreadable(path, error))?;
        let name = if is_standard_input(path) {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        // Some programs start a file with a UTF-8 byte order mark.
        Self::parse(name, text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text))
    }

    pub(super) fn parse(name: String, text: &[u8]) -> Result<Self, Failure> {
        let mut messages = Self {
            name,
            messages: Vec::new(),
            keys: Keys::default(),
        };
        let mut lines = Vec::new();
        let add = |fields: Fields<'_>| {
            lines.push(fields.line);
            messages.add(&fields)
        };
        // Every JSON object starts with a brace, and no heading does.
        let read = if text.trim_ascii_start().first() == Some(&b'{') {
            json::for_each(text, add)
        } else {
            csv::for_each(text, add)
        };
        let read = read.and_then(|()| messages.check_ids(&lines));
        read.map_err(|bad| Failure::Line {
            file: messages.name.clone(),
            line: bad.line,
            reason: bad.reason,
        })?;
        if messages.messages.is_empty() {
            return Err(Failure::NoMessages {
                file: messages.name,
            });
        }
        Ok(messages)
    }

    fn add(&mut self, fields: &Fields<'_>) -> Result<(), BadLine> {
        let bad = |reason: String| BadLine {
            line: fields.line,
            reason,
        };
        if fields.key.is_empty() {
            return Err(bad(
                "the field key is empty: give whom the message is for".to_owned()
            ));
        }
        if !(1..=LONGEST_EVENT_ID).contains(&fields.id.len()) {
            return Err(bad(format!(
                "the field id has {} bytes: give 1 to {LONGEST_EVENT_ID}, a hash of a longer one \
                 for example",
                fields.id.len(),
            )));
        }
        let wanted = time::read(fields.time).map_err(|reason| {
            bad(format!(
                "the field time, {:?}, {reason}",
                shown(fields.time)
            ))
        })?;
        let key = self.keys.intern(fields.key.as_bytes());
        self.messages.push(Message {
            key: key.map_err(|failure| bad(failure.to_string()))?,
            id: fields.id.into(),
            wanted,
        });
        Ok(())
    }

    /// Checks that no two messages of a key have the same id; `lines` holds their lines.
    fn check_ids(&self, lines: &[u64]) -> Result<(), BadLine> {
        let mut seen = HashMap::with_capacity(self.messages.len());
        for (message, &line) in self.messages.iter().zip(lines) {
            if let Some(first) = seen.insert((message.key.index(), &*message.id), line) {
                let (id, key) = (shown(&message.id), shown(self.key(message.key)));
                return Err(BadLine {
                    line,
                    reason: format!(
                        "the id {id:?} of the key {key:?} is on line {first} already: give each \
                         message of a key an id of its own, or remove one of the lines"
                    ),
                });
            }
        }
        Ok(())
    }

    /// Returns the file's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter()
    }

    /// Returns the number of distinct keys.
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Returns the ids of all keys.
    pub(super) fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        self.keys.ids()
    }

    /// Returns the text of `key`.
    pub(super) fn key(&self, key: KeyId) -> &str {
        // The conversion cannot fail: only text is interned.
        std::str::from_utf8(self.keys.bytes(key.index())).unwrap_or("")
    }

    /// Returns the first and the last wanted time.
    pub(super) fn span(&self) -> (Timestamp, Timestamp) {
        let wanted = || self.messages.iter().map(|message| message.wanted);
        let [first, last] = [wanted().min(), wanted().max()];
        (first.unwrap_or_default(), last.unwrap_or_default())
    }

    /// Returns the instant at which each message is decided.
    ///
    /// That is the earliest wanted time of all messages. If `is_short`, the horizon may not reach
    /// from there to the last message. The present then moves on: each message is decided at the
    /// earliest time that it or a later message of its key wants.
    pub(super) fn instants(&self, is_short: bool) -> Vec<Timestamp> {
        if !is_short {
            return vec![self.span().0; self.messages.len()];
        }
        let mut earliest = vec![Timestamp::MAX; self.keys()];
        let mut instants: Vec<_> = self
            .messages
            .iter()
            .rev()
            .map(|message| {
                let earliest = &mut earliest[message.key.index()];
                *earliest = message.wanted.min(*earliest);
                *earliest
            })
            .collect();
        instants.reverse();
        instants
    }
}

/// Returns the start of a wrong value, for an error message.
fn shown(text: &str) -> String {
    let text = printable(text.as_bytes());
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN - 1).chain(['…']).collect()
}
