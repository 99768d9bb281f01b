//! Reads times and lengths of time, as the command line and files have them.

use std::time::Duration;

use clap::Args;
use jiff::tz::TimeZone;
use tollgate_core::{Quota, Timestamp};

use crate::failure::Failure;

/// The time zone of the times in tables.
#[derive(Args, Debug)]
pub(crate) struct ZoneOptions {
    /// The time zone of the times in tables, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
}

impl ZoneOptions {
    pub(crate) fn zone(&self) -> Result<TimeZone, Failure> {
        self.time_zone.as_deref().map_or(Ok(TimeZone::UTC), zone)
    }
}

pub(crate) fn zone(name: &str) -> Result<TimeZone, Failure> {
    TimeZone::get(name).map_err(|_| no_zone("--time-zone", name))
}

/// Returns the failure of an option with a time zone `name` that does not exist.
pub(crate) fn no_zone(option: &'static str, name: &str) -> Failure {
    let reason = "there is no such time zone; give the name of one, such as Europe/Berlin";
    Failure::wrong(option, name, reason)
}

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum NoTime {
    #[error("has no offset; append Z for UTC, or an offset such as +01:00")]
    NoOffset,
    #[error("is not a time; write it as RFC 3339, such as 2026-03-01T08:00:00+01:00")]
    NotRfc3339,
    #[error("is before 1970 or after 2255")]
    OutOfRange,
    #[error("has an offset of 24 hours or more; write one such as +01:00")]
    BadOffset,
    #[error("is a leap second, which no clock of a server shows; take the next second")]
    LeapSecond,
}

/// Reads an RFC 3339 time. Fractions of a microsecond are rounded up, so that no event takes place
/// before its time.
pub(crate) fn read(text: &str) -> Result<Timestamp, NoTime> {
    let text = text.trim();
    let instant: jiff::Timestamp = text.parse().map_err(|_| {
        let is_local = text.contains(':') && text.parse::<jiff::civil::DateTime>().is_ok();
        if is_local {
            NoTime::NoOffset
        } else {
            NoTime::NotRfc3339
        }
    })?;
    let time = text
        .split_once(['T', 't', ' '])
        .map_or("", |(_, time)| time);
    if is_leap_second(time) {
        return Err(NoTime::LeapSecond);
    }
    let offset = time.split_once(['+', '-']).map(|(_, offset)| offset);
    if offset.is_some_and(|offset| offset.get(..2) > Some("23")) {
        return Err(NoTime::BadOffset);
    }
    u128::try_from(instant.as_nanosecond())
        .ok()
        .and_then(|nanos| u64::try_from(nanos.div_ceil(1_000)).ok())
        .and_then(|micros| Timestamp::from_micros(micros).ok())
        .ok_or(NoTime::OutOfRange)
}

/// Returns whether the second of this time is the sixtieth, which would be read as the one before.
fn is_leap_second(time: &str) -> bool {
    let digits = time.bytes().filter(|&byte| byte != b':');
    digits.skip(4).take(2).eq(*b"60")
}

pub(crate) fn option(option: &'static str, text: &str) -> Result<Timestamp, Failure> {
    read(text).map_err(|reason| Failure::wrong(option, text, format!("the time {reason}")))
}

/// Reads the length of time of an option, written as the window of a quota; it may be zero.
pub(crate) fn length(option: &'static str, text: &str) -> Result<Duration, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let has_unit = ["us", "ms", "s", "m", "h", "d"].contains(&&text[digits.len()..]);
    // A quota's window is never zero.
    if has_unit && digits == "0" {
        return Ok(Duration::ZERO);
    }
    // A quota's window may leave out its number.
    let quota = format!("1/{text}").parse::<Quota>();
    let quota = quota.ok().filter(|_| !digits.is_empty());
    quota.map(Quota::window).ok_or_else(|| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = is_number && digits.bytes().any(|byte| byte != b'0');
        let reason = match has_unit && is_number {
            true => "that is longer than tollgate can count; give at most 104249d",
            false => {
                "that is not a length of time; give a whole number with us, ms, s, m, h or d, such as 366d"
            }
        };
        Failure::wrong(option, text, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> Result<u64, NoTime> {
        read(text).map(Timestamp::as_micros)
    }

    #[test]
    fn times_have_offsets() {
        let eight = 1_772_352_000_000_000;
        assert_eq!(micros("2026-03-01T08:00:00Z"), Ok(eight));
        assert_eq!(micros(" 2026-03-01T09:00:00+01:00 "), Ok(eight));
        assert_eq!(micros("2026-03-01T08:00:00"), Err(NoTime::NoOffset));
        assert_eq!(micros("2026-03-01 08:00"), Err(NoTime::NoOffset));
        for leap in [
            "2026-03-01T08:00:60Z",
            "2026-03-01t08:00:60.5+01:00",
            "20260301T080060Z",
        ] {
            assert_eq!(micros(leap), Err(NoTime::LeapSecond), "{leap}");
        }
        for offset in ["+25:00", "-24:00", "+2400"] {
            let text = format!("2026-03-01T08:00:00{offset}");
            assert_eq!(micros(&text), Err(NoTime::BadOffset), "{text}");
        }
        assert!(micros("2026-03-01T08:00:00+23:59").is_ok());
        for minute in ["2026-03-01T08:00:06Z", "2026-03-01T08:00:00.60Z"] {
            assert!(micros(minute).is_ok(), "{minute}");
        }
        for text in [
            "",
            "2026-03-01",
            "noon",
            "1772352000",
            "2026-02-30T08:00:00Z",
        ] {
            assert_eq!(micros(text), Err(NoTime::NotRfc3339), "{text}");
        }
        assert_eq!(micros("1969-12-31T23:59:59Z"), Err(NoTime::OutOfRange));
        assert_eq!(micros("2300-01-01T00:00:00Z"), Err(NoTime::OutOfRange));
    }

    #[test]
    fn no_event_is_before_its_time() {
        assert_eq!(micros("1970-01-01T00:00:00.000001Z"), Ok(1));
        assert_eq!(micros("1970-01-01T00:00:00.000001001Z"), Ok(2));
    }

    #[test]
    fn lengths_are_written_like_windows() {
        let seconds = |text| length("--horizon", text).ok().map(|l| l.as_secs());
        assert_eq!(seconds("366d"), Some(366 * 86_400));
        assert_eq!(seconds("0s"), Some(0));
        for text in ["", "0", "5", "d", "1h,burst=3", "-1d", "1 h", "1y"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(seconds("104249d"), Some(104_249 * 86_400));
        for text in ["104250d", "9007199254740992us", "99999999999999999999h"] {
            let error = length("--window", text).unwrap_err().to_string();
            assert!(error.contains("at most 104249d"), "{error}");
        }
    }
}
