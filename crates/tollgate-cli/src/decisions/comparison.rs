//! Compares all algorithms at one quota, on the same requests.

use tollgate_core::{
    Algorithm, FixedWindow, Gcra, LimitError, Quota, SlidingBuckets, SlidingCounter, SlidingLog,
};

use super::in_memory::replay_in_memory;
use super::windows::Windows;
use crate::failure::Failure;
use crate::trace::Trace;

/// The number of buckets of sliding buckets in a comparison.
const BUCKETS: u64 = 12;

pub(crate) struct Comparison {
    pub(crate) quota: Quota,
    /// The most requests that one key made within one window.
    pub(crate) demand: u64,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    /// The limit as it is written.
    pub(crate) limit: String,
    /// The most that it can admit within a window.
    pub(crate) bound: u64,
    pub(crate) outcome: Result<Outcome, LimitError>,
    /// What is said about it, if one key is watched.
    pub(crate) judgement: Option<Judgement>,
}

/// What is said about an algorithm next to a watched key.
pub(crate) struct Judgement {
    /// The denied requests of all other keys.
    pub(crate) others_denied: u64,
    pub(crate) verdict: &'static str,
}

#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) denied_keys: u64,
    /// The allowed requests of the watched key.
    pub(crate) watched_allowed: u64,
    /// The most requests of one key that were admitted within one window.
    pub(crate) worst: u64,
}

impl Comparison {
    pub(crate) fn of_each_quota(
        trace: &Trace,
        algorithms: &[Algorithm],
    ) -> Result<Vec<Self>, Failure> {
        let mut quotas: Vec<Quota> = Vec::new();
        for quota in algorithms.iter().map(Algorithm::quota) {
            if !quotas.contains(&quota) {
                quotas.push(quota);
            }
        }
        quotas
            .into_iter()
            .map(|quota| Self::new(trace, quota, None))
            .collect()
    }

    /// Compares at `quota`; `watched` is the index of a key to count separately.
    pub(crate) fn new(
        trace: &Trace,
        quota: Quota,
        watched: Option<usize>,
    ) -> Result<Self, Failure> {
        let mut rows = Vec::new();
        for (limit, bound, algorithm) in candidates(quota) {
            let outcome = match algorithm {
                Ok(algorithm) => Ok(Outcome::of(trace, algorithm, watched)?),
                Err(error) => Err(error),
            };
            rows.push(Row {
                limit,
                bound,
                outcome,
                judgement: None,
            });
        }
        Ok(Self {
            quota,
            demand: Windows::of(trace, quota.window_us()).worst(),
            rows,
        })
    }
}

impl Outcome {
    fn of(trace: &Trace, algorithm: Algorithm, watched: Option<usize>) -> Result<Self, Failure> {
        let mut window = Windows::new(trace, algorithm.quota().window_us());
        let mut was_denied = vec![false; trace.keys().len()];
        let mut outcome = Self::default();
        replay_in_memory(trace, &[algorithm], |event, decision| {
            let key = event.key.index();
            if decision.is_allowed() {
                outcome.allowed += 1;
                outcome.watched_allowed += u64::from(watched == Some(key));
                window.admit(event);
            } else {
                outcome.denied += 1;
                outcome.denied_keys += u64::from(!was_denied[key]);
                was_denied[key] = true;
            }
        })?;
        outcome.worst = window.worst();
        Ok(outcome)
    }
}

/// Returns the algorithms to compare, from the loosest bound to the strictest: their text, the most
/// they admit within a window, and the algorithm itself, if the quota allows it.
fn candidates(quota: Quota) -> [(String, u64, Result<Algorithm, LimitError>); 7] {
    let amount = quota.amount();
    let twice = amount.saturating_mul(2);
    let nearly_twice = twice.saturating_sub(1);
    let aligned = Ok(FixedWindow::aligned(quota).into());
    let anchored = Ok(FixedWindow::anchored(quota).into());
    let counter = SlidingCounter::new(quota).map(Algorithm::from);
    let gcra = |burst| Gcra::with_burst(quota, burst).map(Algorithm::from);
    let log = SlidingLog::new(quota).map(Algorithm::from);
    let buckets = SlidingBuckets::new(quota, BUCKETS).map(Algorithm::from);
    let named = format!("sliding-buckets:{quota},buckets={BUCKETS}");
    [
        (format!("fixed-window:{quota}"), twice, aligned),
        (
            format!("fixed-window:{quota},anchored"),
            nearly_twice,
            anchored,
        ),
        (format!("sliding-counter:{quota}"), nearly_twice, counter),
        (format!("gcra:{quota}"), nearly_twice, gcra(amount)),
        (format!("sliding-log:{quota}"), amount, log),
        (named, amount, buckets),
        (format!("gcra:{quota},burst=1"), amount, gcra(1)),
    ]
}
