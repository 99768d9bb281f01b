//! `Calendar`: which days, weeks, months and years instants are in, by their local dates.

use jiff::tz::TimeZone;
use tollgate_core::store::MAX_EXACT;
use tollgate_core::{CalendarUnit, CalendarWindow};

const DAY_US: i128 = 86_400_000_000;

/// A unit of a time zone's calendar.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
}

impl Calendar {
    pub(super) fn of(window: &CalendarWindow) -> Self {
        Self {
            unit: window.unit(),
            zone: TimeZone::get(window.zone()).unwrap(),
        }
    }

    /// Returns whether two instants are in one day, week, month or year.
    pub(super) fn same(&self, one: i128, other: i128) -> bool {
        self.label(one) == self.label(other)
    }

    /// Returns the first instant that is in the same as `at`.
    pub(super) fn start(&self, at: i128) -> i128 {
        let (mut before, mut within) = (at - 370 * DAY_US, at);
        while within - before > 1 {
            let middle = before + (within - before) / 2;
            if self.same(middle, at) {
                within = middle;
            } else {
                before = middle;
            }
        }
        within
    }

    /// Returns what the instants of one period have in common.
    pub(super) fn label(&self, at: i128) -> [i16; 3] {
        if at > i128::from(MAX_EXACT) {
            // After the last instant there is.
            return [i16::MAX; 3];
        }
        let at = jiff::Timestamp::from_microsecond(i64::try_from(at).unwrap()).unwrap();
        let date = at.to_zoned(self.zone.clone()).date();
        let (year, month, day) = (date.year(), date.month().into(), date.day().into());
        match self.unit {
            CalendarUnit::Day => [year, month, day],
            CalendarUnit::Week => {
                let week = date.iso_week_date();
                [week.year(), week.week().into(), 0]
            }
            CalendarUnit::Month => [year, month, 0],
            CalendarUnit::Year => [year, 0, 0],
            other => panic!("{other:?} has no second definition"),
        }
    }
}
