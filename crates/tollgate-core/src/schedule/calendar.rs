//! `CalendarQuota`: so many events per local day, week or month.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};

use super::{Period, Zone};
use crate::error::LimitError;
use crate::text::Reader;
use crate::time::Timestamp;

const HOUR_US: u64 = 3_600_000_000;

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
}

impl CalendarUnit {
    const ALL: [(Self, &str); 3] = [
        (Self::Day, "day"),
        (Self::Week, "week"),
        (Self::Month, "month"),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns the first day of the period that contains `date`.
    fn first_day(self, date: Date) -> Result<Date, jiff::Error> {
        match self {
            Self::Day => Ok(date),
            Self::Week => {
                date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days())
            }
            Self::Month => Ok(date.first_of_month()),
        }
    }

    fn span(self) -> Span {
        match self {
            Self::Day => 1.day(),
            Self::Week => 1.week(),
            Self::Month => 1.month(),
        }
    }
}

/// A quota of `N` events per day, week or month of a time zone.
///
/// The caller computes where days begin, and sends that to the store: a server needs no time zones.
/// All callers should therefore use the same version of the time zone database.
///
/// # Examples
///
/// ```
/// use jiff::tz::TimeZone;
/// use tollgate_core::schedule::{CalendarQuota, CalendarUnit};
///
/// let zone = TimeZone::get("Europe/Berlin")?;
/// let daily = CalendarQuota::new(10, CalendarUnit::Day, zone);
/// assert_eq!(daily.to_string(), "10/day@Europe/Berlin");
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CalendarQuota {
    amount: u64,
    unit: CalendarUnit,
    zone: Zone,
}

impl CalendarQuota {
    /// Returns `amount` events per `unit` in `zone`.
    #[must_use]
    pub fn new(amount: u64, unit: CalendarUnit, zone: impl Into<Zone>) -> Self {
        let zone = zone.into();
        Self { amount, unit, zone }
    }

    /// Returns how much weight a day, week or month may hold.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns the unit.
    #[must_use]
    pub fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns the time zone.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Reads `N/UNIT@ZONE` from the byte `start` of `text`, with the `@` at the byte `at`.
    pub(crate) fn read(text: &str, start: usize, at: usize) -> Result<Self, LimitError> {
        let mut reader = Reader::new(text, start);
        let amount = reader.number("an amount, in decimal digits")?;
        let slash = reader.at();
        if !reader.skip('/') {
            return Err(reader.expected(slash, "`/` and `day`, `week` or `month`"));
        }
        let unit_at = reader.at();
        let unit = text.get(unit_at..at).unwrap_or("");
        let Some((unit, _)) = CalendarUnit::ALL
            .into_iter()
            .find(|(_, name)| *name == unit)
        else {
            return Err(reader.expected(unit_at, "`day`, `week` or `month` before `@`"));
        };
        Ok(Self::new(amount, unit, Zone::read(text, at + 1)?))
    }

    /// Returns a length that no period exceeds, in microseconds.
    ///
    /// Where a zone crosses the date line, it repeats or skips a day.
    pub(crate) fn longest_us(&self) -> u64 {
        HOUR_US
            * match self.unit {
                CalendarUnit::Day => 50,
                CalendarUnit::Week => 8 * 24 + 2,
                CalendarUnit::Month => 32 * 24 + 2,
            }
    }

    /// Returns how far the beginnings of two periods are apart at least, in microseconds, but for
    /// days that a zone skips.
    pub(crate) fn shortest_us(&self) -> u64 {
        HOUR_US
            * match self.unit {
                CalendarUnit::Day => 22,
                CalendarUnit::Week => 6 * 24 - 2,
                CalendarUnit::Month => 27 * 24 - 2,
            }
    }

    /// Returns the periods from the one that holds `from` to the one that holds `until`, in `zone`
    /// instead of the quota's own.
    #[must_use]
    pub fn periods(&self, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Period> {
        let mut periods = Vec::new();
        let Some(mut first) = self.first_day(zone, from) else {
            return periods;
        };
        let mut start = start_of(first, zone);
        while let Some(begins) = start
            && begins <= until
        {
            let Ok(next) = first.checked_add(self.unit.span()) else {
                break;
            };
            let ends = start_of(next, zone);
            if let Some(ends) = ends
                && ends > begins
            {
                periods.push(Period::new(begins, ends));
            }
            (first, start) = (next, ends);
        }
        periods
    }

    fn first_day(&self, zone: &TimeZone, at: Timestamp) -> Option<Date> {
        let date = jiff::Timestamp::from(at).to_zoned(zone.clone()).date();
        self.unit.first_day(date).ok()
    }
}

/// Returns the first instant of `date`; before the epoch, the epoch, and after the latest instant,
/// the end of it.
fn start_of(date: Date, zone: &TimeZone) -> Option<Timestamp> {
    let start = date.to_zoned(zone.clone()).ok()?.start_of_day().ok()?;
    let micros = u64::try_from(start.timestamp().as_microsecond()).unwrap_or(0);
    Some(Timestamp::from_micros(micros).unwrap_or(Timestamp::END))
}

/// Writes `N/UNIT@ZONE`.
impl fmt::Display for CalendarQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.amount, self.unit.name(), self.zone)
    }
}
