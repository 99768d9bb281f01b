//! The features `jiff` and `chrono`: instants from and to those of these libraries.

#[cfg(feature = "chrono")]
use chrono::{DateTime, TimeZone, Utc};

use crate::error::{LimitError, Problem};
use crate::time::Timestamp;

/// Returns the instant `micros` microseconds after the Unix epoch.
fn from_micros(micros: i64) -> Result<Timestamp, LimitError> {
    let micros = u64::try_from(micros).map_err(|_| LimitError(Problem::TimeOutOfRange))?;
    Timestamp::from_micros(micros)
}

/// Truncates to microseconds.
#[cfg(feature = "jiff")]
impl TryFrom<jiff::Timestamp> for Timestamp {
    type Error = LimitError;

    fn try_from(instant: jiff::Timestamp) -> Result<Self, LimitError> {
        if instant < jiff::Timestamp::UNIX_EPOCH {
            return Err(LimitError(Problem::TimeOutOfRange));
        }
        from_micros(instant.as_microsecond())
    }
}

/// Truncates to microseconds.
#[cfg(feature = "jiff")]
impl TryFrom<&jiff::Zoned> for Timestamp {
    type Error = LimitError;

    fn try_from(time: &jiff::Zoned) -> Result<Self, LimitError> {
        time.timestamp().try_into()
    }
}

#[cfg(feature = "jiff")]
impl From<Timestamp> for jiff::Timestamp {
    fn from(instant: Timestamp) -> Self {
        let micros = i64::try_from(instant.as_micros()).unwrap_or(i64::MAX);
        // Ours end in 2255, those of jiff in 9999.
        Self::from_microsecond(micros).unwrap_or(Self::MAX)
    }
}

/// Truncates to microseconds.
#[cfg(feature = "chrono")]
impl<Z: TimeZone> TryFrom<DateTime<Z>> for Timestamp {
    type Error = LimitError;

    fn try_from(time: DateTime<Z>) -> Result<Self, LimitError> {
        if time.timestamp() < 0 {
            return Err(LimitError(Problem::TimeOutOfRange));
        }
        from_micros(time.timestamp_micros())
    }
}

#[cfg(feature = "chrono")]
impl From<Timestamp> for DateTime<Utc> {
    fn from(instant: Timestamp) -> Self {
        let micros = i64::try_from(instant.as_micros()).unwrap_or(i64::MAX);
        // Ours end in 2255, those of chrono long after.
        Self::from_timestamp_micros(micros).unwrap_or(Self::MAX_UTC)
    }
}
