//! `Request`: one operation on the leases of a key, as data for a store.

use std::fmt;

use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::lease::terms::Terms;
use crate::time::Timestamp;

/// The longest id of a lease, in bytes.
pub const LONGEST_ID: usize = 200;

/// What a request does with the leases of a key.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Acquires a lease with this id, or returns the one that is held with it.
    Acquire {
        /// The id of the lease.
        id: &'a [u8],
        /// How much of the amount it takes.
        weight: u64,
    },
    /// Makes the lease with this id and token end later.
    Renew {
        /// The id of the lease.
        id: &'a [u8],
        /// Its token.
        token: u64,
    },
    /// Ends the lease with this id and token.
    Release {
        /// The id of the lease.
        id: &'a [u8],
        /// Its token.
        token: u64,
    },
    /// Tells how much is held.
    Peek,
}

/// Shows the length of the id only: it may be a secret.
impl fmt::Debug for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire { id, weight } => write!(f, "Acquire({} bytes, {weight})", id.len()),
            Self::Renew { id, token } => write!(f, "Renew({} bytes, {token})", id.len()),
            Self::Release { id, token } => write!(f, "Release({} bytes, {token})", id.len()),
            Self::Peek => f.write_str("Peek"),
        }
    }
}

/// One operation on the leases of a key.
///
/// [`ConcurrencyLimiter`](crate::lease::ConcurrencyLimiter) makes these; a
/// [`Store`](crate::lease::Store) decides them.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    terms: &'a Terms,
    key: Key<'a>,
    operation: Operation<'a>,
    at: Option<Timestamp>,
}

impl<'a> Request<'a> {
    /// Returns a request to apply `operation` to the leases of `key`.
    #[must_use]
    pub fn new(terms: &'a Terms, key: impl Into<Key<'a>>, operation: Operation<'a>) -> Self {
        Self {
            terms,
            key: key.into(),
            operation,
            at: None,
        }
    }

    /// Sets the instant to decide at, instead of the store's own clock: see
    /// [`Request::at`](crate::store::Request::at).
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Returns the name, the amount and the time to live.
    #[must_use]
    pub fn terms(&self) -> &'a Terms {
        self.terms
    }

    /// Returns the key whose leases this is about.
    #[must_use]
    pub fn key(&self) -> Key<'a> {
        self.key
    }

    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> Operation<'a> {
        self.operation
    }

    pub(super) fn operation_mut(&mut self) -> &mut Operation<'a> {
        &mut self.operation
    }

    /// Returns the caller's instant, or `None` to use the store's clock.
    #[must_use]
    pub fn caller_time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns an error if this request is not valid. Stores call this before they decide.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when the id is empty or longer than [`LONGEST_ID`] bytes, or
    /// when the weight is zero.
    pub fn validate(&self) -> Result<(), StoreError> {
        let (id, weight) = match self.operation {
            Operation::Acquire { id, weight } => (id, weight),
            Operation::Renew { id, .. } | Operation::Release { id, .. } => (id, 1),
            Operation::Peek => return Ok(()),
        };
        let malformed = |message: String| Err(StoreError::new(ErrorKind::Malformed, message));
        if !(1..=LONGEST_ID).contains(&id.len()) {
            return malformed(format!(
                "a lease's id has {} bytes: use 1 to {LONGEST_ID}",
                id.len()
            ));
        }
        if weight == 0 {
            return malformed("a lease of weight 0 holds nothing: use at least 1".to_owned());
        }
        Ok(())
    }
}
