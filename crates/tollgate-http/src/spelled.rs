//! The headers that services spell in their own ways, such as `X-RateLimit-Remaining`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::HeaderMap;

use crate::{LimitHint, times};

/// The part of a limit that a header tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Amount,
    Remaining,
    Reset,
    /// As [`Reset`](Self::Reset), in milliseconds from now.
    ResetMillis,
    /// As [`Reset`](Self::Reset), but always from now.
    ResetAfter,
    /// The limit's name.
    Name,
}

/// A limit, and how long until it is reset if a header tells that without a date.
#[derive(Default)]
struct Found {
    limit: LimitHint,
    reset_after: Option<Duration>,
}

/// Returns the limits that headers with `ratelimit` or `rate-limit` in their names describe.
///
/// If a gateway and the service behind it both send a header, the stricter one counts.
pub(crate) fn limits(headers: &HeaderMap, now: SystemTime) -> Vec<LimitHint> {
    let mut all: BTreeMap<(&str, String), Found> = BTreeMap::new();
    for (header, value) in headers {
        let (Some((prefix, part, group)), Ok(value)) = (parts(header.as_str()), value.to_str())
        else {
            continue;
        };
        let name = Some(group.clone()).filter(|group| !group.is_empty());
        let found = all.entry((prefix, group)).or_default();
        let limit = &mut found.limit;
        limit.name = limit.name.take().or(name);
        match part {
            Part::Amount => {
                limit.amount = least(limit.amount, whole(value));
                limit.window = window(value, limit.amount).or(limit.window);
            }
            Part::Remaining => limit.remaining = least(limit.remaining, whole(value)),
            Part::Reset => limit.reset_after = limit.reset_after.max(times::until(value, now)),
            Part::ResetMillis => limit.reset_after = limit.reset_after.max(times::millis(value)),
            Part::ResetAfter => found.reset_after = found.reset_after.max(times::length(value)),
            Part::Name => limit.name = Some(value.trim().to_owned()),
        }
    }
    let limits = all.into_values().map(|found| LimitHint {
        reset_after: found.reset_after.or(found.limit.reset_after),
        ..found.limit
    });
    limits.filter(LimitHint::is_of_use).collect()
}

/// Returns the smaller of two numbers, if there are two.
fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// Splits a header's name into what comes before `ratelimit-`, the part, and all other words.
fn parts(header: &str) -> Option<(&str, Part, String)> {
    let (prefix, rest) = header
        .split_once("ratelimit-")
        .or_else(|| header.split_once("rate-limit-"))?;
    let words: Vec<&str> = rest.split('-').collect();
    let at = |word: &str| words.iter().position(|other| *other == word);
    let (part, place, length) = if let Some(place) = at("reset") {
        match words.get(place + 1) {
            Some(&"after") => (Part::ResetAfter, place, 2),
            Some(&"ms") => (Part::ResetMillis, place, 2),
            _ => (Part::Reset, place, 1),
        }
    } else if let Some(place) = at("remaining") {
        (Part::Remaining, place, 1)
    } else if let Some(place) = at("limit") {
        (Part::Amount, place, 1)
    } else if rest == "resource" {
        (Part::Name, 0, 1)
    } else {
        return None;
    };
    let group = [&words[..place], &words[place + length..]].concat();
    Some((prefix, part, group.join("-")))
}

/// Reads the whole number at the beginning, such as of `100;w=60` and `99.0`.
fn whole(value: &str) -> Option<u64> {
    let value = value.trim();
    let end = value.find(|c: char| !c.is_ascii_digit());
    value[..end.unwrap_or(value.len())].parse().ok()
}

/// Reads the window of `amount` in `50;w=60` or `50, 10;w=1, 50;w=60`.
fn window(value: &str, amount: Option<u64>) -> Option<Duration> {
    let mut policies = value.split(',').filter(|policy| whole(policy) == amount);
    policies.find_map(|policy| {
        let (_, window) = policy.split_once("w=")?;
        let end = window.find(|c: char| !c.is_ascii_digit());
        times::length(&window[..end.unwrap_or(window.len())])
    })
}
