//! `Expected`: an expected call, its answer, and how often it was made.

use std::fmt;

use tollgate_core::Timestamp;

use super::answer::Answer;
use super::operation::Verb;
use super::received::{Detail, Part, literal};
use super::times::{TimesRange, times};

/// A complete expectation: a call with its answer.
pub(super) struct Expected {
    call: Call,
    times: TimesRange,
    called: usize,
    answers: MockAnswers,
}

/// Stores an expectation's answer in a mock made by mockall, which also counts the calls and panics
/// if there are more or fewer than expected.
#[mockall::automock]
trait Answers {
    fn answer(&self) -> Answer;
}

/// The calls that an expectation matches.
pub(super) struct Call {
    pub(super) verb: Verb,
    name: String,
    key: Vec<u8>,
    pub(super) cost: Option<u64>,
    pub(super) id: Option<Vec<u8>>,
    pub(super) time: Option<Timestamp>,
}

/// How the expectations match one part of a call.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Standing {
    /// The expectation at this index answers.
    Expected(usize),
    NotNamed,
    /// Expectations name it, and another cost, id or time.
    Other,
    UsedUp,
}

impl Expected {
    pub(super) fn new(call: Call, times: TimesRange, answer: Answer) -> Self {
        let mut answers = MockAnswers::new();
        let kept = answers.expect_answer().return_const(answer);
        match times.most {
            usize::MAX => kept.times(times.least..),
            most => kept.times(times.least..=most),
        };
        Self {
            call,
            times,
            called: 0,
            answers,
        }
    }

    /// Counts a call and returns its answer.
    pub(super) fn answer(&mut self) -> Answer {
        self.called += 1;
        self.answers.answer()
    }

    pub(super) fn is_met(&self) -> bool {
        self.called >= self.times.least
    }

    fn is_used_up(&self) -> bool {
        self.called >= self.times.most
    }
}

impl Call {
    /// Returns every call of this operation on the limit, schedule or leases called `name`.
    pub(super) fn new(verb: Verb, name: &str, key: &[u8]) -> Self {
        Self {
            verb,
            name: name.to_owned(),
            key: key.to_owned(),
            cost: None,
            id: None,
            time: None,
        }
    }

    fn names(&self, verb: Verb, part: &Part<'_>) -> bool {
        (self.verb, &self.name[..], &self.key) == (verb, part.name, &part.key)
    }

    fn fits(&self, detail: &Detail<'_>) -> bool {
        (self.cost.is_none() || self.cost == detail.cost)
            && (self.id.is_none() || self.id.as_deref() == detail.id)
            && (self.time.is_none() || self.time == detail.time)
    }
}

impl Standing {
    /// Matches `expected` against one part of a call.
    pub(super) fn of(expected: &[Expected], verb: Verb, part: &Part<'_>) -> Self {
        let mut standing = Self::NotNamed;
        for (place, expected) in expected.iter().enumerate() {
            let call = &expected.call;
            if !call.names(verb, part) {
                continue;
            }
            if !part.details.iter().any(|detail| call.fits(detail)) {
                if standing == Self::NotNamed {
                    standing = Self::Other;
                }
            } else if !expected.is_used_up() {
                return Self::Expected(place);
            } else {
                standing = Self::UsedUp;
            }
        }
        standing
    }

    /// Returns whether the whole call is unexpected.
    pub(super) fn refuses(self) -> bool {
        matches!(self, Self::Other | Self::UsedUp)
    }
}

/// Formats the expectation as messages list it, for example ``check of limit `mail` for key "alice"
/// at any cost, 1 time: called 0 times``.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, called) = (&self.call, times(self.called));
        write!(f, "{call}, {}: called {called}", self.times)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, name, key) = (self.verb, &self.name, literal(&self.key));
        let (noun, thing) = (verb.subject().noun, verb.subject().thing);
        write!(f, "{verb} of {noun} `{name}` for key {key}")?;
        match self.cost {
            Some(cost) => write!(f, " at cost {cost}")?,
            None if verb.has("cost") => f.write_str(" at any cost")?,
            None => {}
        }
        match &self.id {
            Some(id) => write!(f, ", {thing} {}", literal(id))?,
            None if verb.has("id") => write!(f, ", any {thing}")?,
            None => {}
        }
        match self.time {
            Some(time) => write!(f, " at {time}"),
            None if verb.has("time") => f.write_str(" at any time"),
            None => Ok(()),
        }
    }
}
