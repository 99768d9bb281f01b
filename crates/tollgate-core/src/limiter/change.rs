//! `Change`: a call that changes what a key may do, and consumes nothing.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::per_limit::PerLimit;
use super::{Left, RateLimiter, SettleError};
use crate::algorithm::BlockSpan;
use crate::call_id::CallId;
use crate::contract::{Store, SyncStore};
use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::limit::{Limit, Limits};
use crate::store::{BoxFuture, Check, Checks, Operation, Receipt, Request, Verdicts};
use crate::time::{Timestamp, Wait};

/// A pending call that changes what a key may do, and consumes nothing.
///
/// Made by [`RateLimiter::refund`], [`RateLimiter::settle`], [`RateLimiter::charge`], [`RateLimiter::give`],
/// [`RateLimiter::lower`], [`RateLimiter::block`] and [`RateLimiter::reset`], which say what it returns and
/// how it fails. End it with `.await` or [`run`](Self::run).
///
/// The type `A` is the answer: a [`Left`], a [`Wait`] or nothing; [`Units`] stands for a [`Left`], too, and
/// [`Refund`] and [`Settle`] for one beside which a failure has the receipt.
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Change<'l, 'k, S, A> {
    limiter: &'l RateLimiter<S>,
    key: Key<'k>,
    act: Act,
    per_limit: PerLimit<'k>,
    at: Option<Timestamp>,
    id: Option<CallId<'k>>,
    answer: PhantomData<fn() -> A>,
}

/// What a call does.
#[derive(Debug)]
pub(super) enum Act {
    Block(BlockSpan),
    Charge,
    Give,
    Lower,
    Refund(Receipt),
    Reset,
    Settle(Receipt),
}

impl<'l, 'k, S, A> Change<'l, 'k, S, A> {
    #[inline]
    pub(super) fn new(limiter: &'l RateLimiter<S>, key: Key<'k>, act: Act, cost: u64) -> Self {
        Self {
            limiter,
            key,
            act,
            per_limit: PerLimit::Same(cost),
            at: None,
            id: None,
            answer: PhantomData,
        }
    }

    /// Sets the instant to decide at, instead of the store's own clock. See [`Request::at`] for its
    /// restrictions.
    ///
    /// Set it for a refund or a settlement if and only if the call that consumed had one. A reset forgets
    /// what was consumed at either clock, whatever is set here.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Sets the key that the limit called `name` is counted for: see [`Call::key_of`](super::Call::key_of). A
    /// refund or a settlement needs the keys of the call that consumed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use tollgate_core::{RateLimiter, SyncStore};
    ///
    /// // With the limits "account=sliding-log:5/1s" and "route=sliding-log:2/1s".
    /// fn cancel(limiter: &RateLimiter<impl SyncStore>) -> Result<(), Box<dyn Error>> {
    ///     let route = ("alice", "/a");
    ///     let decision = limiter.check("alice").key_of("route", route).run()?;
    ///     let receipt = decision.into_receipt().ok_or("denied")?;
    ///     let left = limiter.refund("alice", receipt).key_of("route", route).run()?;
    ///     assert_eq!(left.remaining(), 2);
    ///     Ok(())
    /// }
    /// ```
    pub fn key_of(mut self, name: &str, key: impl Into<Key<'k>>) -> Self {
        let limits = self.limiter.limits();
        self.per_limit.set_key_of(limits, name, key.into());
        self
    }

    fn request(&self) -> Result<Request<'_>, StoreError> {
        let limits = self.limiter.limits();
        let operation = match &self.act {
            Act::Block(span) => Operation::Block(*span),
            Act::Charge => Operation::Charge,
            Act::Give => Operation::Give,
            Act::Lower => Operation::Lower,
            Act::Refund(receipt) => Operation::Refund(receipt),
            Act::Settle(receipt) => Operation::Settle(receipt),
            // Only its checks are passed on.
            Act::Reset => Operation::Peek,
        };
        let mut checks = self.per_limit.checks(limits, self.key)?;
        if let Operation::Block(_) = operation {
            checks = blocks(checks)?;
        }
        let request = Request::of_parts(operation, checks, self.at).with_id(self.id);
        request.validate_checks()?;
        Ok(request)
    }

    /// Returns what the caller gets for the store's answer, which is nothing to a reset.
    fn finish(self, answer: Result<Option<Verdicts>, StoreError>) -> A::Output
    where
        A: FromAnswer<'l>,
    {
        if answer.is_ok() && !matches!(self.act, Act::Block(_) | Act::Charge | Act::Lower) {
            for key in self.per_limit.keys(self.key) {
                self.limiter.given_back(key);
            }
        }
        let receipt = match self.act {
            Act::Refund(receipt) | Act::Settle(receipt) => Some(receipt),
            Act::Block(_) | Act::Charge | Act::Give | Act::Lower | Act::Reset => None,
        };
        let answer = answer.map_err(|error| SettleError::new(error, receipt));
        A::of(&self.limiter.shared.limits, answer)
    }
}

