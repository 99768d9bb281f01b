//! `LogClock`: parses the times of access logs.

use tollgate_core::Timestamp;

use crate::input::record::Skip;

pub(super) const SECOND_US: u64 = 1_000_000;

/// Parses times such as `17/May/2015:10:05:03 +0000`, and caches the last minute.
pub(crate) struct LogClock {
    /// Day, hour and minute: `17/May/2015:10:05`.
    minute: [u8; MINUTE],
    zone: [u8; ZONE],
    /// The start of that minute in seconds since the Unix epoch.
    start: i64,
}

pub(super) const MINUTE: usize = 17;
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
pub(super) fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
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
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| {
        digit
            .is_ascii_digit()
            .then(|| 10 * value + i64::from(digit - b'0'))
    })
}
