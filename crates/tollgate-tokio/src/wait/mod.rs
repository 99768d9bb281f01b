//! `Within`: waits until a limiter admits a call.

mod forecast;
mod line;
mod place;
mod sent;

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_core::{
    Call, Check, Decision, ErrorKind, Key, Limit, Operation, RateLimiter, Receipt, Request,
    SettleError, Store, StoreError, Verdicts, Wait, inside,
};

use self::line::{Asker, Turn};
use self::place::Shared;
use self::sent::{Reserved, Sent};
use crate::key::OwnedKey;

/// Makes a [check](RateLimiter::check) wait until it is admitted.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_memory::{MemoryStore, RateLimiter};
/// use tollgate_tokio::{WaitError, Within};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = RateLimiter::new(MemoryStore::new(), ["mail=sliding-log:2/100ms"])?;
/// for _ in 0..6 {
///     limiter.check("alice").within(Duration::from_secs(5)).await?;
///     // Send a mail.
/// }
///
/// // It would have to wait for longer than this, so it is refused at once.
/// let refused = limiter.check("alice").within(Duration::from_millis(1)).await;
/// assert!(matches!(refused, Err(WaitError::TooLong(_))));
/// # Ok(())
/// # }
/// ```
pub trait Within {
    /// The pending call.
    type Waiting;

    /// Waits until the call is admitted, for at most `longest`.
    ///
    /// If it is clear that it would take longer, the call is refused at once and consumes nothing.
    fn within(self, longest: Duration) -> Self::Waiting;
}

impl<'l, 'k, S> Within for Call<'l, 'k, S> {
    type Waiting = Waiting<'l, 'k, S>;

    fn within(self, longest: Duration) -> Waiting<'l, 'k, S> {
        Waiting {
            call: self,
            longest,
        }
    }
}

/// A check that waits until it is admitted, made by [`Within::within`], to be awaited.
///
/// # Order
///
/// - If every limit is [`Gcra`](tollgate_core::algorithm::Gcra), each call
///   [reserves](RateLimiter::reserve) its start: the store puts the calls of all processes in the
///   order in which they arrive, and each makes one store call.
/// - Otherwise the calls for one key, of one limiter and its clones, stand in line: the first asks
///   the store, and the others wait for their turn. Of several processes, the first in each line
///   compete.
///
/// # Errors
///
/// [`WaitError::TooLong`] if the wait would exceed the time given, and the store's errors.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, what it consumed is given back in the background,
/// as far as a [refund](RateLimiter::refund) can give it back: a reservation only if no later call
/// was admitted.
#[must_use = "a call does nothing until it is awaited"]
pub struct Waiting<'l, 'k, S> {
    call: Call<'l, 'k, S>,
    longest: Duration,
}

impl<S> fmt::Debug for Waiting<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("call", &self.call)
            .field("longest", &self.longest)
            .finish()
    }
}

impl<'l, S: Store + 'static> IntoFuture for Waiting<'l, '_, S> {
    type Output = Result<Admitted<'l>, WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'l>>;

    fn into_future(self) -> Self::IntoFuture {
        let parts = inside::parts(self.call);
        let error = refusal(parts.operation, parts.at.is_some(), parts.id.is_some());
        let (limiter, key, cost) = (parts.limiter, OwnedKey::from(parts.key), parts.cost);
        Box::pin(async move {
            if let Some(error) = error {
                return Err(error.into());
            }
            let caller = Caller::new(limiter.clone(), key, cost);
            let verdicts = wait(caller, self.longest).await?;
            Ok(Admitted(inside::decision(limiter.limits(), verdicts)?))
        })
    }
}

/// Returns the error of a call that cannot wait.
fn refusal(operation: Operation<'_>, has_instant: bool, has_id: bool) -> Option<StoreError> {
    let message = match operation {
        Operation::Consume if has_instant => {
            "a call that waits is decided at the store's clock: leave out `at`"
        }
        Operation::Consume if has_id => {
            "a call that waits may ask more than once: leave out `id`, or `within`"
        }
        Operation::Consume => return None,
        _ => "only a check can wait: use `check` with `within`",
    };
    Some(StoreError::new(ErrorKind::Malformed, message))
}