impl<S: Store, A> Change<'_, '_, S, A> {
    /// Returns the error that this call fails with whatever was counted, if there is one:
    /// [`Call::supported`](super::Call::supported).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) or [`Malformed`](ErrorKind::Malformed), with what to do
    /// instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{ErrorKind, RateLimiter, Store};
    ///
    /// // With the limit "login=gcra:10/1m", and none that blocks.
    /// fn at_start(limiter: &RateLimiter<impl Store>) {
    ///     let error = limiter.block("any").supported().unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::Unsupported);
    ///     assert!(error.to_string().contains("`ban=block:5m`"));
    /// }
    /// ```
    pub fn supported(&self) -> Result<(), StoreError> {
        self.limiter.store().supports(&self.request()?)
    }
}

impl<'k, S> Change<'_, 'k, S, Units> {
    /// Sets the cost; without this, it is 1.
    pub fn cost(mut self, cost: u64) -> Self {
        self.per_limit.set_cost(cost);
        self
    }
}

impl<'k, S, A: Once> Change<'_, 'k, S, A> {
    /// Sets the id of the call: if it is repeated with the same id, for the same key, limits, cost and receipt, it
    /// gets the first answer and is not counted again. See [`Call::id`](super::Call::id).
    pub fn id(mut self, id: impl Into<CallId<'k>>) -> Self {
        self.id = Some(id.into());
        self
    }
}

impl<S, A: Costs> Change<'_, '_, S, A> {
    /// Sets another cost for the limit called `name`. All other limits have the cost that was passed to
    /// [`settle`](RateLimiter::settle), or to [`cost`](Self::cost).
    ///
    /// # Errors
    ///
    /// If no limit of the limiter has this name, the call fails with [`ErrorKind::Malformed`], and the error
    /// lists the names; that of a settlement holds the receipt.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use tollgate_core::{RateLimiter, SyncStore};
    ///
    /// // With the limits "requests=sliding-log:60/1m" and "tokens=sliding-log:1000/1m".
    /// fn complete(limiter: &RateLimiter<impl SyncStore>) -> Result<(), Box<dyn Error>> {
    ///     let decision = limiter.check("alice").cost_of("tokens", 800).run()?;
    ///     let receipt = decision.into_receipt().ok_or("denied")?;
    ///     // It was one request, and took 335 tokens.
    ///     let left = limiter.settle("alice", receipt, 1).cost_of("tokens", 335).run()?;
    ///     let remaining = |name| left.decision().verdict(name).map(|verdict| verdict.remaining());
    ///     assert_eq!(remaining("requests"), Some(59));
    ///     assert_eq!(remaining("tokens"), Some(665));
    ///     Ok(())
    /// }
    /// ```
    pub fn cost_of(mut self, name: &str, cost: u64) -> Self {
        let limits = self.limiter.limits();
        self.per_limit.set_cost_of(limits, name, cost);
        self
    }
}

impl<S> Change<'_, '_, S, Wait> {
    /// Blocks until `instant`, by the store's clock.
    pub fn until(mut self, instant: Timestamp) -> Self {
        self.act = Act::Block(BlockSpan::Until(instant));
        self
    }

    /// Blocks for `time` from now on, by the store's clock, rounded up to microseconds.
    pub fn lasting(mut self, time: Duration) -> Self {
        self.act = Act::Block(BlockSpan::Lasting(time));
        self
    }
}

impl<'l, S: SyncStore, A: FromAnswer<'l>> Change<'l, '_, S, A> {
    /// Runs this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors; that of a refund or a settlement has the receipt if nothing was changed.
    pub fn run(self) -> A::Output {
        let store = self.limiter.store();
        let answer = self.request().and_then(|request| match self.act {
            Act::Reset => store.reset_now(request.checks()).map(|()| None),
            _ => store.decide_now(&request).map(Some),
        });
        self.finish(answer)
    }
}

impl<'l: 'k, 'k, S: Store, A: FromAnswer<'l> + 'k> IntoFuture for Change<'l, 'k, S, A> {
    type Output = A::Output;
    type IntoFuture = BoxFuture<'k, A::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let store = self.limiter.store();
            let answer = match (self.request(), &self.act) {
                (Err(error), _) => Err(error),
                (Ok(request), Act::Reset) => {
                    let checks = Checks::borrowed(request.checks());
                    store.reset(checks).await.map(|()| None)
                }
                (Ok(request), _) => store.decide(request).await.map(Some),
            };
            self.finish(answer)
        })
    }
}

