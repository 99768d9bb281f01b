//! `Plan`: the messages with their permitted times, as JSON or as a table.

use jiff::tz::TimeZone;
use serde::Serialize;
use tollgate_core::{Timestamp, schedule};

use super::messages::{Message, Messages};
use crate::text::{Grouped, Span, Table, exact, json, plural, printable, rfc3339, times_in};

/// What became of a message.
#[derive(Debug)]
pub(super) enum Outcome {
    Planned {
        time: Timestamp,
        /// The quota that had no room at the wanted time, if the message is moved.
        quota: Option<schedule::Quota>,
    },
    Refused {
        reason: String,
        /// The quota that had no room at the wanted time, if that is the reason and was looked up.
        quota: Option<schedule::Quota>,
        /// Whether the wanted time is beyond the horizon.
        is_beyond: bool,
    },
}

impl Outcome {
    /// Returns the quota that was in the way.
    pub(super) fn quota(&self) -> Option<&schedule::Quota> {
        match self {
            Self::Planned { quota, .. } | Self::Refused { quota, .. } => quota.as_ref(),
        }
    }
}

/// How many messages a quota moved, and how many it refused.
#[derive(Serialize)]
pub(super) struct InTheWay {
    pub(super) quota: String,
    pub(super) moved: u64,
    pub(super) refused: u64,
}

impl InTheWay {
    fn of(quota: String) -> Self {
        Self {
            quota,
            moved: 0,
            refused: 0,
        }
    }
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
    /// A count for each quota, for the horizon, and for messages whose quota was not looked up.
    reasons: Vec<InTheWay>,
}

#[derive(Serialize)]
struct Json<'a> {
    events: Vec<Planned<'a>>,
    moved: u64,
    refused: Vec<Refused<'a>>,
    quotas: &'a [InTheWay],
}

#[derive(Serialize)]
struct Planned<'a> {
    key: &'a str,
    id: &'a str,
    wanted: String,
    planned: String,
    moved_by: Option<String>,
}

#[derive(Serialize)]
struct Refused<'a> {
    key: &'a str,
    id: &'a str,
    wanted: String,
    reason: &'a str,
    quota: Option<String>,
}

