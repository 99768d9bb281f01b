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
    for line in headers
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (name, value) = line.split_once(':').unwrap();
        let name: HeaderName = name.parse().unwrap();
        map.append(name, value.trim().parse().unwrap());
    }
    Hints::read(&map, SystemTime::UNIX_EPOCH + Duration::from_secs(RECEIVED))
}

/// Returns a limit's name, amount, remaining, and the milliseconds of its window and reset.
type Shown<'h> = (Option<&'h str>, [Option<u64>; 2], [Option<u128>; 2]);

fn shown(limit: &LimitHint) -> Shown<'_> {
    let millis = |time: Option<Duration>| time.map(|time| time.as_millis());
    (
        limit.name(),
        [limit.amount(), limit.remaining()],
        [millis(limit.window()), millis(limit.reset_after())],
    )
}
