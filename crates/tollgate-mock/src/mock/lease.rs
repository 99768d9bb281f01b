//! `LeaseExpectation`: an expected call to a concurrency limiter, and its answer.

use std::fmt;

use async_trait::async_trait;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{self, Acquisition, Lease, NoLease, Occupancy};
use tollgate_core::{ErrorKind, Key, StoreError, Timestamp, Wait};

use super::MockStore;
use super::expected::{self, TimesRange};
use super::message;
use super::received::{described, joined, literal};
use super::single::{self, Standing};

/// A complete expectation of a call to a concurrency limiter.
pub(super) type Expected = expected::Expected<Call, Answer>;

/// An expected call to a [`ConcurrencyLimiter`](tollgate_core::lease::ConcurrencyLimiter); takes effect
/// once it is given an answer.
///
/// # Examples
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
#[must_use = "an expectation counts once it is given an answer, such as `granted`"]
pub struct LeaseExpectation<'m> {
    expected: &'m mut Vec<Expected>,
    call: Call,
    times: TimesRange,
}

/// The calls that an expectation matches.
#[derive(Debug)]
pub(super) struct Call {
    verb: Verb,
    leases: String,
    key: Vec<u8>,
    id: Option<Vec<u8>>,
}

/// The operation of a call, named like the methods of `ConcurrencyLimiter`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verb {
    Acquire,
    Peek,
    Release,
    Renew,
    Reset,
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    AlreadyHeld(Lease),
    Denied(u64, Wait),
    Fail(ErrorKind),
    Granted(Lease),
    GrantedAt(Timestamp, u64),
    Lost,
    Occupied(u64),
    Released(bool),
    Renewed(Lease),
    Succeed,
}

/// A call of the code under test.
struct ReceivedCall<'r> {
    verb: Verb,
    leases: &'r str,
    key: Key<'r>,
    id: Option<&'r [u8]>,
    weight: u64,
    token: Option<u64>,
    at: Option<Timestamp>,
}

impl MockStore {
    /// Expects a call that acquires a lease of the concurrency limiter called `leases` for `key`.
    pub fn expect_acquire(&mut self, leases: &str, key: impl AsRef<[u8]>) -> LeaseExpectation<'_> {
        self.expect_lease(Verb::Acquire, leases, key)
    }

    /// Expects a call that renews a lease of the concurrency limiter called `leases` for `key`.
    pub fn expect_renew(&mut self, leases: &str, key: impl AsRef<[u8]>) -> LeaseExpectation<'_> {
        self.expect_lease(Verb::Renew, leases, key)
    }

    /// Expects a call that releases a lease of the concurrency limiter called `leases` for `key`.
    pub fn expect_release(&mut self, leases: &str, key: impl AsRef<[u8]>) -> LeaseExpectation<'_> {
        self.expect_lease(Verb::Release, leases, key)
    }

    /// Expects a call that asks how much the concurrency limiter called `leases` holds for `key`.
    pub fn expect_peek_leases(
        &mut self,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> LeaseExpectation<'_> {
        self.expect_lease(Verb::Peek, leases, key)
    }

    /// Expects a reset of the concurrency limiter called `leases` for `key`.
    pub fn expect_reset_leases(
        &mut self,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> LeaseExpectation<'_> {
        self.expect_lease(Verb::Reset, leases, key)
    }

    fn expect_lease(
        &mut self,
        verb: Verb,
        leases: &str,
        key: impl AsRef<[u8]>,
    ) -> LeaseExpectation<'_> {
        LeaseExpectation {
            expected: &mut self.expectations().of_leases,
            call: Call {
                verb,
                leases: leases.to_owned(),
                key: key.as_ref().to_owned(),
                id: None,
            },
            times: (1..).into(),
        }
    }

    /// Counts a call, and returns its answer.
    ///
    /// # Panics
    ///
    /// If the call is unexpected; it is then not counted.
    fn ask_lease(&self, received: &ReceivedCall<'_>) -> Answer {
        let mut expectations = self.lock();
        let answer = single::answer(
            &mut expectations.of_leases,
            |call| call.is_of(received),
            |call| call.id.as_deref().is_none_or(|id| Some(id) == received.id),
        );
        let standing = match answer {
            Ok(answer) => return answer,
            Err(standing) => standing,
        };
        let told = standing.told("these leases", "lease");
        let text = message::unexpected_call(
            &received.verb,
            received.at,
            [format!("{}: {told}", received.line())],
            &expectations.listed(),
            &received.advice(standing),
        );
        panic!("{text}");
    }
}

