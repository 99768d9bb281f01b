//! `OutboundCall` and `Permit`: a call that waits for its turn, and the proof that it may be made.

use std::fmt;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_core::call::SettleError;
use tollgate_core::store::{Operation, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Key, Limit, RateLimiter, Receipt, Store, StoreError};

use super::client::Outbound;
use super::stricter::{self, counts};
use crate::costs::LimitCosts;
use crate::key::OwnedKeys;
use crate::queue::{Class, LEAST_URGENT};
use crate::wait::{Caller, Patience, WaitError, stand_in_line};

/// How many permits in a row may be too old before a call fails.
const MOST_STALE: u32 = 8;

/// A call to a service that waits until the limits admit it, made by [`Outbound::call`], to be
/// awaited.
///
/// The calls of one [`Outbound`] and its clones for one key are admitted in the order in which they
/// came, unless they set a [`flow`](Self::flow) or an [`urgency`](Self::urgency). Background calls stand in
/// a line of their own if something is kept for urgent ones. Several processes compete: see
/// [`Waiting`](crate::wait::Waiting).
///
/// # Errors
///
/// - [`WaitError::TooLong`] if the wait would exceed the time given.
/// - [`WaitError::TooManyWaiting`] if too many calls wait for the key already: see
///   [`most_waiting`](Self::most_waiting).
/// - [`WaitError::Store`] for the store's errors, and with [`ErrorKind::Unavailable`] if the store
///   has answered too slowly several times in a row: see
///   [`permit_age`](super::OutboundBuilder::permit_age).
///
/// # Panics
///
/// Awaiting panics outside of a Tokio runtime.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, what it consumed is given back in the background.
#[must_use = "a call does nothing until it is awaited"]
pub struct OutboundCall<'k, S> {
    outbound: Outbound<S>,
    key: Named<Key<'k>>,
    cost: Named<u64>,
    class: Class,
    longest: Duration,
    most: Option<usize>,
}

impl<'k, S> OutboundCall<'k, S> {
    pub(super) fn new(outbound: Outbound<S>, key: Key<'k>) -> Self {
        Self {
            outbound,
            key: Named::new(key),
            cost: Named::new(1),
            class: Class::default(),
            longest: Duration::MAX,
            most: None,
        }
    }

    /// Sets the cost, 1 by default. A call that costs nothing under all limits is always admitted, also
    /// in a pause.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost.all = cost;
        self
    }

    /// Sets the cost for the limit called `name`, and for what of it is left to background calls. All other
    /// limits keep the [`cost`](Self::cost).
    ///
    /// For limits that count different things, such as requests and tokens of a language model.
    ///
    /// # Errors
    ///
    /// If no limit of this name counts calls, the call fails with [`ErrorKind::Malformed`] before anything
    /// is sent, and the error lists the names.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:40000/1m"];
    /// let outbound = Outbound::builder(MemoryStore::new(), limits).build()?;
    /// let permit = outbound.call("model").cost_of("tokens", 300 + 500).await?;
    /// // The prompt had 300 tokens, and the answer 120 instead of 500.
    /// permit.settle(1).cost_of("tokens", 420).await?;
    ///
    /// let permit = outbound.call("model").cost_of("tokens", 0).await?;
    /// let left = |name| permit.verdict(name).map(|verdict| verdict.remaining());
    /// assert_eq!((left("requests"), left("tokens")), (Some(58), Some(39_580)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cost_of(mut self, name: &str, cost: u64) -> Self {
        self.cost.named.push((name.to_owned(), cost));
        self
    }

    /// Sets the key that the limit called `name` is counted for, and what of it is left to background calls: see
    /// [`Call::key_of`](tollgate_core::call::Call::key_of). All other limits, and pauses, are counted for the
    /// call's own key.
    ///
    /// # Errors
    ///
    /// The same as of [`cost_of`](Self::cost_of).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = ["account=sliding-log:50/1s", "route=sliding-log:2/1s"];
    /// let outbound = Outbound::builder(MemoryStore::new(), limits).build()?;
    /// for path in ["/users", "/users", "/posts"] {
    ///     outbound.call("account").key_of("route", ("account", path)).await?;
    /// }
    /// let permit = outbound.call("account").key_of("route", ("account", "/posts")).await?;
    /// let left = |name| permit.verdict(name).map(|verdict| verdict.remaining());
    /// assert_eq!((left("account"), left("route")), (Some(46), Some(0)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_of(mut self, name: &str, key: impl Into<Key<'k>>) -> Self {
        self.key.named.push((name.to_owned(), key.into()));
        self
    }

    /// Makes this a call in the background, of the least [urgency](Self::urgency).
    pub fn background(self) -> Self {
        self.urgency(LEAST_URGENT)
    }

    /// Sets how urgent the call is, from 0 to 7: see [`Waiting::urgency`](crate::wait::Waiting::urgency).
    /// Calls of 7, in the background, leave what is
    /// [kept for urgent calls](super::OutboundBuilder::keep_for_urgent) to all others; if something is
    /// kept, they compete with these in a line of their own.
    pub fn urgency(mut self, urgency: u8) -> Self {
        self.class.set_urgency(urgency);
        self
    }

    /// Puts the call into a flow, such as one for each tenant, which take turns: see
    /// [`Waiting::flow`](crate::wait::Waiting::flow).
    pub fn flow<'f>(mut self, flow: impl Into<Key<'f>>) -> Self {
        self.class.set_flow(flow.into());
        self
    }

    /// Sets how long the call may wait. By default, that is for ever.
    ///
    /// If it is clear that it would take longer, the call is refused at once and consumes nothing. Calls
    /// that are not [settled](Permit::settle) yet count at their estimates there.
    pub fn wait_up_to(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Sets how many calls may wait for the key in this process: see
    /// [`Waiting::most_waiting`](crate::wait::Waiting::most_waiting).
    pub fn most_waiting(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }
}

