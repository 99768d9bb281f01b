//! `LeaseGuard`: a lease that renews itself.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::{
    Acquisition, ConcurrencyLimiter, ErrorKind, Key, Lease, LeaseStore, NoLease, StoreError,
};

use crate::key::OwnedKey;
use crate::random::random;

/// How often an acquisition whose reply was lost is repeated. Each repetition asks with the same
/// id, so it takes no second place.
const REPETITIONS: usize = 2;

/// A lease is renewed after this part of the time for which it is valid: one in three.
const RENEWALS: u32 = 3;

/// After a renewal failed, the next one follows after this part of that time.
const RETRIES: u32 = 20;

/// A lease that renews itself in the background, and ends when the guard is dropped.
///
/// A guard belongs to the Tokio runtime it was acquired on, whose time driver must be enabled. If
/// the process dies, or the runtime ends, the lease ends by itself after its time to live.
///
/// Dropping the guard releases the lease in the background; [`release`](Self::release) waits for
/// it.
///
/// # Examples
///
/// See the [crate].
#[must_use = "dropping a guard releases its lease"]
pub struct LeaseGuard {
    lease: Lease,
    standing: watch::Receiver<Standing>,
    /// Asks the background task to release the lease; dropping this does so, too.
    stop: oneshot::Sender<oneshot::Sender<Result<bool, StoreError>>>,
}

/// Whether the lease is held.
#[derive(Clone, Copy, Debug)]
enum Standing {
    /// Until this instant.
    Held(Instant),
    Lost,
}

impl Standing {
    /// Returns whether the lease is certainly held, now.
    ///
    /// Reads the clock, so call it while the standing is borrowed: then everybody agrees on whether
    /// a renewal came in time.
    fn is_held(self) -> bool {
        match self {
            Self::Held(deadline) => Instant::now() < deadline,
            Self::Lost => false,
        }
    }
}

/// A lease was lost: it could not be renewed in time, or was ended by a reset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LeaseLost;

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the lease was lost: it was not renewed in time, or it was reset; acquire a new one \
             and start over",
        )
    }
}

impl Error for LeaseLost {}

impl LeaseGuard {
    /// Acquires a lease for `key`, with a random id.
    ///
    /// Awaiting it returns the guard, or [`NoLease`] if there is no room.
    ///
    /// # Errors
    ///
    /// Awaiting returns the store's errors. An acquisition whose outcome is unknown is repeated
    /// with the same id. If its outcome stays unknown, a place may be taken for a time to live.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, a place may be taken for a time to live.
    pub fn acquire<'l, 'k, S>(
        limiter: &'l ConcurrencyLimiter<S>,
        key: impl Into<Key<'k>>,
    ) -> Acquire<'l, 'k, S> {
        Acquire {
            limiter,
            key: key.into(),
            weight: 1,
        }
    }

    /// Returns the lease as it was acquired.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns the fencing token, for what the lease protects: see [`Lease::token`].
    #[must_use]
    pub fn token(&self) -> u64 {
        self.lease.token()
    }

    /// Returns whether the lease is certainly still held, now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        // Renewals happen in the background: a task that was not run in time may be late to tell.
        let standing = self.standing.borrow();
        standing.is_held()
    }

    /// Returns until when the lease is certainly held without another renewal, or `None` if it was
    /// lost.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match *self.standing.borrow() {
            Standing::Held(deadline) => Some(deadline),
            Standing::Lost => None,
        }
    }

    /// Waits until the lease is lost, or is no longer [certainly held](Self::is_held). Afterwards the
    /// guard never holds it again: a renewal that succeeds too late is given back.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped before it completes.
    pub async fn lost(&self) {
        let mut standing = self.standing.clone();
        // An error means that the background task has ended with its runtime.
        let mut told = pin!(standing.wait_for(|standing| matches!(standing, Standing::Lost)));
        poll_fn(|context| {
            // The background task may not have run since the deadline.
            if self.is_held() {
                told.as_mut().poll(context).map(drop)
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// Runs `work` until it is done, or drops it once the lease is lost.
    ///
    /// `work` is polled only while the lease is [certainly held](Self::is_held). A poll cannot be
    /// interrupted: work that blocks its thread goes on past the loss, and its result is dropped.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the lease was lost before `work` was done.
    pub async fn protect<T>(&self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        let mut lost = pin!(self.lost());
        let mut work = pin!(work);
        poll_fn(|context| {
            if lost.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(LeaseLost));
            }
            let done = work.as_mut().poll(context);
            done.map(|done| {
                if self.is_held() {
                    Ok(done)
                } else {
                    Err(LeaseLost)
                }
            })
        })
        .await
    }

    /// Releases the lease, and returns whether it was still held.
    ///
    /// # Errors
    ///
    /// The store's errors, and [`ErrorKind::Unknown`] if the runtime of the guard ended before the
    /// store answered. The lease then ends by itself after its time to live.
    pub async fn release(self) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        let _ = self.stop.send(answer);
        match answered.await {
            Ok(released) => released,
            // The background task ends by itself only once the lease is lost.
            Err(_) if matches!(*self.standing.borrow(), Standing::Lost) => Ok(false),
            Err(_) => Err(StoreError::new(
                ErrorKind::Unknown,
                "the runtime ended before the store answered: the lease is released, or ends by \
                 itself after its time to live",
            )),
        }
    }
}

impl fmt::Debug for LeaseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard")
            .field("lease", &self.lease)
            .field("standing", &*self.standing.borrow())
            .finish_non_exhaustive()
    }
}

