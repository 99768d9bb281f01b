//! `MockStore`: a store for unit tests that gives scripted answers to expected calls.

mod decision;
mod expected;
mod lease;
mod message;
mod received;
mod schedule;
mod single;

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Check, Checks, Fingerprint, Request, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError, SyncStore, Wait};

pub use expected::TimesRange;
use expected::{Answer, Call, Expected, Listed, Standing};
pub use lease::LeaseExpectation;
use received::{ReceivedCall, Verb};
pub use schedule::ScheduleExpectation;

/// A store that gives the answers a test sets up, and panics on any other call.
///
/// Each expectation names a limit and a key, optionally a cost and a number of calls, and ends with
/// the answer. A call that matches no expectation panics, and so does dropping the store before all
/// expected calls were made. The message shows the call, every expectation with its calls so far,
/// and what to add to the test. It also shows keys, so do not use real secrets as keys.
///
/// Calls may come in any order and from any thread. If several expectations match a call, the first
/// one with calls left answers.
///
/// Name a key with a rest by both parts concatenated: `"10.0.0.1/login"` matches
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
/// # Schedules
///
/// A call to a [`Schedule`](tollgate_core::schedule::Schedule) has expectations of its own, by the name of the
/// schedule: [`expect_add`](Self::expect_add) and the methods after it return a
/// [`ScheduleExpectation`].
///
/// # Leases
///
/// So does a call to a [`ConcurrencyLimiter`](tollgate_core::lease::ConcurrencyLimiter):
/// [`expect_acquire`](Self::expect_acquire) and the methods after it return a [`LeaseExpectation`].
///
/// # What every store refuses
///
/// A request that is not [valid](Request::validate) fails with [`ErrorKind::Malformed`] and does
/// not count as a call. Every store denies a cost above a limit's capacity forever, and so does the
/// mock for a limit that no expectation names. Answers that no store can give make the call panic:
/// to allow a cost above the capacity or deny it for a time, to leave more than the capacity, to
/// grant more than the cost, to allow a peek with less than its cost remaining, or to delay a
/// reservation for longer than it accepts.
///
/// # Examples
///
/// A login that tells its caller how long to wait:
///
/// ```
/// use std::time::Duration;
/// use tollgate_mock::{ErrorKind, Limit, MockStore, Quota, RateLimiter, SlidingLog, SyncStore};
///
/// fn login(limiter: &RateLimiter<impl SyncStore>, user: &str) -> String {
///     match limiter.check(user).run() {
///         Ok(decision) if decision.is_allowed() => "welcome".to_owned(),
///         Ok(decision) => format!("wait {}", decision.retry_after()),
///         Err(_) => "try again later".to_owned(),
///     }
/// }
///
/// let mut store = MockStore::new();
/// store.expect_check("attempts", "alice").times(1).allow();
/// store.expect_check("attempts", "alice").deny_for(Duration::from_secs(30));
/// store.expect_check("attempts", "bob").fail(ErrorKind::Unavailable);
///
/// let attempts = Limit::new("attempts", SlidingLog::new(Quota::per_minute(5))?)?;
/// let limiter = RateLimiter::new(store, [attempts])?;
/// assert_eq!(login(&limiter, "alice"), "welcome");
/// assert_eq!(login(&limiter, "alice"), "wait 30s");
/// assert_eq!(login(&limiter, "bob"), "try again later");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
///
/// One of two limits denies the call. Nothing is consumed from the other, which no expectation
/// names:
///
/// ```
/// use std::time::Duration;
/// use tollgate_mock::{FixedWindow, Limit, MockStore, Quota, RateLimiter};
///
/// let mut store = MockStore::new();
/// store.expect_check("daily", "alice").deny_for(Duration::from_secs(3_600));
///
/// let burst = Limit::new("burst", FixedWindow::aligned(Quota::per_second(3)))?;
/// let daily = Limit::new("daily", FixedWindow::aligned(Quota::per_day(50)))?;
/// let limiter = RateLimiter::new(store, [burst, daily])?;
/// let decision = limiter.check("alice").run().unwrap();
/// assert!(decision.is_denied());
/// assert_eq!(decision.binding().0.name(), "daily");
/// assert_eq!(decision.verdict("burst").unwrap().remaining(), 3);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Default)]
pub struct MockStore {
    expectations: Mutex<Expectations>,
}

