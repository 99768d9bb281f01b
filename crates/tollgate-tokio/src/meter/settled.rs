//! `Settled` and `NotSettled`: what became of a settlement.

use std::error::Error;
use std::fmt;

use tollgate_core::call::SettleError;
use tollgate_core::{ErrorKind, Receipt, StoreError};

/// The result of a settlement by a [`SettleGuard`](crate::meter::SettleGuard) or a
/// [`Metered`](crate::meter::Metered) stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settled {
    pub(super) cost: u64,
    pub(super) remaining: u64,
}

impl Settled {
    /// Returns the cost at which the call was settled.
    #[must_use]
    pub fn cost(self) -> u64 {
        self.cost
    }

    /// Returns what remained afterwards, under the limit with the least.
    #[must_use]
    pub fn remaining(self) -> u64 {
        self.remaining
    }
}

/// A settlement by a [`SettleGuard`](crate::meter::SettleGuard) or a [`Metered`](crate::meter::Metered) stream
/// that failed.
///
/// The call counts at its estimate, unless the error's kind is [`Unknown`](ErrorKind::Unknown): then
/// it may be settled.
#[derive(Debug)]
pub struct NotSettled {
    cost: u64,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Store(SettleError),
    Runtime(StoreError),
}

impl NotSettled {
    /// The store failed.
    pub(super) fn failed(cost: u64, error: SettleError) -> Self {
        Self {
            cost,
            why: Why::Store(error),
        }
    }

    /// The runtime ended before the store answered.
    pub(super) fn lost(cost: u64) -> Self {
        Self {
            cost,
            why: Why::Runtime(StoreError::new(
                ErrorKind::Unknown,
                "the runtime ended before the store answered: the call counts at its estimate, or \
                 is settled",
            )),
        }
    }

    /// Returns the cost at which the call was to be settled.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the underlying error.
    #[must_use]
    pub fn error(&self) -> &StoreError {
        match &self.why {
            Why::Store(error) => error.error(),
            Why::Runtime(error) => error,
        }
    }

    /// Returns the receipt if nothing was changed, or `None` if something may have been.
    ///
    /// To try again, pass it to [`RateLimiter::settle`](tollgate_core::RateLimiter::settle), with
    /// the [`cost`](Self::cost).
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        match self.why {
            Why::Store(error) => error.into_receipt(),
            Why::Runtime(_) => None,
        }
    }
}

impl fmt::Display for NotSettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl Error for NotSettled {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error().source()
    }
}

impl From<NotSettled> for StoreError {
    fn from(not_settled: NotSettled) -> Self {
        match not_settled.why {
            Why::Store(error) => error.into(),
            Why::Runtime(error) => error,
        }
    }
}
