//! `Plan`: the messages with their permitted times, as JSON or as a table.

use jiff::tz::TimeZone;
use serde::Serialize;
use tollgate_core::{Timestamp, schedule};

use super::messages::{Message, Messages};
use crate::text::{Grouped, Span, Table, exact, json, plural, printable, rfc3339, times_in};

/// What became of a message.
#[derive(Debug)]
pub(super) enum Outcome {
    Planned(Timestamp),
    /// Why it is not planned.
    Refused(String),
}

/// The messages in the order of the file, and what became of each.
pub(super) struct Plan<'m> {
    messages: &'m Messages,
    quotas: &'m [schedule::Quota],
    outcomes: Vec<Outcome>,
    /// That of the times for people.
    zone: &'m TimeZone,
    pub(super) moved: u64,
    pub(super) refused: u64,
}

#[derive(Serialize)]
struct Json<'a> {
    events: Vec<Planned<'a>>,
    moved: u64,
    refused: Vec<Refused<'a>>,
}

#[derive(Serialize)]
struct Planned<'a> {
    key: &'a str,
    id: &'a str,
    wanted: String,
    planned: String,
}

#[derive(Serialize)]
struct Refused<'a> {
    key: &'a str,
    id: &'a str,
    wanted: String,
    reason: &'a str,
}

impl<'m> Plan<'m> {
    pub(super) fn new(
        messages: &'m Messages,
        terms: &'m schedule::Terms,
        outcomes: Vec<Outcome>,
        zone: &'m TimeZone,
    ) -> Self {
        let (mut moved, mut refused) = (0, 0);
        for (message, outcome) in messages.iter().zip(&outcomes) {
            match outcome {
                Outcome::Planned(time) => moved += u64::from(*time != message.wanted),
                Outcome::Refused(_) => refused += 1,
            }
        }
        Self {
            messages,
            quotas: terms.quotas(),
            outcomes,
            zone,
            moved,
            refused,
        }
    }

    /// Returns the file's name.
    pub(super) fn source(&self) -> &'m str {
        self.messages.name()
    }

    /// Returns the zone of the times for people.
    pub(super) fn zone(&self) -> &'m TimeZone {
        self.zone
    }

    /// Formats a time for people.
    pub(super) fn time(&self, at: Timestamp) -> String {
        exact(at, self.zone)
    }

    /// Returns what to say about the times for people.
    pub(super) fn times_in(&self) -> String {
        times_in(self.zone)
    }

    pub(super) fn quotas(&self) -> &'m [schedule::Quota] {
        self.quotas
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.messages.len()).unwrap_or(u64::MAX)
    }

    /// Returns the number of keys.
    pub(super) fn keys(&self) -> usize {
        self.messages.keys()
    }

    /// Returns each message with its key and what became of it.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'m str, &'m Message, &Outcome)> {
        let rows = self.messages.iter().zip(&self.outcomes);
        rows.map(|(message, outcome)| (self.messages.key(message.key), message, outcome))
    }

    /// Returns a JSON object on one line.
    pub(super) fn to_json(&self) -> String {
        let mut answer = Json {
            events: Vec::with_capacity(self.outcomes.len()),
            moved: self.moved,
            refused: Vec::new(),
        };
        for (key, message, outcome) in self.rows() {
            let (id, wanted) = (&*message.id, rfc3339(message.wanted));
            match outcome {
                Outcome::Planned(time) => answer.events.push(Planned {
                    key,
                    id,
                    wanted,
                    planned: rfc3339(*time),
                }),
                Outcome::Refused(reason) => answer.refused.push(Refused {
                    key,
                    id,
                    wanted,
                    reason,
                }),
            }
        }
        json(&answer)
    }

    /// Returns one line with the numbers, and the table.
    pub(super) fn to_text(&self) -> String {
        let keys = u64::try_from(self.keys()).unwrap_or(u64::MAX);
        let mut text = format!(
            "{} of {}: {} as wanted, {} moved, {} refused{}\n\n",
            plural(self.len(), "message", "messages"),
            plural(keys, "key", "keys"),
            Grouped(self.len() - self.moved - self.refused),
            Grouped(self.moved),
            Grouped(self.refused),
            self.times_in(),
        );
        let header = ["KEY", "ID", "WANTED", "PLANNED", "LATER BY", "REASON"];
        let header = &header[..header.len() - usize::from(self.refused == 0)];
        let mut table = Table::new(header, 1);
        for (key, message, outcome) in self.rows() {
            let (planned, later, reason) = match outcome {
                Outcome::Planned(time) => {
                    let later = time.saturating_duration_since(message.wanted);
                    let later = (!later.is_zero()).then(|| Span(later).to_string());
                    (self.time(*time), later.unwrap_or_default(), "")
                }
                Outcome::Refused(reason) => ("refused".to_owned(), String::new(), &**reason),
            };
            table.row([
                printable(key.as_bytes()),
                printable(message.id.as_bytes()),
                self.time(message.wanted),
                planned,
                later,
                reason.to_owned(),
            ]);
        }
        text += &table.to_string();
        text
    }
}
