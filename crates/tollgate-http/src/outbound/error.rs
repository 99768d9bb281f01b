//! `OutboundRequestError`: why a request has no response.

use std::error::Error;
use std::fmt;

use tollgate_tokio::wait::WaitError;

/// The error of a request that has no response.
#[derive(Debug)]
#[non_exhaustive]
pub enum OutboundRequestError<E> {
    /// The request was not sent: its permit would come too late, or the store failed.
    NotAdmitted(WaitError),
    /// The client failed.
    Client(E),
}

impl<E: fmt::Display> fmt::Display for OutboundRequestError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAdmitted(error) => error.fmt(f),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for OutboundRequestError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotAdmitted(error) => error.source(),
            Self::Client(error) => error.source(),
        }
    }
}

impl<E> From<WaitError> for OutboundRequestError<E> {
    fn from(error: WaitError) -> Self {
        Self::NotAdmitted(error)
    }
}
