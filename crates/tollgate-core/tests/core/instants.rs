//! Instants from and to those of jiff and chrono.

use chrono::{DateTime, FixedOffset, Utc};
use proptest::prelude::*;
use tollgate_core::Timestamp;

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
        (-1, Timestamp::from_micros(u64::MAX)),
        (-1_000_000_000, Timestamp::from_micros(u64::MAX)),
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
