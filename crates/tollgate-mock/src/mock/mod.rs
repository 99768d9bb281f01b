//! `MockStore`: expectations in the words of rate limiting.

mod asked;
mod decision;
mod expected;
mod message;

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::{
    Check, Checks, ErrorKind, Fingerprint, Request, Store, StoreError, SyncStore, Verdicts, Wait,
};

use asked::{Asked, Verb};
pub use expected::TimesRange;
use expected::{Answer, Call, Expected, Standing};

/// A store that answers what a test tells it to, and fails the test when it is asked anything else.
///
/// Each expectation names a limit and a key, may ask for a cost and a number of calls, and ends in
/// the answer. A call that no expectation fits panics, and so does dropping the store while an
/// expected call has not been made. The message shows the call, every expectation with the calls
/// it has had, and what to add to the test; it also shows keys, so use no real secret as a key.
///
/// Calls may come in any order, and from any thread. Where several expectations fit a call, the
/// first that has calls left answers.
///
/// A key with a rest is named by both parts, one after the other: `"10.0.0.1/login"` fits
/// `Key::from("10.0.0.1").with_rest("/login")`.
///
/// # Requests about several limits
///
/// - Each limit is answered by the first expectation that fits it and has calls left.
/// - A limit that no expectation names for its key allows the call, as if nothing had been consumed
///   of it, as long as another limit of the request is expected. A test about one limit need not
///   list the others; to make sure that a limit is not asked, use [`never`](Expectation::never).
/// - A limit that is named, but at another cost only or with no calls left, makes the whole call
///   unexpected.
/// - One denial denies the request, and then nothing is consumed of any limit. One failure fails it.
/// - A request is one call of each expectation that answers any of its limits.
///
/// # What every store refuses
///
/// A request that is not [valid](Request::validate) fails with [`ErrorKind::Malformed`] and counts
/// as no call. Every store denies a cost above a limit's capacity forever. The mock does so for a
/// limit that no expectation names. An expectation that gives such a call another answer panics,
/// because the test would then show something that no store does; so does one that leaves more than
/// the capacity, grants more than the cost, or allows a peek with less than its cost remaining.
///
/// # Examples
///
/// A login that is to tell its caller how long to wait:
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::algorithm::SlidingLog;
/// use tollgate_core::{ErrorKind, Limit, Quota, RateLimiter, SyncStore};
/// use tollgate_mock::MockStore;
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
/// Of two limits, one denies the call; the other, which no expectation names, loses nothing:
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::algorithm::FixedWindow;
/// use tollgate_core::{Limit, Quota, RateLimiter};
/// use tollgate_mock::MockStore;
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
    expected: Mutex<Vec<Expected>>,
}

