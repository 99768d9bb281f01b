//! The text syntax of a calendar's window.

use std::fmt;

use super::CalendarWindow;
use crate::algorithm::text::WITH_ZONE;
use crate::algorithm::{Forms, Machine, Options, Written};
use crate::cycle::{CalendarCycle, CalendarUnit};
use crate::error::LimitError;
use crate::quota::Quota;
use crate::text::Reader;

impl Written for CalendarWindow {
    const WORD: &'static str = WITH_ZONE;
    const HAS_ZONE: bool = true;
    const OPTIONS: Forms = CalendarCycle::OPTIONS;

    /// Reads the amount and the unit, whose length tells [`read`](Self::read) which one it is.
    fn read_quota(reader: &mut Reader<'_>) -> Result<Quota, LimitError> {
        let amount_at = reader.at();
        let amount = reader.number("an amount, in decimal digits")?;
        let unit_at = reader.at();
        let unit = if reader.skip('/') {
            CalendarUnit::named(reader.word())
        } else {
            None
        };
        let unit = unit.ok_or_else(|| reader.expected(unit_at, UNIT))?;
        Quota::new(amount, unit.length()).map_err(|error| reader.bad_value(amount_at, error))
    }

    fn write_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.quota().amount(), self.calendar)
    }

    fn read_value(reader: &mut Reader<'_>, option: &str) -> Result<u64, LimitError> {
        CalendarCycle::read_value(reader, option)
    }

    fn read(quota: Quota, zone: &str, options: &Options<'_>) -> Result<Self, LimitError> {
        let unit = CalendarUnit::of_length(quota.window());
        let unit = unit.ok_or_else(|| options.missing(UNIT))?;
        Self::new(quota.amount(), CalendarCycle::read(unit, options)?, zone)
    }

    fn write(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

const UNIT: &str = "`/` and a unit of the calendar: day, week, month or year";