/// Waits until the call of `caller` is admitted, for at most `longest`.
pub(crate) async fn wait<S: Store + 'static>(
    caller: Arc<Caller<S>>,
    longest: Duration,
) -> Result<Verdicts, WaitError> {
    if caller.cost == 0 {
        // It consumes nothing, and is always allowed.
        return Ok(caller.decide(Operation::Consume).await?);
    }
    let reservation = Operation::Reserve { max_delay: longest };
    let store = caller.limiter.store();
    // No store supports reservations unless the algorithms of all limits have them.
    if store.supports(&caller.request(reservation, caller.cost)) {
        reserve(&caller, reservation, longest).await
    } else {
        Ok(stand_in_line(&caller, longest).await?.0)
    }
}

/// Reserves a start within `longest`, and waits for it.
async fn reserve<S: Store + 'static>(
    caller: &Arc<Caller<S>>,
    reservation: Operation<'static>,
    longest: Duration,
) -> Result<Verdicts, WaitError> {
    let asking = Arc::clone(caller);
    let sent = async move { asking.decide(reservation).await };
    let verdicts = Sent::new(caller, sent).await?;
    if verdicts.is_denied() {
        let beyond = verdicts.retry_after().duration();
        let wait = beyond.and_then(|beyond| beyond.checked_add(longest));
        let limit = caller.limit(verdicts.binding());
        return Err(TooLong::new(limit, wait, longest).into());
    }
    if verdicts.delay().is_zero() {
        return Ok(verdicts);
    }
    Ok(Reserved::new(caller, verdicts).await)
}

/// Waits for the caller's turn among those that wait for the same key, and until it is admitted.
/// Returns also when the store was asked for that.
pub(crate) async fn stand_in_line<S: Store + 'static>(
    caller: &Arc<Caller<S>>,
    longest: Duration,
) -> Result<(Verdicts, Instant), WaitError> {
    let lines = inside::companion(&caller.limiter, Shared::default);
    let lines = lines.ok_or_else(foreign_companion)?;
    let place = lines.0.enter(caller, longest)?;
    loop {
        match place.turn() {
            Turn::Ask => {
                let asked = Instant::now();
                let verdicts = Sent::new(caller, place.ask()).await?;
                if verdicts.is_allowed() {
                    return Ok((verdicts, asked));
                }
                if verdicts.retry_after().is_never() {
                    let limit = caller.limit(verdicts.binding());
                    return Err(TooLong::new(limit, None, longest).into());
                }
            }
            Turn::Wait(until) => place.wait(until).await,
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

fn foreign_companion() -> StoreError {
    StoreError::new(
        ErrorKind::Misconfigured,
        "another version of tollgate-tokio has used this limiter: use one version in the program",
    )
}

/// A call that may outlive the future that made it.
pub(crate) struct Caller<S> {
    limiter: RateLimiter<S>,
    key: OwnedKey,
    cost: u64,
    /// Where calls are completed whose callers have gone.
    runtime: Handle,
}

impl<S: Store + 'static> Caller<S> {
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    pub(crate) fn new(limiter: RateLimiter<S>, key: OwnedKey, cost: u64) -> Arc<Self> {
        Arc::new(Self {
            limiter,
            key,
            cost,
            runtime: Handle::current(),
        })
    }

    pub(crate) fn key(&self) -> Key<'_> {
        self.key.as_key()
    }

    pub(crate) fn limits(&self) -> &[Limit] {
        self.limiter.limits()
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) async fn decide(
        &self,
        operation: Operation<'static>,
    ) -> Result<Verdicts, StoreError> {
        let request = self.request(operation, self.cost);
        let verdicts = self.limiter.store().decide(request).await?;
        // Checks the number of verdicts.
        Ok(inside::decision(self.limiter.limits(), verdicts)?.into_verdicts())
    }

    /// Gives back what `verdicts` consumed.
    async fn give_back(&self, verdicts: Verdicts) {
        // If it fails, the call stays counted: nobody is there to retry.
        let _ = self.refund(verdicts).await;
    }

    /// Does the same in a task of its own.
    pub(crate) fn give_back_in_background(self: &Arc<Self>, verdicts: Verdicts) -> JoinHandle<()> {
        let caller = Arc::clone(self);
        self.runtime
            .spawn(async move { caller.give_back(verdicts).await })
    }

    /// Gives back what `verdicts` consumed.
    pub(crate) async fn refund(&self, verdicts: Verdicts) -> Result<(), SettleError> {
        let Some(receipt) = verdicts.into_receipt() else {
            return Ok(());
        };
        let refunded = self.limiter.refund(self.key.as_key(), receipt).await;
        refunded.map(|_| ())
    }

    /// Makes `cost` what `verdicts` consumed.
    pub(crate) async fn settle(&self, verdicts: Verdicts, cost: u64) -> Result<(), SettleError> {
        let Some(receipt) = verdicts.into_receipt() else {
            return Ok(());
        };
        let settled = self.limiter.settle(self.key.as_key(), receipt, cost).await;
        settled.map(|_| ())
    }
}

impl<S> Asker for Caller<S> {
    fn request(&self, operation: Operation<'static>, cost: u64) -> Request<'_> {
        let limits = 0..self.limiter.limits().len();
        Request::new(operation, limits.map(|index| self.check(index, cost)))
    }

    fn check(&self, index: usize, cost: u64) -> Check<'_> {
        Check::new(self.limit(index), self.key.as_key(), cost)
    }

    fn limit(&self, index: usize) -> &Limit {
        &self.limiter.limits()[index]
    }
}

/// A call that was admitted after it had waited, if it had to.
///
/// It need not be read. It dereferences to the [`Decision`], which is always allowed.
#[derive(Debug, Eq, PartialEq)]
pub struct Admitted<'l>(Decision<'l>);

