//! Calls that wait until a limiter admits them: [`Waiting`], how it ends, and how many wait.

mod caller;
mod error;
mod forecast;
mod line;
mod lines;
mod sent;
mod turns;
pub(crate) mod wait_up_to;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{Operation, Request, Verdicts};
use tollgate_core::{Decision, ErrorKind, Key, RateLimiter, Receipt, Store, StoreError};

pub(crate) use self::caller::Caller;

pub use self::error::{TooLong, WaitError};
use self::line::{Start, Turn};
use self::lines::Shared;

use self::sent::Sent;
use crate::costs::LimitCosts;
use crate::key::OwnedKeys;
use crate::queue::Class;

/// How many calls may wait for a key in this process, unless they say otherwise.
const MOST_WAITING: usize = 100_000;

/// How long a call may wait, and behind how many others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) since: Instant,
    pub(crate) longest: Duration,
    pub(crate) most: usize,
}

impl Patience {
    /// Returns the patience of a call that is made now.
    pub(crate) fn new(longest: Duration, most: Option<usize>) -> Self {
        Self {
            since: Instant::now(),
            longest,
            most: most.unwrap_or(MOST_WAITING),
        }
    }

    /// Returns until when the call may wait, or `None` if for ever.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.since.checked_add(self.longest)
    }
}

/// Returns how many calls of a limiter and its clones wait now, for all keys and in all time zones, or are on their way to
/// the store: for a metric that says whether callers have to wait.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_memory::{MemoryStore, RateLimiter};
/// use tollgate_tokio::WaitUpTo;
/// use tollgate_tokio::wait::calls_waiting;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = RateLimiter::new(MemoryStore::new(), ["mail=gcra:1/1m"])?;
/// assert!(limiter.check("alice").run()?.is_allowed());
/// let call = limiter.check("alice").wait_up_to(Duration::from_secs(300));
/// let counted = async {
///     tokio::task::yield_now().await;
///     calls_waiting(&limiter)
/// };
/// tokio::select! {
///     biased;
///     _ = call => panic!("it would have to wait for a minute"),
///     waiting = counted => assert_eq!(waiting, 1),
/// }
/// assert_eq!(calls_waiting(&limiter), 0);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn calls_waiting<S>(limiter: &RateLimiter<S>) -> usize {
    limiter.companion(Shared::default).places()
}

/// A check that waits until it is admitted, made by [`WaitUpTo::wait_up_to`](crate::WaitUpTo::wait_up_to), to be awaited.
///
/// # Order
///
/// The calls for one key, of one limiter and its clones, stand in line: first come, first served, unless
/// they set a [`flow`](Self::flow) or an [`urgency`](Self::urgency). If every limit is
/// [`Gcra`](tollgate_core::Gcra), the line [reserves](tollgate_core::RateLimiter::reserve)
/// starts, at most a second ahead; the lines of several processes get equal shares, for about one
/// store call each. Otherwise the first in line asks the store when it can be admitted, and the
/// first ones of several processes compete.
///
/// The first in line asks at least once a second, so that a line hears what others give back.
///
/// # Costs that differ
///
/// After [`cost_of`](tollgate_core::call::Call::cost_of), limits that count different things, such
/// as requests and tokens, are waited for together. The call stands in the same line as all others
/// of its key, and no later call of its flow and urgency overtakes it, however much it costs.
///
/// # Several keys
///
/// After [`key_of`](tollgate_core::call::Call::key_of), all limits are waited for together, too. Calls with the
/// same keys stand in one line; lines that have a key in common compete as those of several processes do, so a
/// route that is full holds up no other. Each line asks the store by itself, and again whenever something is given
/// back to one of its keys.
///
/// # Time zones
///
/// Calls for one key in different [zones](tollgate_core::RateLimiter::in_zone), under limits of the zone
/// `@local`, stand in a line for each zone.
///
/// # Errors
///
/// - [`WaitError::TooLong`] if the wait would exceed the time given, and at once if a cost is more
///   than its limit can ever admit.
/// - [`WaitError::TooManyWaiting`] if [too many](Self::most_waiting) wait for the key already.
/// - The store's errors, and [`ErrorKind::Malformed`] if `cost_of` or `key_of` named a limit that the
///   limiter does not have, or if a limit is `@local` and the call is in no zone.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, the next call in line that costs as much gets what
/// it has asked for. If there is none until that is due, it is given back in the background, as far
/// as a [refund](tollgate_core::RateLimiter::refund) can give it back.
#[must_use = "a call does nothing until it is awaited"]
pub struct Waiting<'l, S> {
    limiter: &'l RateLimiter<S>,
    /// The keys and the costs, unless a limit was named that the limiter does not have.
    asked: Result<(OwnedKeys, LimitCosts), StoreError>,
    longest: Duration,
    most: Option<usize>,
    class: Class,
}

