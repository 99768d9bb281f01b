//! `Lane`: the calls that wait for their departure, and how many drivers take them along.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use foldhash::fast::{FixedState, RandomState};
use smallvec::SmallVec;

use super::departure::{Departure, Seat};
use super::passenger::Passenger;

/// The most calls that leave by themselves at once, before later ones wait and go together.
const MOST_ALONE: usize = 16;
/// The most departures that leave at once.
const MOST_AT_ONCE: usize = 2;
/// The most calls, and the most departures, that are on their way at a time.
const MOST: usize = 64;

/// The lanes of a store that calls and drivers use at present.
///
/// Each runtime has lanes of its own, so that no call depends on another runtime, which may stand
/// still or end.
#[derive(Clone, Default)]
pub(in crate::wire) struct Lanes(Arc<Mutex<Table>>);

type Table = HashMap<Name, Weak<Lane>, RandomState>;

/// The id of a runtime, and in a cluster the partition: a script takes keys of one slot.
type Name = SmallVec<[u8; 32]>;

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lane of the calls that a runtime polls, and in a cluster, that have this partition.
    pub(super) fn get(&self, runtime: u64, partition: &[u8]) -> Arc<Lane> {
        let mut name = Name::from(runtime.to_le_bytes().as_slice());
        name.extend_from_slice(partition);
        let mut table = self.lock();
        if let Some(lane) = table.get(&name).and_then(Weak::upgrade) {
            return lane;
        }
        let lane = Arc::new(Lane {
            name: name.clone(),
            lanes: self.clone(),
            is_driven: AtomicBool::default(),
            traffic: Mutex::default(),
        });
        table.insert(name, Arc::downgrade(&lane));
        lane
    }
}

/// Shows the lanes without their names, which hold keys.
impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shown when the table is not locked any more: the last user of a lane locks it.
        let lanes: Vec<_> = self.lock().values().filter_map(Weak::upgrade).collect();
        f.debug_list().entries(lanes).finish()
    }
}

/// The calls that may go together: those that one runtime polls, and in a cluster have one hash slot.
pub(super) struct Lane {
    name: Name,
    lanes: Lanes,
    /// Whether there are drivers, to be read without the lock.
    is_driven: AtomicBool,
    traffic: Mutex<Traffic>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.traffic.fmt(f)
    }
}

/// Nobody uses the lane any more, so it leaves the table, unless a new one has its place already.
impl Drop for Lane {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        let is_unused = |found: &Weak<Self>| found.strong_count() == 0;
        if lanes.get(&self.name).is_some_and(is_unused) {
            lanes.remove(&self.name);
        }
    }
}

#[derive(Debug, Default)]
struct Traffic {
    /// How many calls are on their way by themselves.
    alone: usize,
    drivers: usize,
    /// How many drivers have a departure on its way.
    busy: usize,
    /// Numbered in order of arrival; only the last one has room.
    waiting: VecDeque<Arc<Departure>>,
    /// The number of the first one.
    first: u64,
    /// The last group that waits and has a limit and a key of this hash, which is random already.
    latest: HashMap<u64, Position, FixedState>,
    /// When the last call or departure left.
    left: Option<Instant>,
}

/// A group of a departure, in order of arrival.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Position {
    departure: u64,
    group: usize,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a call goes by itself, and must [leave](Self::leave); others wait.
    pub(super) fn enter(&self, now: Instant, gap: Duration) -> bool {
        // While there are drivers, as there are under load, this call saves a lock.
        if self.is_driven.load(Ordering::Relaxed) {
            return false;
        }
        let mut traffic = self.lock();
        let most = traffic.most(MOST_ALONE, now, gap);
        let is_alone = traffic.drivers == 0 && traffic.alone < most;
        if is_alone {
            traffic.alone += 1;
            traffic.left = Some(now);
        }
        is_alone
    }

    /// A call that went by itself is over.
    pub(super) fn leave(&self) {
        self.lock().alone -= 1;
    }

    /// Adds a call to those that wait. Returns its seat, and whether a driver must be started.
    pub(super) fn board(
        &self,
        passenger: &mut Passenger<'_>,
        now: Instant,
        gap: Duration,
    ) -> (Seat, bool) {
        let mut traffic = self.lock();
        let seat = match traffic.join(passenger) {
            Some(seat) => seat,
            None => {
                // Naming the keys takes long, so others need not wait for it.
                drop(traffic);
                passenger.pack();
                traffic = self.lock();
                let joined = traffic.join(passenger);
                joined.unwrap_or_else(|| traffic.add(passenger))
            }
        };
        let needs_driver = traffic.needs_driver(now, gap);
        if needs_driver {
            self.is_driven.store(true, Ordering::Relaxed);
        }
        (seat, needs_driver)
    }
}

impl Traffic {
    /// Returns the last group that waits and has one of the limits and keys with these hashes.
    fn latest(&self, hashes: &[u64]) -> Option<Position> {
        let found = hashes.iter().filter_map(|hash| self.latest.get(hash));
        found.max().copied()
    }

    fn departure(&self, number: u64) -> Option<&Arc<Departure>> {
        let ahead = number.checked_sub(self.first)?;
        self.waiting.get(usize::try_from(ahead).ok()?)
    }

