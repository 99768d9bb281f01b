//! `Plan`: the messages with their permitted times, as JSON or as a table.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;
use tollgate_core::Timestamp;

use super::decide::Task;
use super::messages::{Message, Messages};
use crate::commands::schedule::options::Only;
use crate::text::{Span, Table, exact, grouped, json, plural, rfc3339, times_in};

#[derive(Debug)]
pub(super) struct Outcome {
    /// The planned time, or why the message is refused.
    pub(super) planned: Result<Timestamp, String>,
    /// What was in the way at the wanted time, if the message is moved or refused.
    pub(super) way: Option<Way>,
}

/// What was in the way of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// The quota with this index.
    Quota(usize),
    /// The wanted time is beyond the horizon.
    Horizon,
    NotLookedUp,
}

#[derive(Default, Serialize)]
pub(super) struct InTheWay {
    pub(super) quota: String,
    pub(super) moved: u64,
    pub(super) refused: u64,
}

/// The messages in the order of the file, and what became of each.
pub(super) struct Plan<'m> {
    pub(super) messages: &'m Messages,
    outcomes: Vec<Outcome>,
    /// That of the times for people.
    pub(super) zone: &'m TimeZone,
    pub(super) moved: u64,
    pub(super) refused: u64,
    /// A count for each quota.
    pub(super) quotas: Vec<InTheWay>,
    /// A count for the horizon, and one for messages whose quota was not looked up.
    others: [InTheWay; 2],
}

#[derive(Clone, Copy)]
pub(super) struct Row<'p> {
    pub(super) key: &'p str,
    pub(super) message: &'p Message,
    pub(super) planned: Result<Timestamp, &'p str>,
    /// The quota that was in the way, if it was looked up.
    pub(super) quota: Option<&'p str>,
    /// That of the times for people: the message's own, if the file gives it.
    pub(super) zone: &'p TimeZone,
}

#[derive(Clone, Default)]
pub(super) struct OfKey<'p> {
    pub(super) key: &'p str,
    pub(super) messages: u64,
    pub(super) moved: u64,
    pub(super) refused: u64,
    /// The most that a message is later than wanted.
    pub(super) later: Duration,
    /// The last time that is planned.
    pub(super) last: Option<Timestamp>,
}

impl OfKey<'_> {
    pub(super) fn as_wanted(&self) -> u64 {
        self.messages - self.moved - self.refused
    }
}

#[derive(Serialize)]
struct Json<'p> {
    events: Vec<Planned<'p>>,
    moved: u64,
    refused: Vec<Refused<'p>>,
    quotas: &'p [InTheWay],
}

#[derive(Serialize)]
struct Planned<'p> {
    key: &'p str,
    id: &'p str,
    wanted: String,
    planned: String,
    moved_by: Option<&'p str>,
}

#[derive(Serialize)]
struct Refused<'p> {
    key: &'p str,
    id: &'p str,
    wanted: String,
    reason: &'p str,
    quota: Option<&'p str>,
}

impl Row<'_> {
    /// Returns how much later than wanted the message is planned.
    pub(super) fn later(&self) -> Duration {
        let wanted = self.message.wanted;
        let planned = self.planned.unwrap_or(wanted);
        planned.saturating_duration_since(wanted)
    }

    /// Returns the cells of a table: `WANTED`, `PLANNED`, `LATER BY` and `QUOTA IN THE WAY`.
    pub(super) fn cells(&self) -> [String; 4] {
        let wanted = exact(self.message.wanted, self.zone);
        let quota = self.quota.unwrap_or_default().to_owned();
        match self.planned {
            Ok(time) if time == self.message.wanted => {
                [wanted.clone(), wanted, String::new(), quota]
            }
            Ok(time) => {
                let later = Span(self.later()).to_string();
                [wanted, exact(time, self.zone), later, quota]
            }
            Err(reason) => {
                let [refused, reason] = ["refused", reason].map(str::to_owned);
                [wanted, refused, String::new(), reason]
            }
        }
    }
}

impl<'m> Plan<'m> {
    pub(super) fn new(task: &'m Task<'m>, outcomes: Vec<Outcome>) -> Self {
        let none = |quota| InTheWay {
            quota,
            ..InTheWay::default()
        };
        let quotas = task.terms.quotas().iter();
        let mut plan = Self {
            messages: task.messages,
            zone: &task.zone,
            moved: 0,
            refused: 0,
            quotas: quotas.map(|quota| none(quota.to_string())).collect(),
            others: ["the horizon", "not looked up"].map(|name| none(name.to_owned())),
            outcomes: Vec::new(),
        };
        for outcome in &outcomes {
            let way = match outcome.way {
                None => continue,
                Some(Way::Quota(index)) => &mut plan.quotas[index],
                Some(Way::Horizon) => &mut plan.others[0],
                Some(Way::NotLookedUp) => &mut plan.others[1],
            };
            if outcome.planned.is_ok() {
                way.moved += 1;
                plan.moved += 1;
            } else {
                way.refused += 1;
                plan.refused += 1;
            }
        }
        plan.outcomes = outcomes;
        plan
    }

    /// Returns what to say about the times for people.
    fn times_in(&self) -> String {
        if self.messages.iter().any(|message| message.zone.is_some()) {
            ", times in the zone of each message".to_owned()
        } else {
            times_in(self.zone)
        }
    }

