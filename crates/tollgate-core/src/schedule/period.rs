//! `Period`: a day, week, month or year, or a time that is open.

use crate::time::Timestamp;

/// A day, week, month or year, from its first instant until before the first instant of the next; or a time
/// between closed ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Period {
    start: Timestamp,
    end: Timestamp,
}

impl Period {
    #[cfg(feature = "calendar")]
    pub(crate) fn new(start: Timestamp, end: Timestamp) -> Self {
        Self { start, end }
    }

    /// Returns the first instant.
    #[must_use]
    pub fn start(self) -> Timestamp {
        self.start
    }

    /// Returns the first instant after the period. For a period that holds [`Timestamp::MAX`], that
    /// is one microsecond after it.
    #[must_use]
    pub fn end(self) -> Timestamp {
        self.end
    }
}