    /// Adds a call to equal ones that wait, unless another call for one of its states came after them:
    /// then all calls for a state are still decided in the order in which they came.
    fn join(&self, passenger: &mut Passenger<'_>) -> Option<Seat> {
        let position = self.latest(&passenger.hashes)?;
        // If no driver is free, the departures that wait are looked after only once the first of them
        // leaves, which is when its last call is late. So it gets no younger calls.
        if self.drivers >= MOST && self.departure(position.departure + 1).is_some() {
            return None;
        }
        self.departure(position.departure)?
            .join(passenger, position.group)
    }

    /// Adds a call that is packed to the last departure, or to a new one if that is full.
    fn add(&mut self, passenger: &mut Passenger<'_>) -> Seat {
        let has_room = |last: &Arc<Departure>| last.has_room(passenger);
        if !self.waiting.back().is_some_and(has_room) {
            self.waiting.push_back(Arc::default());
        }
        let last = self.waiting.len() - 1;
        let number = self.first + u64::try_from(last).unwrap_or(u64::MAX);
        let latest = self.latest(&passenger.hashes);
        let shares = latest.is_some_and(|latest| latest.departure == number);
        let (group, seat) = self.waiting[last].add(passenger, shares);
        let position = Position {
            departure: number,
            group,
        };
        for hash in &passenger.hashes {
            self.latest.insert(*hash, position);
        }
        seat
    }

    /// Takes the first departure that waits.
    fn take_first(&mut self) -> Option<Arc<Departure>> {
        let departure = self.waiting.pop_front()?;
        let number = self.first;
        self.first += 1;
        departure.for_each_hash(|hash| {
            if self
                .latest
                .get(&hash)
                .is_some_and(|of| of.departure == number)
            {
                self.latest.remove(&hash);
            }
        });
        Some(departure)
    }

    /// Returns how many may be on their way: so many as leave at once, or more if the last one left
    /// at least `gap` ago. So nothing waits for a server that is far away but not busy.
    fn most(&self, at_once: usize, now: Instant, gap: Duration) -> usize {
        let left = self.left.map(|left| now.saturating_duration_since(left));
        match left {
            Some(ago) if ago < gap => at_once,
            _ => MOST,
        }
    }

    /// Returns how many drivers there may be.
    fn most_drivers(&self, now: Instant, gap: Duration) -> usize {
        match self.waiting.len() {
            0 | 1 => self.most(MOST_AT_ONCE, now, gap),
            // The first departure is full, so it gains nothing by waiting.
            _ => MOST,
        }
    }

    /// Counts a new driver if calls wait, all drivers are busy, and one more departure may leave.
    fn needs_driver(&mut self, now: Instant, gap: Duration) -> bool {
        let all_are_busy = self.drivers == self.busy;
        let needed =
            !self.waiting.is_empty() && all_are_busy && self.drivers < self.most_drivers(now, gap);
        self.drivers += usize::from(needed);
        needed
    }
}

/// A task that takes departures along, one after the other, as long as there are any.
pub(super) struct Driver {
    lane: Arc<Lane>,
    is_busy: bool,
    has_ended: bool,
}

impl Driver {
    /// Returns a driver that the lane has counted.
    pub(super) fn of(lane: Arc<Lane>) -> Self {
        Self {
            lane,
            is_busy: false,
            has_ended: false,
        }
    }

    /// Returns the first departure that waits, and whether another driver must be started for the
    /// next one. If there are too many drivers, or if nothing waits and the driver does not stay, it
    /// ends.
    pub(super) fn next(
        &mut self,
        now: Instant,
        gap: Duration,
        stays: bool,
    ) -> Option<(Arc<Departure>, bool)> {
        let lane = Arc::clone(&self.lane);
        let mut traffic = lane.lock();
        if traffic.drivers > traffic.most_drivers(now, gap) {
            // The others take the rest along.
            self.end(&mut traffic);
            return None;
        }
        let next = traffic.take_first();
        self.set_busy(&mut traffic, next.is_some());
        let Some(next) = next else {
            if !stays {
                self.end(&mut traffic);
            }
            return None;
        };
        traffic.left = Some(now);
        Some((next, traffic.needs_driver(now, gap)))
    }

    /// Returns whether the driver takes no more departures along.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn set_busy(&mut self, traffic: &mut Traffic, is_busy: bool) {
        traffic.busy = traffic.busy - usize::from(self.is_busy) + usize::from(is_busy);
        self.is_busy = is_busy;
    }

    fn end(&mut self, traffic: &mut Traffic) {
        if !self.has_ended {
            self.set_busy(traffic, false);
            traffic.drivers -= 1;
            if traffic.drivers == 0 {
                self.lane.is_driven.store(false, Ordering::Relaxed);
            }
            self.has_ended = true;
        }
    }
}

/// The runtime may have ended. Its calls have ended with it, unless their futures were moved.
impl Drop for Driver {
    fn drop(&mut self) {
        let lane = Arc::clone(&self.lane);
        let mut traffic = lane.lock();
        self.end(&mut traffic);
        if traffic.drivers == 0 {
            let mut waiting = Vec::new();
            while let Some(departure) = traffic.take_first() {
                waiting.push(departure);
            }
            drop(traffic);
            for departure in waiting {
                departure.abandon();
            }
        }
    }
}
