//! `Clock`: parses times as they are written in logs.

use std::time::SystemTime;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use tollgate_core::Timestamp;

use super::record::Skip;

const SECOND_US: u64 = 1_000_000;

/// Parses times, and remembers the last minute of an access log, which most lines share.
pub(super) struct Clock {
    /// `17/May/2015:10:05`, and the zone after the seconds.
    minute: [u8; MINUTE],
    zone: [u8; ZONE],
    /// The start of that minute in seconds since the Unix epoch.
    start: i64,
    /// No time without a year is later than this.
    latest: jiff::Timestamp,
    /// The year of the time that was read last, if it had none of its own.
    pub(super) assumed_year: Option<i16>,
}

const MINUTE: usize = 17;
const ZONE: usize = 6;

/// How much later than the last change of a log its times may be: their zone is unknown.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

/// A number of years within which there is a 29 February, also around 1900 and 2100.
const LEAP: i16 = 8;

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            minute: [0; MINUTE],
            zone: [0; ZONE],
            start: 0,
            latest: jiff::Timestamp::MAX,
            assumed_year: None,
        }
    }

    /// Begins a log that was changed last at the time `changed`.
    pub(super) fn begin(&mut self, changed: SystemTime) {
        let changed = jiff::Timestamp::try_from(changed);
        let latest = changed.and_then(|changed| changed.checked_add(SLACK));
        self.latest = latest.unwrap_or(jiff::Timestamp::MAX);
    }

    /// Parses a time in any of the formats of logs.
    ///
    /// A number is in seconds since the Unix epoch. If that would be after the year 5000, it is in
    /// milliseconds, microseconds or nanoseconds. A time without a zone is in UTC. One of syslog has no
    /// year: it is the latest one that is not after the log's last change.
    pub(super) fn read(&mut self, text: &str) -> Result<Timestamp, Skip> {
        self.assumed_year = None;
        let text = text.trim();
        if let Some(seconds) = self.of_access_log(text.as_bytes()) {
            return after_seconds(seconds, 0);
        }
        if let Some(unix) = of_number(text) {
            return unix.ok_or(Skip::NoSuchInstant);
        }
        // Its date alone is no time, and a zone in brackets would be passed over.
        if !text.contains(':') || text.contains('[') {
            return Err(Skip::UnknownTime);
        }
        let with_year = || {
            let local = text.parse::<DateTime>();
            let local = local.or_else(|_| DateTime::strptime("%d/%b/%Y:%H:%M:%S%.f", text));
            TimeZone::UTC.to_timestamp(local.ok()?).ok()
        };
        let instant = text.parse::<jiff::Timestamp>().ok();
        let instant = instant.or_else(with_year).or_else(|| self.of_syslog(text));
        let instant = instant.ok_or(Skip::UnknownTime)?;
        let micros =
            u64::try_from(instant.subsec_microsecond()).map_err(|_| Skip::NoSuchInstant)?;
        after_seconds(instant.as_second(), micros)
    }

    /// Returns the seconds since 1970 of a time such as `17/May/2015:10:05:03 +0000`.
    #[inline]
    fn of_access_log(&mut self, text: &[u8]) -> Option<i64> {
        let (minute, rest) = text.split_first_chunk::<MINUTE>()?;
        let (&[b':', s1, s2], zone) = rest.split_first_chunk::<3>()? else {
            return None;
        };
        let zone = <&[u8; ZONE]>::try_from(zone).ok()?;
        if *minute != self.minute || *zone != self.zone {
            let text = String::from_utf8([&minute[..], zone].concat()).ok()?;
            let start = jiff::Timestamp::strptime("%d/%b/%Y:%H:%M %z", text).ok()?;
            (self.minute, self.zone, self.start) = (*minute, *zone, start.as_second());
        }
        let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
        let second = 10 * digit(s1)? + digit(s2)?;
        // A leap second counts as the first second of the next minute.
        (second <= 60).then_some(self.start + second)
    }

    /// Returns the time of a text such as `May 17 10:05:03`, and notes the year that it assumes.
    fn of_syslog(&mut self, text: &str) -> Option<jiff::Timestamp> {
        let mut time = BrokenDownTime::parse("%b %d %H:%M:%S%.f", text).ok()?;
        let latest = TimeZone::UTC.to_datetime(self.latest).year();
        let mut years = (latest.saturating_sub(LEAP)..=latest).rev();
        years.find_map(|year| {
            time.set_year(Some(year)).ok()?;
            let at = TimeZone::UTC.to_timestamp(time.to_datetime().ok()?).ok()?;
            (at <= self.latest).then(|| {
                self.assumed_year = Some(year);
                at
            })
        })
    }
}

fn after_seconds(seconds: i64, micros: u64) -> Result<Timestamp, Skip> {
    let seconds = u64::try_from(seconds).ok();
    let micros = seconds.and_then(|it| it.checked_mul(SECOND_US)?.checked_add(micros));
    micros.and_then(at).ok_or(Skip::NoSuchInstant)
}

/// Returns `None` if `text` is not a number, and `Some(None)` if the number is not a valid instant.
fn of_number(text: &str) -> Option<Option<Timestamp>> {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // Seconds with an exponent have at most microseconds that a float holds.
    let plain = text.contains(['e', 'E']).then(|| text.parse::<f64>());
    let plain = plain.map(|number| number.map(|number| format!("{number:.6}")));
    let plain = plain.transpose().ok()?;
    let (whole, fraction) = plain
        .as_deref()
        .unwrap_or(text)
        .split_once('.')
        .unwrap_or((text, ""));
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    Some(instant(whole, fraction))
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

/// Returns the instant `micros` microseconds after the Unix epoch, if there is one.
fn at(micros: u64) -> Option<Timestamp> {
    Timestamp::from_micros(micros).ok()
}
