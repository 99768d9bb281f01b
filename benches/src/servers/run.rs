//! Runs calls of one subject, with a fixed number in flight, for a fixed time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Problem;

/// How many numbers of calls in flight are measured.
pub(crate) const DEPTHS: usize = 3;

/// Something that is called repeatedly.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Makes call number `turn`, and returns whether it was allowed.
    fn call(&self, turn: usize) -> impl Future<Output = Result<bool, Problem>> + Send;
}

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) elapsed: Duration,
    pub(crate) allowed: usize,
    /// The latencies of all calls in nanoseconds, in ascending order.
    pub(crate) latencies: Vec<u32>,
}

impl Run {
    pub(crate) fn calls(&self) -> usize {
        self.latencies.len()
    }
}

/// A [`Subject`] of any type.
pub(crate) trait Runs: Send + Sync {
    /// Keeps `depth` calls in flight for `span`.
    fn run(&self, depth: usize, span: Duration) -> Pending<'_>;
}

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Run, Problem>> + Send + 'a>>;

/// A subject, and the number of its calls.
struct Line<S> {
    subject: Arc<S>,
    calls: Arc<AtomicUsize>,
}

/// Erases the type of `subject`, so that each run, but not each call, is dispatched dynamically.
pub(crate) fn erase(subject: impl Subject) -> Box<dyn Runs> {
    Box::new(Line {
        subject: Arc::new(subject),
        calls: Arc::default(),
    })
}

impl<S: Subject> Runs for Line<S> {
    fn run(&self, depth: usize, span: Duration) -> Pending<'_> {
        Box::pin(async move {
            let begun = Instant::now();
            let callers: Vec<_> = (0..depth)
                .map(|_| {
                    let (subject, calls) = (Arc::clone(&self.subject), Arc::clone(&self.calls));
                    tokio::spawn(caller(subject, calls, begun + span))
                })
                .collect();
            let mut run = Run::default();
            let mut failed = None;
            for caller in callers {
                match caller.await? {
                    Ok((allowed, latencies)) => {
                        run.allowed += allowed;
                        run.latencies.extend(latencies);
                    }
                    Err(problem) => failed = Some(problem),
                }
            }
            if let Some(problem) = failed {
                return Err(problem);
            }
            run.elapsed = begun.elapsed();
            run.latencies.sort_unstable();
            Ok(run)
        })
    }
}

/// Makes calls one after another until `end`, at least one.
async fn caller<S: Subject>(
    subject: Arc<S>,
    calls: Arc<AtomicUsize>,
    end: Instant,
) -> Result<(usize, Vec<u32>), Problem> {
    let mut latencies = Vec::with_capacity(1024);
    let mut allowed = 0;
    let mut begun = Instant::now();
    loop {
        let turn = calls.fetch_add(1, Ordering::Relaxed);
        allowed += usize::from(subject.call(turn).await?);
        let now = Instant::now();
        let taken = u32::try_from((now - begun).as_nanos());
        latencies.push(taken.unwrap_or(u32::MAX));
        if now >= end {
            return Ok((allowed, latencies));
        }
        begun = now;
    }
}

/// Returns the value that `percent` of the `sorted` values do not exceed.
pub(crate) fn percentile(sorted: &[u32], percent: usize) -> Option<u32> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_as_many_samples_do_not_exceed() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 99), Some(99));
        assert_eq!(percentile(&hundred, 100), Some(100));
        assert_eq!(percentile(&[7, 8, 9], 50), Some(8));
        assert_eq!(percentile(&[7, 8, 9], 99), Some(9));
        assert_eq!(percentile(&[7], 0), Some(7));
        assert_eq!(percentile(&[], 50), None);
    }

    struct Every(usize);

    impl Subject for Every {
        async fn call(&self, turn: usize) -> Result<bool, Problem> {
            tokio::task::yield_now().await;
            if turn == 1_000_000_000 {
                return Err("too many".into());
            }
            Ok(turn.is_multiple_of(self.0))
        }
    }

    #[test]
    fn all_calls_are_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let runs = erase(Every(2));
        let run = runtime.block_on(runs.run(4, Duration::from_millis(2)));
        let run = run.unwrap();
        assert!(run.calls() >= 4);
        assert!(run.allowed.abs_diff(run.calls() - run.allowed) <= 1);
        assert!(run.latencies.is_sorted());
        assert!(run.elapsed >= Duration::from_millis(2));
    }
}
