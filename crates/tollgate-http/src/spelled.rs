//! The headers that services spell in their own ways, such as `X-RateLimit-Remaining`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use http::HeaderMap;

use crate::{LimitHint, times};

/// The part of a limit that a header tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Amount,
    Remaining,
    Reset,
    /// As [`Reset`](Self::Reset), but always from now.
    ResetAfter,
    /// The limit's name.
    Name,
}

/// Returns the limits that headers with `ratelimit` or `rate-limit` in their names describe.
pub(crate) fn limits(headers: &HeaderMap, now: SystemTime) -> Vec<LimitHint> {
    let mut limits: BTreeMap<(&str, String), LimitHint> = BTreeMap::new();
    for (header, value) in headers {
        let (Some((prefix, part, group)), Ok(value)) = (parts(header.as_str()), value.to_str())
        else {
            continue;
        };
        let name = Some(group.clone()).filter(|group| !group.is_empty());
        let limit = limits.entry((prefix, group)).or_insert_with(|| LimitHint {
            name,
            ..LimitHint::default()
        });
        match part {
            Part::Amount => {
                limit.amount = whole(value).or(limit.amount);
                limit.window = window(value).or(limit.window);
            }
            Part::Remaining => limit.remaining = whole(value).or(limit.remaining),
            // A service that sends both means the same.
            Part::Reset => {
                limit.reset_after = limit.reset_after.or_else(|| times::until(value, now))
            }
            Part::ResetAfter => limit.reset_after = times::length(value).or(limit.reset_after),
            Part::Name => limit.name = Some(value.trim().to_owned()),
        }
    }
    limits.into_values().filter(LimitHint::is_of_use).collect()
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

/// Reads the window in `100;w=60`.
fn window(value: &str) -> Option<std::time::Duration> {
    let (_, window) = value.split_once("w=")?;
    let end = window.find(|c: char| !c.is_ascii_digit());
    times::length(&window[..end.unwrap_or(window.len())])
}