impl LeaseExpectation<'_> {
    /// Expects only the lease with this id. The default is any lease.
    ///
    /// # Panics
    ///
    /// If the call is about no lease.
    pub fn id(mut self, id: impl AsRef<[u8]>) -> Self {
        let (verb, has_id) = (self.call.verb, self.call.verb.has_id());
        assert!(has_id, "a {verb} is about no lease: remove `.id(..)`");
        self.call.id = Some(id.as_ref().to_owned());
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
        self.times(0).answer(Answer::Fail(ErrorKind::Unknown));
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

    /// Fails the call with an error of this kind.
    pub fn fail(self, kind: ErrorKind) {
        self.answer(Answer::Fail(kind));
    }

    /// Lets the reset succeed.
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
        let fits = match &answer {
            Answer::AlreadyHeld(_)
            | Answer::Denied(..)
            | Answer::Granted(_)
            | Answer::GrantedAt(..) => verb == Verb::Acquire,
            Answer::Lost | Answer::Renewed(_) => verb == Verb::Renew,
            Answer::Occupied(_) => verb == Verb::Peek,
            Answer::Released(_) => verb == Verb::Release,
            Answer::Fail(_) => true,
            Answer::Succeed => verb == Verb::Reset,
        };
        let answers = verb.answers();
        assert!(fits, "`{answer}` answers no {verb}: answer with {answers}");
        self.expected
            .push(Expected::new(self.call, self.times, answer));
    }
}

impl Call {
    fn is_of(&self, received: &ReceivedCall<'_>) -> bool {
        (self.verb, &self.leases[..]) == (received.verb, received.leases)
            && self.key == joined(received.key)
    }
}

impl<'r> ReceivedCall<'r> {
    /// Converts `request`, or returns `None` if the mock does not know its operation.
    fn of(request: &lease::Request<'r>) -> Option<Self> {
        let (verb, id, weight, token) = match request.operation() {
            lease::Operation::Acquire { id, weight } => (Verb::Acquire, Some(id), weight, None),
            lease::Operation::Renew { id, token } => (Verb::Renew, Some(id), 1, Some(token)),
            lease::Operation::Release { id, token } => (Verb::Release, Some(id), 1, Some(token)),
            lease::Operation::Peek => (Verb::Peek, None, 1, None),
            _ => return None,
        };
        Some(Self {
            verb,
            leases: request.terms().name(),
            key: request.key(),
            id,
            weight,
            token,
            at: request.caller_time(),
        })
    }

    /// Returns the line of a message that describes the call.
    fn line(&self) -> String {
        let mut line = format!("leases `{}` for {}", self.leases, described(self.key));
        if let Some(id) = self.id {
            line += &format!(", lease {}", literal(id));
        }
        if self.weight != 1 {
            line += &format!(" of weight {}", self.weight);
        }
        if let Some(token) = self.token {
            line += &format!(" with token {token}");
        }
        line
    }

    /// Returns how to expect the call.
    fn advice(&self, standing: Standing) -> String {
        let (verb, leases) = (self.verb.method(), self.leases);
        let key = literal(&joined(self.key));
        let mut call = format!("store.expect_{verb}(\"{leases}\", {key})");
        let what = match (standing, self.id) {
            (Standing::Other, Some(id)) => {
                call += &format!(".id({})", literal(id));
                "this, add"
            }
            (Standing::UsedUp, _) => "another call, raise `.times(..)`, or add",
            _ => "this call, add",
        };
        let answer = match self.verb {
            Verb::Acquire => "granted_at(now, 1)",
            Verb::Peek => "occupied(0)",
            Verb::Release => "released(true)",
            Verb::Renew => "lost()",
            Verb::Reset => "succeed()",
        };
        format!("to expect {what} `{call}` with an answer, such as `.{answer}`")
    }
}

impl Verb {
    /// Returns what follows `expect_` in the name of the method that expects this operation.
    fn method(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Peek => "peek_leases",
            Self::Release => "release",
            Self::Renew => "renew",
            Self::Reset => "reset_leases",
        }
    }

    fn has_id(self) -> bool {
        matches!(self, Self::Acquire | Self::Release | Self::Renew)
    }

    /// Returns the names of the answers that an expectation of this operation accepts.
    fn answers(self) -> &'static str {
        match self {
            Self::Acquire => "`granted`, `granted_at`, `already_held`, `denied` or `fail`",
            Self::Peek => "`occupied` or `fail`",
            Self::Release => "`released` or `fail`",
            Self::Renew => "`renewed`, `lost` or `fail`",
            Self::Reset => "`succeed` or `fail`",
        }
    }
}

