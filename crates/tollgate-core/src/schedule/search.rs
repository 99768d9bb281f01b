//! Finds free times: the proof is in `README.md` beside this file.

use crate::cover::{Period, Uncovered, period_of};
use crate::schedule::answer::PlannedEvent;
use crate::schedule::event::Event;
use crate::schedule::quota::Quota;
use crate::schedule::request::Request;
use crate::time::Timestamp;

/// A time that comes after all others.
const NEVER: i64 = i64::MAX;

/// An event that is held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) id: Box<[u8]>,
    /// The hash of the id: comparing it first spares a look at most of the other ids.
    pub(super) hash: u32,
    /// A larger one never fits.
    weight: u32,
    pub(super) time: Timestamp,
}

impl Entry {
    pub(super) fn of(event: &Event<'_>) -> Self {
        Self {
            id: event.id().into(),
            hash: hash(event.id()),
            weight: u32::try_from(event.weight()).unwrap_or(u32::MAX),
            time: event.time(),
        }
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight.into()
    }

    pub(super) fn planned(&self) -> PlannedEvent {
        PlannedEvent::new(&*self.id, self.time, self.weight())
    }
}

/// Returns a hash of `id`: FNV-1a.
pub(super) fn hash(id: &[u8]) -> u32 {
    id.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Where to search, and for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// The weight to find room for.
    pub(super) weight: u64,
    /// The first time to look at, and the last.
    pub(super) from: u64,
    pub(super) last: u64,
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
        let (from, last) = (exact(self.from), exact(self.last));
        let view = View(entries);
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
        Ok(Found {
            time: (time <= last).then(|| time.unsigned_abs()),
            in_the_way,
        })
    }
}

/// The entries, sorted by time.
#[derive(Clone, Copy)]
struct View<'e>(&'e [Entry]);

impl View<'_> {
    fn time(self, index: usize) -> Option<i64> {
        let entry = self.0.get(index)?;
        Some(exact(entry.time.as_micros()))
    }

    fn weight(self, index: usize) -> u64 {
        self.0.get(index).map_or(0, Entry::weight)
    }

    fn first_after(self, time: i64) -> usize {
        self.0
            .partition_point(|entry| exact(entry.time.as_micros()) <= time)
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
            (Kind::Closed(open), _) => open_from(open, time, last),
            (_, None) => Ok(NEVER),
            (Kind::Sliding(window), Some(spare)) => {
                Ok(window.free_from(self.view, spare, time, last))
            }
            (Kind::Calendar(periods), Some(spare)) => {
                free_of(self.view.0, periods, spare, time, last)
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
fn open_from(open: &[Period], mut time: i64, last: i64) -> Result<i64, Uncovered> {
    while time <= last {
        let next = open.partition_point(|period| exact(period.end().as_micros()) <= time);
        let start = open.get(next).map(|after| exact(after.start().as_micros()));
        time = match start {
            Some(start) if start <= time => break,
            Some(start) if next > 0 => start,
            _ => return Err(Uncovered(stamp(time))),
        };
    }
    Ok(time)
}

/// Returns the first time from `time` whose period has room.
fn free_of(
    entries: &[Entry],
    periods: &[Period],
    spare: u64,
    mut time: i64,
    last: i64,
) -> Result<i64, Uncovered> {
    while time <= last {
        let period = period_of(periods, stamp(time))?;
        let start = entries.partition_point(|entry| entry.time < period.start());
        let end = entries.partition_point(|entry| entry.time < period.end());
        let held: u64 = entries[start..end].iter().map(Entry::weight).sum();
        if held <= spare {
            break;
        }
        time = exact(period.end().as_micros());
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
