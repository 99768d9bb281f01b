//! `Facts`: what a state tells without its limit.

use tollgate_core::Timestamp;
use tollgate_core::inside::twins::{integer, words};

use super::names::{Held, Name, Shape, name};
use super::{Command, Reply, command, latest};
use crate::keyspace::PLAIN;

const ALIGNED: &str = "fixed-window-aligned-";
/// The largest value of a scriptless counter: each unit adds the largest step that fits as often as
/// the quota has units.
const MOST: u64 = i64::MAX.cast_unsigned();

/// What a state tells without its limit, whose amount no state holds.
///
/// So it does not tell how much is left, nor whether a call would be admitted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Facts {
    /// Whether it could be read. If not, another release or another program wrote it, and only
    /// [`expires`](Self::expires) is known.
    pub is_understood: bool,
    /// The units that it holds, as of the last write: under GCRA, the debt; of a sliding counter,
    /// those of the newer of two windows; of leases, the weight; of a schedule, the events.
    pub consumed: Option<u64>,
    /// The units of the earlier window of a sliding counter.
    pub previous: Option<u64>,
    /// When the window or the block began, or the first call was counted that the state still holds.
    pub since: Option<Timestamp>,
    /// When something was counted last, if the state says so.
    pub last: Option<Timestamp>,
    /// When nothing of it counts any more, if the state says so.
    pub ends: Option<Timestamp>,
    /// When the server deletes it, to the millisecond: once it cannot affect a decision, and for a
    /// caller's clock some time after that.
    pub expires: Option<Timestamp>,
    /// The time of the server when it was read.
    pub now: Option<Timestamp>,
}

/// Returns the commands that read what the state at `key` tells. The last is its TTL.
pub(super) fn reads(prefix: &str, key: &[u8]) -> Vec<Command> {
    let get = || command([b"GET", key]);
    let mut commands = match name(prefix, key).map(|name| name.held) {
        Some(Held::ByScript(shape)) if shape.is_list() => vec![
            command([b"LRANGE", key, b"0", b"1"]),
            command([b"LINDEX", key, b"-1"]),
        ],
        Some(Held::ByScript(_) | Held::CounterFor(_) | Held::CounterOf(_) | Held::Leases) => {
            vec![get()]
        }
        // A string or a hash.
        Some(Held::Schedule) => vec![get(), command([b"HGET", key, latest::CLOCK])],
        Some(Held::Answer | Held::Otherwise) | None => Vec::new(),
    };
    commands.push(command([b"PTTL", key]));
    commands
}

/// Returns what the `replies` to [`reads`] tell at `now`, or `None` if the state is gone.
pub(super) fn of(prefix: &str, key: &[u8], replies: &[Reply], now: u64) -> Option<Facts> {
    let (ttl, replies) = replies.split_last()?;
    if replies.first() == Some(&Reply::Nil) || *ttl == Reply::Integer(-2) {
        return None;
    }
    let expires = ttl
        .number()
        .map(|left| now.saturating_add(left.saturating_mul(1_000)));
    let told = name(prefix, key).and_then(|name| told(&name, replies, expires));
    Some(Facts {
        is_understood: told.is_some(),
        expires: expires.and_then(instant),
        now: instant(now),
        ..told.unwrap_or_default()
    })
}

fn told(name: &Name<'_>, replies: &[Reply], expires: Option<u64>) -> Option<Facts> {
    let raw = match replies.first() {
        Some(Reply::Bytes(raw)) => raw.as_slice(),
        _ => &[],
    };
    match &name.held {
        Held::ByScript(shape) if shape.is_list() => of_log(replies),
        Held::ByScript(shape) => of_string(shape, raw),
        Held::CounterOf(start) => Some(Facts {
            consumed: counted(name, raw),
            since: instant(*start),
            ends: instant(start.checked_add(window_in(name.shape)?)?),
            ..Facts::default()
        }),
        // It began one window before it expires.
        Held::CounterFor(window) => Some(Facts {
            consumed: counted(name, raw),
            since: expires.and_then(|at| instant(at.saturating_sub(*window))),
            ends: expires.and_then(instant),
            ..Facts::default()
        }),
        Held::Leases => {
            let last = instant(latest::of_leases(raw)?);
            let end = |place: usize| integer(*raw.get(place..)?.first_chunk()?);
            let last_end = raw.len().checked_sub(18).filter(|_| raw.len() > 24);
            Some(Facts {
                consumed: end(16),
                last,
                ends: last_end.and_then(end).and_then(instant),
                ..Facts::default()
            })
        }
        Held::Schedule => {
            // Both begin alike.
            let ([Reply::Bytes(raw), ..] | [_, Reply::Bytes(raw)]) = replies else {
                return None;
            };
            let events = u32::from_le_bytes(*raw.get(8..)?.first_chunk()?);
            let last = latest::of_events(raw)?;
            Some(Facts {
                consumed: Some(events.into()),
                last: instant(last),
                ..Facts::default()
            })
        }
        Held::Answer => Some(Facts::default()),
        Held::Otherwise => None,
    }
}

/// Returns what a string tells that a script wrote.
fn of_string(shape: &Shape, raw: &[u8]) -> Option<Facts> {
    let told = shape.told(&words(raw)?)?;
    Some(Facts {
        consumed: told.consumed,
        previous: told.previous,
        since: told.since.and_then(instant),
        last: told.last.and_then(instant),
        ends: told.ends.and_then(instant),
        ..Facts::default()
    })
}

/// Returns what a list tells that a script wrote: its header, its oldest element, and its newest.
fn of_log(replies: &[Reply]) -> Option<Facts> {
    let [front, newest] = replies else {
        return None;
    };
    let element = |reply: &Reply| -> Option<(u64, u32)> {
        let Reply::Bytes(raw) = reply else {
            return None;
        };
        let (at, total) = raw.split_first_chunk::<8>()?;
        Some((integer(*at)?, u32::from_le_bytes(*total.first_chunk()?)))
    };
    let (latest, before) = element(front.items().first()?)?;
    let oldest = front.items().get(1).and_then(element);
    // Without other elements, the newest one is the header.
    let (last, total) = element(newest)?;
    Some(Facts {
        consumed: Some(total.wrapping_sub(before).into()),
        since: oldest.and_then(|(at, _)| instant(at)),
        last: instant(latest.max(last)),
        ..Facts::default()
    })
}

/// Returns the units in a scriptless counter of 63 bits. Its name says the amount of the quota,
/// unless denied calls count: then it counts single units.
fn counted(name: &Name<'_>, raw: &[u8]) -> Option<u64> {
    let mut value = [0; 8];
    value.get_mut(..raw.len())?.copy_from_slice(raw);
    let value = u64::from_be_bytes(value) >> 1;
    let variant = name.version.strip_prefix(PLAIN)?;
    let numbers: Vec<&str> = variant.split('-').skip(1).collect();
    let amount = match (name.shape.starts_with(ALIGNED), numbers.as_slice()) {
        (true, [amount, _]) | (false, [amount]) => amount.parse().ok()?,
        _ => return Some(value),
    };
    value.checked_div(MOST.checked_div(amount)?)
}

fn window_in(shape: &str) -> Option<u64> {
    shape.strip_prefix(ALIGNED)?.parse().ok()
}

fn instant(micros: u64) -> Option<Timestamp> {
    Timestamp::from_micros(micros).ok()
}
