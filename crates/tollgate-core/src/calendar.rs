//! `CalendarUnit` and `Calendar`: the days, weeks, months and years of a time zone.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};

use crate::cover::Period;
use crate::time::Timestamp;

const HOUR_US: u64 = 3_600_000_000;
const SECOND_US: u64 = 1_000_000;

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// From one midnight to the next.
    Day,
    /// From the beginning of a Monday to the beginning of the next.
    Week,
    /// From the beginning of the first day of a month to the beginning of the next month.
    Month,
    /// From the beginning of the first of January to the beginning of the next year.
    Year,
}

impl CalendarUnit {
    const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    /// What an error says was expected instead of a unit.
    pub(crate) const EXPECTED: &'static str = "`day`, `week`, `month` or `year` before `@`";

    /// Returns the unit called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    fn days(self) -> u64 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
            Self::Year => 366,
        }
    }

    /// Returns how long the longest unit lasts where no clocks change.
    pub(crate) fn length(self) -> Duration {
        Duration::from_micros(24 * HOUR_US * self.days())
    }

    /// Returns the unit of this [length](Self::length).
    pub(crate) fn of_length(length: Duration) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.length() == length)
    }

    /// Returns a length that no unit exceeds, in microseconds.
    ///
    /// Where a zone crosses the date line, it repeats or skips a day.
    pub(crate) fn longest_us(self) -> u64 {
        HOUR_US * (24 * self.days() + 26)
    }

    /// Returns how far the beginnings of two units are apart at least, in microseconds, but for days
    /// that a zone skips.
    pub(crate) fn shortest_us(self) -> u64 {
        HOUR_US
            * match self {
                Self::Day => 22,
                Self::Week => 6 * 24 - 2,
                Self::Month => 27 * 24 - 2,
                Self::Year => 364 * 24 - 2,
            }
    }

    /// Returns the first day of the unit that contains `date`.
    pub(crate) fn first_day(self, date: Date) -> Result<Date, jiff::Error> {
        match self {
            Self::Day => Ok(date),
            Self::Week => {
                date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days())
            }
            Self::Month => Ok(date.first_of_month()),
            Self::Year => Ok(date.first_of_year()),
        }
    }

    pub(crate) fn span(self) -> Span {
        match self {
            Self::Day => 1.day(),
            Self::Week => 1.week(),
            Self::Month => 1.month(),
            Self::Year => 1.year(),
        }
    }
}

/// Returns the date at the instant `at`.
pub(crate) fn date(zone: &TimeZone, at: Timestamp) -> Date {
    jiff::Timestamp::from(at).to_zoned(zone.clone()).date()
}

/// Returns the first instant of `date`, in microseconds; before the epoch, that of the epoch.
pub(crate) fn start_of(zone: &TimeZone, date: Date) -> Option<u64> {
    let start = date.to_zoned(zone.clone()).ok()?.start_of_day().ok()?;
    Some(u64::try_from(start.timestamp().as_microsecond()).unwrap_or(0))
}

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

/// In the place of a zone's name: the zone is that of the call.
pub(crate) const LOCAL: &str = "local";

/// A unit of one time zone's calendar, which a process has once.
///
/// Its periods are half-open, and each instant is in exactly one; the last ends with the last instant. A boundary that is repeated is its
/// first instant, and one that is skipped is the end of the gap.
pub(crate) struct Calendar {
    unit: CalendarUnit,
    name: Box<str>,
    zone: TimeZone,
    is_local: bool,
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
    /// It stays in memory, but there are only as many as the database has names.
    pub(crate) fn of(unit: CalendarUnit, name: &str) -> Option<&'static Self> {
        type Known = HashMap<(CalendarUnit, Box<str>), &'static Calendar>;
        static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

        let is_local = name == LOCAL;
        let (zone, name): (_, Box<str>) = if is_local {
            // A limit of it admits nothing until a call brings the zone.
            (TimeZone::UTC, LOCAL.into())
        } else {
            let zone = zone(name)?;
            let name = zone.iana_name()?.into();
            (zone, name)
        };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(known.entry((unit, name.clone())).or_insert_with(|| {
            Box::leak(Box::new(Self {
                unit,
                is_local,
                name,
                zone,
                recent: Default::default(),
            }))
        }))
    }

    pub(crate) fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns whether the zone is that of the call.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Returns the name of the zone.
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
        let mut first = self.unit.first_day(date(&self.zone, instant)).ok()?;
        let mut start = start_of(&self.zone, first)?;
        // Where clocks go back over midnight, a date comes twice: the second time, the next has begun.
        loop {
            first = first.checked_add(self.unit.span()).ok()?;
            let end = start_of(&self.zone, first)?;
            if end > at {
                return Some((start, end.min(Timestamp::END.as_micros())));
            }
            start = end;
        }
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

/// There is one calendar of each unit and zone.
impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Calendar {}

/// Writes `UNIT@ZONE`.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.unit.name(), self.name)
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({self})")
    }
}