    /// Returns the numbers of messages and of keys.
    pub(super) fn counts(&self) -> [u64; 2] {
        let count = |count| u64::try_from(count).unwrap_or(u64::MAX);
        [self.messages.len(), self.messages.keys()].map(count)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let rows = self.messages.iter().zip(&self.outcomes);
        rows.map(|(message, outcome)| Row {
            key: self.messages.key(message.key),
            message,
            planned: outcome
                .planned
                .as_ref()
                .map_or_else(|reason| Err(&**reason), |time| Ok(*time)),
            quota: match outcome.way {
                Some(Way::Quota(index)) => Some(&self.quotas[index].quota),
                _ => None,
            },
            zone: message.zone.as_ref().unwrap_or(self.zone),
        })
    }

    pub(super) fn listed(&self, only: Option<Only>) -> impl Iterator<Item = Row<'_>> {
        self.rows().filter(move |row| match only {
            None => true,
            Some(Only::Moved) => row.planned.is_ok_and(|time| time != row.message.wanted),
            Some(Only::Refused) => row.planned.is_err(),
        })
    }

    /// Returns the numbers of each key with a message to list, in the order of the file.
    pub(super) fn of_each_key(&self, only: Option<Only>) -> Vec<OfKey<'_>> {
        let mut keys = vec![None; self.messages.keys()];
        for row in self.rows() {
            let of = keys[row.message.key.index()].get_or_insert_with(|| OfKey {
                key: row.key,
                ..OfKey::default()
            });
            of.messages += 1;
            match row.planned {
                Ok(time) => {
                    of.moved += u64::from(time != row.message.wanted);
                    of.later = of.later.max(row.later());
                    of.last = of.last.max(Some(time));
                }
                Err(_) => of.refused += 1,
            }
        }
        let keys = keys.into_iter().flatten();
        let listed = |of: &OfKey<'_>| match only {
            None => true,
            Some(Only::Moved) => of.moved > 0,
            Some(Only::Refused) => of.refused > 0,
        };
        keys.filter(listed).collect()
    }

    /// Returns how many messages each quota moved and refused, then how many are beyond the horizon,
    /// and for how many the quota was not looked up, if there are any.
    pub(super) fn in_the_way(&self) -> impl Iterator<Item = &InTheWay> {
        let others = self.others.iter();
        let others = others.filter(|other| other.moved + other.refused > 0);
        self.quotas.iter().chain(others)
    }

    pub(super) fn to_json(&self, only: Option<Only>) -> String {
        let mut answer = Json {
            events: Vec::with_capacity(self.outcomes.len()),
            moved: self.moved,
            refused: Vec::new(),
            quotas: &self.quotas,
        };
        for row in self.listed(only) {
            let (key, id, wanted) = (row.key, &*row.message.id, rfc3339(row.message.wanted));
            match row.planned {
                Ok(time) => answer.events.push(Planned {
                    key,
                    id,
                    wanted,
                    planned: rfc3339(time),
                    moved_by: row.quota,
                }),
                Err(reason) => answer.refused.push(Refused {
                    key,
                    id,
                    wanted,
                    reason,
                    quota: row.quota,
                }),
            }
        }
        json(&answer)
    }

    pub(super) fn title(&self) -> String {
        let [messages, keys] = self.counts();
        format!(
            "{} of {}: {} as wanted, {} moved, {} refused{}",
            plural(messages, "message", "messages"),
            plural(keys, "key", "keys"),
            grouped(messages - self.moved - self.refused),
            grouped(self.moved),
            grouped(self.refused),
            self.times_in(),
        )
    }

    pub(super) fn to_text(&self, only: Option<Only>, per_key: bool) -> String {
        let mut text = self.title() + "\n\n";
        if self.moved + self.refused > 0 {
            let mut table = Table::new(&["QUOTA IN THE WAY", "MOVED", "REFUSED"], 3);
            for way in self.in_the_way() {
                let counts = [way.moved, way.refused].map(grouped);
                let [moved, refused] = counts;
                table.row([way.quota.clone(), moved, refused]);
            }
            text += &format!("{table}\n");
        }
        if per_key {
            return text + &self.table_of_keys(only).to_string();
        }
        let header = [
            "KEY",
            "ID",
            "WANTED",
            "PLANNED",
            "LATER BY",
            "QUOTA IN THE WAY",
        ];
        let mut table = Table::new(&header, 1);
        for row in self.listed(only) {
            let names = [row.key, &row.message.id].map(str::to_owned);
            table.row([&names[..], &row.cells()].concat());
        }
        text += &table.to_string();
        text
    }

    fn table_of_keys(&self, only: Option<Only>) -> Table {
        let header = [
            "KEY",
            "MESSAGES",
            "AS WANTED",
            "MOVED",
            "REFUSED",
            "LATER BY UP TO",
            "LAST PLANNED",
        ];
        let mut table = Table::new(&header, 5);
        for of in self.of_each_key(only) {
            let counts = [of.messages, of.as_wanted(), of.moved, of.refused];
            let mut cells = vec![of.key.to_owned()];
            cells.extend(counts.map(grouped));
            let later = (of.moved > 0).then(|| Span(of.later).to_string());
            let last = of.last.map(|last| exact(last, self.zone));
            cells.extend([later, last].map(Option::unwrap_or_default));
            table.row(cells);
        }
        table
    }
}
