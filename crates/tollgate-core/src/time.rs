//! `Timestamp` and `Wait`: instants and waiting times, in whole microseconds.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::error::LimitError;

/// The largest integer that every store represents exactly: 2^53 - 1.
///
/// Lua numbers are IEEE doubles, so scripts count exactly only up to this. Constructors reject
/// limits with any quantity above it.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// An instant: whole microseconds since the Unix epoch, at most [`MAX_EXACT`] (the year 2255).
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tollgate_core::Timestamp;
///
/// let start = Timestamp::from_micros(1_700_000_000_000_000)?;
/// let later = start.saturating_add(Duration::from_millis(5));
/// assert_eq!(later.as_micros() - start.as_micros(), 5_000);
/// assert_eq!(Timestamp::try_from(SystemTime::from(later))?, later);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest instant that can be represented.
    pub const MAX: Self = Self(MAX_EXACT);
    /// The Unix epoch, the earliest instant that can be represented.
    pub const UNIX_EPOCH: Self = Self(0);

    /// Returns the instant `micros` microseconds after the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`LimitError::TimeOutOfRange`] when `micros` exceeds [`MAX_EXACT`].
    pub const fn from_micros(micros: u64) -> Result<Self, LimitError> {
        if micros > MAX_EXACT {
            return Err(LimitError::TimeOutOfRange);
        }
        Ok(Self(micros))
    }

    /// Returns the instant `micros` microseconds after the Unix epoch, capped at
    /// [`Timestamp::MAX`].
    #[must_use]
    pub const fn saturating_from_micros(micros: u64) -> Self {
        if micros > MAX_EXACT {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Returns the whole microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns this instant plus `by` in whole microseconds, capped at [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, by: Duration) -> Self {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        Self::saturating_from_micros(self.0.saturating_add(micros))
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = LimitError;

    /// Truncates to microseconds.
    fn try_from(time: SystemTime) -> Result<Self, LimitError> {
        let since_epoch = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_err(|_| LimitError::TimeOutOfRange)?;
        let micros =
            u64::try_from(since_epoch.as_micros()).map_err(|_| LimitError::TimeOutOfRange)?;
        Self::from_micros(micros)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(instant: Timestamp) -> Self {
        Self::UNIX_EPOCH + Duration::from_micros(instant.0)
    }
}

/// How long to wait: zero, a number of whole microseconds, or forever.
///
/// Waits are ordered from [`Wait::ZERO`] to [`Wait::NEVER`], so the wait for several conditions at
/// once is the maximum of their waits.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::Wait;
///
/// assert_eq!(Wait::from_micros(250).duration(), Some(Duration::from_micros(250)));
/// assert_eq!(Wait::NEVER.duration(), None);
/// assert!(Wait::ZERO < Wait::from_micros(1) && Wait::from_micros(1) < Wait::NEVER);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Wait(u64);

impl Wait {
    /// A wait that never ends.
    pub const NEVER: Self = Self(u64::MAX);
    /// No wait.
    pub const ZERO: Self = Self(0);

    /// Returns a wait of `micros` microseconds; `u64::MAX` is [`Wait::NEVER`].
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the wait in whole microseconds, or `None` if it never ends.
    #[must_use]
    pub const fn as_micros(self) -> Option<u64> {
        if self.is_never() { None } else { Some(self.0) }
    }

    /// Returns the wait as a [`Duration`], or `None` if it never ends.
    #[must_use]
    pub const fn duration(self) -> Option<Duration> {
        match self.as_micros() {
            Some(micros) => Some(Duration::from_micros(micros)),
            None => None,
        }
    }

    /// Returns the wait in seconds, rounded up, as HTTP `Retry-After` needs it, or `None` if it
    /// never ends.
    #[must_use]
    pub const fn as_secs_ceil(self) -> Option<u64> {
        match self.as_micros() {
            Some(micros) => Some(micros.div_ceil(1_000_000)),
            None => None,
        }
    }

    /// Returns whether the wait never ends.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// Returns whether the wait is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.duration() {
            Some(duration) => write!(f, "{duration:?}"),
            None => f.write_str("never"),
        }
    }
}
