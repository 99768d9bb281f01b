//! `Timestamp` and `Wait`: instants and waiting times, in whole microseconds.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::error::{LimitError, Problem};

/// The largest integer that every store represents exactly: 2^53 - 1.
///
/// Lua numbers are IEEE doubles, so scripts count exactly only up to this. Constructors reject
/// limits with any quantity above it.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// The longest time for which units are granted ahead, in microseconds: an hour.
pub(crate) const LONGEST_AHEAD_US: u32 = 3_600_000_000;

/// Returns `time` in microseconds, rounded up.
pub fn micros_ceil(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

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
/// assert_eq!(later.to_string(), "2023-11-14T22:13:20.005Z");
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
    /// Where a period ends that holds [`MAX`](Self::MAX): the first instant after it.
    #[cfg(feature = "calendar")]
    pub(crate) const END: Self = Self(MAX_EXACT + 1);

    /// Returns the instant `micros` microseconds after the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`Instant`](crate::LimitErrorKind::Instant) when `micros` exceeds [`MAX_EXACT`].
    pub const fn from_micros(micros: u64) -> Result<Self, LimitError> {
        if micros > MAX_EXACT {
            return Err(LimitError(Problem::TimeOutOfRange));
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

/// Writes the instant as RFC 3339 does, in UTC, with a fraction only if there is one:
/// `2026-03-01T08:00:00.25Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        if micros > 0 {
            let fraction = format!("{micros:06}");
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Returns the year, month and day that begin `days` days after the Unix epoch.
///
/// Years are counted from March, so that a leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    // Days from the first of March in the year 0 to the epoch.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = 400 * era + year + month / 10;
    (year, if month < 10 { month + 3 } else { month - 9 }, day)
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = LimitError;

    /// Truncates to microseconds.
    fn try_from(time: SystemTime) -> Result<Self, LimitError> {
        let since_epoch = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_err(|_| LimitError(Problem::TimeOutOfRange))?;
        let micros = u64::try_from(since_epoch.as_micros())
            .map_err(|_| LimitError(Problem::TimeOutOfRange))?;
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
pub struct Wait(pub(crate) u64);

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

/// Writes the wait to the millisecond, rounded up, such as `12.001s`, or `never`.
impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_micros() {
            Some(0) => f.write_str("0s"),
            Some(micros) => write!(f, "{:?}", Duration::from_millis(micros.div_ceil(1_000))),
            None => f.write_str("never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_dates() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1, "1970-01-01T00:00:00.000001Z"),
            (951_782_399_999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000_000, "2000-03-01T00:00:00Z"),
            (1_709_164_800_000_000, "2024-02-29T00:00:00Z"),
            (1_735_689_599_500_000, "2024-12-31T23:59:59.5Z"),
            (1_735_689_600_000_000, "2025-01-01T00:00:00Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
            (MAX_EXACT, "2255-06-05T23:47:34.740991Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
        }
    }

    /// Each day follows the one before it, through four centuries.
    #[test]
    fn dates_follow_each_other() {
        let mut last = date(0);
        for days in 1..146_097 * 2 {
            let next = date(days);
            let (year, month, day) = last;
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u64::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let expected = match (day < length, month < 12) {
                (true, _) => (year, month, day + 1),
                (false, true) => (year, month + 1, 1),
                (false, false) => (year + 1, 1, 1),
            };
            assert_eq!(next, expected);
            last = next;
        }
    }
}
