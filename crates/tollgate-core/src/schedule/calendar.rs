//! `CalendarQuota`: N events per local day, week, month or year.

use std::fmt;

use jiff::tz::TimeZone;

use super::{Period, Zone};
use crate::cycle::{CalendarCycle, CalendarUnit};
use crate::error::LimitError;
use crate::text::{Options, Reader, expected_options};
use crate::time::Timestamp;

/// A quota of `N` events per day, week, month or year of a time zone.
///
/// The caller computes where days begin, and sends that to the store: a server needs no time zones.
/// All callers should therefore use the same version of the time zone database.
///
/// # Examples
///
/// ```
/// use jiff::tz::TimeZone;
/// use tollgate_core::CalendarUnit;
/// use tollgate_core::schedule::CalendarQuota;
///
/// let zone = TimeZone::get("Europe/Berlin")?;
/// let daily = CalendarQuota::new(10, CalendarUnit::Day, zone);
/// assert_eq!(daily.to_string(), "10/day@Europe/Berlin");
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CalendarQuota {
    amount: u64,
    cycle: CalendarCycle,
    zone: Zone,
}

impl CalendarQuota {
    /// Returns `amount` events per `cycle` in `zone`. The cycle may be a [`CalendarUnit`].
    #[must_use]
    pub fn new(amount: u64, cycle: impl Into<CalendarCycle>, zone: impl Into<Zone>) -> Self {
        Self {
            amount,
            cycle: cycle.into(),
            zone: zone.into(),
        }
    }

    /// Returns how much weight a day, week, month or year may hold.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns the unit.
    #[must_use]
    pub fn unit(&self) -> CalendarUnit {
        self.cycle.unit()
    }

    /// Returns the unit, and when it begins.
    #[must_use]
    pub fn cycle(&self) -> CalendarCycle {
        self.cycle
    }

    /// Returns the time zone.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Reads `N/UNIT@ZONE[,OPTION...]` from the byte `start` of `text`, with the `@` at the byte `at`.
    pub(crate) fn read(text: &str, start: usize, at: usize) -> Result<Self, LimitError> {
        let mut reader = Reader::new(text, start);
        let amount = reader.number("an amount, in decimal digits")?;
        let slash = reader.at();
        if !reader.skip('/') {
            return Err(reader.expected(slash, "`/` and `day`, `week`, `month` or `year`"));
        }
        let unit_at = reader.at();
        let unit = text.get(unit_at..at).unwrap_or("");
        let unit = CalendarUnit::named(unit);
        let unit = unit.ok_or_else(|| reader.expected(unit_at, CalendarUnit::EXPECTED))?;
        let mut reader = Reader::new(text, at + 1);
        let zone = Zone::read(&mut reader)?;
        let forms = CalendarCycle::OPTIONS;
        let options = Options::read(
            reader,
            |option, has_value| has_value && forms.iter().any(|(name, _)| *name == option),
            CalendarCycle::read_value,
            |_| expected_options(forms, None),
        )?;
        let cycle = CalendarCycle::read(unit, &options)?;
        if cycle.needs_day() {
            let expected = "a day from 1 to 31: calls to a schedule bring none";
            return Err(options.wrong("day", expected));
        }
        Ok(Self::new(amount, cycle, zone))
    }

    /// Returns a length that no period exceeds, in microseconds.
    pub(crate) fn longest_us(&self) -> u64 {
        self.unit().longest_us()
    }

    /// Returns how far the beginnings of two periods are apart at least, in microseconds, but for
    /// days that a zone skips.
    pub(crate) fn shortest_us(&self) -> u64 {
        self.unit().shortest_us()
    }

    /// Returns the periods from the one that holds `from` to the one that holds `until`, in `zone`
    /// instead of the quota's own.
    #[must_use]
    pub fn periods(&self, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Period> {
        let mut periods = Vec::new();
        let until = until.min(Timestamp::MAX);
        let beginnings = self.cycle.beginnings(zone, from);
        let mut beginnings =
            beginnings.map(|micros| Timestamp::from_micros(micros).unwrap_or(Timestamp::END));
        let Some(mut begins) = beginnings.next() else {
            return periods;
        };
        // The last period ends with the last instant.
        while begins <= until
            && let Some(ends) = beginnings.next()
        {
            if ends > begins && ends > from {
                periods.push(Period::new(begins, ends));
            }
            begins = ends;
        }
        periods
    }
}

/// Writes `N/UNIT@ZONE`, and the options of the cycle.
impl fmt::Display for CalendarQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.amount, self.unit().name(), self.zone)?;
        self.cycle.write_options(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_period_ends_with_the_last_instant() {
        let daily = CalendarQuota::new(1, CalendarUnit::Day, TimeZone::UTC);
        let from = Timestamp::from_micros(Timestamp::MAX.as_micros() - 1).unwrap();
        // A walk on to the last year of the calendar would take minutes here.
        for _ in 0..200 {
            let periods = daily.periods(&TimeZone::UTC, from, Timestamp::END);
            assert_eq!(periods.len(), 1);
            assert_eq!(periods[0].end(), Timestamp::END);
        }
    }
}
