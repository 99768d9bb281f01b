//! Expected calls to limits, and the answers to them.

mod reply;

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Check, Checks, Fingerprint, Operation, Request, Verdicts};
use tollgate_core::{Store, StoreError, SyncStore, Wait};

use super::answer::Answer;
use super::received::{Detail, Part, Received, unsupported};
use super::verb::Verb;
use super::{Expectation, MockStore};

impl MockStore {
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
    /// use tollgate_core::{Gcra, Limit, Quota, RateLimiter};
    /// use tollgate_mock::MockStore;
    ///
    /// let mut store = MockStore::new();
    /// let half = Duration::from_millis(500);
    /// store.expect_reserve("mail", "alice").delay_by(half);
    ///
    /// let mail = Limit::new("mail", Gcra::with_burst(Quota::per_second(2), 1)?)?;
    /// let limiter = RateLimiter::new(store, [mail])?;
    /// let decision = limiter.reserve("alice").within(2 * half).run().unwrap();
    /// assert_eq!(decision.delay().duration(), Some(half));
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    pub fn expect_reserve(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Reserve, limit, key)
    }

    /// Expects a reset of `limit` for `key`.
    pub fn expect_reset(&mut self, limit: &str, key: impl AsRef<[u8]>) -> Expectation<'_> {
        self.expect(Verb::Reset, limit, key)
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
        assert!(
            verb.has_cost(),
            "a {verb} has no cost: remove `.cost({cost})`"
        );
        self.call.cost = Some(cost);
        self
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
        self.answer(Answer::Delay(rounded_up(delay)));
    }

    /// Denies the call for `retry_after`, rounded up to microseconds and at least one.
    pub fn deny_for(self, retry_after: Duration) {
        let wait = rounded_up(retry_after).max(Wait::from_micros(1));
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
}

/// Returns `duration`, rounded up to microseconds.
fn rounded_up(duration: Duration) -> Wait {
    let micros = duration.as_nanos().div_ceil(1_000);
    u64::try_from(micros).map_or(Wait::NEVER, Wait::from_micros)
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
        split.is_ok_and(|(_, request)| request.is_defined() && received(&request).is_some())
    }
}

impl SyncStore for MockStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let (_, request) = &request.split_id()?;
        request.validate(Fingerprint::of)?;
        let fingerprint = Fingerprint::of(request);
        let received = received(request).ok_or_else(unsupported)?;
        let verdicts = reply::verdicts(request, &received, self.ask(&received)?);
        Ok(Verdicts::new(fingerprint, verdicts))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        if checks.is_empty() {
            return Ok(());
        }
        let received = Received {
            verb: Verb::Reset,
            at: None,
            parts: parts(Verb::Reset, checks, |_| None),
        };
        self.ask(&received).map(drop)
    }
}

/// Converts `request`, or returns `None` if the mock does not know its operation.
///
/// The cost of a refund is what the receipt gives back to the limit, that of a settlement what it is
/// settled at, and that of `lower` what may remain.
fn received<'r>(request: &'r Request<'_>) -> Option<Received<'r>> {
    let (verb, receipt) = match request.operation() {
        Operation::Block(_) => (Verb::Block, None),
        Operation::Consume => (Verb::Check, None),
        Operation::Lower => (Verb::Lower, None),
        Operation::Peek => (Verb::Peek, None),
        Operation::Refund(receipt) => (Verb::Refund, Some(receipt)),
        Operation::Reserve { .. } => (Verb::Reserve, None),
        Operation::Settle(_) => (Verb::Settle, None),
        Operation::TakeUpTo => (Verb::TakeUpTo, None),
        _ => return None,
    };
    let checks = request.checks();
    let cost = |index: usize| match receipt {
        Some(receipt) => receipt.consumed().get(index).map(|used| used.cost()),
        None => verb.has_cost().then(|| checks[index].cost()),
    };
    Some(Received {
        verb,
        at: request.caller_time(),
        parts: parts(verb, checks, cost),
    })
}

fn parts<'r>(
    verb: Verb,
    checks: &'r [Check<'_>],
    cost: impl Fn(usize) -> Option<u64>,
) -> Vec<Part<'r>> {
    let part = |(index, check): (usize, &'r Check<'_>)| {
        let (limit, cost) = (check.limit(), cost(index));
        let more = cost.map_or_else(String::new, |cost| format!(" at cost {cost}"));
        let details = vec![Detail {
            cost,
            ..Detail::default()
        }];
        Part::new(verb, (limit.name(), limit), check.key(), details, &more)
    };
    checks.iter().enumerate().map(part).collect()
}
