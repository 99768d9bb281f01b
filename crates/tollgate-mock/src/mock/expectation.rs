//! `Expectation`: what a test says about an expected call, the same for all kinds of calls.

use std::fmt;
use std::marker::PhantomData;

use tollgate_core::{ErrorKind, RateLimiter};

use super::MockStore;
use super::answer::Answer;
use super::expected::{Call, Expected};
use super::times::TimesRange;
use super::verb::Verb;

/// An expected call; takes effect once it is given an answer.
///
/// What it can be narrowed to, and the answers, depend on whose call it is: that of a
/// [`RateLimiter`], of a [`Schedule`](tollgate_core::schedule::Schedule) or of a
/// [`ConcurrencyLimiter`](tollgate_core::lease::ConcurrencyLimiter).
///
/// # Examples
///
/// Calls of a schedule:
///
/// ```
/// use tollgate_core::schedule::{self, Schedule};
/// use tollgate_core::Timestamp;
/// use tollgate_mock::MockStore;
///
/// /// Returns when the message is sent: at noon, or as soon after it as possible.
/// fn send(schedule: &Schedule<impl schedule::SyncStore>, id: &str, noon: Timestamp) -> Timestamp {
///     match schedule.add("alice", id, noon).run().unwrap().permit() {
///         Ok(time) => time,
///         Err(_) => schedule.reserve_next("alice", id, noon).run().unwrap().permit().unwrap(),
///     }
/// }
///
/// let noon = Timestamp::from_micros(1_800_000_000_000_000)?;
/// let later = Timestamp::from_micros(1_800_000_060_000_000)?;
/// let mut store = MockStore::new();
/// store.expect_add("reminders", "alice").id("msg-1").planned();
/// store.expect_add("reminders", "alice").id("msg-2").refused_by("1/1m", Some(later));
/// store.expect_reserve_next("reminders", "alice").id("msg-2").planned_at(later);
///
/// let schedule = Schedule::new(store, "reminders", ["1/1m"])?;
/// assert_eq!(send(&schedule, "msg-1", noon), noon);
/// assert_eq!(send(&schedule, "msg-2", noon), later);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
///
/// Calls of a concurrency limiter:
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::lease::{self, ConcurrencyLimiter, Lease};
/// use tollgate_core::{Timestamp, Wait};
/// use tollgate_mock::MockStore;
///
/// fn upload(uploads: &ConcurrencyLimiter<impl lease::SyncStore>, id: &str) -> String {
///     match uploads.acquire("alice", id).run().unwrap().permit() {
///         Ok(lease) => match uploads.release("alice", &lease).run().unwrap() {
///             true => "done".to_owned(),
///             false => "too late".to_owned(),
///         },
///         Err(denied) => format!("{} are held", denied.held()),
///     }
/// }
///
/// let ttl = Duration::from_secs(30);
/// let noon = Timestamp::from_micros(1_800_000_000_000_000)?;
/// let lease = Lease::new(*b"first", 7, 1, noon, noon.saturating_add(ttl));
/// let mut store = MockStore::new();
/// store.expect_acquire("uploads", "alice").id("first").granted(lease);
/// store.expect_release("uploads", "alice").id("first").released(false);
/// store.expect_acquire("uploads", "alice").denied(3, Wait::from_micros(1_000_000));
///
/// let uploads = ConcurrencyLimiter::new(store, "uploads", 3, ttl)?;
/// assert_eq!(upload(&uploads, "first"), "too late");
/// assert_eq!(upload(&uploads, "second"), "3 are held");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[must_use = "an expectation counts once it is given an answer, such as `allow` or `planned`"]
pub struct Expectation<'m, T = RateLimiter<MockStore>> {
    expected: &'m mut Vec<Expected>,
    pub(super) call: Call,
    times: TimesRange,
    of: PhantomData<fn() -> T>,
}

impl<'m, T> Expectation<'m, T> {
    pub(super) fn new(
        expected: &'m mut Vec<Expected>,
        verb: Verb,
        name: &str,
        key: impl AsRef<[u8]>,
    ) -> Self {
        Self {
            expected,
            call: Call {
                verb,
                name: name.to_owned(),
                key: key.as_ref().to_owned(),
                cost: None,
                id: None,
                time: None,
            },
            times: (1..).into(),
            of: PhantomData,
        }
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
        self.times(0).answer(Answer::Fail(ErrorKind::Unknown));
    }

    /// Fails the call with an error of this kind.
    pub fn fail(self, kind: ErrorKind) {
        self.answer(Answer::Fail(kind));
    }

    /// Lets the block or reset succeed.
    pub fn succeed(self) {
        self.answer(Answer::Succeed);
    }

    /// Expects only the event or the lease with this id.
    pub(super) fn only_id(mut self, id: &[u8]) -> Self {
        let (verb, thing) = (self.call.verb, self.call.verb.subject().thing);
        let has_id = verb.has_id();
        assert!(has_id, "a {verb} is about no {thing}: remove `.id(..)`");
        self.call.id = Some(id.to_owned());
        self
    }

    /// Adds the expectation.
    ///
    /// # Panics
    ///
    /// If the operation does not accept this answer.
    pub(super) fn answer(self, answer: Answer) {
        let (verb, shown) = (self.call.verb, answer.to_string());
        let (name, answers) = (shown.split('(').next(), verb.answers());
        let fits = name.is_some_and(|name| answers.contains(&format!("`{name}`")));
        assert!(fits, "`{shown}` answers no {verb}: answer with {answers}");
        self.expected
            .push(Expected::new(self.call, self.times, answer));
    }
}

impl<T> fmt::Debug for Expectation<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expectation({})", self.call)
    }
}
