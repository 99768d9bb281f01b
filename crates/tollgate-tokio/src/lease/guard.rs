//! `LeaseGuard`: a lease that renews itself.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tollgate_core::lease::{ConcurrencyLimiter, Lease};
use tollgate_core::{ErrorKind, Key, StoreError};

use super::acquire::Acquire;
use super::error::LeaseLost;
use super::keeper::{Handover, Stop};
use super::standing::Standing;

/// A lease that renews itself in the background, and ends when the guard is dropped.
///
/// A guard belongs to the Tokio runtime it was acquired on, whose time driver must be enabled. If
/// the process dies, or the runtime ends, the lease ends by itself after its time to live.
///
/// Dropping the guard releases the lease in the background; [`release`](Self::release) waits for
/// it.
///
/// While a machine is suspended, or a virtual machine is stopped or moved, its monotonic clock may
/// stand still: on Linux it does. After it wakes up, the guard believes to hold its lease for the
/// time that was left, although the store may have ended it long ago and granted the place to
/// another. Only the fencing token, [`token`](Self::token), protects from that.
///
/// # Examples
///
/// See the [crate].
#[must_use = "dropping a guard releases its lease"]
pub struct LeaseGuard {
    pub(super) lease: Lease,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) stop: Option<Stop>,
    pub(super) handover: Arc<Handover>,
}

impl LeaseGuard {
    /// Acquires a lease for `key`, with a random id.
    ///
    /// Awaiting it returns the guard, or [`NoLease`](tollgate_core::lease::NoLease) if there is no room.
    /// [`Acquire::wait_up_to`] waits for room.
    ///
    /// If guards of the same limiter or its clones have been dropped for this key, the acquisition
    /// waits until their leases are released.
    ///
    /// # Errors
    ///
    /// Awaiting returns the store's errors. An acquisition whose outcome is unknown is repeated
    /// with the same id. If its outcome stays unknown, a place may be taken for a time to live.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, a lease that the store grants nevertheless is
    /// released.
    pub fn acquire<'l, 'k, S>(
        limiter: &'l ConcurrencyLimiter<S>,
        key: impl Into<Key<'k>>,
    ) -> Acquire<'l, 'k, S> {
        Acquire::new(limiter, key.into())
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
    pub async fn release(mut self) -> Result<bool, StoreError> {
        self.handover.begin();
        let (answer, answered) = oneshot::channel();
        if let Some(stop) = self.stop.take() {
            // The background task may have ended.
            let _ = stop.send(answer);
        }
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

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        // Before `stop` is dropped, so that whoever acquires the next lease waits for the release.
        self.handover.begin();
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
