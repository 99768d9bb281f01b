//! Expectations in the words of rate limiting.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
pub use mockall::TimesRange;
use tollgate_core::{
    Check, Decision, ErrorKind, Operation, Request, Store, StoreError, SyncStore, Timestamp,
    Verdict, Wait,
};

/// What the mock answers, with or without waiting.
#[mockall::automock]
trait Answers {
    fn decide<'a>(&self, request: &Request<'a>) -> Result<Decision, StoreError>;
    fn reset<'a>(&self, checks: &[Check<'a>]) -> Result<(), StoreError>;
}

/// A store that answers what a test tells it to, and fails the test when it is asked anything else.
///
/// Each expectation names a limit and a key, may ask for a cost and a number of calls, and ends in
/// the answer. A call that fits no expectation panics; so does dropping the store while a call that
/// was expected has not been made. The answers of one store may be asked for in any order; where
/// several expectations fit a call, the first that has calls left answers.
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
///     match limiter.check_now(user) {
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
#[derive(Default)]
pub struct MockStore {
    answers: MockAnswers,
}

/// What is expected of a call; says nothing until it is given an answer.
#[must_use = "an expectation counts once it is given an answer, such as `allow`"]
pub struct Expectation<'m> {
    answers: &'m mut MockAnswers,
    call: Call,
    times: TimesRange,
}

/// Which calls an expectation is about.
#[derive(Clone, Debug)]
struct Call {
    operation: Verb,
    limit: String,
    key: Vec<u8>,
    cost: Option<u64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verb {
    Check,
    Peek,
    Refund,
    Reset,
    TakeUpTo,
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

    /// Expects a look at `limit` for `key`.
    pub fn expect_peek(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Peek, limit, key)
    }

    /// Expects a call that takes what there is of `limit` for `key`; its cost is the most it takes.
    pub fn expect_take_up_to(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::TakeUpTo, limit, key)
    }

    /// Expects that something is given back to `limit` for `key`.
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
    /// When a call that was expected has not been made.
    pub fn checkpoint(&mut self) {
        self.answers.checkpoint();
    }

    fn expect(&mut self, operation: Verb, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        Expectation {
            answers: &mut self.answers,
            call: Call {
                operation,
                limit: limit.to_owned(),
                key: key.as_ref().to_owned(),
                cost: None,
            },
            times: (1..).into(),
        }
    }
}

impl Call {
    /// Returns the index of the check that the call is about.
    fn find(&self, checks: &[Check<'_>]) -> Option<usize> {
        checks.iter().position(|check| {
            let (partition, rest) = (check.key().partition(), check.key().rest());
            check.limit().name() == self.limit
                && self.key.len() == partition.len() + rest.len()
                && self.key.starts_with(partition)
                && self.key.ends_with(rest)
                && self.cost.is_none_or(|cost| cost == check.cost())
        })
    }

    fn fits(&self, request: &Request<'_>) -> bool {
        let operation = match request.operation() {
            Operation::Consume => Verb::Check,
            Operation::Peek => Verb::Peek,
            Operation::Refund(_) => Verb::Refund,
            Operation::TakeUpTo => Verb::TakeUpTo,
            _ => return false,
        };
        operation == self.operation && self.find(request.checks()).is_some()
    }
}

impl Expectation<'_> {
    /// Expects this cost only; any cost unless set.
    pub fn cost(mut self, cost: u64) -> Self {
        self.call.cost = Some(cost);
        self
    }

    /// Expects this many calls, a number or a range of them, such as `1..=3`; one or more unless
    /// set.
    pub fn times(mut self, times: impl Into<TimesRange>) -> Self {
        self.times = times.into();
        self
    }

    /// Expects that there is no such call.
    pub fn never(self) {
        self.times(0).allow();
    }

    /// Answers that the call is allowed, as a limit of which nothing was consumed would.
    pub fn allow(self) {
        self.answer(|request, index| Ok(decision(request, index, None, None)));
    }

    /// Answers that the call is allowed, and that `remaining` is left of the limit.
    pub fn allow_with_remaining(self, remaining: u64) {
        self.answer(move |request, index| Ok(decision(request, index, None, Some(remaining))));
    }

