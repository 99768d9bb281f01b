//! `Messages`: reads the messages to plan from CSV or JSON lines.

mod csv;
mod fields;
mod json;
mod text;

use std::hash::BuildHasher;
use std::io::Read;
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use jiff::tz::TimeZone;
use tollgate_core::Timestamp;
use tollgate_core::schedule::LONGEST_ID;

use self::fields::{BadLine, Fields, Stopped, shown};
use self::text::Text;
use crate::failure::Failure;
use crate::file::{Source, is_standard_input, unreadable};
use crate::progress::Progress;
use crate::time;
use crate::trace::{KeyId, Keys};

/// A message to plan.
pub(crate) struct Message {
    pub(crate) key: KeyId,
    pub(crate) id: Box<str>,
    pub(crate) wanted: Timestamp,
    /// The recipient's time zone, if the file gives it.
    pub(crate) zone: Option<TimeZone>,
}

/// The messages of a file, in its order.
pub(super) struct Messages {
    name: String,
    messages: Vec<Message>,
    keys: Keys,
}

/// Reads messages, and finds those whose id their key has already.
struct Reading {
    messages: Messages,
    /// The line of each message.
    lines: Vec<u64>,
    /// The indexes of the messages, found by their keys and ids.
    seen: HashTable<usize>,
    /// Seeded at random, because the writer of a file must not make ids collide.
    hasher: RandomState,
}

impl Messages {
    /// Reads `path`, which may be `-` for standard input.
    pub(super) fn read(path: &Path, progress: &Progress) -> Result<Self, Failure> {
        let source = Source::new(path)?;
        progress.start_reading(source.bytes());
        let name = if is_standard_input(path) {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let reader = source.reader(progress);
        Self::parse(name, reader.map_err(|error| unreadable(path, error))?)
    }

    /// Reads the messages of a file called `name`.
    pub(super) fn parse(name: String, text: impl Read) -> Result<Self, Failure> {
        let mut reading = Reading {
            messages: Self {
                name,
                messages: Vec::new(),
                keys: Keys::default(),
            },
            lines: Vec::new(),
            seen: HashTable::new(),
            hasher: RandomState::default(),
        };
        let done = reading.read(text);
        let messages = reading.messages;
        match done {
            Ok(()) if messages.messages.is_empty() => Err(Failure::NoMessages {
                file: messages.name,
            }),
            Ok(()) => Ok(messages),
            Err(Stopped::Bad(bad)) => Err(Failure::Line {
                file: messages.name,
                line: bad.line,
                reason: bad.reason,
            }),
            Err(Stopped::Unreadable(error)) => Err(unreadable(Path::new(&messages.name), error)),
        }
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

impl Reading {
    fn read(&mut self, text: impl Read) -> Result<(), Stopped> {
        let mut text = Text::new(text).map_err(Stopped::Unreadable)?;
        let first = text.first().map_err(Stopped::Unreadable)?;
        let add = |fields: Fields<'_>| self.add(&fields);
        // Every JSON object starts with a brace, and no heading does.
        if first == Some(b'{') {
            json::for_each(text, add)
        } else {
            csv::for_each(text, add)
        }
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
        if !(1..=LONGEST_ID).contains(&fields.id.len()) {
            return Err(bad(format!(
                "the field id has {} bytes: give 1 to {LONGEST_ID}, a hash of a longer one \
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
        let zone = match fields.zone {
            "" => None,
            name => Some(time::zone(name).map_err(|_| {
                let name = shown(name);
                bad(format!(
                    "the field time_zone, {name:?}, is no time zone: give the name of one, such as \
                     Europe/Berlin"
                ))
            })?),
        };
        let key = self.messages.keys.intern(fields.key.as_bytes());
        let key = key.map_err(|failure| bad(failure.to_string()))?;
        self.note(key, fields)?;
        self.messages.messages.push(Message {
            key,
            id: fields.id.into(),
            wanted,
            zone,
        });
        Ok(())
    }

    /// Notes that the next message has this key and id, unless an earlier one has both.
    fn note(&mut self, key: KeyId, fields: &Fields<'_>) -> Result<(), BadLine> {
        let messages = &self.messages.messages;
        let hash = |key: KeyId, id: &str| self.hasher.hash_one((key.index(), id));
        let is_same =
            |&index: &usize| messages[index].key == key && *messages[index].id == *fields.id;
        let own = hash(key, fields.id);
        if let Some(&first) = self.seen.find(own, is_same) {
            let first = self.lines[first];
            let (id, key) = (shown(fields.id), shown(fields.key));
            return Err(BadLine {
                line: fields.line,
                reason: format!(
                    "the id {id:?} of the key {key:?} is on line {first} already: give each \
                     message of a key an id of its own, or remove one of the lines"
                ),
            });
        }
        let of = |&index: &usize| hash(messages[index].key, &messages[index].id);
        self.seen.insert_unique(own, messages.len(), of);
        self.lines.push(fields.line);
        Ok(())
    }
}
