//! `Acquire` and `WaitingAcquire`: pending acquisitions of a `LeaseGuard`.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::lease::{self, Acquisition, ConcurrencyLimiter, NoLease};
use tollgate_core::{ErrorKind, Key, StoreError};

use super::error::AcquireError;
use super::guard::LeaseGuard;
use super::keeper::hold;
use super::line::{Lines, Place};
use crate::key::OwnedKey;
use crate::queue::Class;
use crate::random::random;

/// How often an acquisition whose reply was lost is repeated. Each repetition asks with the same
/// id, so it takes no second place.
const REPETITIONS: usize = 2;

/// How many acquisitions may wait for one key, unless the caller sets another bound.
const MOST_WAITING: usize = 100_000;

/// The first in line asks at least this often: other processes release leases, too.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// It asks no more often than that, unless a lease was released: as exact as Tokio's timers.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Longer waits are as good as endless.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// A pending acquisition of a [`LeaseGuard`], to be awaited.
#[must_use = "an acquisition does nothing until it is awaited"]
pub struct Acquire<'l, 'k, S> {
    limiter: &'l ConcurrencyLimiter<S>,
    key: Key<'k>,
    weight: u64,
}

impl<'l, 'k, S> Acquire<'l, 'k, S> {
    pub(super) fn new(limiter: &'l ConcurrencyLimiter<S>, key: Key<'k>) -> Self {
        Self {
            limiter,
            key,
            weight: 1,
        }
    }

    /// Sets the weight, 1 by default: how much of the amount the lease takes.
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// Waits up to `longest` for the lease, in line with all others that wait for this key through
    /// this limiter and its clones: first come, first served, also if the first one's weight is
    /// large and the next one's would fit, unless they set a [`flow`](WaitingAcquire::flow) or an
    /// [`urgency`](WaitingAcquire::urgency).
    ///
    /// Only the first in line asks the store: at once, as soon as a lease of the key is released in
    /// this process, when leases may have ended by themselves, and at least once a second.
    /// [`LeaseGuard::acquire`] without a time to wait does not stand in line.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_memory::lease::ConcurrencyLimiter;
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::LeaseGuard;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ttl = Duration::from_secs(30);
    /// let uploads = ConcurrencyLimiter::new(MemoryStore::new(), "uploads", 1, ttl)?;
    /// let first = LeaseGuard::acquire(&uploads, "alice").await??;
    /// tokio::spawn(async move {
    ///     tokio::time::sleep(Duration::from_millis(5)).await;
    ///     drop(first);
    /// });
    /// let second = LeaseGuard::acquire(&uploads, "alice").wait_up_to(ttl).await?;
    /// assert!(second.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_up_to(self, longest: Duration) -> WaitingAcquire<'l, 'k, S> {
        WaitingAcquire {
            acquire: self,
            longest,
            most: MOST_WAITING,
            class: Class::default(),
        }
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
type Acquiring<'k> = Pin<Box<dyn Future<Output = Asked> + Send + 'k>>;

/// The result of asking the store.
type Asked = Result<Result<LeaseGuard, NoLease>, StoreError>;

impl<'l: 'k, 'k, S: lease::Store + 'static> IntoFuture for Acquire<'l, 'k, S> {
    type Output = Asked;
    type IntoFuture = Acquiring<'k>;

    fn into_future(self) -> Acquiring<'k> {
        Box::pin(async move {
            let asker = Asker::new(&self);
            if let Some(releases) = asker.lines.releases(&asker.key) {
                // An error means the same: none is left.
                let _ = releases.await;
            }
            asker.ask().await
        })
    }
}

/// A pending acquisition that waits for its turn, made by [`Acquire::wait_up_to`], to be awaited.
///
/// # Errors
///
/// Awaiting returns an [`AcquireError`]: the latest denial when the time is over or if the weight
/// exceeds the amount, at once if too many wait for the key, and the store's errors.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, it leaves the line, and the next one takes its
/// turn. A lease that the store grants nevertheless is released.
#[must_use = "an acquisition does nothing until it is awaited"]
pub struct WaitingAcquire<'l, 'k, S> {
    acquire: Acquire<'l, 'k, S>,
    longest: Duration,
    most: usize,
    class: Class,
}

