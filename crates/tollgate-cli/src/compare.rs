//! Every algorithm at the same quota, on the same requests.

use std::collections::VecDeque;

use tollgate_core::algorithm::{
    Algorithm, FixedWindow, Gcra, SlidingBuckets, SlidingCounter, SlidingLog,
};
use tollgate_core::{LimitError, Quota};

use crate::failure::Failure;
use crate::replay::decide;
use crate::trace::{Event, Trace};

/// Into how many buckets sliding buckets divide the window here.
const BUCKETS: u64 = 12;

/// Every algorithm at one quota.
pub(crate) struct Comparison {
    pub(crate) quota: Quota,
    /// The most requests that one key made within one window: what a limit is up against.
    pub(crate) demand: u64,
    pub(crate) rows: Vec<Row>,
}

/// One algorithm.
pub(crate) struct Row {
    /// How the limit is written.
    pub(crate) limit: String,
    /// The most it can ever admit within a window.
    pub(crate) bound: u64,
    pub(crate) outcome: Result<Outcome, LimitError>,
}

/// What an algorithm did.
pub(crate) struct Outcome {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// How many keys were denied anything.
    pub(crate) denied_keys: u64,
    /// How many requests of the key that was asked about were allowed.
    pub(crate) watched_allowed: u64,
    /// The most requests of one key that were admitted within one window.
    pub(crate) worst: u64,
}

impl Comparison {
    /// Compares at every quota of `algorithms`.
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

    /// Compares at `quota`; `watched` is the index of a key to be told apart from the others.
    pub(crate) fn new(
        trace: &Trace,
        quota: Quota,
        watched: Option<usize>,
    ) -> Result<Self, Failure> {
        let mut demand = WorstWindow::new(trace, quota);
        for event in trace.events() {
            demand.admit(event);
        }
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
            });
        }
        Ok(Self {
            quota,
            demand: demand.worst,
            rows,
        })
    }
}

impl Outcome {
    fn of(trace: &Trace, algorithm: Algorithm, watched: Option<usize>) -> Result<Self, Failure> {
        let mut window = WorstWindow::new(trace, algorithm.quota());
        let mut was_denied = vec![false; trace.keys()];
        let mut outcome = Self {
            allowed: 0,
            denied: 0,
            denied_keys: 0,
            watched_allowed: 0,
            worst: 0,
        };
        decide(trace, &[algorithm], |event, decision| {
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
        outcome.worst = window.worst;
        Ok(outcome)
    }
}

/// The algorithms to compare, from the loosest promise to the strictest: how each is written, the
/// most it admits within a window, and the algorithm itself, if the quota allows it.
fn candidates(quota: Quota) -> Vec<(String, u64, Result<Algorithm, LimitError>)> {
    let amount = quota.amount();
    let twice = amount.saturating_mul(2);
    let nearly_twice = twice.saturating_sub(1);
    let gcra = |burst| Gcra::with_burst(quota, burst).map(Algorithm::from);
    vec![
        (
            format!("fixed-window:{quota}"),
            twice,
            Ok(FixedWindow::aligned(quota).into()),
        ),
        (
            format!("fixed-window:{quota},anchored"),
            nearly_twice,
            Ok(FixedWindow::anchored(quota).into()),
        ),
        (
            format!("sliding-counter:{quota}"),
            nearly_twice,
            SlidingCounter::new(quota).map(Algorithm::from),
        ),
        (format!("gcra:{quota}"), nearly_twice, gcra(amount)),
        (
            format!("sliding-log:{quota}"),
            amount,
            SlidingLog::new(quota).map(Algorithm::from),
        ),
        (
            format!("sliding-buckets:{quota},buckets={BUCKETS}"),
            amount,
            SlidingBuckets::new(quota, BUCKETS).map(Algorithm::from),
        ),
        (format!("gcra:{quota},burst=1"), amount, gcra(1)),
    ]
}

/// Finds the most requests of one key within any half-open window, exactly.
struct WorstWindow {
    window_us: u64,
    /// By the number of the key: the admitted requests within the window that ends at the last.
    recent: Vec<VecDeque<u64>>,
    worst: u64,
}

impl WorstWindow {
    fn new(trace: &Trace, quota: Quota) -> Self {
        Self {
            window_us: quota.window_us(),
            recent: vec![VecDeque::new(); trace.keys()],
            worst: 0,
        }
    }

    /// Adds an admitted request; they come in order of time.
    fn admit(&mut self, event: &Event) {
        let recent = &mut self.recent[event.key.index()];
        let now = event.at.as_micros();
        while recent.front().is_some_and(|&at| now - at >= self.window_us) {
            recent.pop_front();
        }
        recent.push_back(now);
        self.worst = self
            .worst
            .max(u64::try_from(recent.len()).unwrap_or(u64::MAX));
    }
}
