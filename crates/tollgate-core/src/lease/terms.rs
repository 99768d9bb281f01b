//! `Terms`: how many leases a key may have at once, and how long each lasts.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{LimitError, Problem};
use crate::limit::check_name;
use crate::time::MAX_EXACT;

/// The largest weight that can be held at once.
pub const MAX_LEASES: u64 = 1_000;

/// What an identity has in the place of a limit's algorithm.
pub const SHAPE: &str = "leases";

/// The shortest time to live.
const SHORTEST_US: u64 = 1_000;

/// The longest time to live: an instant and a time to live still fit into 2^53 microseconds.
pub(super) const LONGEST_US: u64 = MAX_EXACT / 8;

/// What a [`ConcurrencyLimiter`](crate::lease::ConcurrencyLimiter) allows: its name, how much may be held
/// at once, and how long a lease lasts without renewal.
///
/// Cloning is cheap.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Terms(Arc<Inner>);

#[derive(Debug, Eq, PartialEq)]
struct Inner {
    name: Box<str>,
    identity: Box<str>,
    amount: u64,
    ttl_us: u64,
}

impl Terms {
    /// Returns terms called `name` of at most `amount` at once, in leases that end `ttl` after they
    /// were acquired or last renewed.
    ///
    /// # Errors
    ///
    /// - [`Name`](crate::LimitErrorKind::Name) unless `name` is 1 to 64 ASCII letters, digits, `-`, `_` or `.`.
    /// - [`Amount`](crate::LimitErrorKind::Amount) when `amount` exceeds [`MAX_LEASES`].
    /// - [`Duration`](crate::LimitErrorKind::Duration) when `ttl` is less than a millisecond, more than 35 years, or
    ///   not whole microseconds.
    pub fn new(name: &str, amount: u64, ttl: Duration) -> Result<Self, LimitError> {
        check_name(name)?;
        if amount > MAX_LEASES {
            return Err(LimitError(Problem::AmountTooLarge {
                amount,
                most: MAX_LEASES,
            }));
        }
        let whole = ttl.subsec_nanos().is_multiple_of(1_000);
        match u64::try_from(ttl.as_micros()) {
            Ok(ttl_us) if whole && (SHORTEST_US..=LONGEST_US).contains(&ttl_us) => {
                Ok(Self(Arc::new(Inner {
                    identity: format!("{name}:{SHAPE}").into(),
                    name: name.into(),
                    amount,
                    ttl_us,
                })))
            }
            _ => Err(LimitError(Problem::BadTtl {
                ttl,
                least: Duration::from_micros(SHORTEST_US),
                most: Duration::from_micros(LONGEST_US),
            })),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the string that identifies these leases. Terms with the same identity share their
    /// leases, whatever their amount.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Returns how much may be held at once.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.0.amount
    }

    /// Returns how long a lease lasts without renewal.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_micros(self.0.ttl_us)
    }

    pub(crate) fn ttl_us(&self) -> u64 {
        self.0.ttl_us
    }
}
