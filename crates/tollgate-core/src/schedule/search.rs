//! Finds free times: the proof is in `README.md` beside this file.
//!
//! Times are searched in one of two directions. A search into the past mirrors all times, so that
//! both directions run the same code: what is called earlier here comes earlier in the search.

use crate::cover::{Period, Uncovered, period_of};
use crate::schedule::events::Entry;
use crate::schedule::quota::Quota;
use crate::schedule::request::Request;
use crate::time::Timestamp;

/// A time that comes after all others.
const NEVER: i64 = i64::MAX;

/// Where to search, and for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) direction: Direction,
    /// The weight to find room for.
    pub(super) weight: u64,
    /// The first time to look at, and the last.
    pub(super) from: u64,
    pub(super) last: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Direction {
    Later,
    Earlier,
}

impl Direction {
    /// Converts a time to one of the search, or back.
    fn mirror(self, time: i64) -> i64 {
        match self {
            Self::Later => time,
            Self::Earlier => -time,
        }
    }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Found {
    /// The free time, if there is one.
    pub(super) time: Option<u64>,
    /// The quota in the way of the first time: alone, it would have room again last.
    pub(super) in_the_way: Option<usize>,
}

impl Search {
    /// Returns the first free time among `entries`, which are sorted by time.
    pub(super) fn run(&self, request: &Request<'_>, entries: &[Entry]) -> Result<Found, Uncovered> {
        let from = self.direction.mirror(exact(self.from));
        let last = self.direction.mirror(exact(self.last));
        let view = View {
            direction: self.direction,
            entries,
        };
        let quotas = request.searched();
        let mut quotas: Vec<_> = quotas
            .map(|(index, quota, periods)| {
                let cursor = Cursor::new(quota, periods, self.weight, view, from);
                (index, cursor)
            })
            .collect();
        let (mut time, mut in_the_way) = (from, None);
        for (index, quota) in &mut quotas {
            // Beyond the last time, it does not matter how far.
            let free = quota.free_from(from, last)?.min(last + 1);
            if free > time {
                (time, in_the_way) = (free, Some(*index));
            }
        }
        // Each quota may move the time to where another one has no room.
        loop {
            let before = time;
            for (_, quota) in &mut quotas {
                time = quota.free_from(time, last)?;
            }
            if time == before {
                break;
            }
        }
        let time = (time <= last).then(|| self.direction.mirror(time));
        Ok(Found {
            time: time.and_then(|time| u64::try_from(time).ok()),
            in_the_way,
        })
    }
}

/// The entries in the order of the search.
#[derive(Clone, Copy)]
struct View<'e> {
    direction: Direction,
    entries: &'e [Entry],
}

impl<'e> View<'e> {
    fn entry(self, index: usize) -> Option<&'e Entry> {
        match self.direction {
            Direction::Later => self.entries.get(index),
            Direction::Earlier => self.entries.iter().nth_back(index),
        }
    }

    fn time(self, index: usize) -> Option<i64> {
        let entry = self.entry(index)?;
        Some(self.direction.mirror(exact(entry.time.as_micros())))
    }

    fn weight(self, index: usize) -> u64 {
        self.entry(index).map_or(0, Entry::weight)
    }

    /// Returns the index of the first entry after `time`.
    fn first_after(self, time: i64) -> usize {
        let time_of = |entry: &Entry| exact(entry.time.as_micros());
        match self.direction {
            Direction::Later => self.entries.partition_point(|entry| time_of(entry) <= time),
            Direction::Earlier => {
                self.entries.len() - self.entries.partition_point(|entry| time_of(entry) < -time)
            }
        }
    }
}

/// One quota, and how far a search has come in its entries.
struct Cursor<'e> {
    view: View<'e>,
    /// How much weight a window or period may hold beside the new event; `None` if the new event
    /// alone is too heavy.
    spare: Option<u64>,
    kind: Kind<'e>,
}

