//! The calls in every picture, and an algorithm's decisions about them.

use std::collections::BTreeMap;

use tollgate_core::Algorithm;
use tollgate_core::store::{Check, Request, State};
use tollgate_core::{Limit, LimitError, Timestamp};

/// The end of the time axis.
pub(super) const END_MS: u64 = 240_000;
/// The window of every picture's quota.
pub(super) const WINDOW_MS: u64 = 60_000;

/// Returns the instants of the calls, in milliseconds.
///
/// One call that anchors a window, a burst before the edge of the second minute and one right after
/// it, a minute at exactly the quota's rate, and a minute at four times that rate.
fn calls() -> Vec<u64> {
    let every = |from: u64, to: u64, step: usize| (from..=to).step_by(step);
    std::iter::once(6_000)
        .chain(every(54_000, 59_500, 500))
        .chain(every(60_400, 70_000, 400))
        .chain(every(96_000, 150_000, 6_000))
        .chain(every(160_500, 220_500, 1_500))
        .collect()
}

/// The decisions of an algorithm about the calls.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) algorithm: Algorithm,
    /// The instant of each call, and whether it was admitted.
    pub(super) calls: Vec<(u64, bool)>,
}

impl Run {
    /// Runs `algorithm` on the calls.
    pub(super) fn of(algorithm: Algorithm) -> Result<Self, LimitError> {
        let limit = Limit::new("picture", algorithm)?;
        let mut state = State::default();
        let calls = calls()
            .into_iter()
            .map(|ms| {
                let now = Timestamp::saturating_from_micros(ms * 1_000);
                let request = Request::consume(Check::new(&limit, "key", 1));
                (ms, request.decide_on(&mut state, now).is_allowed())
            })
            .collect();
        Ok(Self { algorithm, calls })
    }

    /// Returns the instants of the calls that were admitted, or of those that were denied.
    pub(super) fn instants(&self, admitted: bool) -> impl Iterator<Item = u64> {
        let calls = self.calls.iter();
        calls.filter_map(move |&(ms, was)| (was == admitted).then_some(ms))
    }

    /// Returns the number of admitted calls in the trailing window, which is open at its start, at
    /// each instant at which it changes.
    pub(super) fn trailing(&self) -> Vec<(u64, i64)> {
        let mut changes = BTreeMap::from([(0, 0)]);
        for ms in self.instants(true) {
            *changes.entry(ms).or_default() += 1;
            *changes.entry(ms + WINDOW_MS).or_default() -= 1;
        }
        changes
            .into_iter()
            .filter(|&(ms, _)| ms < END_MS)
            .scan(0, |count, (ms, change)| {
                *count += change;
                Some((ms, *count))
            })
            .collect()
    }

    /// Returns the first instant at which the trailing window held the most calls, and their
    /// number.
    pub(super) fn worst(&self) -> (u64, i64) {
        let steps = self.trailing().into_iter();
        steps.fold(
            (0, 0),
            |worst, step| {
                if step.1 > worst.1 { step } else { worst }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(text: &str) -> i64 {
        Run::of(text.parse().unwrap()).unwrap().worst().1
    }

    #[test]
    fn calls_are_in_order_and_on_the_axis() {
        let calls = calls();
        assert!(calls.is_sorted());
        assert!(calls.last().is_some_and(|&last| last <= END_MS));
    }

    #[test]
    fn the_pattern_reaches_the_bounds_of_the_fixed_windows() {
        assert_eq!(worst("fixed-window:10/1m"), 20);
        assert_eq!(worst("fixed-window:10/1m,anchored"), 19);
    }

    #[test]
    fn strict_algorithms_stay_at_the_quota() {
        assert_eq!(worst("sliding-log:10/1m"), 10);
        assert_eq!(worst("sliding-buckets:10/1m,buckets=6"), 10);
    }

    #[test]
    fn a_call_leaves_the_window_at_its_end() {
        let run = Run {
            algorithm: "sliding-log:2/1m".parse().unwrap(),
            calls: vec![(1_000, true), (2_000, false), (61_000, true)],
        };
        assert_eq!(
            run.trailing(),
            [(0, 0), (1_000, 1), (61_000, 1), (121_000, 0)]
        );
        assert_eq!(run.worst(), (1_000, 1));
    }
}