impl Admitted<'_> {
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

impl<'l> Deref for Admitted<'l> {
    type Target = Decision<'l>;

    fn deref(&self) -> &Decision<'l> {
        &self.0
    }
}

/// The error of a call that waits.
#[derive(Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The wait would be longer than the time given. Nothing was consumed.
    TooLong(TooLong),
    /// The store failed. Its [kind](StoreError::kind) says whether anything may have been consumed.
    Store(StoreError),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(refused) => refused.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Error for WaitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooLong(_) => None,
            Self::Store(error) => error.source(),
        }
    }
}

impl From<TooLong> for WaitError {
    fn from(refused: TooLong) -> Self {
        Self::TooLong(refused)
    }
}

impl From<StoreError> for WaitError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A call was refused, because it would have waited for longer than the time given.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TooLong {
    limit: Limit,
    wait: Wait,
    longest: Duration,
}

impl TooLong {
    /// `wait` is `None` if it never ends.
    fn new(limit: &Limit, wait: Option<Duration>, longest: Duration) -> Self {
        let micros = wait.and_then(|wait| u64::try_from(wait.as_micros()).ok());
        Self {
            limit: limit.clone(),
            wait: micros.map_or(Wait::NEVER, Wait::from_micros),
            longest,
        }
    }

    /// Returns the limit with the longest wait.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns how long the call would have waited since it was made, in all:
    /// [`Wait::NEVER`] if its cost exceeds a limit's capacity.
    ///
    /// It is exact if all calls for the key go through one limiter and its clones, and none of them
    /// is given back. Other processes make it longer.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// Returns by how much that exceeds the time given.
    #[must_use]
    pub fn excess(&self) -> Wait {
        match self.wait.duration() {
            Some(wait) => {
                let excess = wait.saturating_sub(self.longest).as_micros();
                Wait::from_micros(u64::try_from(excess).unwrap_or(u64::MAX))
            }
            None => Wait::NEVER,
        }
    }
}

/// Writes ``limit `mail`: would wait 2.5s, but may wait 1s``.
impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.limit.name();
        match self.wait.duration() {
            Some(wait) => write!(
                f,
                "limit `{name}`: would wait {wait:?}, but may wait {:?}",
                self.longest
            ),
            None => write!(
                f,
                "limit `{name}`: never allowed, because the cost exceeds the capacity of {}",
                self.limit.algorithm().capacity()
            ),
        }
    }
}

impl Error for TooLong {}
