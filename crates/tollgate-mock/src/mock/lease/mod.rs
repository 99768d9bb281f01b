//! Expected calls to concurrency limiters, and the answers to them.

mod reply;

use async_trait::async_trait;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{self, ConcurrencyLimiter, Lease, Operation, Terms};
use tollgate_core::{Key, StoreError, Timestamp, Wait};

use super::answer::Answer;
use super::received::{Detail, Received, literal, unsupported};
use super::verb::Verb;
use super::{Expectation, MockStore};

impl MockStore {
    /// Expects a call that acquires a lease of the concurrency limiter called `leases` for `key`.
    pub fn expect_acquire(
        &mut self,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, ConcurrencyLimiter<Self>> {
        self.expect(Verb::Acquire, leases, key)
    }

    /// Expects a call that renews a lease of the concurrency limiter called `leases` for `key`.
    pub fn expect_renew(
        &mut self,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, ConcurrencyLimiter<Self>> {
        self.expect(Verb::Renew, leases, key)
    }

    /// Expects a call that releases a lease of the concurrency limiter called `leases` for `key`.
    pub fn expect_release(
        &mut self,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, ConcurrencyLimiter<Self>> {
        self.expect(Verb::Release, leases, key)
    }

    /// Expects a call that asks how much the concurrency limiter called `leases` holds for `key`.
    pub fn expect_peek_leases(
        &mut self,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, ConcurrencyLimiter<Self>> {
        self.expect(Verb::PeekLeases, leases, key)
    }

    /// Expects a reset of the concurrency limiter called `leases` for `key`.
    pub fn expect_reset_leases(
        &mut self,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, ConcurrencyLimiter<Self>> {
        self.expect(Verb::ResetLeases, leases, key)
    }
}

impl Expectation<'_, ConcurrencyLimiter<MockStore>> {
    /// Expects only the lease with this id. The default is any lease.
    ///
    /// # Panics
    ///
    /// If the call is about no lease.
    pub fn id(self, id: impl AsRef<[u8]>) -> Self {
        self.only_id(id.as_ref())
    }

    /// Grants this lease, which has the id and the weight of the call.
    pub fn granted(self, lease: Lease) {
        self.answer(Answer::Granted(lease));
    }

    /// Grants a lease with the id and the weight of the call, whatever they are: from `now` for the
    /// time to live, with this token.
    pub fn granted_at(self, now: Timestamp, token: u64) {
        self.answer(Answer::GrantedAt(now, token));
    }

    /// Answers that this lease is held already: a call before acquired it, with the same id.
    pub fn already_held(self, lease: Lease) {
        self.answer(Answer::AlreadyHeld(lease));
    }

    /// Denies the lease: `held` are held, and without renewals there is room within this time.
    ///
    /// A weight above the amount is denied forever: [`Wait::NEVER`].
    pub fn denied(self, held: u64, ends_within: Wait) {
        self.answer(Answer::Denied(held, ends_within));
    }

    /// Renews the lease, which has the id and the token of the call.
    pub fn renewed(self, lease: Lease) {
        self.answer(Answer::Renewed(lease));
    }

    /// Answers a renewal that the lease is no longer held.
    pub fn lost(self) {
        self.answer(Answer::Lost);
    }

    /// Answers a release: whether the lease was still held.
    pub fn released(self, was_held: bool) {
        self.answer(Answer::Released(was_held));
    }

    /// Answers a peek: how much is held.
    pub fn occupied(self, held: u64) {
        self.answer(Answer::Occupied(held));
    }
}

#[async_trait]
impl lease::Store for MockStore {
    async fn lease<'a>(&self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(&self, terms: &'a Terms, key: Key<'a>) -> Result<(), StoreError> {
        self.reset_leases_now(terms, key)
    }
}

impl lease::SyncStore for MockStore {
    fn lease_now(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        request.validate()?;
        let received = received(request).ok_or_else(unsupported)?;
        let answer = self.ask_one(&received)?;
        Ok(reply::reply(request, &received, &answer))
    }

    fn reset_leases_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError> {
        let received = Received::reset(Verb::ResetLeases, terms.name(), key);
        self.ask(&received).map(drop)
    }
}

/// Converts `request`, or returns `None` if the mock does not know its operation.
fn received<'r>(request: &lease::Request<'r>) -> Option<Received<'r>> {
    let (verb, id, more) = match request.operation() {
        Operation::Acquire { id, weight: 1 } => (Verb::Acquire, Some(id), String::new()),
        Operation::Acquire { id, weight } => {
            (Verb::Acquire, Some(id), format!(" of weight {weight}"))
        }
        Operation::Peek => (Verb::PeekLeases, None, String::new()),
        Operation::Release { id, token } => {
            (Verb::Release, Some(id), format!(" with token {token}"))
        }
        Operation::Renew { id, token } => (Verb::Renew, Some(id), format!(" with token {token}")),
        _ => return None,
    };
    let lease = id.map_or_else(String::new, |id| format!(", lease {}", literal(id)));
    let details = vec![Detail {
        id,
        ..Detail::default()
    }];
    let (call, key) = ((verb, request.caller_time()), request.key());
    let (name, more) = (request.terms().name(), lease + &more);
    Some(Received::of_one(call, name, key, details, &more))
}
