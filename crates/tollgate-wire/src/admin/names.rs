//! Parses the names of keys: the limit, the schedule or the leases, the algorithm, and how the state
//! is stored.

use smallvec::SmallVec;
use tollgate_core::inside::encoding::{LEASES, SCHEDULE};
use tollgate_core::inside::twins::{TWINS, Told, Words};

use super::Command;
use super::command;
use crate::keyspace::{ANSWER, CALLER, PLAIN, VERSION};

/// The parsed name of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Name<'a> {
    /// The name of the limit, of the schedule, or of the leases.
    pub(super) limit: &'a str,
    /// The algorithm with its parameters, or `schedule`, `leases` or `answer`.
    pub(super) shape: &'a str,
    /// The version, without that of this release: `-caller`, for example.
    pub(super) version: &'a str,
    /// The user's part of the key: `{PARTITION}`, or `{PARTITION}:REST`.
    pub(super) user: &'a [u8],
    pub(super) held: Held,
}

/// How the state at a key is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Held {
    /// By a script.
    ByScript(Shape),
    /// In a scriptless counter of the aligned window that starts at this instant, in microseconds.
    CounterOf(u64),
    /// In a scriptless counter of an anchored window of this length, in microseconds.
    CounterFor(u64),
    /// The events of a schedule.
    Schedule,
    /// Leases.
    Leases,
    /// The answer to a call with an id.
    Answer,
    /// In the encoding of another release.
    Otherwise,
}

/// An algorithm, with the numbers that its states depend on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Shape {
    /// The index of the algorithm in [`TWINS`].
    code: usize,
    numbers: Words,
}

impl Shape {
    fn parse(text: &str) -> Option<Self> {
        TWINS.iter().enumerate().find_map(|(code, twin)| {
            let numbers = twin.numbers(text)?;
            Some(Self { code, numbers })
        })
    }

    /// Returns the commands that read as much of `key` as [`latest`](Self::latest) needs.
    pub(super) fn reads(&self, key: &[u8]) -> Vec<Command> {
        if self.is_list() {
            vec![
                command([b"LINDEX", key, b"0"]),
                command([b"LINDEX", key, b"-1"]),
            ]
        } else {
            vec![command([b"GET", key])]
        }
    }

    /// Returns whether a state is a list on the server, instead of a string.
    pub(super) fn is_list(&self) -> bool {
        TWINS[self.code].is_list
    }

    /// Returns what a string tells, or `None` if no limit writes such a state.
    pub(super) fn told(&self, state: &[u64]) -> Option<Told> {
        (TWINS[self.code].told)(&self.numbers, state)
    }

    /// Returns the latest instant in a state, or `None` if no limit writes such a state.
    pub(super) fn latest(&self, values: &[Vec<u8>]) -> Option<u64> {
        (TWINS[self.code].latest)(&self.numbers, values)
    }
}

/// Parses `key`, if it belongs to a store with `prefix`.
///
/// The second part after the prefix must be a known algorithm, the third a version, and the fourth
/// in braces. That excludes keys of other programs, and of longer prefixes such as `shop:eu`.
pub(super) fn name<'a>(prefix: &str, key: &'a [u8]) -> Option<Name<'a>> {
    let rest = key.strip_prefix(prefix.as_bytes())?.strip_prefix(b":")?;
    // Everything before the user's part is ASCII.
    let brace = rest.iter().position(|&byte| byte == b'{')?;
    if !is_of_user(&rest[brace..]) {
        return None;
    }
    let parts = std::str::from_utf8(&rest[..brace]).ok()?.split(':');
    let &[limit, shape, version, ""] = parts.collect::<SmallVec<[_; 4]>>().as_slice() else {
        return None;
    };
    let read = match shape {
        SCHEDULE => Held::Schedule,
        LEASES => Held::Leases,
        ANSWER => Held::Answer,
        shape => Held::ByScript(Shape::parse(shape)?),
    };
    let held = match version.strip_prefix(VERSION) {
        Some("" | CALLER) => read,
        Some(variant) if variant.starts_with(PLAIN) => counter(shape, &variant[PLAIN.len()..])?,
        _ => {
            let number = version.strip_prefix('v')?.split('-').next()?;
            number.parse::<u64>().ok()?;
            Held::Otherwise
        }
    };
    Some(Name {
        limit,
        shape,
        version: version.strip_prefix(VERSION).unwrap_or(version),
        user: &rest[brace..],
        held,
    })
}

/// Returns whether this is the user's part of a key: `{PARTITION}`, or `{PARTITION}:REST`. Neither
/// is empty, and no partition holds a brace.
fn is_of_user(part: &[u8]) -> bool {
    let close = part.iter().position(|&byte| byte == b'}');
    let rest = close
        .filter(|&close| close > 1)
        .map(|close| &part[close + 1..]);
    rest.is_some_and(|rest| rest.is_empty() || (rest.len() > 1 && rest[0] == b':'))
}

/// Parses a scriptless counter; `variant` is `-AMOUNT`, `-WINDOW`, both or neither.
fn counter(shape: &str, variant: &str) -> Option<Held> {
    if let Some(window) = shape.strip_prefix("fixed-window-anchored-") {
        return Some(Held::CounterFor(window.parse().ok()?));
    }
    let window_us = shape.strip_prefix("fixed-window-aligned-")?;
    let window_us = window_us.parse().ok()?;
    let (_, window) = variant.rsplit_once('-')?;
    let start = window.parse::<u64>().ok()?.checked_mul(window_us)?;
    Some(Held::CounterOf(start))
}

