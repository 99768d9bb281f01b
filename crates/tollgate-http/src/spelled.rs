//! The headers that services spell in their own ways, such as `X-RateLimit-Remaining`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;

use crate::limit_hint::LimitHint;
use crate::times;

/// The spellings that are known: the words that a header's name has after `ratelimit-` or
/// `rate-limit-`, and the part of a limit that it tells. The first that fits counts; what else is in
/// the name, before or after, is the limit's name.
const SPELLINGS: [(&[&str], Part); 8] = [
    // Seconds from now, or durations such as `6m0s`.
    (&["reset", "after"], Part::ResetAfter),
    // Milliseconds from now.
    (&["reset", "ms"], Part::ResetMillis),
    // Seconds from now, seconds or milliseconds since the epoch, a date, or durations.
    (&["reset"], Part::Reset),
    // A number. Less than nothing is nothing, but `-1` is so only if the request was refused: Spring
    // Cloud Gateway says it of a request that it could not count.
    (&["remaining"], Part::Remaining),
    // A number, perhaps with its window (`100;w=60`), or a list of them; or the window alone, such as
    // `15m` of AspNetCoreRateLimit.
    (&["limit"], Part::Amount),
    // What is used of each amount, such as `200,501` of `200,2000` at Strava.
    (&["usage"], Part::Used),
    (&["used"], Part::Used),
    // The limit's name, at GitHub.
    (&["resource"], Part::Name),
];

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
    /// What is used, instead of what remains.
    Used,
    /// The limit's name.
    Name,
}

/// What a header says of what remains.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Left {
    Counted(u64),
    /// `-1`: nothing, or it was not counted.
    MinusOne,
}

/// A limit's amount, with the window that its entry names. Less, or as much in a longer window, is
/// less.
type Amount = (u64, Reverse<Option<Duration>>);

/// What the headers of one name say, part by part. The least value is the strictest.
#[derive(Default)]
struct Found {
    name: Option<Arc<str>>,
    amounts: Entries<Amount>,
    /// The windows that stand in the place of amounts.
    windows: Entries<Reverse<Duration>>,
    remaining: Entries<Left>,
    used: Entries<Reverse<u64>>,
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
                let windows: Entries<_> = resets(&times::units);
                if windows.iter().any(Option::is_some) {
                    add(&mut found.windows, windows, least);
                    continue;
                }
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
            Part::Used => {
                let line = line.iter().map(|entry| whole(entry).map(Reverse));
                add(&mut found.used, line.collect(), least);
            }
            Part::Name => found.name = Some(value.trim().into()),
        }
    }
    let limits = all.into_iter().flat_map(|((_, group), mut found)| {
        let group = Some(group).filter(|group| !group.is_empty());
        found.name = found.name.or_else(|| group.map(Arc::from));
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
            windows,
            mut remaining,
            used,
            resets,
            resets_after,
        } = self;
        if remaining.is_empty() && used.len() == amounts.len() {
            let left = |(amount, used): (&Option<Amount>, &Option<Reverse<u64>>)| {
                let ((amount, _), Reverse(used)) = ((*amount)?, (*used)?);
                Some(Left::Counted(amount.saturating_sub(used)))
            };
            remaining = amounts.iter().zip(&used).map(left).collect();
        }
        let count = remaining.len();
        let others = [
            amounts.len(),
            windows.len(),
            resets.len(),
            resets_after.len(),
        ];
        if count > 1 && others.iter().all(|len| *len == 0 || *len == count) {
            let at = |index| {
                let after = entry(&resets_after, index).or_else(|| entry(&resets, index));
                let window = entry(&windows, index);
                limit(
                    &name,
                    entry(&amounts, index),
                    window,
                    remaining[index],
                    after,
                )
            };
            return (0..count).map(at).collect();
        }
        let after = least(&resets_after).or_else(|| least(&resets));
        let (amount, window) = (in_force(&amounts), least(&windows));
        vec![limit(&name, amount, window, least(&remaining), after)]
    }
}

fn limit(
    name: &Option<Arc<str>>,
    amount: Option<Amount>,
    window: Option<Reverse<Duration>>,
    remaining: Option<Left>,
    reset_after: Option<Reverse<Duration>>,
) -> LimitHint {
    let window = window.map(|Reverse(window)| window);
    LimitHint {
        name: name.clone(),
        amount: amount.map(|(amount, _)| amount),
        window: amount.and_then(|(_, Reverse(window))| window).or(window),
        remaining: match remaining {
            Some(Left::Counted(remaining)) => Some(remaining),
            Some(Left::MinusOne) | None => None,
        },
        may_be_used_up: remaining == Some(Left::MinusOne),
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
    let (spelled, part, place) = SPELLINGS.iter().find_map(|(spelled, part)| {
        let place = words
            .windows(spelled.len())
            .position(|some| some == *spelled)?;
        Some((spelled, *part, place))
    })?;
    let group = [&words[..place], &words[place + spelled.len()..]].concat();
    // A limit may be called so.
    if part == Part::Name && !group.is_empty() {
        return None;
    }
    Some((prefix, part, group.join("-")))
}

/// Reads the whole number at the beginning, such as of `100;w=60` and `99.0`.
fn whole(value: &str) -> Option<u64> {
    let value = value.trim();
    let end = value.find(|c: char| !c.is_ascii_digit());
    value[..end.unwrap_or(value.len())].parse().ok()
}

/// Reads what remains. Less than nothing is nothing.
fn left(value: &str) -> Option<Left> {
    match value.trim().strip_prefix('-') {
        Some("1") => Some(Left::MinusOne),
        Some(more) => more
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(Left::Counted(0)),
        None => whole(value).map(Left::Counted),
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
