//! `Expected`: an expected call, its answer, and how often it was made.

use std::fmt;
use std::ops;

use tollgate_core::{ErrorKind, Wait};

use super::received::{ReceivedCall, Verb, joined, literal};

/// A complete expectation: a call with its answer.
pub(super) struct Expected<C = Call, A: Clone + Send + 'static = Answer> {
    pub(super) call: C,
    times: TimesRange,
    called: usize,
    answers: MockAnswers<A>,
}

/// Stores an expectation's answer in a mock made by mockall, which also counts the calls and panics
/// if there are more or fewer than expected.
#[mockall::automock]
trait Answers<A: Clone + Send + 'static> {
    fn answer(&self) -> A;
}

/// The answer for one limit of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Allow { remaining: Option<u64> },
    Delay(Wait),
    Deny(Wait),
    Fail(ErrorKind),
    Grant(u64),
    Succeed,
}

/// The calls that an expectation matches.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) verb: Verb,
    pub(super) limit: String,
    pub(super) key: Vec<u8>,
    pub(super) cost: Option<u64>,
}

/// How the expectations match one limit of a call.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Standing {
    /// The expectation at this index answers.
    Expected(usize),
    NotNamed,
    OtherCost,
    UsedUp,
}

/// A number of expected calls, or a range of numbers, such as `1..=3`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimesRange {
    least: usize,
    most: usize,
}

impl<C, A: Clone + Send + 'static> Expected<C, A> {
    pub(super) fn new(call: C, times: TimesRange, answer: A) -> Self {
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
    pub(super) fn answer(&mut self) -> A {
        self.called += 1;
        self.answers.answer()
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.called >= self.times.most
    }
}

/// An expectation of any kind, as messages list it.
pub(super) trait Listed: fmt::Display {
    fn is_met(&self) -> bool;
}

impl<C: fmt::Display, A: Clone + Send + 'static> Listed for Expected<C, A> {
    fn is_met(&self) -> bool {
        self.called >= self.times.least
    }
}

impl Standing {
    /// Matches `expected` against the limit at `index` of a call.
    pub(super) fn of(expected: &[Expected], received: &ReceivedCall<'_>, index: usize) -> Self {
        let (check, cost) = (&received.checks[index], received.cost(index));
        let key = joined(check.key());
        let mut standing = Self::NotNamed;
        for (place, expected) in expected.iter().enumerate() {
            let call = &expected.call;
            if (call.verb, &call.limit[..], &call.key)
                != (received.verb, check.limit().name(), &key)
            {
                continue;
            }
            if call.cost.is_some() && call.cost != cost {
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
}

impl TimesRange {
    fn between(range: &impl ops::RangeBounds<usize>) -> Self {
        let least = match range.start_bound() {
            ops::Bound::Included(&least) => least,
            ops::Bound::Excluded(_) | ops::Bound::Unbounded => 0,
        };
        let most = match range.end_bound() {
            ops::Bound::Included(&most) => Some(most),
            ops::Bound::Excluded(end) => end.checked_sub(1),
            ops::Bound::Unbounded => Some(usize::MAX),
        };
        match most {
            Some(most) if least <= most => Self { least, most },
            _ => panic!("no number of calls is in this range: use `.never()` to expect none"),
        }
    }
}

impl From<usize> for TimesRange {
    fn from(times: usize) -> Self {
        Self::between(&(times..=times))
    }
}

macro_rules! from_ranges {
    ($($range:ty),+) => {
        $(impl From<$range> for TimesRange {
            /// # Panics
            ///
            /// If the range is empty.
            fn from(range: $range) -> Self {
                Self::between(&range)
            }
        })+
    };
}

from_ranges!(
    ops::Range<usize>,
    ops::RangeFrom<usize>,
    ops::RangeFull,
    ops::RangeInclusive<usize>,
    ops::RangeTo<usize>,
    ops::RangeToInclusive<usize>
);

/// Formats the expectation as messages list it, for example ``check of limit `mail` for key "alice"
/// at any cost, 1 time: called 0 times``.
impl<C: fmt::Display, A: Clone + Send + 'static> fmt::Display for Expected<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, called) = (&self.call, times(self.called));
        write!(f, "{call}, {}: called {called}", self.times)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, limit, key) = (self.verb, &self.limit, literal(&self.key));
        write!(f, "{verb} of limit `{limit}` for key {key}")?;
        match self.cost {
            Some(cost) => write!(f, " at cost {cost}"),
            None if matches!(verb, Verb::Block | Verb::Reset) => Ok(()),
            None => f.write_str(" at any cost"),
        }
    }
}

impl fmt::Display for TimesRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (0, 0) => f.write_str("never"),
            (0, usize::MAX) => f.write_str("any number of times"),
            (least, usize::MAX) => write!(f, "at least {}", times(least)),
            (0, most) => write!(f, "at most {}", times(most)),
            (least, most) if least == most => f.write_str(&times(least)),
            (least, most) => write!(f, "{least} to {}", times(most)),
        }
    }
}

fn times(number: usize) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} time{plural}")
}

/// Formats the answer as it is written in a test.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow { remaining: None } => f.write_str("allow()"),
            Self::Allow { remaining: Some(n) } => write!(f, "allow_with_remaining({n})"),
            Self::Delay(delay) => write!(f, "delay_by({delay})"),
            Self::Deny(Wait::NEVER) => f.write_str("deny_forever()"),
            Self::Deny(wait) => write!(f, "deny_for({wait})"),
            Self::Fail(kind) => write!(f, "fail({kind:?})"),
            Self::Grant(granted) => write!(f, "grant({granted})"),
            Self::Succeed => f.write_str("succeed()"),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expected(_) => "expected",
            Self::NotNamed => "no expectation names this limit and key",
            Self::OtherCost => "expected at another cost only",
            Self::UsedUp => "every expectation that fits has had all its calls",
        })
    }
}
