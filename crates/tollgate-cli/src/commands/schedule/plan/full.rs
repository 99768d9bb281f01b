//! `Full`: the times at which a key is known to have no room.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use tollgate_core::Timestamp;

/// The times at which a key has no room for another message.
///
/// A plan only adds messages, so a time that has no room never gets any. The next search starts
/// after such times, instead of looking at every message before them again.
#[derive(Default)]
pub(super) struct Full {
    /// The start of each span, and the first time after it. Spans do not meet.
    spans: BTreeMap<Timestamp, Timestamp>,
    /// The zone of the messages for which there is no room.
    zone: Option<TimeZone>,
    /// For how many messages of the key the quota in the way was looked up.
    asked: usize,
}

/// For how many messages of a key the quota in the way is looked up: that looks at every message from the
/// wanted time to the planned one, or to the horizon.
const MOST_ASKED: usize = 10_000;

impl Full {
    /// Forgets all times unless they were noted for messages of this zone: days and closed times of
    /// another one may be other times.
    pub(super) fn bring(&mut self, zone: &TimeZone) {
        if self.zone.as_ref() != Some(zone) {
            *self = Self {
                zone: Some(zone.clone()),
                asked: self.asked,
                ..Self::default()
            };
        }
    }

    /// Returns the first time from `wanted` that may have room.
    pub(super) fn first_from(&self, wanted: Timestamp) -> Timestamp {
        let span = self.spans.range(..=wanted).next_back();
        span.map_or(wanted, |(_, &end)| wanted.max(end))
    }

    /// Notes that there is no room from `start` until before `end`.
    pub(super) fn add(&mut self, mut start: Timestamp, mut end: Timestamp) {
        if start >= end {
            return;
        }
        while let Some((&other, &other_end)) = self.spans.range(..=end).next_back()
            && other_end >= start
        {
            self.spans.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.spans.insert(start, end);
    }

    /// Returns whether to look up which quota is in the way of a message.
    pub(super) fn asks(&self) -> bool {
        self.asked < MOST_ASKED
    }

    /// Notes that a quota was looked up.
    pub(super) fn count_question(&mut self) {
        self.asked += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::saturating_from_micros(micros)
    }

    #[test]
    fn spans_that_meet_are_one() {
        let mut full = Full::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 25), (24, 31), (70, 70)] {
            full.add(at(start), at(end));
        }
        let spans: Vec<_> = full
            .spans
            .iter()
            .map(|(a, b)| (a.as_micros(), b.as_micros()))
            .collect();
        assert_eq!(spans, [(10, 40), (50, 60)]);
        for (wanted, first) in [(9, 9), (10, 40), (39, 40), (40, 40), (55, 60), (70, 70)] {
            assert_eq!(full.first_from(at(wanted)), at(first), "{wanted}");
        }
    }
}
