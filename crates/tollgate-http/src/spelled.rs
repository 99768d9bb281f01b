//! The headers that services spell in their own ways, such as `X-RateLimit-Remaining`.

use std::cmp::Reverse;
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

/// A limit's amount, with the window that its entry names. Less, or as much in a longer window, is
/// less.
type Amount = (u64, Reverse<Option<Duration>>);

/// What the headers of one name say, part by part. The least value is the strictest.
#[derive(Default)]
struct Found {
    name: Option<String>,
    amounts: Entries<Amount>,
    remaining: Entries<u64>,
    resets: Entries<Reverse<Duration>>,
    /// As `resets`, but without a date, so more precise.
    resets_after: Entries<Reverse<Duration>>,
}

/// The entries of a header, such as of `100, 1000`. One that cannot be read is `None`.
type Entries<T> = Vec<Option<T>>;

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
        let found = all.entry((prefix, group)).or_default();
        let line = times::entries(value);
        let resets = |read: &dyn Fn(&str) -> Option<Duration>| {
            line.iter().map(|entry| read(entry).map(Reverse)).collect()
        };
        match part {
            Part::Amount => {
                let line = line
                    .iter()
                    .map(|entry| Some((whole(entry)?, window(entry))));
                add(&mut found.amounts, line.collect(), in_force);
            }
            Part::Remaining => {
                let line = line.iter().map(|entry| left(entry));
                add(&mut found.remaining, line.collect(), least);
            }
            Part::Reset => {
                let line = resets(&|entry| times::until(entry, now));
                add(&mut found.resets, line, least);
            }
            Part::ResetMillis => add(&mut found.resets, resets(&times::millis), least),
            Part::ResetAfter => add(&mut found.resets_after, resets(&times::length), least),
            Part::Name => found.name = Some(value.trim().to_owned()),
        }
    }
    let limits = all.into_iter().flat_map(|((_, group), mut found)| {
        let group = Some(group).filter(|group| !group.is_empty());
        found.name = found.name.or(group);
        found.limits()
    });
    limits.filter(LimitHint::is_of_use).collect()
}

impl Found {
    /// Returns one limit for each entry if all headers have the same number of them, and otherwise
    /// the strictest limit.
    fn limits(self) -> Vec<LimitHint> {
        let Self {
            name,
            amounts,
            remaining,
            resets,
            resets_after,
        } = self;
        let count = remaining.len();
        let others = [amounts.len(), resets.len(), resets_after.len()];
        if count > 1 && others.iter().all(|len| *len == 0 || *len == count) {
            let at = |index| {
                let after = entry(&resets_after, index).or_else(|| entry(&resets, index));
                limit(&name, entry(&amounts, index), remaining[index], after)
            };
            return (0..count).map(at).collect();
        }
        let after = least(&resets_after).or_else(|| least(&resets));
        vec![limit(&name, in_force(&amounts), least(&remaining), after)]
    }
}

fn limit(
    name: &Option<String>,
    amount: Option<Amount>,
    remaining: Option<u64>,
    reset_after: Option<Reverse<Duration>>,
) -> LimitHint {
    LimitHint {
        name: name.clone(),
        amount: amount.map(|(amount, _)| amount),
        window: amount.and_then(|(_, Reverse(window))| window),
        remaining,
        reset_after: reset_after.map(|Reverse(reset)| reset),
    }
}

fn entry<T: Copy>(entries: &[Option<T>], index: usize) -> Option<T> {
    *entries.get(index)?
}

/// Adds another line of a header. Lines of the same length are compared entry by entry, and lines
/// of other lengths as what `one` makes of them.
fn add<T: Copy + Ord>(
    entries: &mut Entries<T>,
    line: Entries<T>,
    one: fn(&[Option<T>]) -> Option<T>,
) {
    if entries.is_empty() {
        *entries = line;
    } else if entries.len() == line.len() {
        for (known, new) in entries.iter_mut().zip(line) {
            *known = least(&[*known, new]);
        }
    } else {
        *entries = vec![least(&[one(entries), one(&line)])];
    }
}

/// Returns the least of the entries that could be read.
fn least<T: Copy + Ord>(entries: &[Option<T>]) -> Option<T> {
    entries.iter().flatten().min().copied()
}

/// Returns the amount of a limit: the first of `50, 10;w=1, 50;w=60`, where the others are policies,
/// with its window, or the least if none has a window.
fn in_force(entries: &[Option<Amount>]) -> Option<Amount> {
    let known = || entries.iter().flatten();
    if known().all(|(_, Reverse(window))| window.is_none()) {
        return least(entries);
    }
    let (first, _) = known().next()?;
    known().filter(|(amount, _)| amount == first).min().copied()
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

/// Reads what remains. Less than nothing is nothing.
fn left(value: &str) -> Option<u64> {
    match value.trim().strip_prefix('-') {
        Some(more) => more.starts_with(|c: char| c.is_ascii_digit()).then_some(0),
        None => whole(value),
    }
}

/// Reads the window in `50;w=60`.
fn window(entry: &str) -> Reverse<Option<Duration>> {
    let window = entry.split_once("w=").and_then(|(_, window)| {
        let end = window.find(|c: char| !c.is_ascii_digit());
        times::length(&window[..end.unwrap_or(window.len())])
    });
    Reverse(window)
}
