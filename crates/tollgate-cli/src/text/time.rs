//! Formats instants and waits.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};
use tollgate_core::Timestamp;

pub(crate) fn zoned(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    let at = Instant::from(at).to_zoned(zone.clone());
    at.strftime(format).to_string()
}

pub(crate) fn utc_second(at: Timestamp) -> String {
    zoned(at, &TimeZone::UTC, "%-d %b %Y %H:%M:%S")
}

/// Formats an exact instant as RFC 3339 in UTC: `2026-03-01T08:00:00Z`, with fractions only if there
/// are any.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    Instant::from(at).to_string()
}

/// Formats an instant as RFC 3339, to the second, in `zone`: `2026-03-01T09:00:00+01:00`.
pub(crate) fn local(at: Timestamp, zone: &TimeZone) -> String {
    in_zone(at, zone, "%FT%T")
}

/// Formats an exact instant as RFC 3339 in `zone`: `2026-03-01T09:00:00.5+01:00`.
pub(crate) fn exact(at: Timestamp, zone: &TimeZone) -> String {
    in_zone(at, zone, "%FT%T%.f")
}

/// Formats an instant in `zone`, and its offset after that.
fn in_zone(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    let offset = if *zone == TimeZone::UTC { "Z" } else { "%:z" };
    zoned(at, zone, &format!("{format}{offset}"))
}

/// Formats an exact instant with its zone, as RFC 9557: `2026-03-01T09:00:00+01:00[Europe/Berlin]`.
pub(crate) fn named(at: Timestamp, zone: &TimeZone) -> String {
    let mut text = exact(at, zone);
    if let Some(name) = zone.iana_name().filter(|_| *zone != TimeZone::UTC) {
        text += &format!("[{name}]");
    }
    text
}

/// Returns what to say after the title of a table about its times: nothing if they are in UTC.
pub(crate) fn times_in(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) if *zone != TimeZone::UTC => format!(", times in {name}"),
        _ => String::new(),
    }
}

/// An exact wait in common units: `1h 30m 0.5s`.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        let mut text = String::new();
        for (count, unit) in [
            (seconds / 86_400, "d "),
            (seconds / 3_600 % 24, "h "),
            (seconds / 60 % 60, "m "),
        ] {
            if count > 0 {
                text += &format!("{count}{unit}");
            }
        }
        let decimals = format!(".{nanos:09}");
        let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
        if text.is_empty() || seconds % 60 > 0 || nanos > 0 {
            text += &format!("{}{decimals}s", seconds % 60);
        }
        f.pad(text.trim_end())
    }
}

/// Formats a wait to the millisecond, rounded up, or `never`.
pub(crate) fn wait(wait: Option<Duration>) -> String {
    let Some(wait) = wait else {
        return "never".to_owned();
    };
    let millis = wait.as_nanos().div_ceil(1_000_000);
    Span(Duration::from_millis(
        u64::try_from(millis).unwrap_or(u64::MAX),
    ))
    .to_string()
}

/// Serializes an instant as RFC 3339 in UTC, or `null`.
pub(crate) fn instant<S: Serializer>(
    at: &(impl Copy + Into<Option<Timestamp>>),
    to: S,
) -> Result<S::Ok, S::Error> {
    (*at).into().map(rfc3339).serialize(to)
}

/// Serializes whole microseconds, or `null` for never.
pub(crate) fn micros<S: Serializer>(wait: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    wait.and_then(|wait| u64::try_from(wait.as_micros()).ok())
        .serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact_and_waits_to_the_millisecond() {
        let text = |micros| Span(Duration::from_micros(micros)).to_string();
        assert_eq!(text(0), "0s");
        assert_eq!(text(1), "0.000001s");
        assert_eq!(text(5_400_000), "5.4s");
        assert_eq!(text(60_000_000), "1m");
        assert_eq!(text(90_061_500_000), "1d 1h 1m 1.5s");
        assert_eq!(wait(Some(Duration::from_micros(59_999_974))), "1m");
        assert_eq!(wait(Some(Duration::from_micros(5_400_001))), "5.401s");
    }
}