/// Shows no key.
impl<S, A> fmt::Debug for Change<'_, '_, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("act", &self.act)
            .field("limits", &self.limiter.limits())
            .field("key", &self.key)
            .field("per_limit", &self.per_limit)
            .field("at", &self.at)
            .field("id", &self.id)
            .finish()
    }
}

/// Returns the checks of a block: those of the limits that can block, or all if none can, so that the
/// request is refused with the reason.
fn blocks(checks: Checks<'_>) -> Result<Checks<'_>, StoreError> {
    let can_block = |check: &&Check<'_>| check.limit().algorithm().can_block();
    let blocks: Checks<'_> = checks.iter().filter(can_block).copied().collect();
    match blocks.first() {
        None => Ok(checks),
        Some(first) if blocks.iter().all(|block| block.limit().is_shadow()) => {
            Err(only_in_shadow(first.limit()))
        }
        Some(_) => Ok(blocks),
    }
}

/// Returns the error of a block that would deny nobody.
#[cold]
fn only_in_shadow(limit: &Limit) -> StoreError {
    let name = limit.name();
    StoreError::new(
        ErrorKind::Unsupported,
        format!(
            "limit `{name}` is in shadow, so a block would deny nobody: leave out `shadow`, or add a \
             limit that denies, such as `ban=block:5m`"
        ),
    )
}

/// What the store says: nothing to a reset.
type Answer = Result<Option<Verdicts>, SettleError>;

/// The answers of a [`Change`]: its type `A`.
#[doc(hidden)]
pub trait FromAnswer<'l> {
    /// What the call returns.
    type Output;

    /// Converts the store's answer to a call of a limiter with these limits.
    #[doc(hidden)]
    fn of(limits: &'l Limits, answer: Answer) -> Self::Output;
}

impl FromAnswer<'_> for () {
    type Output = Result<(), StoreError>;

    fn of(_: &Limits, answer: Answer) -> Self::Output {
        Ok(answer.map(drop)?)
    }
}

impl FromAnswer<'_> for Wait {
    type Output = Result<Self, StoreError>;

    fn of(_: &Limits, answer: Answer) -> Self::Output {
        let verdicts = answer?.ok_or_else(StoreError::another_answer)?;
        Ok(verdicts.retry_after())
    }
}

impl<'l> FromAnswer<'l> for Left<'l> {
    type Output = Result<Self, StoreError>;

    fn of(limits: &'l Limits, answer: Answer) -> Self::Output {
        Self::new(limits, answer?)
    }
}

/// Stands for what remains after a [charge](RateLimiter::charge) or a [give](RateLimiter::give).
#[derive(Debug)]
#[non_exhaustive]
pub enum Units {}

impl<'l> FromAnswer<'l> for Units {
    type Output = Result<Left<'l>, StoreError>;

    fn of(limits: &'l Limits, answer: Answer) -> Self::Output {
        Left::of(limits, answer)
    }
}

/// The answers of calls whose cost can be set for a limit.
#[doc(hidden)]
pub trait Costs {}

/// The answers of calls that may have an id.
#[doc(hidden)]
pub trait Once {}

impl Once for Refund {}
impl Once for Settle {}
impl Once for Units {}

impl Costs for Settle {}
impl Costs for Units {}

/// Stands for what remains after a [refund](RateLimiter::refund), which has no cost: it gives back
/// everything.
///
/// ```compile_fail,E0599
/// # use tollgate_core::{RateLimiter, Receipt};
/// # fn refunds<S>(limiter: &RateLimiter<S>, receipt: Receipt) {
/// let call = limiter.refund("alice", receipt).cost_of("tokens", 5);
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Refund {}

impl<'l> FromAnswer<'l> for Refund {
    type Output = Result<Left<'l>, SettleError>;

    fn of(limits: &'l Limits, answer: Answer) -> Self::Output {
        Left::new(limits, answer?).map_err(|error| SettleError::new(error, None))
    }
}

/// Stands for what remains after a [settlement](RateLimiter::settle), which may have
/// [another cost](Change::cost_of) for a limit.
#[derive(Debug)]
#[non_exhaustive]
pub enum Settle {}

impl<'l> FromAnswer<'l> for Settle {
    type Output = Result<Left<'l>, SettleError>;

    fn of(limits: &'l Limits, answer: Answer) -> Self::Output {
        Refund::of(limits, answer)
    }
}