impl<'m> Plan<'m> {
    pub(super) fn new(
        messages: &'m Messages,
        terms: &'m schedule::Terms,
        outcomes: Vec<Outcome>,
        zone: &'m TimeZone,
    ) -> Self {
        let quotas = terms.quotas();
        let others = ["the horizon", "not looked up"];
        let [horizon, not_looked_up] = [quotas.len(), quotas.len() + 1];
        let names = quotas.iter().map(ToString::to_string);
        let mut reasons: Vec<_> = names
            .chain(others.map(str::to_owned))
            .map(InTheWay::of)
            .collect();
        for (message, outcome) in messages.iter().zip(&outcomes) {
            let index = match outcome {
                Outcome::Planned { time, .. } if *time == message.wanted => continue,
                Outcome::Refused {
                    is_beyond: true, ..
                } => horizon,
                _ => {
                    let quota = outcome.quota();
                    let index = quotas.iter().position(|other| Some(other) == quota);
                    index.unwrap_or(not_looked_up)
                }
            };
            if let Some(reason) = reasons.get_mut(index) {
                match outcome {
                    Outcome::Planned { .. } => reason.moved += 1,
                    Outcome::Refused { .. } => reason.refused += 1,
                }
            }
        }
        Self {
            messages,
            quotas,
            outcomes,
            zone,
            moved: reasons.iter().map(|reason| reason.moved).sum(),
            refused: reasons.iter().map(|reason| reason.refused).sum(),
            reasons,
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

    /// Returns the zone of a message's times for people: its own, if the file gives it.
    pub(super) fn zone_of(&self, message: &'m Message) -> &'m TimeZone {
        message.zone.as_ref().unwrap_or(self.zone)
    }

    /// Returns whether the file gives the zone of a message.
    pub(super) fn has_zones(&self) -> bool {
        self.messages.iter().any(|message| message.zone.is_some())
    }

    /// Returns what to say about the times for people.
    pub(super) fn times_in(&self) -> String {
        if self.has_zones() {
            ", times in the zone of each message".to_owned()
        } else {
            times_in(self.zone)
        }
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

    /// Returns how many messages each quota moved and refused, in the order of the quotas.
    fn in_the_way(&self) -> &[InTheWay] {
        self.reasons.get(..self.quotas.len()).unwrap_or_default()
    }

    /// Returns how many messages each quota moved and refused, then how many are beyond the horizon,
    /// and for how many the quota was not looked up, if there are any.
    pub(super) fn reasons(&self) -> impl Iterator<Item = &InTheWay> {
        let others = self.reasons.get(self.quotas.len()..).unwrap_or_default();
        let others = others
            .iter()
            .filter(|other| other.moved + other.refused > 0);
        self.in_the_way().iter().chain(others)
    }

    /// Returns a JSON object on one line.
    pub(super) fn to_json(&self) -> String {
        let mut answer = Json {
            events: Vec::with_capacity(self.outcomes.len()),
            moved: self.moved,
            refused: Vec::new(),
            quotas: self.in_the_way(),
        };
        for (key, message, outcome) in self.rows() {
            let (id, wanted) = (&*message.id, rfc3339(message.wanted));
            let quota = outcome.quota().map(ToString::to_string);
            match outcome {
                Outcome::Planned { time, .. } => answer.events.push(Planned {
                    key,
                    id,
                    wanted,
                    planned: rfc3339(*time),
                    moved_by: quota,
                }),
                Outcome::Refused { reason, .. } => answer.refused.push(Refused {
                    key,
                    id,
                    wanted,
                    reason,
                    quota,
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
        if self.moved + self.refused > 0 {
            let mut table = Table::new(&["QUOTA IN THE WAY", "MOVED", "REFUSED"], 3);
            for way in self.reasons() {
                let counts = [way.moved, way.refused].map(|count| Grouped(count).to_string());
                let [moved, refused] = counts;
                table.row([way.quota.clone(), moved, refused]);
            }
            text += &format!("{table}\n");
        }
        let columns = [
            ("KEY", true),
            ("ID", true),
            ("ZONE", self.has_zones()),
            ("WANTED", true),
            ("PLANNED", true),
            ("LATER BY", self.moved > 0),
            ("QUOTA IN THE WAY", self.moved + self.refused > 0),
            ("REASON", self.refused > 0),
        ];
        let shown = |cells: [String; 8]| -> Vec<String> {
            let cells = cells.into_iter().zip(columns);
            cells
                .filter_map(|(cell, (_, is_shown))| is_shown.then_some(cell))
                .collect()
        };
        let header = shown(columns.map(|(name, _)| name.to_owned()));
        let mut table = Table::new(&header, 1);
        for (key, message, outcome) in self.rows() {
            let zone = self.zone_of(message);
            let (planned, later, reason) = match outcome {
                Outcome::Planned { time, .. } => {
                    let later = time.saturating_duration_since(message.wanted);
                    let later = (!later.is_zero()).then(|| Span(later).to_string());
                    (exact(*time, zone), later.unwrap_or_default(), "")
                }
                Outcome::Refused { reason, .. } => ("refused".to_owned(), String::new(), &**reason),
            };
            let quota = outcome.quota().map(ToString::to_string);
            table.row(shown([
                printable(key.as_bytes()),
                printable(message.id.as_bytes()),
                zone.iana_name().unwrap_or_default().to_owned(),
                exact(message.wanted, zone),
                planned,
                later,
                quota.unwrap_or_default(),
                reason.to_owned(),
            ]));
        }
        text += &table.to_string();
        text
    }
}