impl<S: Store + 'static> IntoFuture for OutboundCall<'_, S> {
    type Output = Result<Permit<S>, WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let (outbound, cost) = (self.outbound, self.cost);
        let (longest, most, class) = (self.longest, self.most, self.class);
        let limiter = if class.urgency() == LEAST_URGENT {
            outbound.shared.background.clone()
        } else {
            outbound.shared.urgent.clone()
        };
        let keys = self.key.keys(limiter.limits(), &outbound);
        Box::pin(async move {
            let patience = Patience::new(longest, most);
            let each = cost.costs(limiter.limits(), &outbound)?;
            let caller = Caller::new(limiter, keys?, each, class);
            admit(outbound, caller, cost.all, patience).await
        })
    }
}

/// What a call costs, or the key it counts for, as its caller says.
#[derive(Debug)]
struct Named<T> {
    /// Under all limits that are not named.
    all: T,
    /// Under each of these limits.
    named: Vec<(String, T)>,
}

impl<T: Copy> Named<T> {
    fn new(all: T) -> Self {
        Self {
            all,
            named: Vec::new(),
        }
    }

    /// Returns what was said of each of `limits`, or nothing of a block, which counts nothing: the last for its
    /// name, if there is one. The same holds for what is left to background calls.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if no limit of one of the names counts calls.
    fn under<S>(
        &self,
        limits: &[Limit],
        outbound: &Outbound<S>,
    ) -> Result<impl Iterator<Item = Option<T>> + Clone, StoreError> {
        for (name, _) in &self.named {
            let _ = outbound.index_of(name)?;
        }
        let of_background = outbound.stricter_limits().len();
        let of_limit = move |(index, limit): (usize, &Limit)| {
            let is_of = |(name, _): &&(String, T)| match index < of_background {
                true => name == limit.name(),
                false => stricter::name_for_background(name) == limit.name(),
            };
            let own = self.named.iter().rev().find(is_of);
            counts(limit).then(|| own.map_or(self.all, |(_, own)| *own))
        };
        Ok(limits.iter().enumerate().map(of_limit))
    }
}

impl Named<u64> {
    /// Returns what the call costs under each of `limits`. A block has the largest of these costs: only a call
    /// that consumes nothing from any limit ignores a pause.
    fn costs<S>(&self, limits: &[Limit], outbound: &Outbound<S>) -> Result<LimitCosts, StoreError> {
        let each = self.under(limits, outbound)?;
        let largest = each.clone().flatten().max().unwrap_or(0);
        Ok(LimitCosts::of_each(
            each.map(|cost| cost.unwrap_or(largest)),
        ))
    }
}

impl Named<Key<'_>> {
    /// Returns the keys of a call under `limits`: of a block, the call's own.
    fn keys<S>(&self, limits: &[Limit], outbound: &Outbound<S>) -> Result<OwnedKeys, StoreError> {
        let each = self.under(limits, outbound)?;
        let each = each.map(|key| key.unwrap_or(self.all));
        Ok(OwnedKeys::new(self.all, each))
    }
}