impl<S> WaitingAcquire<'_, '_, S> {
    /// Puts the acquisition into a flow, such as one for each tenant, which take turns by weight: see
    /// [`Waiting::flow`](crate::wait::Waiting::flow).
    pub fn flow<'f>(mut self, flow: impl Into<Key<'f>>) -> Self {
        self.class.set_flow(flow.into());
        self
    }

    /// Sets how urgent the acquisition is, from 0 to 7: see
    /// [`Waiting::urgency`](crate::wait::Waiting::urgency).
    pub fn urgency(mut self, urgency: u8) -> Self {
        self.class.set_urgency(urgency);
        self
    }

    /// Sets how many may wait for this key through this limiter and its clones, this one included:
    /// 100,000 by default. Beyond that, this acquisition is refused at once.
    pub fn most_waiting(mut self, most: usize) -> Self {
        self.most = most;
        self
    }
}

impl<S> fmt::Debug for WaitingAcquire<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingAcquire")
            .field("acquire", &self.acquire)
            .field("longest", &self.longest)
            .field("most", &self.most)
            .field("urgency", &self.class.urgency())
            .finish()
    }
}

impl<'l: 'k, 'k, S: lease::Store + 'static> IntoFuture for WaitingAcquire<'l, 'k, S> {
    type Output = Result<LeaseGuard, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'k>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let deadline = Instant::now() + self.longest.min(FOREVER);
            let asker = Asker::new(&self.acquire);
            let most = self.most;
            let (class, weight) = (self.class, asker.weight);
            match asker.lines.enter(&asker.key, class, weight, most) {
                Some(place) => asker.wait(place, deadline).await,
                None => Err(AcquireError::TooManyWaiting { most }),
            }
        })
    }
}

/// Asks the store for a lease, with the same id each time.
struct Asker<S> {
    limiter: ConcurrencyLimiter<S>,
    lines: std::sync::Arc<Lines>,
    key: OwnedKey,
    id: String,
    weight: u64,
}

impl<S: lease::Store + 'static> Asker<S> {
    fn new(acquire: &Acquire<'_, '_, S>) -> Self {
        Self {
            limiter: acquire.limiter.clone(),
            lines: Lines::of(acquire.limiter),
            key: acquire.key.into(),
            id: random_id(),
            weight: acquire.weight,
        }
    }

    /// Asks whenever it is this one's turn and there may be room, until `deadline`.
    async fn wait(&self, place: Place, deadline: Instant) -> Result<LeaseGuard, AcquireError> {
        // When the first in line asks again, once it was denied.
        let mut next = None;
        loop {
            if let Some(denied) = place.last_denial()
                && Instant::now() >= deadline
            {
                return Err(denied.into());
            }
            if place.is_first() {
                if let Some(releases) = self.lines.releases(&self.key) {
                    let _ = timeout_at(deadline, releases).await;
                }
                match self.ask().await? {
                    Ok(guard) => {
                        place.granted();
                        return Ok(guard);
                    }
                    Err(denied) if denied.ends_within().is_never() => return Err(denied.into()),
                    Err(denied) => {
                        place.denied(denied);
                        let pause = denied.ends_within().duration().unwrap_or(LONGEST_PAUSE);
                        let pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                        next = Some(Instant::now() + pause);
                    }
                }
            } else if Instant::now() >= deadline {
                // The first in line has no answer yet.
                let guard = self.ask().await??;
                place.granted();
                return Ok(guard);
            }
            let until = next.map_or(deadline, |next| deadline.min(next));
            tokio::select! {
                () = place.woken() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Asks the store in a task of its own: if the caller leaves meanwhile, a lease that is granted
    /// is released, because nobody takes its guard.
    async fn ask(&self) -> Asked {
        let (limiter, key) = (self.limiter.clone(), self.key.clone());
        let asked = tokio::spawn(acquire(limiter, key, self.id.clone(), self.weight));
        match asked.await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(StoreError::new(
                    ErrorKind::Unknown,
                    "the runtime ended before the store answered: a place may be taken for a time to \
                     live",
                )),
            },
        }
    }
}

/// Acquires a lease and starts to keep it.
async fn acquire<S: lease::Store + 'static>(
    limiter: ConcurrencyLimiter<S>,
    key: OwnedKey,
    id: String,
    weight: u64,
) -> Asked {
    let mut left = REPETITIONS;
    loop {
        let asked = Instant::now();
        let call = limiter.acquire(key.as_key(), &id).weight(weight);
        match call.await {
            Ok(Acquisition::Granted { lease, .. }) => {
                return Ok(Ok(hold(limiter.clone(), key.clone(), lease, asked)));
            }
            Ok(Acquisition::Denied(denied)) => return Ok(Err(denied)),
            Err(error) if error.kind() == ErrorKind::Unknown && left > 0 => left -= 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns an id that no other acquisition uses: 128 random bits in hexadecimal digits.
fn random_id() -> String {
    format!("{:016x}{:016x}", random(), random())
}
