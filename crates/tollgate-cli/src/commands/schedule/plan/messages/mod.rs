//! `Messages`: the messages to plan, from CSV or JSON lines.

mod fields;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::Timestamp;
use tollgate_core::schedule::LONGEST_ID;

use self::fields::Fields;
use crate::failure::Failure;
use crate::file::{Source, is_standard_input, unreadable};
use crate::progress::Progress;
use crate::text::{printable, shortened};
use crate::time;
use crate::trace::{KeyId, Keys};

pub(crate) struct Message {
    pub(crate) key: KeyId,
    pub(crate) id: Arc<str>,
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

/// The lines of messages, by the indexes of their keys and by their ids.
type Lines = HashMap<(usize, Arc<str>), u64>;

impl Messages {
    /// Reads `path`, which may be `-` for standard input.
    pub(super) fn read(path: &Path, progress: &Progress) -> Result<Self, Failure> {
        let source = Source::new(path)?;
        progress.say("reading");
        let name = if is_standard_input(path) {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let reader = source.reader(progress);
        Self::parse(name, reader.map_err(|error| unreadable(path, error))?)
    }

    pub(super) fn parse(name: String, text: impl Read) -> Result<Self, Failure> {
        let mut all = Self {
            name: name.clone(),
            messages: Vec::new(),
            keys: Keys::default(),
        };
        let mut lines = Lines::new();
        fields::for_each(&name, text, |line, fields| {
            all.add(fields, line, &mut lines)
        })?;
        if all.messages.is_empty() {
            return Err(Failure::NoMessages { file: name });
        }
        Ok(all)
    }

    /// Adds the message of a line, or returns what is wrong with it.
    fn add(&mut self, fields: Fields, line: u64, lines: &mut Lines) -> Result<(), String> {
        if fields.key.is_empty() {
            return Err("the field key is empty: give whom the message is for".to_owned());
        }
        if !(1..=LONGEST_ID).contains(&fields.id.len()) {
            return Err(format!(
                "the field id has {} bytes: give 1 to {LONGEST_ID}, a hash of a longer one for \
                 example",
                fields.id.len(),
            ));
        }
        for (name, value) in [("key", &fields.key), ("id", &fields.id)] {
            if value.trim_matches([' ', '\t']) != value {
                return Err(format!(
                    "the field {name}, {:?}, has a space before or after its text: remove it",
                    shown(value),
                ));
            }
        }
        let wanted = time::read(&fields.time);
        let wanted = wanted
            .map_err(|reason| format!("the field time, {:?}, {reason}", shown(&fields.time)))?;
        let zone = match &*fields.time_zone {
            "" => None,
            name => Some(time::zone(name).map_err(|_| {
                let name = shown(name);
                format!(
                    "the field time_zone, {name:?}, is no time zone: give the name of one, such as \
                     Europe/Berlin"
                )
            })?),
        };
        let key = self.keys.intern(fields.key.as_bytes());
        let key = key.map_err(|failure| failure.to_string())?;
        let id: Arc<str> = fields.id.into();
        match lines.entry((key.index(), Arc::clone(&id))) {
            Entry::Vacant(place) => place.insert(line),
            Entry::Occupied(first) => {
                return Err(format!(
                    "the id {:?} of the key {:?} is on line {} already: give each message of a key \
                     an id of its own, or remove one of the lines",
                    shown(&id),
                    shown(&fields.key),
                    first.get(),
                ));
            }
        };
        self.messages.push(Message {
            key,
            id,
            wanted,
            zone,
        });
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter()
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn key_ids(&self) -> impl Iterator<Item = KeyId> + Clone {
        self.keys.ids()
    }

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
        let of = |message: &Message| {
            let earliest = &mut earliest[message.key.index()];
            *earliest = message.wanted.min(*earliest);
            *earliest
        };
        let mut instants: Vec<_> = self.messages.iter().rev().map(of).collect();
        instants.reverse();
        instants
    }
}

/// Returns the start of a wrong value, for an error message.
fn shown(text: &str) -> String {
    shortened(&printable(text.as_bytes()), 60)
}
