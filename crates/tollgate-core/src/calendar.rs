//! `Calendar`: the days, weeks, months and years of a time zone.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use jiff::tz::TimeZone;

use crate::cover::Period;
use crate::cycle::{CalendarCycle, LOCAL};
use crate::time::Timestamp;

const SECOND_US: u64 = 1_000_000;

/// Names in the database of a system that are no zones, or another one on each machine.
const NOT_ZONES: [&str; 4] = ["Etc/Unknown", "Factory", "localtime", "posixrules"];

/// Returns the zone of this name in the database of time zones, if there is one.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    let zone = TimeZone::get(name).ok()?;
    // As the database spells it.
    let name = zone.iana_name()?;
    (!NOT_ZONES.contains(&name)).then_some(zone)
}

/// Returns the name of a zone; of one without a name, what tells it from others.
pub(crate) fn name_of(zone: &TimeZone) -> Cow<'_, str> {
    match zone.iana_name() {
        Some(name) => name.into(),
        None => format!("{zone:?}").into(),
    }
}

/// The periods of one time zone, which a process has once.
///
/// They are half-open, and each instant is in exactly one; the last ends with the last instant.
pub(crate) struct Calendar {
    cycle: CalendarCycle,
    name: Box<str>,
    zone: TimeZone,
    needs_zone: bool,
    /// Two periods that were computed lately, or zeros. Most calls are in one of them, and another may
    /// be read with it.
    recent: [AtomicU64; 2],
}

/// From the first instant of a period until before the second.
pub(crate) type Bounds = (u64, u64);

impl Calendar {
    /// Returns the calendar of the zone of this name in the database of time zones, or of the call's, which
    /// is [`LOCAL`]; or `None` if there is none.
    ///
    /// It stays in memory, but there are only as many as there are names in the database, and cycles in the
    /// texts of limits.
    pub(crate) fn of(cycle: CalendarCycle, name: &str) -> Option<&'static Self> {
        type Known = HashMap<(CalendarCycle, Box<str>), &'static Calendar>;
        static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

        let needs_zone = name == LOCAL;
        let (zone, name): (_, Box<str>) = if needs_zone {
            // A limit of it admits nothing until a call brings the zone.
            (TimeZone::UTC, LOCAL.into())
        } else {
            let zone = zone(name)?;
            let name = zone.iana_name()?.into();
            (zone, name)
        };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(known.entry((cycle, name.clone())).or_insert_with(|| {
            Box::leak(Box::new(Self {
                cycle,
                needs_zone,
                name,
                zone,
                recent: Default::default(),
            }))
        }))
    }

    pub(crate) fn cycle(&self) -> CalendarCycle {
        self.cycle
    }

    /// Returns whether the zone is that of the call.
    #[inline]
    pub(crate) fn needs_zone(&self) -> bool {
        self.needs_zone
    }

    /// Returns whether a call must bring the zone or the day.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.needs_zone || self.cycle.needs_day()
    }

    pub(crate) fn zone(&self) -> &str {
        &self.name
    }

    /// Returns the period that holds `at`.
    #[inline]
    pub(crate) fn period(&self, at: u64) -> Bounds {
        for recent in &self.recent {
            let (start, end) = unpacked(recent.load(Ordering::Relaxed));
            if start <= at && at < end {
                return (start, end);
            }
        }
        self.look_up(at)
    }

    #[cold]
    fn look_up(&self, at: u64) -> Bounds {
        // Every instant has a date, and the neighbors of its unit are dates, too.
        let bounds = self.search(at);
        let bounds = bounds.unwrap_or((0, Timestamp::END.as_micros()));
        if let Some(packed) = packed(bounds) {
            // The one that is further away is the less likely to be asked for again.
            let away = |of: &AtomicU64| of.load(Ordering::Relaxed).abs_diff(packed);
            let [first, second] = self.recent.each_ref().map(away);
            self.recent[usize::from(second > first)].store(packed, Ordering::Relaxed);
        }
        bounds
    }

    /// Returns the period that holds `around`, and the one before or after it, whichever is closer. Every
    /// instant that is less than half a period away from it lies in one of them.
    pub(crate) fn around(&self, around: Timestamp) -> Vec<Period> {
        let around = around.as_micros();
        let (start, end) = self.period(around);
        let [first, second, third] = if start > 0 && around - start < end - around {
            [self.period(start - 1).0, start, end]
        } else {
            [start, end, self.period(end).1]
        }
        .map(|boundary| Timestamp::from_micros(boundary).unwrap_or(Timestamp::END));
        vec![Period::new(first, second), Period::new(second, third)]
    }

    fn search(&self, at: u64) -> Option<Bounds> {
        let instant = Timestamp::saturating_from_micros(at);
        let mut beginnings = self.cycle.beginnings(&self.zone, instant);
        let mut start = beginnings.next()?;
        for end in beginnings {
            if end > at {
                return Some((start, end.min(Timestamp::END.as_micros())));
            }
            start = end;
        }
        None
    }
}

/// How many bits the length of a period takes, in seconds.
const LENGTH_BITS: u32 = 26;

/// Returns a period in one word, if it begins and ends at whole seconds, as nearly all do.
fn packed((start, end): Bounds) -> Option<u64> {
    let is_whole = start.is_multiple_of(SECOND_US) && end.is_multiple_of(SECOND_US);
    let length = (end - start) / SECOND_US;
    (is_whole && length < 1 << LENGTH_BITS).then_some(((start / SECOND_US) << LENGTH_BITS) | length)
}

/// Returns the period in a word; in zero there is an empty one.
fn unpacked(packed: u64) -> Bounds {
    let start = (packed >> LENGTH_BITS) * SECOND_US;
    let length = packed & ((1 << LENGTH_BITS) - 1);
    (start, start + length * SECOND_US)
}

/// There is one calendar of each cycle and zone.
impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Calendar {}

/// Writes `UNIT@ZONE`, and the options of the cycle.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.cycle.unit().name(), self.name)?;
        self.cycle.write_options(f)
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({self})")
    }
}
