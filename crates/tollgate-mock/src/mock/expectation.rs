//! `Expectation`: what a test says about an expected call.

use std::fmt;

use mockall::Sequence;
use tollgate_core::store::Check;
use tollgate_core::{ErrorKind, Key};

use super::answer::Answer;
use super::expected::{Call, Expected};
use super::matcher::Matcher;
use super::operation::Verb;
use super::times::TimesRange;

/// An expected call; takes effect once it is given an answer.
#[must_use = "an expectation counts once it is given an answer, such as `allow`"]
pub struct Expectation<'m> {
    expected: &'m mut Vec<Expected>,
    call: Call,
    times: TimesRange,
    sequence: Option<&'m mut Sequence>,
}

impl<'m> Expectation<'m> {
    pub(super) fn new<const N: u8, const K: u8>(
        expected: &'m mut Vec<Expected>,
        verb: Verb,
        name: impl Matcher<str, N>,
        key: impl Matcher<Key<'static>, K>,
    ) -> Self {
        Self {
            expected,
            call: Call::new(verb, name.into_test(), key.into_test()),
            times: (1..).into(),
            sequence: None,
        }
    }

    /// Expects only this cost, or the costs that a [`Matcher`] accepts. The default is any cost.
    ///
    /// # Panics
    ///
    /// If this is a block or a reset, which have no cost.
    pub fn cost<const BY: u8>(mut self, cost: impl Matcher<u64, BY>) -> Self {
        let verb = self.call.verb;
        assert!(verb.has_cost(), "a {verb} has no cost: remove `.cost(..)`");
        self.call.cost = Some(cost.into_test());
        self
    }

    /// Expects this number of calls, or a range such as `1..=3`. The default is one or more.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn times(mut self, times: impl Into<TimesRange>) -> Self {
        self.times = times.into();
        self
    }

    /// Expects that no such call is made.
    pub fn never(self) {
        self.times(0).fail(ErrorKind::Unknown);
    }

    /// Expects these calls after those of the expectations that were added to `sequence` before, here
    /// or in any other mock that mockall makes.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_mock::{MockStore, RateLimiter, Sequence};
    ///
    /// let mut store = MockStore::new();
    /// let mut sequence = Sequence::new();
    /// store.expect_check("attempts", "alice").times(2).in_sequence(&mut sequence).allow();
    /// store.expect_reset("attempts", "alice").times(1).in_sequence(&mut sequence).succeed();
    ///
    /// let limiter = RateLimiter::new(store, ["attempts=gcra:10/1m"])?;
    /// assert!(limiter.check("alice").run()?.is_allowed());
    /// assert!(limiter.check("alice").run()?.is_allowed());
    /// limiter.reset("alice").run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_sequence(mut self, sequence: &'m mut Sequence) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// Answers with what `answer` returns for the limit, the key and the cost of the call.
    ///
    /// It must not call this store.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_mock::predicate::always;
    /// use tollgate_mock::{Answer, MockStore, RateLimiter};
    ///
    /// let mut store = MockStore::new();
    /// store.expect_check("mail", always()).returning(|check| match check.cost() {
    ///     0..=3 => Answer::allow_with_remaining(10 - check.cost()),
    ///     _ => Answer::deny_for(Duration::from_secs(6)),
    /// });
    ///
    /// let limiter = RateLimiter::new(store, ["mail=gcra:10/1m"])?;
    /// assert_eq!(limiter.check("alice").cost(2).run()?.remaining(), 8);
    /// assert!(limiter.check("bob").cost(4).run()?.is_denied());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn returning(self, answer: impl FnMut(&Check<'_>) -> Answer + Send + 'static) {
        let expected = Expected::new(self.call, self.times, self.sequence, Box::new(answer));
        self.expected.push(expected);
    }

    pub(super) fn answer(self, answer: Answer) {
        self.call.verb.assert_accepts(&answer);
        self.returning(move |_| answer.clone());
    }
}

impl fmt::Debug for Expectation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expectation({})", self.call)
    }
}
