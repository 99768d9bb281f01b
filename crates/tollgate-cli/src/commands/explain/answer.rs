//! `Answer`: what `tollgate explain` says, as JSON or as text.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_wire::operate::{Facts, FoundState};

use crate::limits::{of_other_rest, of_rest};
use crate::store::{TimeSource, Whom};
use crate::text::{Span, Table, bullets, grouped, instant, local, plural};
use crate::verdict::LimitVerdict;

#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) command: &'static str,
    pub(super) key: &'a str,
    pub(super) rest: &'a str,
    pub(super) limits: Vec<Asked>,
    /// By rests: the hash of the key in the events of its denied calls.
    pub(super) key_hashes: BTreeMap<String, String>,
    pub(super) states: Vec<State>,
    /// Why the service may write the key in another way, if it has no states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) doubt: Option<String>,
}

/// What a limit says of a state, or of the key if that has none.
#[derive(Serialize)]
pub(super) struct Asked {
    #[serde(flatten)]
    pub(super) verdict: LimitVerdict,
    /// Whether another limit that reads the same state allows what this one denies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) perhaps: bool,
    rest: String,
    has_state: bool,
    /// States under its name that it does not read, if there are no others.
    other_states: Vec<String>,
    #[serde(skip)]
    state: Option<FoundState>,
}

/// A state on the server.
#[derive(Serialize)]
pub(super) struct State {
    state: String,
    name: String,
    clock: TimeSource,
    rest: String,
    /// Whether a larger or smaller network is counted, to which the address belongs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    of_network: bool,
    /// Why there is no verdict on it, if limits were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_verdict: Option<&'static str>,
    understood: bool,
    consumed: Option<u64>,
    previous: Option<u64>,
    #[serde(serialize_with = "instant")]
    since: Option<Timestamp>,
    #[serde(serialize_with = "instant")]
    last: Option<Timestamp>,
    #[serde(serialize_with = "instant")]
    ends: Option<Timestamp>,
    #[serde(serialize_with = "instant")]
    expires: Option<Timestamp>,
    #[serde(serialize_with = "instant")]
    now: Option<Timestamp>,
}

impl Asked {
    pub(super) fn of(verdict: LimitVerdict, state: FoundState) -> Self {
        Self {
            verdict,
            rest: String::from_utf8_lossy(&state.rest).into_owned(),
            has_state: true,
            perhaps: false,
            other_states: Vec::new(),
            state: Some(state),
        }
    }

    /// Returns what a limit says of the key, which has `states`, none of which it reads by `clock`.
    pub(super) fn without_state<'s>(
        verdict: LimitVerdict,
        whom: &Whom,
        clock: TimeSource,
        states: impl Iterator<Item = &'s FoundState>,
    ) -> Self {
        let name = verdict.limit.name();
        let others = states.filter(|state| state.name == name && !state.is_answer());
        let others = others.map(|state| {
            let mut text = state.to_string();
            if !state.is_exact {
                text += &of_other_rest(&String::from_utf8_lossy(&state.rest));
            }
            text + TimeSource::from(state.clock).beside(clock)
        });
        Self {
            other_states: others.collect(),
            rest: whom.rest.clone(),
            has_state: false,
            perhaps: false,
            state: None,
            verdict,
        }
    }

    /// Returns whether the limit has this name, and has a state.
    pub(super) fn has_state_called(&self, name: &str) -> bool {
        self.has_state && self.verdict.limit.name() == name
    }

    pub(super) fn is_about(&self, state: &FoundState) -> bool {
        self.state.as_ref() == Some(state)
    }

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
    pub(super) fn new(
        state: &FoundState,
        facts: &Facts,
        of_network: bool,
        no_verdict: Option<&'static str>,
    ) -> Self {
        Self {
            state: state.to_string(),
            name: state.name.clone(),
            clock: state.clock.into(),
            rest: String::from_utf8_lossy(&state.rest).into_owned(),
            of_network,
            no_verdict,
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
            (_, Some(units), None | Some(0)) => grouped(units),
            (_, Some(units), Some(before)) => format!("{} + {}", grouped(units), grouped(before)),
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

    fn named(&self) -> String {
        format!("{}{}", self.state, of_rest(&self.rest))
    }

    fn silence(&self) -> Option<String> {
        Some(format!("{}: {}", self.named(), self.no_verdict?))
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
    pub(super) fn to_text(&self, whom: &Whom, zone: &TimeZone) -> String {
        let states = u64::try_from(self.states.len()).unwrap_or(u64::MAX);
        let mut text = format!(
            "explain {}: {}\n",
            whom.listed(),
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
        let networks = self.states.iter().filter(|state| state.of_network);
        let networks: Vec<_> = networks.map(State::named).collect();
        if !networks.is_empty() {
            text += &format!(
                "\nOf networks that the address is in, perhaps with other clients:\n{}\
                 `reset` leaves these, unless --ipv6-prefix gives the network's bits.\n",
                bullets(networks)
            );
        }
        if !self.limits.is_empty() {
            text += &format!("\n{}", self.verdicts());
        }
        if self.limits.iter().any(|asked| asked.perhaps) {
            text += "\nPerhaps denied: plans share this state, and only that of the key decides. Give it as --limit PLAN.\n";
        }
        if !self.key_hashes.is_empty() {
            let of = |(rest, hash): (&String, &String)| format!("{hash}{}", of_rest(rest));
            let hashes: Vec<_> = self.key_hashes.iter().map(of).collect();
            text += &format!(
                "\nIn events of denied calls, key_hash is {}.\n",
                hashes.join(", ")
            );
        }
        let silent: Vec<_> = self.states.iter().filter_map(State::silence).collect();
        if !silent.is_empty() {
            text += &format!("\nWithout a verdict:\n{}", bullets(silent));
        }
        for remark in self.limits.iter().filter_map(Asked::remark) {
            text += &format!("\n{remark}");
        }
        if let Some(doubt) = &self.doubt {
            text += &format!("\nPerhaps this is not the key that the service counts: {doubt}.\n");
        }
        text
    }

    /// Returns a table of what the limits say, with the rests if there are any.
    fn verdicts(&self) -> Table {
        let has_rest = self.limits.iter().any(|asked| !asked.rest.is_empty());
        let header = LimitVerdict::HEADER.into_iter();
        let header: Vec<_> = header.chain(has_rest.then_some("REST")).collect();
        let mut table = Table::new(&header, LimitVerdict::HEADER.len());
        for asked in &self.limits {
            let rest = has_rest.then(|| asked.rest.clone());
            let mut cells = asked.verdict.cells();
            if asked.perhaps {
                cells[1] = "perhaps denied".to_owned();
            }
            table.row(cells.into_iter().chain(rest).collect::<Vec<_>>());
        }
        table
    }
}