impl<'l, S> Waiting<'l, S> {
    /// `request` is what a call of `limiter` asks for.
    fn new(
        limiter: &'l RateLimiter<S>,
        request: Result<Request<'_>, StoreError>,
        longest: Duration,
    ) -> Self {
        let asked = request.map(|request| {
            let checks = request.checks();
            // A limiter has at least one limit.
            (OwnedKeys::of_checks(checks), LimitCosts::of_checks(checks))
        });
        Self {
            limiter,
            asked,
            longest,
            most: None,
            class: Class::default(),
        }
    }

    /// Puts the call into a flow, such as one for each tenant. The flows that wait for the key in this
    /// process take turns, so that a tenant with many calls does not hold up the others; within a flow,
    /// calls are first come, first served. Calls without a flow stand together in one of their own.
    ///
    /// The flows of one [urgency](Self::urgency) get equally many units: *fair queueing*, by deficit round
    /// robin. If the calls before a call in its flow cost `s`, and it costs `c`, each other flow gets at
    /// most `s + c` units before it, and the cost of one call; beside these, it waits for calls that
    /// have asked the store already. Where limits have different costs, the largest part of a limit counts.
    ///
    /// A flow without waiting calls takes no memory, and saves up nothing. A call in a flow is refused at
    /// once if the wait for its own flow alone would be too long.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    /// use tollgate_tokio::WaitUpTo;
    /// use tollgate_tokio::wait::Admitted;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["api=sliding-log:1/20ms"])?;
    /// let call = |tenant| limiter.check("api").wait_up_to(Duration::from_secs(5)).flow(tenant);
    /// let many = async { tokio::join!(call("a"), call("a"), call("a"), call("a"), call("a")) };
    /// tokio::select! {
    ///     biased;
    ///     _ = many => panic!("the other tenant is served earlier"),
    ///     admitted = call("b") => assert!(admitted.is_ok()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn flow<'f>(mut self, flow: impl Into<Key<'f>>) -> Self {
        self.class.set_flow(flow.into());
        self
    }

    /// Sets how urgent the call is: from 0, the most urgent, to 7, for calls in the background, as in the
    /// `Priority` header of HTTP (RFC 9218). The default is 3, and more than 7 counts as 7.
    ///
    /// More urgent calls are admitted first, but while less urgent calls wait, they get one of eight units,
    /// so that none waits for ever. If `k` less urgent levels wait, each gets one of `8 * k` units.
    /// What was asked of the store already is not changed by an urgent call that comes later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    /// use tollgate_tokio::WaitUpTo;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["api=sliding-log:1/20ms"])?;
    /// let call = || limiter.check("api").wait_up_to(Duration::from_secs(5));
    /// call().await?;
    /// tokio::select! {
    ///     biased;
    ///     _ = call().urgency(7).into_future() => panic!("the urgent call is admitted first"),
    ///     admitted = call().urgency(0).into_future() => assert!(admitted.is_ok()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn urgency(mut self, urgency: u8) -> Self {
        self.class.set_urgency(urgency);
        self
    }

    /// Sets how many calls may wait for the key, or for the same [keys](Self#several-keys), in this process: if
    /// there are that many already, this one is refused at once. The default is 100,000, which take about 130 MB.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_memory::{MemoryStore, RateLimiter};
    /// use tollgate_tokio::WaitUpTo;
    /// use tollgate_tokio::wait::WaitError;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = RateLimiter::new(MemoryStore::new(), ["mail=gcra:1/1m"])?;
    /// let call = || limiter.check("alice").wait_up_to(Duration::from_secs(300)).most_waiting(1);
    /// call().await?;
    /// let waiting = tokio::time::timeout(Duration::from_millis(10), call());
    /// let beside = async { call().await };
    /// let (_, refused) = tokio::join!(waiting, beside);
    /// assert!(matches!(refused, Err(WaitError::TooManyWaiting { most: 1 })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn most_waiting(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }
}

