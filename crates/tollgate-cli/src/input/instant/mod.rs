//! Parses times as they are written in logs.

use tollgate_core::Timestamp;

use super::record::Skip;

const SECOND_US: u64 = 1_000_000;

/// Parses times such as `17/May/2015:10:05:03 +0000`, and caches the last minute.
pub(crate) struct LogClock {
    /// Day, hour and minute: `17/May/2015:10:05`.
    minute: [u8; MINUTE],
    zone: [u8; ZONE],
    /// The start of that minute in seconds since the Unix epoch.
    start: i64,
}

const MINUTE: usize = 17;
const ZONE: usize = 5;
const STAMP: usize = MINUTE + 4 + ZONE;

impl LogClock {
    pub(crate) fn new() -> Self {
        Self {
            minute: [0; MINUTE],
            zone: [0; ZONE],
            start: 0,
        }
    }

    /// Parses `stamp`.
    #[inline]
    pub(crate) fn read(&mut self, stamp: &[u8; STAMP]) -> Result<Timestamp, Skip> {
        let [minute @ .., b':', s1, s2, b' ', z0, z1, z2, z3, z4] = stamp else {
            return Err(Skip::NoTime);
        };
        let zone = [*z0, *z1, *z2, *z3, *z4];
        if *minute != self.minute || zone != self.zone {
            self.start = start_of(minute, &zone).ok_or(Skip::NoTime)?;
            self.minute = *minute;
            self.zone = zone;
        }
        // A leap second counts as the first second of the next minute.
        let second = number(&[*s1, *s2])
            .filter(|&s| s <= 60)
            .ok_or(Skip::NoTime)?;
        u64::try_from(self.start + second)
            .ok()
            .and_then(|seconds| seconds.checked_mul(SECOND_US))
            .and_then(|micros| Timestamp::from_micros(micros).ok())
            .ok_or(Skip::NoSuchInstant)
    }
}

/// Returns the start of a minute such as `17/May/2015:10:05` in `zone`, in seconds.
fn start_of(minute: &[u8; MINUTE], zone: &[u8; ZONE]) -> Option<i64> {
    let [
        d1,
        d2,
        b'/',
        m1,
        m2,
        m3,
        b'/',
        y1,
        y2,
        y3,
        y4,
        b':',
        h1,
        h2,
        b':',
        i1,
        i2,
    ] = *minute
    else {
        return None;
    };
    let month = 1 + MONTHS.iter().position(|name| **name == [m1, m2, m3])?;
    let year = number(&[y1, y2, y3, y4])?;
    let day = number(&[d1, d2])?;
    let hour = number(&[h1, h2]).filter(|&hour| hour < 24)?;
    let minute = number(&[i1, i2]).filter(|&minute| minute < 60)?;
    let [sign, zh1, zh2, zm1, zm2] = *zone;
    let zone_hour = number(&[zh1, zh2]).filter(|&hour| hour < 24)?;
    let zone_minute = number(&[zm1, zm2]).filter(|&minute| minute < 60)?;
    let east = match sign {
        b'+' => 60 * (60 * zone_hour + zone_minute),
        b'-' => -60 * (60 * zone_hour + zone_minute),
        _ => return None,
    };
    let month = i64::try_from(month).ok()?;
    Some(midnight(year, month, day)? + 60 * (60 * hour + minute) - east)
}

/// Returns the start of a day in UTC, in seconds since the Unix epoch.
fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = jiff::civil::Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    );
    let midnight = date.ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(midnight.timestamp().as_second())
}

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses a few decimal digits.
#[inline]
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| {
        digit
            .is_ascii_digit()
            .then(|| 10 * value + i64::from(digit - b'0'))
    })
}

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