/// Waits until the call of `caller` is admitted, and gives back permits that come too late.
async fn admit<S: Store + 'static>(
    outbound: Outbound<S>,
    caller: Arc<Caller<Arc<S>>>,
    cost: u64,
    patience: Patience,
) -> Result<Permit<S>, WaitError> {
    let mut stale = 0;
    loop {
        let (verdicts, asked) = if caller.cost().are_zero() {
            let asked = Instant::now();
            (caller.decide(Operation::Consume).await?, asked)
        } else {
            let start = stand_in_line(&caller, patience).await?;
            (start.verdicts, start.asked)
        };
        let permit = Permit {
            outbound: outbound.clone(),
            caller: Arc::clone(&caller),
            cost,
            verdicts,
            asked,
        };
        if !permit.is_stale() {
            outbound.shared.admitted.fetch_add(1, Ordering::Relaxed);
            return Ok(permit);
        }
        stale += 1;
        outbound.shared.stale.fetch_add(1, Ordering::Relaxed);
        let took = permit.age();
        // It happens even if this future is dropped.
        let _ = permit.give_back_in_background().await;
        if stale == MOST_STALE || patience.since.elapsed() >= patience.longest {
            let oldest = outbound.shared.permit_age.unwrap_or_default();
            return Err(too_slow(took, oldest).into());
        }
    }
}

fn too_slow(took: Duration, oldest: Duration) -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        format!(
            "the store took {took:?} to answer, but a permit may be {oldest:?} old: it was given \
             back; find out why the store is slow, or set a larger margin"
        ),
    )
}

/// The proof that a call to a service may be made, now.
///
/// Dropping it gives nothing back: the call counts. If the request is not sent, call
/// [`give_back`](Self::give_back), or [`give_back_in_background`](Self::give_back_in_background).
pub struct Permit<S: Store + 'static> {
    outbound: Outbound<S>,
    caller: Arc<Caller<Arc<S>>>,
    cost: u64,
    verdicts: Verdicts,
    asked: Instant,
}

impl<S: Store + 'static> Permit<S> {
    /// Returns the [`Outbound`] that admitted this call.
    #[must_use]
    pub fn outbound(&self) -> &Outbound<S> {
        &self.outbound
    }

    /// Returns the key of the call.
    #[must_use]
    pub fn key(&self) -> Key<'_> {
        self.caller.keys().main()
    }

    /// Returns the key that the limit called `name` is counted for, or `None` if none of its
    /// [`limits`](Self::limits) is: the call's, unless [`OutboundCall::key_of`] said another.
    #[must_use]
    pub fn key_of(&self, name: &str) -> Option<Key<'_>> {
        let mut limits = self.limits().iter();
        let index = limits.position(|limit| limit.name() == name)?;
        Some(self.caller.keys().of(index))
    }

    /// Returns the cost that the call was admitted at, from each limit that counts and has no
    /// [cost of its own](OutboundCall::cost_of). A [settlement](Self::settle) does not change it.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the limits that admitted this call, in the order of the verdicts.
    ///
    /// First come [`Outbound::stricter_limits`]; then, for a background call, those that leave what
    /// is kept to urgent calls.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.caller.limits()
    }

    /// Returns the limiter that admitted this call, with its [`limits`](Self::limits).
    ///
    /// With it, a settlement or refund that failed is repeated with the receipt of its error, and a
    /// [stream is metered](crate::meter). Clone it before: a settlement takes the permit. To settle a
    /// background call with a cost of its own for the limit `NAME`, add `NAME-background` at the same cost.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbound = Outbound::builder(MemoryStore::new(), ["tokens=sliding-log:1000/1h"]).build()?;
    /// let permit = outbound.call("model").cost(300).await?;
    /// let limiter = permit.limiter().clone();
    /// if let Err(error) = permit.settle(1).cost_of("tokns", 120).await {
    ///     let receipt = error.into_receipt().ok_or("it may be settled")?;
    ///     limiter.settle("model", receipt, 120).await?;
    /// }
    /// assert_eq!(outbound.call("model").await?.remaining(), 879);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limiter(&self) -> &RateLimiter<Arc<S>> {
        self.caller.limiter()
    }

    /// Returns the time since the store was asked for this permit: the permit is at most this old.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.asked.elapsed()
    }

    /// Returns whether this permit is older than
    /// [a permit may be](super::OutboundBuilder::permit_age). One that consumed nothing never is.
    ///
    /// If you could not send the request at once, and this is true by then,
    /// [give it back](Self::give_back), and take another.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        let oldest = self.outbound.shared.permit_age;
        oldest.is_some_and(|oldest| self.age() > oldest) && !self.caller.cost().are_zero()
    }

    /// Returns the receipt that a refund or a settlement by [`limiter`](Self::limiter) needs, or `None` if
    /// nothing was consumed, or the call is settled.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.verdicts.into_receipt()
    }

    /// Returns the verdicts of its [`limits`](Self::limits), all of which admitted the call; after a
    /// [settlement](Self::settle), what each of them has left, and that it has consumed 0.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Returns the verdict of the limit called `name`, or `None` if none of its [`limits`](Self::limits) is.
    #[must_use]
    pub fn verdict(&self, name: &str) -> Option<Verdict> {
        let mut verdicts = iter::zip(self.limits(), self.verdicts.as_slice());
        let named = verdicts.find(|(limit, _)| limit.name() == name);
        named.map(|(_, verdict)| *verdict)
    }

    /// Returns the largest cost that all limits would admit now: the least that is left of any of them,
    /// whatever they count. For one limit, see [`verdict`](Self::verdict).
    pub fn remaining(&self) -> u64 {
        self.verdicts.remaining()
    }

    /// Gives back what was consumed, for a request that was not sent.
    ///
    /// Do not give back a request that was sent: the service may have counted it, even if it
    /// refused it.
    ///
    /// # Errors
    ///
    /// Returns the store's error; see [`SettleError`].
    pub async fn give_back(self) -> Result<(), SettleError> {
        self.caller.refund(self.verdicts).await
    }

    /// Gives back what was consumed, as [`give_back`](Self::give_back) does, in a task of the runtime that
    /// the call waited on, for a request whose future may be dropped.
    ///
    /// The task need not be awaited. If the store fails, the call counts.
    pub fn give_back_in_background(self) -> JoinHandle<()> {
        self.caller.give_back_in_background(self.verdicts)
    }

    /// Makes `cost` what this call consumed from each limit, once it is known, when this is awaited. A call
    /// of cost zero has consumed nothing, and nothing is settled. See
    /// [`RateLimiter::settle`](tollgate_core::RateLimiter::settle), and
    /// [`PermitSettle::cost_of`] for another cost of one limit.
    ///
    /// Awaiting returns the permit, whose verdicts then say what is left after the settlement. It is settled
    /// once: to settle it again, or to give it back, changes nothing. After an error, the
    /// [`limiter`](Self::limiter) can settle again with the error's receipt.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbound = Outbound::builder(MemoryStore::new(), ["tokens=gcra:1000/1h"]).build()?;
    /// let permit = outbound.call("model").cost(300).await?;
    /// // The answer says that 120 tokens were used.
    /// let permit = permit.settle(120).await?;
    /// assert_eq!(permit.remaining(), 880);
    /// # Ok(())
    /// # }
    /// ```
    pub fn settle(self, cost: u64) -> PermitSettle<S> {
        PermitSettle {
            permit: self,
            cost: Named::new(cost),
        }
    }
}