enum Kind<'e> {
    Sliding(Window),
    Calendar(&'e [Period]),
    /// The open times.
    Closed(&'e [Period]),
}

/// The entries from `first` until before `end`, which weigh `sum` together.
struct Window {
    length: i64,
    first: usize,
    end: usize,
    sum: u64,
}

impl<'e> Cursor<'e> {
    fn new(quota: &Quota, periods: &'e [Period], weight: u64, view: View<'e>, from: i64) -> Self {
        let kind = match quota.window_us() {
            Some(length) => {
                let first = view.first_after(from - exact(length));
                Kind::Sliding(Window {
                    length: exact(length),
                    first,
                    end: first,
                    sum: 0,
                })
            }
            None if quota.counts() => Kind::Calendar(periods),
            None => Kind::Closed(periods),
        };
        Self {
            view,
            spare: quota.amount().checked_sub(weight),
            kind,
        }
    }

    /// Returns the first time from `time` at which this quota has room, or any time after `last` if
    /// that comes later. `time` never decreases from one call to the next.
    fn free_from(&mut self, time: i64, last: i64) -> Result<i64, Uncovered> {
        match (&mut self.kind, self.spare) {
            (Kind::Closed(open), _) => open_from(self.view.direction, open, time, last),
            (_, None) => Ok(NEVER),
            (Kind::Sliding(window), Some(spare)) => {
                Ok(window.free_from(self.view, spare, time, last))
            }
            (Kind::Calendar(periods), Some(spare)) => {
                free_of(self.view, periods, spare, time, last)
            }
        }
    }
}

impl Window {
    fn free_from(&mut self, view: View<'_>, spare: u64, mut time: i64, last: i64) -> i64 {
        while time <= last
            && let Some(first) = view.time(self.first)
        {
            if first - self.length >= time {
                break;
            }
            let leaves = first + self.length;
            if leaves > time {
                // The fewest entries from `first` on, all within one window, that leave no room.
                while self.sum <= spare && view.time(self.end).is_some_and(|time| time < leaves) {
                    self.sum += view.weight(self.end);
                    self.end += 1;
                }
                // They leave none at times within a window of all of them.
                if self.sum > spare {
                    let newest = view.time(self.end - 1).unwrap_or(first);
                    if newest - self.length >= time {
                        break;
                    }
                    time = leaves;
                }
            }
            if self.end > self.first {
                self.sum -= view.weight(self.first);
            } else {
                self.end += 1;
            }
            self.first += 1;
        }
        time
    }
}

/// Returns the first time from `time` that is in one of the `open` times.
///
/// What is between two of them is closed. What lies beyond the first or the last is not known.
fn open_from(
    direction: Direction,
    open: &[Period],
    mut time: i64,
    last: i64,
) -> Result<i64, Uncovered> {
    while time <= last {
        let real = direction.mirror(time);
        let next = open.partition_point(|period| exact(period.end().as_micros()) <= real);
        let after = open.get(next);
        if after.is_some_and(|period| exact(period.start().as_micros()) <= real) {
            break;
        }
        let before = open.get(next.wrapping_sub(1));
        let (Some(before), Some(after)) = (before, after) else {
            return Err(Uncovered(stamp(real)));
        };
        time = match direction {
            Direction::Later => exact(after.start().as_micros()),
            Direction::Earlier => 1 - exact(before.end().as_micros()),
        };
    }
    Ok(time)
}

/// Returns the first time from `time` whose period has room.
fn free_of(
    view: View<'_>,
    periods: &[Period],
    spare: u64,
    mut time: i64,
    last: i64,
) -> Result<i64, Uncovered> {
    while time <= last {
        let period = period_of(periods, stamp(view.direction.mirror(time)))?;
        let start = view
            .entries
            .partition_point(|entry| entry.time < period.start());
        let end = view
            .entries
            .partition_point(|entry| entry.time < period.end());
        let held: u64 = view.entries[start..end].iter().map(Entry::weight).sum();
        if held <= spare {
            break;
        }
        time = match view.direction {
            Direction::Later => exact(period.end().as_micros()),
            Direction::Earlier => 1 - exact(period.start().as_micros()),
        };
    }
    Ok(time)
}

/// Converts a time or a length, which is below 2^54.
#[allow(clippy::cast_possible_wrap, reason = "it is below 2^54")]
const fn exact(micros: u64) -> i64 {
    micros as i64
}

/// Converts a time back, which is not before the epoch.
const fn stamp(time: i64) -> Timestamp {
    Timestamp::saturating_from_micros(time.unsigned_abs())
}
