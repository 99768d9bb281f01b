//! `Expected`: an expected call, its answer, and how often it was made.

use std::fmt;

use mockall::Sequence;
use tollgate_core::store::Check;

use super::answer::Answer;
use super::matcher::Test;
use super::operation::Verb;
use super::times::{TimesRange, times};

/// A complete expectation: a call with its answer.
pub(super) struct Expected {
    pub(super) call: Call,
    times: TimesRange,
    called: usize,
    /// Whether its sequence has gone on to later calls.
    pub(super) is_over: bool,
    /// Of an expectation in a sequence.
    turn: Option<MockStore>,
    pub(super) answer: Box<dyn FnMut(&Check<'_>) -> Answer + Send>,
}

mockall::mock! {
    /// The place of an expectation in a sequence, of which only mocks made by mockall can be part.
    Store {
        /// Returns whether it may still be called.
        fn call(&self, text: &Text) -> bool;
    }
}

/// A message, as mockall shows it.
struct Text(String);

/// The calls that an expectation matches.
pub(super) struct Call {
    pub(super) verb: Verb,
    name: Test,
    key: Test,
    pub(super) cost: Option<Test>,
}

/// How the expectations match one part of a call.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Standing {
    /// The expectation at this index answers.
    Expected(usize),
    NotNamed,
    /// Expectations name it, and another cost.
    OtherCost,
    UsedUp,
}

impl Expected {
    pub(super) fn new(
        call: Call,
        times: TimesRange,
        sequence: Option<&mut Sequence>,
        answer: Box<dyn FnMut(&Check<'_>) -> Answer + Send>,
    ) -> Self {
        let turn = sequence.map(|sequence| {
            let mut turn = MockStore::new();
            let call = turn.expect_call().return_const(true);
            match times.most {
                usize::MAX => call.times(times.least..),
                most => call.times(times.least..=most),
            };
            call.in_sequence(sequence);
            // Answers once the sequence has gone on.
            turn.expect_call().return_const(false);
            turn
        });
        Self {
            call,
            times,
            called: 0,
            is_over: false,
            turn,
            answer,
        }
    }

    /// Takes its turn in its sequence, and returns whether that has gone on to later calls.
    ///
    /// # Panics
    ///
    /// With the text, if other calls of its sequence must come first.
    pub(super) fn is_past(&self, text: impl FnOnce() -> String) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| !turn.call(&Text(text())))
    }

    /// Counts a call, unless the sequence has gone on to later ones.
    pub(super) fn count(&mut self) {
        self.called += usize::from(!self.is_over);
    }

    pub(super) fn is_met(&self) -> bool {
        self.called >= self.times.least
    }

    fn is_used_up(&self) -> bool {
        self.is_over || self.called >= self.times.most
    }
}

impl Call {
    /// Returns every call of this operation on these limits for these keys.
    pub(super) fn new(verb: Verb, name: Test, key: Test) -> Self {
        Self {
            verb,
            name,
            key,
            cost: None,
        }
    }

    /// Returns whether this is about such calls on the limit of `check`, for whatever key.
    pub(super) fn is_about(&self, verb: Verb, check: &Check<'_>) -> bool {
        self.verb == verb && self.name.1(check)
    }

    fn names(&self, verb: Verb, check: &Check<'_>) -> bool {
        self.is_about(verb, check) && self.key.1(check)
    }
}

impl Standing {
    /// Matches `expected` against one part of a call.
    pub(super) fn of(expected: &[Expected], verb: Verb, check: &Check<'_>) -> Self {
        let mut standing = Self::NotNamed;
        for (place, expected) in expected.iter().enumerate() {
            let call = &expected.call;
            if !call.names(verb, check) {
                continue;
            }
            if call.cost.as_ref().is_some_and(|cost| !cost.1(check)) {
                if standing == Self::NotNamed {
                    standing = Self::OtherCost;
                }
            } else if !expected.is_used_up() {
                return Self::Expected(place);
            } else {
                standing = Self::UsedUp;
            }
        }
        standing
    }

    /// Returns the index of the expectation that answers.
    pub(super) fn place(self) -> Option<usize> {
        match self {
            Self::Expected(place) => Some(place),
            Self::NotNamed | Self::OtherCost | Self::UsedUp => None,
        }
    }

    /// Returns whether the whole call is unexpected.
    pub(super) fn refuses(self) -> bool {
        matches!(self, Self::OtherCost | Self::UsedUp)
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
        write!(f, "{} of {} for {}", self.verb, self.name.0, self.key.0)?;
        match &self.cost {
            Some((cost, _)) => write!(f, " at {cost}"),
            None if self.verb.has_cost() => f.write_str(" at any cost"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
