//! `SettleError`: the error of a refund or a settlement.

use std::error::Error;
use std::fmt;

use crate::error::{ErrorKind, StoreError};
use crate::store::Receipt;

/// The error of a refund or settlement, with the receipt if nothing was changed.
#[derive(Debug)]
pub struct SettleError {
    error: StoreError,
    receipt: Option<Box<Receipt>>,
}

impl SettleError {
    /// Returns the error of a refund or a settlement with `receipt`, for crates that make such calls. It
    /// keeps the receipt if an error of this kind means that nothing was changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::call::SettleError;
    /// use tollgate_core::{ErrorKind, Receipt, StoreError};
    ///
    /// fn not_sent(receipt: Option<Receipt>) -> SettleError {
    ///     let error = StoreError::new(ErrorKind::Malformed, "no limit `tokns` counts calls here");
    ///     SettleError::new(error, receipt) // `into_receipt` returns it.
    /// }
    /// assert_eq!(not_sent(None).kind(), ErrorKind::Malformed);
    /// ```
    #[must_use]
    pub fn new(error: StoreError, receipt: impl Into<Option<Receipt>>) -> Self {
        let nothing_happened = match error.kind() {
            ErrorKind::Full
            | ErrorKind::Malformed
            | ErrorKind::Unavailable
            | ErrorKind::Unsupported => true,
            ErrorKind::Misconfigured | ErrorKind::Protocol | ErrorKind::Unknown => false,
        };
        Self {
            error,
            receipt: receipt.into().filter(|_| nothing_happened).map(Box::new),
        }
    }

    /// Returns the receipt if nothing was changed, or `None` if something may have been.
    ///
    /// If [the error is retryable](StoreError::is_retryable), retry with this receipt.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt.map(|receipt| *receipt)
    }

    /// Returns the underlying error.
    #[must_use]
    pub fn error(&self) -> &StoreError {
        &self.error
    }

    /// Returns the kind of the underlying error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for SettleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl From<SettleError> for StoreError {
    fn from(error: SettleError) -> Self {
        error.error
    }
}
