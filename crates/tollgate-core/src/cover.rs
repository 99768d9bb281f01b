//! `Cover`: the periods of calendars that a request brings to a store, which knows no time zones.

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

/// The periods of calendars that a request brings to a store which knows no time zones, such as a server.
///
/// A limit's request [has one](crate::store::Request::cover) of the two periods around the instant at which
/// the store will probably decide it; a [schedule's](crate::schedule::Request) has more, and keeps it to
/// itself. If the store needs another period, it answers [`Uncovered`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cover(Vec<Option<Vec<Period>>>);

impl Cover {
    /// Returns a cover of these periods, for each limit or quota in order: none if it has no calendar.
    pub(crate) fn new(lists: impl IntoIterator<Item = Option<Vec<Period>>>) -> Self {
        Self(lists.into_iter().collect())
    }

    /// Returns the periods of the limit at `index`, which follow each other; none if it has no calendar.
    #[must_use]
    pub fn periods(&self, index: usize) -> &[Period] {
        self.0.get(index).and_then(Option::as_deref).unwrap_or(&[])
    }

    /// Returns whether each calendar has a period that holds `instant`.
    ///
    /// # Errors
    ///
    /// [`Uncovered`] if one has none.
    pub fn check(&self, instant: Timestamp) -> Result<(), Uncovered> {
        let mut lists = self.0.iter().flatten();
        lists.try_for_each(|periods| period_of(periods, instant).map(drop))
    }

    /// Returns from when until when all calendars have periods, if there are any.
    pub(crate) fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let lists = || self.0.iter().flatten();
        let starts = lists().filter_map(|list| list.first().map(|first| first.start()));
        let ends = lists().filter_map(|list| list.last().map(|last| last.end()));
        Some((starts.max()?, ends.min()?))
    }
}

/// What a store answers, instead of a decision, to a request whose [`Cover`] has no period that holds this
/// instant. Nothing has changed: the request is made once more, with the periods around it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "it is an instant with a meaning")]
pub struct Uncovered(pub Timestamp);

/// Returns the one of `periods`, which follow each other, that holds `instant`.
pub(crate) fn period_of(periods: &[Period], instant: Timestamp) -> Result<Period, Uncovered> {
    let index = periods.partition_point(|period| period.end <= instant);
    let period = periods.get(index).copied();
    period
        .filter(|period| period.start <= instant)
        .ok_or(Uncovered(instant))
}