/// What is expected of a call; says nothing until it is given an answer.
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

    /// Expects a call that consumes of `limit` for `key`, by itself or together with other limits.
    pub fn expect_check(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Check, limit, key)
    }

    /// Expects a look at `limit` for `key`; its cost is that of the call it asks about.
    pub fn expect_peek(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Peek, limit, key)
    }

    /// Expects a call that takes what there is of `limit` for `key`; its cost is the most it takes.
    pub fn expect_take_up_to(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::TakeUpTo, limit, key)
    }

    /// Expects that something is given back to `limit` for `key`; its cost is what the receipt
    /// says was consumed of that limit.
    pub fn expect_refund(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Refund, limit, key)
    }

    /// Expects that what was consumed of `limit` for `key` is forgotten.
    pub fn expect_reset(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Reset, limit, key)
    }

    /// Checks that everything expected so far has been asked, and expects nothing from here on.
    ///
    /// # Panics
    ///
    /// When an expected call has not been made.
    pub fn checkpoint(&mut self) {
        let expected = mem::take(self.expected());
        message::assert_all_met(&expected, "the checkpoint");
    }

    fn expect(&mut self, verb: Verb, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        Expectation {
            expected: self.expected(),
            call: Call {
                verb,
                limit: limit.to_owned(),
                key: key.as_ref().to_owned(),
                cost: None,
            },
            times: (1..).into(),
        }
    }

    fn expected(&mut self) -> &mut Vec<Expected> {
        self.expected
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and returns what the expectations answer to each of its limits.
    ///
    /// # Panics
    ///
    /// When the call was not expected. It is then not counted.
    fn ask(&self, asked: &Asked<'_>) -> Vec<Option<Answer>> {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        let standings: Vec<Standing> = (0..asked.checks.len())
            .map(|index| Standing::of(&expected, asked, index))
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
            panic!("{}", message::unexpected(&expected, asked, &standings));
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
    /// When an expected call has not been made, unless the thread panics already.
    fn drop(&mut self) {
        if !thread::panicking() {
            message::assert_all_met(self.expected(), "the store was dropped");
        }
    }
}

impl Expectation<'_> {
    /// Expects this cost only; any cost unless set.
    ///
    /// # Panics
    ///
    /// Of a reset, which has no cost.
    pub fn cost(mut self, cost: u64) -> Self {
        let has_cost = self.call.verb != Verb::Reset;
        assert!(has_cost, "a reset has no cost: remove `.cost({cost})`");
        self.call.cost = Some(cost);
        self
    }

    /// Expects this many calls, a number or a range of them, such as `1..=3`; one or more unless
    /// set.
    ///
    /// # Panics
    ///
    /// When the range is empty.
    pub fn times(mut self, times: impl Into<TimesRange>) -> Self {
        self.times = times.into();
        self
    }

    /// Expects that there is no such call.
    pub fn never(self) {
        let answer = match self.call.verb {
            Verb::Reset => Answer::Succeed,
            _ => Answer::Allow { remaining: None },
        };
        self.times(0).answer(answer);
    }

    /// Answers that the call is allowed, as a limit of which nothing was consumed would.
    ///
    /// Of a call that takes what there is, it is granted its cost, or the capacity if that is less.
    pub fn allow(self) {
        self.answer(Answer::Allow { remaining: None });
    }

    /// Answers that the call is allowed, and that `remaining` is left of the limit.
    ///
    /// Where another limit of the request denies it, what the call would have consumed is left as
    /// well.
    pub fn allow_with_remaining(self, remaining: u64) {
        let remaining = Some(remaining);
        self.answer(Answer::Allow { remaining });
    }

    /// Answers that the call is denied for `retry_after`, rounded up to microseconds, at least one.
    pub fn deny_for(self, retry_after: Duration) {
        let micros = retry_after.as_nanos().div_ceil(1_000).max(1);
        let wait = u64::try_from(micros).map_or(Wait::NEVER, Wait::from_micros);
        self.answer(Answer::Deny(wait));
    }

    /// Answers that the call is denied and always will be, as one that costs too much is.
    pub fn deny_forever(self) {
        self.answer(Answer::Deny(Wait::NEVER));
    }

    /// Answers that `granted` is taken, of a call that takes what there is; zero is a denial for a
    /// second.
    ///
    /// A request about several limits is granted what the least of them grants.
    pub fn grant(self, granted: u64) {
        self.answer(Answer::Grant(granted));
    }

    /// Fails the call.
    pub fn fail(self, kind: ErrorKind) {
        self.answer(Answer::Fail(kind));
    }

    /// Lets the reset be done.
    pub fn succeed(self) {
        self.answer(Answer::Succeed);
    }

    /// Adds the expectation.
    ///
    /// # Panics
    ///
    /// When the operation has no such answer.
    fn answer(self, answer: Answer) {
        let verb = self.call.verb;
        let fits = match answer {
            Answer::Allow { .. } => verb != Verb::Reset,
            Answer::Deny(_) => !matches!(verb, Verb::Refund | Verb::Reset),
            Answer::Fail(_) => true,
            Answer::Grant(_) => verb == Verb::TakeUpTo,
            Answer::Succeed => verb == Verb::Reset,
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
        Asked::of(request).is_some()
    }
}

impl SyncStore for MockStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        request.validate(Fingerprint::of)?;
        let fingerprint = Fingerprint::of(request);
        let Some(asked) = Asked::of(request) else {
            let message = "the mock does not know this operation: wrap another store";
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        };
        let verdicts = decision::verdicts(&asked, &self.ask(&asked))?;
        Ok(Verdicts::new(fingerprint, verdicts))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        if checks.is_empty() {
            return Ok(());
        }
        let asked = Asked::reset(checks);
        decision::verdicts(&asked, &self.ask(&asked)).map(drop)
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
