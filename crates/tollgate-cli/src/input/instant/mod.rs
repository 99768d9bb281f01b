//! Parses times as they are written in logs.

mod clock;
mod unix;

pub(crate) use clock::LogClock;

use tollgate_core::Timestamp;

use self::clock::{MINUTE, SECOND_US, midnight, number};
use self::unix::{at, read_unix};
use super::record::Skip;

/// Parses a time in any of the formats of logs.
///
/// A number is in seconds since the Unix epoch. If that would be after the year 5000, it is in
/// milliseconds, microseconds or nanoseconds. A time without a zone is in UTC.
pub(crate) fn read_any(text: &str) -> Result<Timestamp, Skip> {
    let text = text.trim();
    if let Some(unix) = read_unix(text) {
        return unix.ok_or(Skip::NoSuchInstant);
    }
    if let Ok(stamp) = text.as_bytes().try_into()
        && let Ok(at) = LogClock::new().read(stamp)
    {
        return Ok(at);
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return u64::try_from(instant.as_microsecond())
            .ok()
            .and_then(|micros| Timestamp::from_micros(micros).ok())
            .ok_or(Skip::NoSuchInstant);
    }
    match text.as_bytes().split_at_checked(DATE) {
        Some((date, [b'T' | b' ', time @ ..])) => read_utc(date, time),
        _ => read_log_utc(text.as_bytes()),
    }
}

/// The length of `2015-05-17`.
const DATE: usize = 10;

/// Parses a date and a time in UTC, such as `2015-05-17` and `10:05:03.25`.
pub(crate) fn read_utc(date: &[u8], time: &[u8]) -> Result<Timestamp, Skip> {
    let whole = || {
        let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *date else {
            return None;
        };
        let [h1, h2, b':', i1, i2, b':', s1, s2, ref fraction @ ..] = *time else {
            return None;
        };
        let hour = number(&[h1, h2]).filter(|&hour| hour < 24)?;
        let minute = number(&[i1, i2]).filter(|&minute| minute < 60)?;
        let second = number(&[s1, s2]).filter(|&second| second <= 60)?;
        let [year, month] = [number(&[y1, y2, y3, y4])?, number(&[m1, m2])?];
        let midnight = midnight(year, month, number(&[d1, d2])?)?;
        let seconds = midnight + 60 * (60 * hour + minute) + second;
        Some((seconds, fraction_us(fraction)?))
    };
    let (seconds, micros) = whole().ok_or(Skip::UnknownTime)?;
    u64::try_from(seconds)
        .ok()
        .and_then(|seconds| seconds.checked_mul(SECOND_US)?.checked_add(micros))
        .and_then(at)
        .ok_or(Skip::NoSuchInstant)
}

/// Parses a time in UTC such as `17/May/2015:10:05:03.250`.
pub(crate) fn read_log_utc(text: &[u8]) -> Result<Timestamp, Skip> {
    let (whole, fraction) = text
        .split_first_chunk::<{ MINUTE + 3 }>()
        .ok_or(Skip::UnknownTime)?;
    let mut stamp = *b"17/May/2015:10:05:03 +0000";
    stamp[..whole.len()].copy_from_slice(whole);
    let start = LogClock::new().read(&stamp).map_err(|skip| match skip {
        Skip::NoTime => Skip::UnknownTime,
        other => other,
    })?;
    let micros = fraction_us(fraction).ok_or(Skip::UnknownTime)?;
    at(start.as_micros() + micros).ok_or(Skip::NoSuchInstant)
}

/// Parses decimals such as `.25`, which may be missing, and rounds down to microseconds.
fn fraction_us(text: &[u8]) -> Option<u64> {
    let digits = match text {
        [] => return Some(0),
        [b'.' | b',', digits @ ..] if !digits.is_empty() => digits,
        _ => return None,
    };
    digits.iter().all(u8::is_ascii_digit).then_some(())?;
    let digit = |place| digits.get(place).map_or(0, |digit| u64::from(digit - b'0'));
    Some((0..6).fold(0, |micros, place| 10 * micros + digit(place)))
}

#[cfg(test)]
mod tests;