/// All expectations of a store.
#[derive(Default)]
struct Expectations {
    of_limits: Vec<Expected>,
    of_schedules: Vec<schedule::Expected>,
    of_leases: Vec<lease::Expected>,
}

impl Expectations {
    /// Returns the expectations as messages list them.
    fn listed(&self) -> Vec<&dyn Listed> {
        let of_limits = self.of_limits.iter().map(|expected| expected as _);
        let of_schedules = self.of_schedules.iter().map(|expected| expected as _);
        let of_leases = self.of_leases.iter().map(|expected| expected as _);
        of_limits.chain(of_schedules).chain(of_leases).collect()
    }
}

/// An expected call; takes effect once it is given an answer.
#[must_use = "an expectation counts once it is given an answer, such as `allow`"]
pub struct Expectation<'m> {
    expected: &'m mut Vec<Expected>,
    call: Call,
    times: TimesRange,
}

impl MockStore {
    /// Returns a store that expects nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Expects a call that consumes from `limit` for `key`, alone or together with other limits.
    pub fn expect_check(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Check, limit, key)
    }

    /// Expects a peek at `limit` for `key`, with the cost of the call it asks about.
    pub fn expect_peek(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Peek, limit, key)
    }

    /// Expects a call that takes up to its cost from `limit` for `key`.
    pub fn expect_take_up_to(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::TakeUpTo, limit, key)
    }

    /// Expects a refund to `limit` for `key`; the cost is what the receipt says was consumed from
    /// that limit.
    pub fn expect_refund(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Refund, limit, key)
    }

    /// Expects that a call to `limit` for `key` is settled; the cost is what it is settled at.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_mock::{Gcra, Limit, MockStore, Quota, RateLimiter};
    ///
    /// let mut store = MockStore::new();
    /// store.expect_check("tokens", "alice").cost(300).allow();
    /// store.expect_settle("tokens", "alice").cost(120).allow_with_remaining(880);
    ///
    /// let tokens = Limit::new("tokens", Gcra::new(Quota::per_minute(1_000))?)?;
    /// let limiter = RateLimiter::new(store, [tokens])?;
    /// let estimated = limiter.check("alice").cost(300).run().unwrap();
    /// let receipt = estimated.into_receipt().unwrap();
    /// let left = limiter.settle("alice", receipt, 120).run().unwrap();
    /// assert_eq!(left.remaining(), 880);
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    pub fn expect_settle(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Settle, limit, key)
    }

    /// Expects that `key` is blocked by `limit`.
    ///
    /// Answered with [`succeed`](Expectation::succeed), the block lasts as long as the call says, or
    /// else as long as the limit does; with [`deny_for`](Expectation::deny_for), that long.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_mock::{MockStore, RateLimiter};
    ///
    /// let mut store = MockStore::new();
    /// store.expect_block("ban", "mallory").succeed();
    ///
    /// let limiter = RateLimiter::new(store, ["api=gcra:5/1s", "ban=block:15m"])?;
    /// let wait = limiter.block("mallory").run().unwrap();
    /// assert_eq!(wait.duration(), Some(Duration::from_secs(15 * 60)));
    /// # Ok::<(), tollgate_mock::LimitError>(())
    /// ```
    pub fn expect_block(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Block, limit, key)
    }

    /// Expects that what remains of `limit` for `key` is lowered; the cost is what may remain.
    pub fn expect_lower(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Lower, limit, key)
    }

    /// Expects a reservation with `limit` for `key`, alone or together with other limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::Gcra;
    /// use tollgate_core::{Limit, Quota, RateLimiter};
    /// use tollgate_mock::MockStore;
    ///
    /// let mut store = MockStore::new();
    /// let half = Duration::from_millis(500);
    /// store.expect_reservation("mail", "alice").delay_by(half);
    ///
    /// let mail = Limit::new("mail", Gcra::with_burst(Quota::per_second(2), 1)?)?;
    /// let limiter = RateLimiter::new(store, [mail])?;
    /// let decision = limiter.reserve("alice").within(2 * half).run().unwrap();
    /// assert_eq!(decision.delay().duration(), Some(half));
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    pub fn expect_reservation(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Reserve, limit, key)
    }

    /// Expects a reset of `limit` for `key`.
    pub fn expect_reset(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Reset, limit, key)
    }

    /// Checks that all calls expected so far were made, and removes their expectations.
    ///
    /// # Panics
    ///
    /// If an expected call has not been made.
    pub fn checkpoint(&mut self) {
        let expectations = mem::take(self.expectations());
        message::assert_all_met(&expectations.listed(), "the checkpoint");
    }

    fn expect(&mut self, verb: Verb, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        Expectation {
            expected: &mut self.expectations().of_limits,
            call: Call {
                verb,
                limit: limit.to_owned(),
                key: key.as_ref().to_owned(),
                cost: None,
            },
            times: (1..).into(),
        }
    }

    fn expectations(&mut self) -> &mut Expectations {
        self.expectations
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Expectations> {
        let locked = self.expectations.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and returns the answer for each of its limits.
    ///
    /// # Panics
    ///
    /// If the call is unexpected; it is then not counted.
    fn ask(&self, received: &ReceivedCall<'_>) -> Vec<Option<Answer>> {
        let mut expectations = self.lock();
        let expected = &mut expectations.of_limits;
        let standings: Vec<Standing> = (0..received.checks.len())
            .map(|index| Standing::of(expected, received, index))
            .collect();
        let is_refused =
            |standing: &Standing| matches!(standing, Standing::OtherCost | Standing::UsedUp);
        let mut answers = BTreeMap::new();
        if !standings.iter().any(is_refused) {
            for standing in &standings {
                if let Standing::Expected(place) = *standing {
                    answers
                        .entry(place)
                        .or_insert_with(|| expected[place].answer());
                }
            }
        }
        if answers.is_empty() {
            let listed = expectations.listed();
            panic!("{}", message::unexpected(&listed, received, &standings));
        }
        let answer = |standing: &Standing| match standing {
            Standing::Expected(place) => answers.get(place).copied(),
            Standing::NotNamed | Standing::OtherCost | Standing::UsedUp => None,
        };
        standings.iter().map(answer).collect()
    }
}

impl Drop for MockStore {
    /// # Panics
    ///
    /// If an expected call has not been made, unless the thread is already panicking.
    fn drop(&mut self) {
        if !thread::panicking() {
            let expectations = self.expectations();
            message::assert_all_met(&expectations.listed(), "the store was dropped");
        }
    }
}

impl Expectation<'_> {
    /// Expects only this cost. The default is any cost.
    ///
    /// # Panics
    ///
    /// If this is a block or a reset, which have no cost.
    pub fn cost(mut self, cost: u64) -> Self {
        let verb = self.call.verb;
        let has_cost = !matches!(verb, Verb::Block | Verb::Reset);
        assert!(has_cost, "a {verb} has no cost: remove `.cost({cost})`");
        self.call.cost = Some(cost);
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
        let answer = match self.call.verb {
            Verb::Block | Verb::Reset => Answer::Succeed,
            _ => Answer::Allow { remaining: None },
        };
        self.times(0).answer(answer);
    }

    /// Allows the call, as a limit from which nothing was consumed would.
    ///
    /// A `take_up_to` call is granted its cost, or the capacity if that is less.
    pub fn allow(self) {
        self.answer(Answer::Allow { remaining: None });
    }

    /// Allows the call and leaves `remaining` in the limit.
    ///
    /// If another limit denies the request, what the call would have consumed remains as well.
    pub fn allow_with_remaining(self, remaining: u64) {
        let remaining = Some(remaining);
        self.answer(Answer::Allow { remaining });
    }

    /// Allows the reservation, which starts after `delay`, rounded up to microseconds, and leaves
    /// nothing.
    ///
    /// A request with several limits starts when the slowest of them allows it.
    pub fn delay_by(self, delay: Duration) {
        let micros = delay.as_nanos().div_ceil(1_000);
        let wait = u64::try_from(micros).map_or(Wait::NEVER, Wait::from_micros);
        self.answer(Answer::Delay(wait));
    }

    /// Denies the call for `retry_after`, rounded up to microseconds and at least one.
    pub fn deny_for(self, retry_after: Duration) {
        let micros = retry_after.as_nanos().div_ceil(1_000).max(1);
        let wait = u64::try_from(micros).map_or(Wait::NEVER, Wait::from_micros);
        self.answer(Answer::Deny(wait));
    }

    /// Denies the call forever, like one whose cost exceeds the capacity.
    pub fn deny_forever(self) {
        self.answer(Answer::Deny(Wait::NEVER));
    }

    /// Grants `granted` to a `take_up_to` call; zero denies it for a second.
    ///
    /// A request with several limits is granted the least that any of them grants.
    pub fn grant(self, granted: u64) {
        self.answer(Answer::Grant(granted));
    }

    /// Fails the call with an error of this kind.
    pub fn fail(self, kind: ErrorKind) {
        self.answer(Answer::Fail(kind));
    }

    /// Lets the block or reset succeed.
    pub fn succeed(self) {
        self.answer(Answer::Succeed);
    }

    /// Adds the expectation.
    ///
    /// # Panics
    ///
    /// If the operation does not accept this answer.
    fn answer(self, answer: Answer) {
        let verb = self.call.verb;
        let fits = match answer {
            Answer::Allow { .. } => !matches!(verb, Verb::Block | Verb::Reset),
            Answer::Delay(_) => verb == Verb::Reserve,
            Answer::Deny(_) => !matches!(
                verb,
                Verb::Lower | Verb::Refund | Verb::Reset | Verb::Settle
            ),
            Answer::Fail(_) => true,
            Answer::Grant(_) => verb == Verb::TakeUpTo,
            Answer::Succeed => matches!(verb, Verb::Block | Verb::Reset),
        };
        let answers = verb.answers();
        assert!(fits, "`{answer}` answers no {verb}: answer with {answers}");
        self.expected
            .push(Expected::new(self.call, self.times, answer));
    }
}

#[async_trait]
impl Store for MockStore {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.decide_now(&request)
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.reset_now(&checks)
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        // Ids are accepted, and make no difference.
        let split = request.split_id();
        split.is_ok_and(|(_, request)| request.is_defined() && ReceivedCall::of(&request).is_some())
    }
}

impl SyncStore for MockStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let (_, request) = &request.split_id()?;
        request.validate(Fingerprint::of)?;
        let fingerprint = Fingerprint::of(request);
        let received = ReceivedCall::of(request).ok_or_else(single::unsupported)?;
        let verdicts = decision::verdicts(&received, &self.ask(&received))?;
        Ok(Verdicts::new(fingerprint, verdicts))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        if checks.is_empty() {
            return Ok(());
        }
        let received = ReceivedCall::reset(checks);
        decision::verdicts(&received, &self.ask(&received)).map(drop)
    }
}

impl fmt::Debug for MockStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockStore").finish_non_exhaustive()
    }
}

impl fmt::Debug for Expectation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expectation").field(&self.call).finish()
    }
}