/// Shows no key.
impl<S> fmt::Debug for Waiting<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("limiter", &self.limiter)
            .field("cost", &self.asked.as_ref().map(|(_, cost)| cost))
            .field("longest", &self.longest)
            .field("most", &self.most)
            .field("urgency", &self.class.urgency())
            .finish_non_exhaustive()
    }
}

impl<'l, S: Store + 'static> IntoFuture for Waiting<'l, S> {
    type Output = Result<Admitted<'l>, WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'l>>;

    fn into_future(self) -> Self::IntoFuture {
        let limiter = self.limiter;
        Box::pin(async move {
            let (keys, cost) = self.asked?;
            let caller = Caller::new(limiter.clone(), keys, cost, self.class);
            let patience = Patience::new(self.longest, self.most);
            let verdicts = wait(caller, patience).await?;
            Ok(Admitted(limiter.decision(verdicts)?))
        })
    }
}

/// Waits until the call of `caller` is admitted.
pub(crate) async fn wait<S: Store + 'static>(
    caller: Arc<Caller<S>>,
    patience: Patience,
) -> Result<Verdicts, WaitError> {
    if caller.cost().are_zero() {
        // It consumes nothing, and is always allowed.
        return Ok(caller.decide(Operation::Consume).await?);
    }
    Ok(stand_in_line(&caller, patience).await?.verdicts)
}

/// Waits for the caller's turn among those that wait for the same key, and until it is admitted. Its
/// cost is not zero.
pub(crate) async fn stand_in_line<S: Store + 'static>(
    caller: &Arc<Caller<S>>,
    patience: Patience,
) -> Result<Start, WaitError> {
    let lines = caller.limiter().companion(Shared::default);
    let place = lines.enter(caller, patience)?;
    loop {
        match place.turn() {
            Turn::Ask(operation) => {
                let asking = place.ask(operation);
                let sent = Sent::new(caller.runtime(), asking, || place.leave());
                if let Some(start) = sent.await? {
                    return Ok(start);
                }
            }
            Turn::Wait(until) => place.wait(until).await,
            Turn::Admitted(start) => return Ok(start),
            Turn::TooLong(refused) => return Err(refused.into()),
            Turn::Gone => return Err(lost_place().into()),
        }
    }
}

fn lost_place() -> StoreError {
    StoreError::new(
        ErrorKind::Protocol,
        "a call that waits has lost its place: this is a bug in tollgate-tokio",
    )
}

/// A call that was admitted after it had waited, if it had to.
///
/// It need not be read.
#[derive(Debug, Eq, PartialEq)]
pub struct Admitted<'l>(Decision<'l>);

impl<'l> Admitted<'l> {
    /// Returns the decision, which is always allowed.
    pub fn decision(&self) -> &Decision<'l> {
        &self.0
    }

    /// Returns the receipt that a refund needs, or `None` if nothing was consumed.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.0.into_receipt()
    }

    /// Returns the verdicts without the limits; they borrow nothing.
    pub fn into_verdicts(self) -> Verdicts {
        self.0.into_verdicts()
    }
}