/// Returns the answer to `request` that `answer` says.
///
/// # Panics
///
/// If no store could give this answer to this request.
fn replied(
    request: &lease::Request<'_>,
    received: &ReceivedCall<'_>,
    answer: Answer,
) -> Result<lease::Answer, StoreError> {
    let shown = answer.to_string();
    let refuse = |why: &str| -> ! {
        let (verb, line) = (received.verb, received.line());
        panic!("no store answers `{shown}` to this {verb}:\n  {line}\n{why}")
    };
    let (terms, weight) = (request.terms(), received.weight);
    let id = received.id.unwrap_or_default();
    let held = |lease: Lease| {
        if lease.id() != id {
            refuse("the lease has another id: expect only that one with `.id(..)`");
        }
        if lease.expires_at() <= lease.decided_at() {
            refuse("the lease has ended: let it end after the instant of the answer");
        }
        if received.at.is_some_and(|at| at != lease.decided_at()) {
            refuse("the call is decided at the caller's instant: use that for the lease");
        }
        lease
    };
    let granted = |lease: Lease, is_new: bool| {
        if weight > terms.amount() && is_new {
            refuse("a weight above the amount is always denied: answer with `.denied`");
        }
        if lease.weight() != weight && is_new {
            refuse("the lease has another weight: use that of the call");
        }
        let lease = held(lease);
        lease::Answer::Acquired(Acquisition::Granted { lease, is_new })
    };
    Ok(match answer {
        Answer::Granted(lease) => granted(lease, true),
        Answer::GrantedAt(now, token) => {
            let end = now.saturating_add(terms.ttl());
            granted(Lease::new(id, token, weight, now, end), true)
        }
        Answer::AlreadyHeld(lease) => granted(lease, false),
        Answer::Denied(held, ends_within) => {
            let amount = terms.amount();
            if weight <= amount.saturating_sub(held) {
                refuse(&format!(
                    "of {amount}, there is room for it: let more be held"
                ));
            }
            if ends_within.is_never() != (weight > amount) {
                refuse("only a weight above the amount never finds room, and it never does");
            }
            lease::Answer::Acquired(Acquisition::Denied(NoLease::new(held, amount, ends_within)))
        }
        Answer::Renewed(lease) => {
            if received.token != Some(lease.token()) {
                refuse("the lease has another token: use that of the call");
            }
            lease::Answer::Renewed(Some(held(lease)))
        }
        Answer::Lost => lease::Answer::Renewed(None),
        Answer::Released(was_held) => lease::Answer::Released(was_held),
        Answer::Occupied(held) => lease::Answer::Occupied(Occupancy::new(held, terms.amount())),
        Answer::Fail(kind) => return Err(single::failed(kind)),
        Answer::Succeed => refuse("only a reset succeeds"),
    })
}

#[async_trait]
impl lease::Store for MockStore {
    async fn lease<'a>(&self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(
        &self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_leases_now(terms, key)
    }
}

impl lease::SyncStore for MockStore {
    fn lease_now(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        request.validate()?;
        let received = ReceivedCall::of(request).ok_or_else(single::unsupported)?;
        let answer = self.ask_lease(&received);
        replied(request, &received, answer)
    }

    fn reset_leases_now(&self, terms: &lease::Terms, key: Key<'_>) -> Result<(), StoreError> {
        let received = ReceivedCall {
            verb: Verb::Reset,
            leases: terms.name(),
            key,
            id: None,
            weight: 1,
            token: None,
            at: None,
        };
        match self.ask_lease(&received) {
            Answer::Fail(kind) => Err(single::failed(kind)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Peek => "peek",
            Self::Reset => "reset",
            other => other.method(),
        })
    }
}

/// Formats the call as messages list it.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, leases, key) = (self.verb, &self.leases, literal(&self.key));
        write!(f, "{verb} of leases `{leases}` for key {key}")?;
        match &self.id {
            Some(id) => write!(f, ", lease {}", literal(id)),
            None if verb.has_id() => f.write_str(", any lease"),
            None => Ok(()),
        }
    }
}

/// Formats the answer as it is written in a test.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = |lease: &Lease| format!("{} with token {}", literal(lease.id()), lease.token());
        match self {
            Self::AlreadyHeld(held) => write!(f, "already_held({})", lease(held)),
            Self::Denied(held, Wait::NEVER) => write!(f, "denied({held}, never)"),
            Self::Denied(held, ends_within) => write!(f, "denied({held}, {ends_within})"),
            Self::Fail(kind) => write!(f, "fail({kind:?})"),
            Self::Granted(new) => write!(f, "granted({})", lease(new)),
            Self::GrantedAt(now, token) => write!(f, "granted_at({now}, {token})"),
            Self::Lost => f.write_str("lost()"),
            Self::Occupied(held) => write!(f, "occupied({held})"),
            Self::Released(was_held) => write!(f, "released({was_held})"),
            Self::Renewed(renewed) => write!(f, "renewed({})", lease(renewed)),
            Self::Succeed => f.write_str("succeed()"),
        }
    }
}

impl fmt::Debug for LeaseExpectation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaseExpectation").field(&self.call).finish()
    }
}