/// A pending acquisition of a [`LeaseGuard`], to be awaited.
#[must_use = "an acquisition does nothing until it is awaited"]
pub struct Acquire<'l, 'k, S> {
    limiter: &'l ConcurrencyLimiter<S>,
    key: Key<'k>,
    weight: u64,
}

impl<S> Acquire<'_, '_, S> {
    /// Sets the weight, 1 by default: how much of the amount the lease takes.
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }
}

impl<S> fmt::Debug for Acquire<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("limiter", &self.limiter.terms().name())
            .field("key", &self.key)
            .field("weight", &self.weight)
            .finish()
    }
}

/// The future of an acquisition: the guard, or why there is no lease, or the store's error.
type Acquiring<'k> =
    Pin<Box<dyn Future<Output = Result<Result<LeaseGuard, NoLease>, StoreError>> + Send + 'k>>;

impl<'l: 'k, 'k, S: LeaseStore + 'static> IntoFuture for Acquire<'l, 'k, S> {
    type Output = Result<Result<LeaseGuard, NoLease>, StoreError>;
    type IntoFuture = Acquiring<'k>;

    fn into_future(self) -> Acquiring<'k> {
        Box::pin(async move {
            let id = random_id();
            let mut left = REPETITIONS;
            loop {
                let asked = Instant::now();
                let call = self.limiter.acquire(self.key, &id).weight(self.weight);
                match call.await {
                    Ok(Acquisition::Granted { lease, .. }) => {
                        let limiter = self.limiter.clone();
                        return Ok(Ok(hold(limiter, self.key, lease, asked)));
                    }
                    Ok(Acquisition::Denied(denied)) => return Ok(Err(denied)),
                    Err(error) if error.kind() == ErrorKind::Unknown && left > 0 => left -= 1,
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

/// Returns an id that no other acquisition uses: 128 random bits in hexadecimal digits.
fn random_id() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// Starts the background task of a lease that was asked for at `asked`.
fn hold<S: LeaseStore + 'static>(
    limiter: ConcurrencyLimiter<S>,
    key: Key<'_>,
    lease: Lease,
    asked: Instant,
) -> LeaseGuard {
    let (standing, observed) = watch::channel(Standing::Held(asked + lease.valid_for()));
    let (stop, stopped) = oneshot::channel();
    let keeper = Keeper {
        limiter,
        key: key.into(),
        lease: lease.clone(),
        standing,
    };
    tokio::spawn(keeper.run(asked, stopped));
    LeaseGuard {
        lease,
        standing: observed,
        stop,
    }
}

/// The background task that renews a lease.
struct Keeper<S> {
    limiter: ConcurrencyLimiter<S>,
    key: OwnedKey,
    lease: Lease,
    standing: watch::Sender<Standing>,
}

/// The result of trying to renew a lease until it ends.
enum Renewal {
    /// The lease is valid for this long from when it was asked for.
    Renewed(Instant, Duration),
    Lost,
}

impl<S: LeaseStore> Keeper<S> {
    fn key(&self) -> Key<'_> {
        self.key.as_key()
    }

    /// Renews the lease until the guard is dropped or released, or the lease is lost.
    async fn run(
        self,
        mut asked: Instant,
        mut stopped: oneshot::Receiver<oneshot::Sender<Result<bool, StoreError>>>,
    ) {
        let mut valid_for = self.lease.valid_for();
        loop {
            let renewal = tokio::select! {
                biased;
                answer = &mut stopped => {
                    let released = self.limiter.release(self.key(), &self.lease).await;
                    if let Ok(answer) = answer {
                        // Nobody may be waiting any more.
                        let _ = answer.send(released);
                    }
                    return;
                }
                renewal = self.renew(asked, valid_for) => renewal,
            };
            match renewal {
                Renewal::Renewed(at, lasts) => {
                    if !self.prolong(at + lasts) {
                        // It would keep a place that nobody believes to have. If it cannot be
                        // given back, it ends by itself.
                        let _ = self.limiter.release(self.key(), &self.lease).await;
                        return;
                    }
                    (asked, valid_for) = (at, lasts);
                }
                Renewal::Lost => {
                    self.standing.send_replace(Standing::Lost);
                    return;
                }
            }
        }
    }

    /// Holds the lease until `deadline`, and returns whether the renewal came in time: if not, the
    /// lease is lost, because somebody may have been told so.
    fn prolong(&self, deadline: Instant) -> bool {
        let in_time = self.standing.send_if_modified(|standing| {
            let is_held = standing.is_held();
            if is_held {
                *standing = Standing::Held(deadline);
            }
            is_held
        });
        if !in_time {
            self.standing.send_replace(Standing::Lost);
        }
        in_time
    }

    /// Waits until a part of the time has passed, and then tries to renew the lease until it ends.
    async fn renew(&self, asked: Instant, valid_for: Duration) -> Renewal {
        let deadline = asked + valid_for;
        let mut next = asked + valid_for / RENEWALS;
        let renewal = async {
            loop {
                sleep_until(next).await;
                let asked = Instant::now();
                if asked >= deadline {
                    // This task was not run in time.
                    return Renewal::Lost;
                }
                match self.limiter.renew(self.key(), &self.lease).await {
                    Ok(Some(lease)) => return Renewal::Renewed(asked, lease.valid_for()),
                    Ok(None) => return Renewal::Lost,
                    Err(_) => next = Instant::now() + valid_for / RETRIES,
                }
            }
        };
        timeout_at(deadline, renewal).await.unwrap_or(Renewal::Lost)
    }
}
