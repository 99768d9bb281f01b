//! `Within`: waits until a limiter admits a call.

mod caller;
mod error;
mod forecast;
mod line;
mod place;
mod sent;
mod turns;

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{
    Call, Decision, ErrorKind, Operation, Receipt, Store, StoreError, Verdicts, inside,
};

pub(crate) use self::caller::Caller;
pub use self::error::{TooLong, WaitError};
use self::line::Turn;
use self::place::Shared;
use self::sent::{Reserved, Sent};
use crate::key::OwnedKey;

/// Makes a [check](tollgate_core::RateLimiter::check) wait until it is admitted.
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
///   [reserves](tollgate_core::RateLimiter::reserve) its start: the store puts the calls of all
///   processes in the order in which they arrive, and each makes one store call.
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
/// as far as a [refund](tollgate_core::RateLimiter::refund) can give it back: a reservation only if
/// no later call was admitted.
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
    if caller.cost() == 0 {
        // It consumes nothing, and is always allowed.
        return Ok(caller.decide(Operation::Consume).await?);
    }
    let reservation = Operation::Reserve { max_delay: longest };
    // No store supports reservations unless the algorithms of all limits have them.
    if caller.supports(reservation) {
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
        let limit = &caller.limits()[verdicts.binding()];
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
    let lines = inside::companion(caller.limiter(), Shared::default);
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
                    let limit = &caller.limits()[verdicts.binding()];
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
