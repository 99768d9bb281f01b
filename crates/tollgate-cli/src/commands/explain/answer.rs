//! `Answer`: what `tollgate explain` says, as JSON or as text.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};
use tollgate_core::{Limit, Timestamp};
use tollgate_wire::{Facts, FoundState};

use crate::store::TimeSource;
use crate::text::{Grouped, Span, Table, bullets, local, plural, readable, rfc3339};
use crate::verdict::LimitVerdict;

/// The answer of `explain`.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) command: &'static str,
    pub(super) key: &'a str,
    pub(super) rest: &'a str,
    pub(super) limits: Vec<Asked>,
    pub(super) states: Vec<State>,
}

/// A limit of the command line.
#[derive(Serialize)]
pub(super) struct Asked {
    #[serde(flatten)]
    verdict: LimitVerdict,
    has_state: bool,
    /// States under its name that it does not read.
    other_states: Vec<String>,
}

/// A state on the server.
#[derive(Serialize)]
pub(super) struct State {
    state: String,
    name: String,
    clock: TimeSource,
    rest: String,
    understood: bool,
    consumed: Option<u64>,
    previous: Option<u64>,
    #[serde(serialize_with = "time")]
    since: Option<Timestamp>,
    #[serde(serialize_with = "time")]
    last: Option<Timestamp>,
    #[serde(serialize_with = "time")]
    ends: Option<Timestamp>,
    #[serde(serialize_with = "time")]
    expires: Option<Timestamp>,
    #[serde(serialize_with = "time")]
    now: Option<Timestamp>,
}

impl Asked {
    /// Returns the answer about `limit`, for a key that has `states`.
    pub(super) fn new<'s>(
        limit: &Limit,
        verdict: LimitVerdict,
        clock: TimeSource,
        states: impl Iterator<Item = &'s FoundState>,
    ) -> Self {
        let mut asked = Self {
            verdict,
            has_state: false,
            other_states: Vec::new(),
        };
        let is_named = |state: &&FoundState| state.name == limit.name() && !state.is_answer();
        for state in states.filter(is_named) {
            if state.is_exact && state.is_of(limit, clock.into()) {
                asked.has_state = true;
                continue;
            }
            let mut text = state.to_string();
            if !state.is_exact {
                text += &match String::from_utf8_lossy(&state.rest) {
                    rest if rest.is_empty() => " without a rest".to_owned(),
                    rest => format!(" of the rest {rest}"),
                };
            }
            text += TimeSource::from(state.clock).beside(clock);
            asked.other_states.push(text);
        }
        asked
    }

    /// Returns the remark about a limit without a state.
    fn remark(&self) -> Option<String> {
        if self.has_state {
            return None;
        }
        let limit = &self.verdict.limit;
        let mut text = format!("{limit} has no state for this key");
        if self.other_states.is_empty() {
            text += ", which was never counted, or not since its state ended.\n";
        } else {
            text += ". Under its name the server holds others, which it does not read:\n";
            text += &bullets(&self.other_states);
        }
        Some(text)
    }
}

impl State {
    pub(super) fn new(state: &FoundState, facts: &Facts) -> Self {
        Self {
            state: state.to_string(),
            name: state.name.clone(),
            clock: state.clock.into(),
            rest: String::from_utf8_lossy(&state.rest).into_owned(),
            understood: facts.is_understood,
            consumed: facts.consumed,
            previous: facts.previous,
            since: facts.since,
            last: facts.last,
            ends: facts.ends,
            expires: facts.expires,
            now: facts.now,
        }
    }

    fn cells(&self, zone: &TimeZone) -> [String; 7] {
        let at = |at: Option<Timestamp>| at.map(|at| local(at, zone)).unwrap_or_default();
        let consumed = match (self.understood, self.consumed, self.previous) {
            (false, ..) => "unreadable".to_owned(),
            (_, None, _) => String::new(),
            (_, Some(units), None | Some(0)) => Grouped(units).to_string(),
            (_, Some(units), Some(before)) => format!("{} + {}", Grouped(units), Grouped(before)),
        };
        [
            self.state.clone(),
            consumed,
            at(self.since),
            at(self.last),
            self.end(zone),
            match self.clock {
                TimeSource::Caller => "callers'".to_owned(),
                TimeSource::Server => "server's".to_owned(),
            },
            self.rest.clone(),
        ]
    }

    /// Returns when the state ends, and in how long.
    fn end(&self, zone: &TimeZone) -> String {
        let (Some(ends), Some(now)) = (self.ends.or(self.expires), self.now) else {
            return "never".to_owned();
        };
        let left = ends.as_micros().saturating_sub(now.as_micros());
        let left = match left {
            0 => "over".to_owned(),
            left => {
                // To the second, rounded up.
                let left = Span(Duration::from_secs(left.div_ceil(1_000_000)));
                // A caller's clock may lag, so the server keeps its states longer.
                let is_bound = self.ends.is_none() && self.clock == TimeSource::Caller;
                format!("in {}{left}", if is_bound { "at most " } else { "" })
            }
        };
        format!("{} ({left})", local(ends, zone))
    }
}

impl Answer<'_> {
    pub(super) fn to_text(&self, zone: &TimeZone) -> String {
        let states = u64::try_from(self.states.len()).unwrap_or(u64::MAX);
        let mut text = format!(
            "explain {}: {}\n",
            readable(self.key, ""),
            plural(states, "state", "states")
        );
        if !self.states.is_empty() {
            let header = [
                "STATE", "CONSUMED", "SINCE", "LAST", "ENDS", "CLOCK", "REST",
            ];
            let mut table = Table::new(&header, 2);
            for state in &self.states {
                table.row(state.cells(zone));
            }
            text += &format!("\n{table}");
        }
        if !self.limits.is_empty() {
            let verdicts = self.limits.iter().map(|asked| &asked.verdict);
            text += &format!("\n{}", LimitVerdict::table(verdicts));
        }
        for remark in self.limits.iter().filter_map(Asked::remark) {
            text += &format!("\n{remark}");
        }
        text
    }
}

/// Serializes an instant as RFC 3339 in UTC.
fn time<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    at.map(rfc3339).serialize(to)
}