/// A pending settlement of a call to a service, made by [`Permit::settle`], to be awaited.
///
/// # Errors
///
/// Awaiting returns the store's error, see [`SettleError`]; and [`ErrorKind::Malformed`] if no limit of a
/// name that [`cost_of`](Self::cost_of) got counts calls: the error lists the names.
#[must_use = "a settlement does nothing until it is awaited"]
pub struct PermitSettle<S: Store + 'static> {
    permit: Permit<S>,
    cost: Named<u64>,
}

impl<S: Store + 'static> PermitSettle<S> {
    /// Settles at another cost for the limit called `name`, and for what of it is left to background calls.
    /// See [`OutboundCall::cost_of`] for an example.
    pub fn cost_of(mut self, name: &str, cost: u64) -> Self {
        self.cost.named.push((name.to_owned(), cost));
        self
    }
}

impl<S: Store + 'static> IntoFuture for PermitSettle<S> {
    type Output = Result<Permit<S>, SettleError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { permit, cost } = self;
        Box::pin(async move {
            let each = match cost.costs(permit.limits(), &permit.outbound) {
                Ok(each) => each,
                Err(error) => return Err(SettleError::new(error, permit.into_receipt())),
            };
            let verdicts = permit.caller.settle(permit.verdicts, &each).await?;
            Ok(Permit { verdicts, ..permit })
        })
    }
}

impl<S: Store + 'static> fmt::Debug for PermitSettle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitSettle")
            .field("permit", &self.permit)
            .field("cost", &self.cost)
            .finish()
    }
}

impl<S: Store + 'static> fmt::Debug for Permit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("outbound", &self.outbound)
            .field("verdicts", &self.verdicts)
            .field("age", &self.age())
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for OutboundCall<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundCall")
            .field("outbound", &self.outbound)
            .field("key", &self.key)
            .field("cost", &self.cost)
            .field("urgency", &self.class.urgency())
            .field("longest", &self.longest)
            .field("most", &self.most)
            .finish()
    }
}
