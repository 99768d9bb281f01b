//! `MockStore`: a store for unit tests that gives scripted answers to expected calls.

mod answer;
mod expectation;
mod expected;
mod limit;
mod matcher;
mod message;
mod operation;
mod others;
mod times;
mod verdicts;

use std::collections::BTreeSet;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::StoreError;
#[cfg(doc)]
use tollgate_core::store::Request;

pub use answer::Answer;
use answer::Reply;
pub use expectation::Expectation;
use expected::{Expected, Standing};
use limit::{Part, Received};
pub use matcher::Matcher;
pub use times::TimesRange;

/// A store that gives the answers a test sets up, and panics on any other call.
///
/// Each expectation says which limit, key and cost it accepts (see [`Matcher`]) and how many calls, and
/// ends with the answer. A call that matches no expectation panics, and so does dropping the store
/// before all expected calls were made. The message shows the call, every expectation with its calls so
/// far, and what to add to the test. It also shows keys, so do not use real secrets as keys.
///
/// Calls may come in any order and from any thread, unless expectations are in a
/// [sequence](Expectation::in_sequence). If several expectations match a call, the first one with calls
/// left answers.
///
/// A key with a rest may also be named by both parts concatenated: `"10.0.0.1/login"` matches
/// `Key::from("10.0.0.1").with_rest("/login")`.
///
/// # Requests with several limits
///
/// - Each limit is answered by the first matching expectation with calls left.
/// - If no expectation names a limit for its key, that limit allows the call, as if nothing had
///   been consumed, provided that another limit of the request is expected. A test about one limit
///   need not list the others; to make sure that a limit is not called, use
///   [`never`](Expectation::never).
/// - If a limit is named only at another cost, or its expectations have no calls left, the whole
///   call is unexpected.
/// - If one limit denies, the request is denied and nothing is consumed from any limit. If one
///   fails, the request fails.
/// - A request counts as one call for each expectation that answers any of its limits.
///
/// # When a limit is full again
///
/// A verdict's [`reset_after`](tollgate_core::store::Verdict::reset_after) is what a store would say if all
/// that is used of the limit had been used at the instant of the call: zero if nothing is. A denial
/// is reset no earlier than the call can be repeated.
///
/// # Schedules and leases
///
/// Calls to a [`Schedule`](tollgate_core::schedule::Schedule) or a
/// [`ConcurrencyLimiter`](tollgate_core::lease::ConcurrencyLimiter) are expected and answered as with
/// any mock that `mockall` makes: see [`expect_schedule`](Self::expect_schedule) and
/// [`expect_lease`](Self::expect_lease).
///
/// # What every store refuses
///
/// A request that is not [valid](Request::validate) fails with [`ErrorKind::Malformed`] and does
/// not count as a call. Every store denies a cost above a limit's capacity forever, and so does the
/// mock for a limit that no expectation names. Answers that no store can give make the call panic:
/// to allow a cost above the capacity or deny it for a time, to leave more than the capacity, to
/// grant more than the cost, to allow a peek with less than its cost remaining, or to delay a
/// reservation for longer than it accepts.
#[derive(Default)]
pub struct MockStore {
    expected: Mutex<Vec<Expected>>,
    /// The first call that was not expected.
    unexpected: OnceLock<String>,
    others: others::MockStore,
}

impl MockStore {
    /// Returns a store that expects nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks that all calls expected so far were made, and removes their expectations.
    ///
    /// # Panics
    ///
    /// If an expected call has not been made.
    pub fn checkpoint(&mut self) {
        let expected = mem::take(self.expected());
        message::assert_all_met(&expected, "the checkpoint");
        self.others.checkpoint();
    }

    fn expected(&mut self) -> &mut Vec<Expected> {
        self.expected
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Expected>> {
        let locked = self.expected.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and returns the answer for each of its parts.
    ///
    /// # Errors
    ///
    /// If an answer is to fail; with several, the first one's error.
    ///
    /// # Panics
    ///
    /// If the call is unexpected; it is then not counted.
    fn ask(&self, received: &Received<'_>) -> Result<Vec<Option<Answer>>, StoreError> {
        let mut expected = self.lock();
        let mut asked = BTreeSet::new();
        let standings = loop {
            let of = |part: &Part<'_>| Standing::of(&expected, received.verb, &part.check);
            let standings: Vec<Standing> = received.parts.iter().map(of).collect();
            let mut places = standings.iter().filter_map(|standing| standing.place());
            let is_refused = standings.iter().any(|standing| standing.refuses());
            if is_refused || places.clone().next().is_none() {
                let message = message::unexpected(&expected, received, &standings);
                let _ = self.unexpected.set(message.clone());
                panic!("{message}");
            }
            let early = || message::early(&expected, received, &standings);
            let is_over = |place: &usize| asked.insert(*place) && expected[*place].is_past(early);
            match places.find(is_over) {
                Some(place) => expected[place].is_over = true,
                None => break standings,
            }
        };
        for place in asked {
            expected[place].count();
        }
        let parts = received.parts.iter().zip(standings);
        let answers = parts.map(|(part, standing)| {
            let Some(place) = standing.place() else {
                return Ok(None);
            };
            let answer = (expected[place].answer)(&part.check);
            received.verb.assert_accepts(&answer);
            match answer.reply {
                Reply::Fail(kind) => {
                    let message = format!("the test says to fail: {kind:?}");
                    Err(StoreError::new(kind, message))
                }
                _ => Ok(Some(answer)),
            }
        });
        answers.collect()
    }
}

impl Drop for MockStore {
    /// # Panics
    ///
    /// If an expected call has not been made, or a call was not expected and its panic was caught, as that of a
    /// task is; unless the thread is already panicking.
    fn drop(&mut self) {
        if !thread::panicking() {
            if let Some(unexpected) = self.unexpected.get() {
                panic!("{unexpected}");
            }
            message::assert_all_met(self.expected(), "the store was dropped");
        }
    }
}

impl fmt::Debug for MockStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockStore").finish_non_exhaustive()
    }
}
