//! `OutboundRequestError`: why a request has no response.

use tollgate_tokio::wait::WaitError;

/// The error of a request that has no response.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum OutboundRequestError<E> {
    /// The request was not sent: its permit would come too late, or the store failed.
    NotAdmitted(#[from] WaitError),
    /// The client failed.
    Client(E),
}