/// Returns `None` if `text` is not a number, and `Some(None)` if the number is not a valid instant.
fn read_unix(text: &str) -> Option<Option<Timestamp>> {
    let (decimal, exponent) = match text.split_once(['e', 'E']) {
        Some((decimal, exponent)) => (decimal, Some(read_exponent(exponent)?)),
        None => (text, None),
    };
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let Some(exponent) = exponent else {
        return Some(instant(whole, fraction));
    };
    let moved = move_point(whole, fraction, exponent);
    Some(moved.and_then(|(whole, fraction)| instant(&whole, &fraction)))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Parses an exponent; one that is too large for any line is replaced by [`FAR`].
fn read_exponent(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let is_number = !digits.is_empty() && is_digits(digits);
    is_number.then(|| sign * digits.parse().map_or(FAR, |number: i64| number.min(FAR)))
}

/// More than the digits of any line, so that digits cannot compensate for it.
const FAR: i64 = 1 << 40;

/// The most digits of a 64-bit number.
const MOST_DIGITS: i64 = 20;

/// Moves the decimal point to the right by `exponent`, and returns the digits before and after it;
/// `None` if there are too many before it.
fn move_point(whole: &str, fraction: &str, exponent: i64) -> Option<(String, String)> {
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        // Zero stays zero, whatever the exponent.
        return Some((digits, String::new()));
    }
    let zeros = digits.len() - significant.len();
    let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()? + exponent;
    if point > MOST_DIGITS {
        return None;
    }
    // More zeros would only shift digits that are too small to count.
    let before = usize::try_from((-point).min(MOST_DIGITS)).unwrap_or(0);
    let point = usize::try_from(point).unwrap_or(0);
    let digits = format!("{}{significant:0<point$}", "0".repeat(before));
    let (whole, fraction) = digits.split_at(point);
    Some((format!("0{whole}"), fraction.to_owned()))
}

