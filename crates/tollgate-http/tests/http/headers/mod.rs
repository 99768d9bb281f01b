//! Headers are read as services and gateways send them.

mod services;
mod strictest;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName};
use tollgate_http::{Hints, LimitHint};

/// When all responses are received, which do not say so themselves.
const RECEIVED: u64 = 1_700_000_000;

/// Reads headers, one in each line.
fn hints(headers: &str) -> Hints {
    let mut map = HeaderMap::new();
    for line in headers.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        let name: HeaderName = name.trim().parse().unwrap();
        map.append(name, value.trim().parse().unwrap());
    }
    Hints::read(&map, SystemTime::UNIX_EPOCH + Duration::from_secs(RECEIVED))
}

/// Writes what is known of each limit: its name, amount, what remains, and the milliseconds of its window
/// and until its reset.
fn shown(hints: &Hints) -> String {
    fn or_none(value: Option<impl ToString>) -> String {
        value.map_or_else(|| "-".to_owned(), |value| value.to_string())
    }
    let millis = |time: Option<Duration>| or_none(time.map(|time| time.as_millis()));
    let one = |limit: &LimitHint| {
        let [amount, left] = [limit.amount(), limit.remaining()].map(or_none);
        let [window, reset] = [limit.window(), limit.reset_after()].map(millis);
        format!("{} {amount} {left} {window} {reset}", or_none(limit.name()))
    };
    let limits: Vec<_> = hints.limits().iter().map(one).collect();
    limits.join(", ")
}
