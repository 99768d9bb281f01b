//! Times in headers.

use std::time::{Duration, SystemTime};

/// Numbers from here on are not seconds from now, but since the epoch: since 2001.
const EPOCH_SECONDS: u64 = 1_000_000_000;
/// Numbers from here on are milliseconds since the epoch: since 1973. Seconds would be after 5138.
const EPOCH_MILLIS: u64 = 100_000_000_000;

/// Reads the time from `now` until an instant: a number of seconds from now, of seconds or
/// milliseconds since the epoch, a date, or durations with units. An instant in the past is zero.
pub(crate) fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Some(number) = decimal(text) {
        let since_epoch = match number.as_secs() {
            EPOCH_MILLIS.. => Duration::from_millis(number.as_secs()),
            EPOCH_SECONDS.. => number,
            _ => return Some(number),
        };
        return Some(from(now, SystemTime::UNIX_EPOCH.checked_add(since_epoch)?));
    }
    if let Ok(date) = httpdate::parse_http_date(text) {
        return Some(from(now, date));
    }
    if let Ok(date) = text.parse::<jiff::Timestamp>() {
        return Some(from(now, date.into()).saturating_add(inexact_by(text)));
    }
    units(text)
}

/// Reads a number of seconds from now, or durations with units.
pub(crate) fn length(text: &str) -> Option<Duration> {
    let text = text.trim();
    decimal(text).or_else(|| units(text))
}

/// Reads a number of milliseconds.
pub(crate) fn millis(text: &str) -> Option<Duration> {
    decimal(text.trim())?.checked_div(1_000).map(up)
}

/// Returns the entries of a list. A date has a comma of its own, after the day of the week.
pub(crate) fn entries(list: &str) -> Vec<&str> {
    let mut entries = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let mut commas = rest.match_indices(',').map(|(comma, _)| comma);
        let first = commas.next().unwrap_or(rest.len());
        let second = commas.next().unwrap_or(rest.len());
        let is_date = httpdate::parse_http_date(rest[..second].trim()).is_ok();
        let end = if is_date { second } else { first };
        entries.push(rest[..end].trim());
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    entries.retain(|entry| !entry.is_empty());
    entries
}

/// Returns how much later a time in RFC 3339 may be than it says: one without seconds may mean any
/// of the minute.
fn inexact_by(text: &str) -> Duration {
    let time = text
        .split_once(['T', 't', ' '])
        .map_or("", |(_, time)| time);
    let time = time.split(['Z', 'z', '+', '-', '[']).next();
    let time = time.unwrap_or_default();
    let digits = time.bytes().filter(u8::is_ascii_digit).count();
    Duration::from_secs(match digits {
        ..=2 => 3_600,
        3..=4 => 60,
        _ => 0,
    })
}

fn from(now: SystemTime, until: SystemTime) -> Duration {
    up(until.duration_since(now).unwrap_or_default())
}

/// Rounds up to whole seconds.
pub(crate) fn up_to_seconds(duration: Duration) -> Duration {
    let is_rounded = duration.subsec_nanos() > 0;
    Duration::from_secs(duration.as_secs().saturating_add(is_rounded.into()))
}

/// Rounds up to whole microseconds.
fn up(duration: Duration) -> Duration {
    let over = duration.subsec_nanos() % 1_000;
    match over {
        0 => duration,
        _ => duration.saturating_add(Duration::from_nanos(1_000 - u64::from(over))),
    }
}

/// Reads a decimal number of seconds, rounded up to microseconds. One that is too large to count is
/// as large as can be.
fn decimal(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let shown = fraction.get(..6).unwrap_or(fraction);
    let micros = format!("{shown:0<6}").parse().ok()?;
    let is_rounded = fraction.bytes().skip(6).any(|digit| digit != b'0');
    // Only digits, so the only error is that it does not fit.
    let seconds = Duration::from_secs(whole.parse().unwrap_or(u64::MAX));
    let micros = Duration::from_micros(micros) + Duration::from_micros(is_rounded.into());
    Some(seconds.saturating_add(micros))
}

/// Reads durations such as `6m0s` and `20ms`.
pub(crate) fn units(mut text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let mut all = Duration::ZERO;
    while !text.is_empty() {
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let number = decimal(&text[..end])?;
        let rest = &text[end..];
        let unit = rest.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, rest) = rest.split_at(unit.unwrap_or(rest.len()));
        let one = match unit {
            "ms" => number.checked_div(1_000).map(up)?,
            "s" => number,
            "m" => number.saturating_mul(60),
            "h" => number.saturating_mul(3_600),
            "d" => number.saturating_mul(86_400),
            _ => return None,
        };
        all = all.saturating_add(one);
        text = rest;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (text, millis) in [
            ("0", 0),
            (" 120 ", 120_000),
            ("2.0", 2_000),
            ("0.25", 250),
            ("999999999", 999_999_999_000),
            ("1700000030", 30_000),
            ("1700000030.5", 30_500),
            ("1700000030000", 30_000),
            // It has passed.
            ("1699999999", 0),
            ("Tue, 14 Nov 2023 22:14:20 GMT", 60_000),
            ("2023-11-14T22:14:20Z", 60_000),
            ("2023-11-14T23:14:20.5+01:00", 60_500),
            // Without seconds or minutes, it may be the end of that minute or hour.
            ("2023-11-14T22:15Z", 160_000),
            ("2023-11-14T22:15+00:00", 160_000),
            ("2023-11-14T23:15+01:00", 160_000),
            ("2023-11-14 23:15+0100", 160_000),
            ("20231114T2215Z", 160_000),
            ("2023-11-14T23Z", 6_400_000),
            ("20231114T231420+01:00", 60_000),
            ("6m0s", 360_000),
            ("1h2m3.5s", 3_723_500),
            ("20ms", 20),
            ("2d", 172_800_000),
        ] {
            let found = until(text, now);
            assert_eq!(found, Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "-1",
            "+1",
            ".5",
            "1,5",
            "1e3",
            "1 s",
            "soon",
            "6m0",
            "m",
            "1w",
            "2023-11-14",
        ] {
            assert_eq!(until(text, now), None, "{text}");
        }
        // Never a short time for a number that cannot be counted.
        let long = Duration::from_secs(1_000 * 365 * 86_400);
        for text in [
            "99999999999999999999",
            "99999999999999999999.9999999",
            "18446744073709551615d",
            "18446744073709551615s18446744073709551615s",
        ] {
            assert!(until(text, now).unwrap() > long, "{text}");
        }
        // Never shorter than what it says.
        let micro = Duration::from_micros(1);
        assert_eq!(until("0.0000001", now), Some(micro));
        assert_eq!(until("0.0001ms", now), Some(micro));
        assert_eq!(millis("0.5"), Some(500 * micro));
        let found = length("1700000030");
        assert_eq!(found, Some(Duration::from_secs(1_700_000_030)));
    }
}
