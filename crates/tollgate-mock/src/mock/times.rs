//! `TimesRange`: how often a call is expected.

use std::fmt;
use std::ops;

/// A number of expected calls, or a range of numbers, such as `1..=3`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimesRange {
    pub(super) least: usize,
    pub(super) most: usize,
}

impl TimesRange {
    fn between(range: &impl ops::RangeBounds<usize>) -> Self {
        let least = match range.start_bound() {
            ops::Bound::Included(&least) => least,
            ops::Bound::Excluded(_) | ops::Bound::Unbounded => 0,
        };
        let most = match range.end_bound() {
            ops::Bound::Included(&most) => Some(most),
            ops::Bound::Excluded(end) => end.checked_sub(1),
            ops::Bound::Unbounded => Some(usize::MAX),
        };
        match most {
            Some(most) if least <= most => Self { least, most },
            _ => panic!("no number of calls is in this range: use `.never()` to expect none"),
        }
    }
}

impl From<usize> for TimesRange {
    fn from(times: usize) -> Self {
        Self::between(&(times..=times))
    }
}

macro_rules! from_ranges {
    ($($range:ty),+) => {
        $(impl From<$range> for TimesRange {
            /// # Panics
            ///
            /// If the range is empty.
            fn from(range: $range) -> Self {
                Self::between(&range)
            }
        })+
    };
}

from_ranges!(
    ops::Range<usize>,
    ops::RangeFrom<usize>,
    ops::RangeFull,
    ops::RangeInclusive<usize>,
    ops::RangeTo<usize>,
    ops::RangeToInclusive<usize>
);

impl fmt::Display for TimesRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (0, 0) => f.write_str("never"),
            (0, usize::MAX) => f.write_str("any number of times"),
            (least, usize::MAX) => write!(f, "at least {}", times(least)),
            (0, most) => write!(f, "at most {}", times(most)),
            (least, most) if least == most => f.write_str(&times(least)),
            (least, most) => write!(f, "{least} to {}", times(most)),
        }
    }
}

pub(super) fn times(number: usize) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} time{plural}")
}
