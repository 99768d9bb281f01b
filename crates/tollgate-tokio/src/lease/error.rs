//! `LeaseLost` and `AcquireError`: why a lease is not, or no longer, held.

use tollgate_core::StoreError;
use tollgate_core::lease::NoLease;

/// A lease was lost: it could not be renewed in time, or was ended by a reset.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the lease was lost: it was not renewed in time, or it was reset; acquire a new one and start over"
)]
#[non_exhaustive]
pub struct LeaseLost;

/// Why an acquisition that waits, [`WaitingAcquire`](crate::lease::WaitingAcquire), got no lease.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// There was no room until the time was over, or the weight never fits. This is the latest
    /// denial of the key.
    #[error(transparent)]
    Denied(#[from] NoLease),
    /// As many as may wait for this key in this process were waiting already. The store was not
    /// asked.
    #[error(
        "{most} acquisitions wait for a lease of this key already: try again later, or let more of \
         them wait with `most_waiting`"
    )]
    TooManyWaiting {
        /// How many may wait.
        most: usize,
    },
    /// The store failed. Its [kind](StoreError::kind) says whether a place may be taken, for a time
    /// to live.
    #[error(transparent)]
    Store(#[from] StoreError),
}