/// Returns the `SCAN` pattern for the keys of `prefix`, of one limit or of all.
pub(super) fn pattern(prefix: &str, limit: Option<&str>) -> Vec<u8> {
    let mut pattern = Vec::new();
    for part in std::iter::once(prefix).chain(limit) {
        push_literally(&mut pattern, part.as_bytes());
        pattern.push(b':');
    }
    pattern.push(b'*');
    pattern
}

/// Returns the `SCAN` pattern for those of these keys whose user's part begins with `user`.
pub(super) fn pattern_of(prefix: &str, limit: Option<&str>, user: &[u8]) -> Vec<u8> {
    let mut pattern = pattern(prefix, limit);
    push_literally(&mut pattern, user);
    pattern.push(b'*');
    pattern
}

/// Appends `text`, which matches only itself.
fn push_literally(pattern: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'^' | b'\\') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys, and how their states are stored: by the script of an algorithm with these numbers, or
    /// otherwise.
    const KEYS: &str = "\
shop:a:gcra:v1:{k} gcra []
shop:a.b:sliding-log:v1-caller:{k%3a}:/rest:{ sliding-log []
shop:a:fixed-window-aligned-60:v1:{k} fixed-window [60, 0]
shop:a:sliding-buckets-60-7:v1:{k} sliding-buckets [60, 7]
shop:a:calendar-window-month-America/Port-au-Prince:v1:{k} calendar-window []
shop:a:fixed-window-aligned-60:v1-plain-5-9:{k} CounterOf(540)
shop:a:fixed-window-aligned-60:v1-plain-9:{k} CounterOf(540)
shop:a:fixed-window-anchored-60:v1-plain-5:{k} CounterFor(60)
shop:a:schedule:v1:{k}:r Schedule
shop:a:schedule:v1-caller:{k} Schedule
shop:a:schedule:v2:{k} Otherwise
shop:a:leases:v1:{k}:r Leases
shop:a:leases:v1-caller:{k} Leases
shop:a:answer:v1:{k}:r:00ff Answer
shop:a:answer:v1-caller:{k}:00ff Answer
shop:a:leases:v2:{k} Otherwise
shop:a:gcra:v7-caller:{k} Otherwise
shop:a:gcra:v1-other-5:{k} Otherwise
shop:a:gcra:v10:{k} Otherwise
";

    #[test]
    fn keys_parse_into_the_names_they_were_made_of() {
        for row in KEYS.lines() {
            let (key, expected) = row.split_once(' ').unwrap();
            let name = name("shop", key.as_bytes()).unwrap();
            let held = match name.held {
                Held::ByScript(shape) => format!("{} {:?}", TWINS[shape.code].name, shape.numbers),
                held => format!("{held:?}"),
            };
            assert_eq!(held, expected, "{key}");
            assert_eq!(Some(name.limit), key.split(':').nth(1));
        }
    }

    #[test]
    fn keys_of_other_programs_are_not_parsed() {
        for key in [
            "shop",
            "shop:",
            "shop:a:gcra:v1:k",
            "shop:a:gcra:v1",
            "shop:a:gcra:v1:{k",
            "shop:a:gcra:v1:{}",
            "shop:a:gcra:v1:{k}x",
            "shop:a:gcra:v1:{k}xy",
            "shop:a:gcra:v1:{k}:",
            "shop:a:gcra:w1:{k}",
            "shop:a:gcra:v:{k}",
            "shop:a:gcra:v1:x:{k}",
            "shop:a:gcra:v1:x{k}",
            "shop:a:gcra:v1::{k}",
            "shop:a:fixed-window-anchored-60:v1-plain::{k}",
            // A window that begins after all time.
            "shop:a:fixed-window-aligned-16:v1-plain-1152921504606846976:{k}",
            "shop:a:hits:v1:{k}",
            "shop:a:sliding-counter-x:v1:{k}",
            "shop:a:gcra:v1-plain-5:{k}",
            "shop:a:schedule:v1-plain-5:{k}",
            "shop:a:schedule-5:v1:{k}",
            "shop:a:leases:v1-plain-5:{k}",
            "shop:a:leases-5:v1:{k}",
            // Of the prefix `shop:eu`, the second with a limit called `gcra`.
            "shop:eu:a:gcra:v1:{k}",
            "shop:eu:gcra:gcra:v1:{k}",
            "shopping:a:gcra:v1:{k}",
            "other:a:gcra:v1:{k}",
            "session:{k}",
        ] {
            assert_eq!(name("shop", key.as_bytes()), None, "{key}");
        }
        assert_eq!(name("shop", b"shop:\xff:gcra:v1:{k}"), None);
        let eu = name("shop:eu", b"shop:eu:gcra:gcra:v1:{k}");
        assert_eq!(eu.unwrap().limit, "gcra");
    }

    #[test]
    fn patterns_match_only_their_limit() {
        assert_eq!(pattern("shop", None), b"shop:*");
        assert_eq!(pattern("shop", Some("a")), b"shop:a:*");
        assert_eq!(pattern("a*b?[c]^\\", None), br"a\*b\?\[c\]\^\\:*");
        assert_eq!(pattern_of("shop", Some("a"), b"{k*}"), br"shop:a:*{k\*}*");
    }
}
