//! The features `jiff` and `chrono`: instants from and to those of these libraries.

use crate::error::LimitError;
use crate::time::Timestamp;

/// Returns the instant so many microseconds after the Unix epoch.
fn from_micros(micros: i64) -> Result<Timestamp, LimitError> {
    let micros = u64::try_from(micros).map_err(|_| LimitError::TimeOutOfRange)?;
    Timestamp::from_micros(micros)
}

#[cfg(feature = "jiff")]
mod of_jiff {
    use super::{LimitError, Timestamp, from_micros};

    /// Truncates to microseconds.
    impl TryFrom<jiff::Timestamp> for Timestamp {
        type Error = LimitError;

        fn try_from(instant: jiff::Timestamp) -> Result<Self, LimitError> {
            if instant < jiff::Timestamp::UNIX_EPOCH {
                return Err(LimitError::TimeOutOfRange);
            }
            from_micros(instant.as_microsecond())
        }
    }

    /// Truncates to microseconds.
    impl TryFrom<&jiff::Zoned> for Timestamp {
        type Error = LimitError;

        fn try_from(time: &jiff::Zoned) -> Result<Self, LimitError> {
            time.timestamp().try_into()
        }
    }

    impl From<Timestamp> for jiff::Timestamp {
        fn from(instant: Timestamp) -> Self {
            let micros = i64::try_from(instant.as_micros()).unwrap_or(i64::MAX);
            // Ours end in 2255, those of jiff in 9999.
            Self::from_microsecond(micros).unwrap_or(Self::MAX)
        }
    }
}

#[cfg(feature = "chrono")]
mod of_chrono {
    use chrono::{DateTime, TimeZone, Utc};

    use super::{LimitError, Timestamp, from_micros};

    /// Truncates to microseconds.
    impl<Z: TimeZone> TryFrom<DateTime<Z>> for Timestamp {
        type Error = LimitError;

        fn try_from(time: DateTime<Z>) -> Result<Self, LimitError> {
            if time.timestamp() < 0 {
                return Err(LimitError::TimeOutOfRange);
            }
            from_micros(time.timestamp_micros())
        }
    }

    impl From<Timestamp> for DateTime<Utc> {
        fn from(instant: Timestamp) -> Self {
            let micros = i64::try_from(instant.as_micros()).unwrap_or(i64::MAX);
            // Ours end in 2255, those of chrono long after.
            Self::from_timestamp_micros(micros).unwrap_or(Self::MAX_UTC)
        }
    }
}

#[cfg(all(test, feature = "jiff", feature = "chrono"))]
mod tests {
    use chrono::{DateTime, FixedOffset, Utc};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn instants_are_the_same_in_every_library(micros in 0..=Timestamp::MAX.as_micros()) {
            let instant = Timestamp::from_micros(micros).unwrap();
            let of_jiff = jiff::Timestamp::from(instant);
            let of_chrono = DateTime::<Utc>::from(instant);
            prop_assert_eq!(of_jiff.as_microsecond(), of_chrono.timestamp_micros());
            prop_assert_eq!(u64::try_from(of_chrono.timestamp_micros()), Ok(micros));
            prop_assert_eq!(Timestamp::try_from(of_jiff), Ok(instant));
            prop_assert_eq!(Timestamp::try_from(of_chrono), Ok(instant));
            let zone = FixedOffset::east_opt(5 * 3600).unwrap();
            prop_assert_eq!(Timestamp::try_from(of_chrono.with_timezone(&zone)), Ok(instant));
            let zoned = of_jiff.to_zoned(jiff::tz::TimeZone::UTC);
            prop_assert_eq!(Timestamp::try_from(&zoned), Ok(instant));
        }
    }

    #[test]
    fn instants_out_of_range_are_errors_and_parts_of_a_microsecond_are_cut_off() {
        let of_jiff = |nanos| jiff::Timestamp::from_nanosecond(nanos).unwrap();
        let of_chrono = |nanos| DateTime::<Utc>::from_timestamp_nanos(nanos);
        for (nanos, expected) in [
            (-1, Err(LimitError::TimeOutOfRange)),
            (-1_000_000_000, Err(LimitError::TimeOutOfRange)),
            (0, Ok(Timestamp::UNIX_EPOCH)),
            (1_999, Timestamp::from_micros(1)),
        ] {
            assert_eq!(
                Timestamp::try_from(of_jiff(nanos.into())),
                expected,
                "{nanos}"
            );
            assert_eq!(Timestamp::try_from(of_chrono(nanos)), expected, "{nanos}");
        }
        assert!(Timestamp::try_from(jiff::Timestamp::MAX).is_err());
        assert!(Timestamp::try_from(DateTime::<Utc>::MAX_UTC).is_err());
        assert!(Timestamp::try_from(DateTime::<Utc>::MIN_UTC).is_err());
    }
}
