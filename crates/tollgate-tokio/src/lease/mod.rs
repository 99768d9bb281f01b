//! What a [`LeaseGuard`](crate::LeaseGuard) is acquired with, and what can go wrong.

mod acquire;
mod error;
pub(crate) mod guard;
mod keeper;
mod line;
mod standing;

pub use acquire::{Acquire, WaitingAcquire};
pub use error::{AcquireError, LeaseLost};
