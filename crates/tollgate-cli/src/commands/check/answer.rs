//! `Answer` and `Refused`: what `tollgate check` and `tollgate peek` say, as JSON or as text.

use std::time::Duration;

use serde::Serialize;
use tollgate_core::Limit;
use tollgate_core::store::Verdicts;
use tollgate_tokio::wait::TooLong;
use tollgate_wire::operate::FoundState;

use crate::limits::of_other_rest;
use crate::store::{TimeSource, Whom};
use crate::subject::Subject;
use crate::text::{Span, bullets, grouped, micros};
use crate::verdict::LimitVerdict;

const FOREVER: &str = "denied forever: the cost exceeds a limit's capacity";

/// The answer of `check --wait-up-to` to a call that would wait too long.
#[derive(Serialize)]
pub(super) struct Refused<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    cost: u64,
    allowed: bool,
    /// The limit with the longest wait.
    limit: Limit,
    #[serde(serialize_with = "micros", rename = "wait_up_to_us")]
    wait_up_to: Option<Duration>,
    #[serde(serialize_with = "micros", rename = "wait_us")]
    wait: Option<Duration>,
}

impl<'a> Refused<'a> {
    pub(super) fn new(whom: &'a Whom, cost: u64, longest: Duration, refused: &TooLong) -> Self {
        Self {
            command: "check",
            key: &whom.partition,
            rest: &whom.rest,
            cost,
            allowed: false,
            limit: refused.limit().clone(),
            wait_up_to: Some(longest),
            wait: refused.wait().duration(),
        }
    }

    pub(super) fn to_text(&self, whom: &Whom) -> String {
        let verdict = match self.wait {
            Some(wait) => format!("denied, it would have to wait {}", Span(wait)),
            None => FOREVER.to_owned(),
        };
        format!(
            "check {whom}, cost {}: {verdict}\nlimit: {}\n",
            grouped(self.cost),
            self.limit
        )
    }
}

#[derive(Serialize)]
pub(super) struct Answer<'a> {
    command: &'static str,
    key: &'a str,
    rest: &'a str,
    cost: u64,
    allowed: bool,
    /// How long the call took, if it was to wait.
    #[serde(
        serialize_with = "micros",
        rename = "waited_us",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) waited: Option<Duration>,
    remaining: u64,
    #[serde(serialize_with = "micros", rename = "retry_after_us")]
    retry_after: Option<Duration>,
    #[serde(serialize_with = "micros", rename = "reset_after_us")]
    reset_after: Option<Duration>,
    limits: Vec<LimitVerdict>,
    /// What else the server holds for this key, if the command was to look for it.
    #[serde(rename = "other_states", skip_serializing_if = "Vec::is_empty")]
    pub(super) others: Vec<Other>,
    /// Why the service may write the key in another way, if it has no states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) doubt: Option<String>,
}

/// A state that the limits do not read.
#[derive(Serialize)]
pub(super) struct Other {
    state: String,
    clock: TimeSource,
    /// The rest, if it is not that of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<String>,
}

impl Other {
    pub(super) fn new(state: &FoundState) -> Self {
        Self {
            state: state.to_string(),
            clock: state.clock.into(),
            rest: None,
        }
    }

    pub(super) fn of_rest(state: &FoundState) -> Self {
        Self {
            rest: Some(String::from_utf8_lossy(&state.rest).into_owned()),
            ..Self::new(state)
        }
    }

    fn named(&self) -> String {
        let rest = self.rest.as_deref().map(of_other_rest);
        format!("{}{}", self.state, rest.unwrap_or_default())
    }

    /// Returns the line for a command that uses the clock `asked`.
    fn to_text(&self, asked: TimeSource) -> String {
        format!("{}{}", self.named(), self.clock.beside(asked))
    }
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        command: &'static str,
        subject: &'a Subject,
        cost: u64,
        decision: &Verdicts,
    ) -> Self {
        Self {
            command,
            key: &subject.whom.partition,
            rest: &subject.whom.rest,
            cost,
            allowed: decision.is_allowed(),
            waited: None,
            remaining: decision.remaining(),
            retry_after: decision.retry_after().duration(),
            reset_after: decision.reset_after().duration(),
            limits: LimitVerdict::all(&subject.limits, decision),
            others: Vec::new(),
            doubt: None,
        }
    }

    /// Returns the warning of a `peek` that found other states.
    pub(super) fn warning(&self) -> Option<String> {
        let states: Vec<String> = self.others.iter().map(Other::named).collect();
        (!states.is_empty()).then(|| {
            format!(
                "warning: the server holds states of this key that these limits do not read: {}",
                states.join(", ")
            )
        })
    }

    pub(super) fn to_text(&self, whom: &Whom, clock: TimeSource) -> String {
        let verdict = match (self.allowed, self.waited, self.retry_after) {
            (true, Some(waited), _) => format!("allowed after {}", Span(waited)),
            (true, None, _) => "allowed".to_owned(),
            (false, _, Some(wait)) => format!("denied, to be tried again after {}", Span(wait)),
            (false, _, None) => FOREVER.to_owned(),
        };
        let table = LimitVerdict::table(&self.limits);
        let mut text = format!(
            "{} {whom}, cost {}: {verdict}\n\n{table}",
            self.command,
            grouped(self.cost),
        );
        if !self.others.is_empty() {
            text +=
                "\nThe server holds other states of this key, which these limits do not read:\n";
            let others = self.others.iter();
            text += &bullets(others.map(|other| other.to_text(clock)));
            if self.others.iter().any(|other| other.rest.is_none()) {
                text += "If the service has one of them, ask with its limit.\n";
            }
            if self.others.iter().any(|other| other.rest.is_some()) {
                text += "Ask for a rest that begins with 1| or 2| by --or, and for another network by --ipv6-prefix.\n";
            }
        }
        text
    }
}