/// Returns the instant `whole.fraction` seconds, or smaller units, after the Unix epoch.
fn instant(whole: &str, fraction: &str) -> Option<Timestamp> {
    let whole: u64 = whole.parse().ok()?;
    // How many digits of the fraction make whole microseconds.
    let digits = match whole {
        0..100_000_000_000 => 6,
        100_000_000_000..100_000_000_000_000 => 3,
        100_000_000_000_000..100_000_000_000_000_000 => 0,
        _ => return at(whole / 1_000),
    };
    let mut micros = whole;
    for place in 0..digits {
        let digit = fraction.as_bytes().get(place).map_or(0, |b| b - b'0');
        micros = micros.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    at(micros)
}

fn at(micros: u64) -> Option<Timestamp> {
    Timestamp::from_micros(micros).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<u64, Skip> {
        let stamp = text.as_bytes().try_into().map_err(|_| Skip::NoTime)?;
        LogClock::new().read(stamp).map(Timestamp::as_micros)
    }

    fn any(text: &str) -> Result<u64, Skip> {
        read_any(text).map(Timestamp::as_micros)
    }

    const MAY: u64 = 1_431_857_103_000_000;

    #[test]
    fn log_times_are_read_with_their_zone() {
        assert_eq!(log("17/May/2015:10:05:03 +0000"), Ok(MAY));
        assert_eq!(log("17/May/2015:03:05:03 -0700"), Ok(MAY));
        assert_eq!(log("17/May/2015:15:35:03 +0530"), Ok(MAY));
        assert_eq!(log("01/Jan/1970:00:00:00 +0000"), Ok(0));
        assert_eq!(
            log("29/Feb/2016:23:59:60 +0000"),
            log("01/Mar/2016:00:00:00 +0000")
        );
    }

    #[test]
    fn impossible_times_are_refused() {
        for text in [
            "29/Feb/2015:10:05:03 +0000",
            "17/Mai/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "17/May/2015:10:60:03 +0000",
            "17/May/2015:10:05:61 +0000",
            "17/May/2015:10:05:03 00000",
            "17/May/2015:10:05:0x +0000",
            "17-May-2015:10:05:03 +0000",
        ] {
            assert_eq!(log(text), Err(Skip::NoTime), "{text}");
        }
        assert_eq!(log("31/Dec/1969:23:59:59 +0000"), Err(Skip::NoSuchInstant));
        assert_eq!(log("17/May/9999:10:05:03 +0000"), Err(Skip::NoSuchInstant));
    }

    #[test]
    fn the_cached_minute_changes_no_result() {
        let mut clock = LogClock::new();
        for text in [
            b"17/May/2015:10:05:03 +0000",
            b"17/May/2015:10:05:04 +0000",
            b"17/May/2015:10:05:04 +0100",
            b"17/May/2015:10:06:04 +0100",
            b"18/May/2015:10:06:04 +0100",
        ] {
            assert_eq!(clock.read(text), LogClock::new().read(text));
        }
        // A minute that was rejected is rejected again.
        assert!(clock.read(b"99/May/2015:10:06:04 +0100").is_err());
        assert!(clock.read(b"99/May/2015:10:06:04 +0100").is_err());
    }

    #[test]
    fn numbers_are_unix_seconds_or_finer() {
        assert_eq!(any("1431857103"), Ok(MAY));
        assert_eq!(any("1431857103.25"), Ok(MAY + 250_000));
        assert_eq!(any("1431857103.123456789"), Ok(MAY + 123_456));
        assert_eq!(any("1431857103000"), Ok(MAY));
        assert_eq!(any("1431857103000.5"), Ok(MAY + 500));
        assert_eq!(any("1431857103000000"), Ok(MAY));
        assert_eq!(any("1431857103000000000"), Ok(MAY));
        assert_eq!(any("99999999999999999999999"), Err(Skip::NoSuchInstant));
        assert_eq!(any("99999999999"), Err(Skip::NoSuchInstant));
        assert_eq!(any("-5"), Err(Skip::UnknownTime));
        assert_eq!(any("."), Err(Skip::UnknownTime));
        assert_eq!(any(""), Err(Skip::UnknownTime));
    }

    #[test]
    fn exponents_move_the_point_exactly() {
        for text in [
            "1.431857103e9",
            "1431857103e0",
            "1431857103E+00",
            "14318571030000e-4",
            "0.000001431857103e+15",
            "0001431857.103e3",
            "1431857103000000000e-9",
            "1.431857103e12",
            "1.431857103e15",
            "1431857103e9",
        ] {
            assert_eq!(any(text), Ok(MAY), "{text}");
        }
        assert_eq!(any("1.43185710325e9"), Ok(MAY + 250_000));
        // A float would be exact only to 1431857103.1234567.
        assert_eq!(any("1.431857103123457e9"), Ok(MAY + 123_457));
        assert_eq!(any("4.503599627370497e15"), Ok(4_503_599_627_370_497));
        assert_eq!(any("1e-6"), Ok(1));
        assert_eq!(any("12e-7"), Ok(1));
        assert_eq!(any("9e-7"), Ok(0));
        assert_eq!(any("1e-99999999999999999999"), Ok(0));
        assert_eq!(any("0e99999999999999999999"), Ok(0));
        assert_eq!(any("0.00e5"), Ok(0));
        for text in ["1e99", "1e99999999999999999999", "9.9e10", "1e19", "1e20"] {
            assert_eq!(any(text), Err(Skip::NoSuchInstant), "{text}");
        }
        for text in [
            "1e", "e5", "1e+", "1e-", "1e5e5", "1e5.0", "1e+-5", "1 e5", "-1e5", ".5e1",
        ] {
            assert_eq!(any(text), Err(Skip::UnknownTime), "{text}");
        }
    }

    #[test]
    fn texts_are_rfc_3339_or_as_in_access_logs() {
        assert_eq!(any("2015-05-17T10:05:03Z"), Ok(MAY));
        assert_eq!(any("2015-05-17T12:05:03.25+02:00"), Ok(MAY + 250_000));
        assert_eq!(any("17/May/2015:10:05:03 +0000"), Ok(MAY));
        assert_eq!(any("1969-12-31T23:59:59Z"), Err(Skip::NoSuchInstant));
        assert_eq!(any("yesterday"), Err(Skip::UnknownTime));
    }

    #[test]
    fn times_without_a_zone_are_in_utc() {
        for text in [
            "2015-05-17 10:05:03",
            "2015-05-17T10:05:03",
            "17/May/2015:10:05:03",
        ] {
            assert_eq!(any(text), Ok(MAY), "{text}");
            assert_eq!(any(&format!("{text}.25")), Ok(MAY + 250_000), "{text}");
            assert_eq!(any(&format!("{text},1234567")), Ok(MAY + 123_456), "{text}");
            for end in [".", ".x", "x", " +2", "[Europe/Berlin]", ".25.", "+99:00"] {
                assert_eq!(
                    any(&format!("{text}{end}")),
                    Err(Skip::UnknownTime),
                    "{text}{end}"
                );
            }
        }
        for text in [
            "2015-02-29 10:05:03",
            "2015-13-01 10:05:03",
            "2015-05-17 24:05:03",
            "2015-05-17 10:60:03",
            "2015-05-17 10:05:61",
            "2015-05-17 10:05",
            "2015-05-17",
            "32/May/2015:10:05:03",
            "17/May/2015",
        ] {
            assert_eq!(any(text), Err(Skip::UnknownTime), "{text}");
        }
        assert_eq!(any("1969-12-31 23:59:59"), Err(Skip::NoSuchInstant));
        assert_eq!(any("31/Dec/1969:23:59:59.5"), Err(Skip::NoSuchInstant));
    }
}
