//! `LeaseLost` and `AcquireError`: why a lease is not, or no longer, held.

use std::error::Error;
use std::fmt;

use tollgate_core::StoreError;
use tollgate_core::lease::NoLease;

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

/// Why an acquisition that waits, [`WaitingAcquire`](crate::lease::WaitingAcquire), got no lease.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// There was no room until the time was over, or the weight never fits. This is the latest
    /// denial of the key.
    Denied(NoLease),
    /// As many as may wait for this key in this process were waiting already. The store was not
    /// asked.
    TooManyWaiting {
        /// How many may wait.
        most: usize,
    },
    /// The store failed. Its [kind](StoreError::kind) says whether a place may be taken, for a time
    /// to live.
    Store(StoreError),
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denied) => denied.fmt(f),
            Self::TooManyWaiting { most } => write!(
                f,
                "{most} acquisitions wait for a lease of this key already: try again later, or let \
                 more of them wait with `most_waiting`"
            ),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied(_) | Self::TooManyWaiting { .. } => None,
            Self::Store(error) => error.source(),
        }
    }
}

impl From<NoLease> for AcquireError {
    fn from(denied: NoLease) -> Self {
        Self::Denied(denied)
    }
}

impl From<StoreError> for AcquireError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