    /// Answers that the call is denied for `retry_after`, rounded up to microseconds, at least one.
    pub fn deny_for(self, retry_after: Duration) {
        let micros = retry_after.as_nanos().div_ceil(1_000).max(1);
        let wait = u64::try_from(micros).map_or(Wait::NEVER, Wait::from_micros);
        self.answer(move |request, index| Ok(decision(request, index, Some(wait), Some(0))));
    }

    /// Answers that the call is denied and always will be, as one that costs too much is.
    pub fn deny_forever(self) {
        self.answer(|request, index| Ok(decision(request, index, Some(Wait::NEVER), None)));
    }

    /// Answers that `granted` is taken, of a call that takes what there is; zero is a denial for a
    /// second.
    pub fn grant(self, granted: u64) {
        self.answer(move |request, _| {
            let wait = (granted == 0).then(|| Wait::from_micros(1_000_000));
            let verdicts = request
                .checks()
                .iter()
                .map(|check| verdict(request, check, granted, wait, Some(0)));
            Ok(Decision::new(request, verdicts))
        });
    }

    /// Fails the call.
    pub fn fail(self, kind: ErrorKind) {
        if self.call.operation == Verb::Reset {
            return self.answer_reset(move || Err(told_to_fail(kind)));
        }
        self.answer(move |_, _| Err(told_to_fail(kind)));
    }

    /// Lets the reset be done.
    pub fn succeed(self) {
        self.answer_reset(|| Ok(()));
    }

    fn answer(
        self,
        answer: impl Fn(&Request<'_>, usize) -> Result<Decision, StoreError> + Send + Sync + 'static,
    ) {
        let (fits, call) = (self.call.clone(), self.call);
        self.answers
            .expect_decide()
            .withf(move |request| fits.fits(request))
            .times(self.times)
            .returning(move |request| answer(request, call.find(request.checks()).unwrap_or(0)));
    }

    fn answer_reset(self, answer: impl Fn() -> Result<(), StoreError> + Send + Sync + 'static) {
        let call = self.call;
        self.answers
            .expect_reset()
            .withf(move |checks| call.find(checks).is_some())
            .times(self.times)
            .returning(move |_| answer());
    }
}

fn told_to_fail(kind: ErrorKind) -> StoreError {
    StoreError::new(kind, format!("the test says to fail: {kind:?}"))
}

/// Returns a decision in which the check at `index` waits for `wait`, if it is to be denied, and
/// every other allows the call.
fn decision(
    request: &Request<'_>,
    index: usize,
    wait: Option<Wait>,
    remaining: Option<u64>,
) -> Decision {
    let charged = match request.operation() {
        Operation::Consume | Operation::TakeUpTo if wait.is_none() => u64::MAX,
        _ => 0,
    };
    let verdicts = request.checks().iter().enumerate().map(|(other, check)| {
        let (wait, remaining) = if other == index {
            (wait, remaining)
        } else {
            (None, None)
        };
        verdict(request, check, check.cost().min(charged), wait, remaining)
    });
    Decision::new(request, verdicts)
}

fn verdict(
    request: &Request<'_>,
    check: &Check<'_>,
    charged: u64,
    wait: Option<Wait>,
    remaining: Option<u64>,
) -> Verdict {
    let capacity = check.limit().algorithm().capacity();
    let remaining = remaining.unwrap_or_else(|| capacity.saturating_sub(charged));
    let at = request.caller_time().unwrap_or(Timestamp::UNIX_EPOCH);
    match wait {
        Some(wait) => Verdict::deny(capacity, remaining, wait).with_reset_after(wait),
        None => Verdict::allow(capacity, remaining).with_charge(charged, at),
    }
}

#[async_trait]
impl Store for MockStore {
    async fn decide<'a>(&self, request: &Request<'a>) -> Result<Decision, StoreError> {
        self.answers.decide(request)
    }

    async fn reset<'a>(&self, checks: &[Check<'a>]) -> Result<(), StoreError> {
        self.answers.reset(checks)
    }

    fn supports<'a>(&self, _request: &Request<'a>) -> bool {
        true
    }
}

impl SyncStore for MockStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.answers.decide(request)
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        self.answers.reset(checks)
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
