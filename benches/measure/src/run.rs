//! Calls a [`Subject`] with a fixed number of calls in flight, and measures the processor time that this takes.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_testkit::Server;

use crate::processor;

pub(crate) type Problem = Box<dyn Error + Send + Sync>;
/// Whether a call was allowed.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Result<bool, Problem>> + Send>>;

/// What is called: a function of the number of the call.
#[derive(Clone)]
pub(crate) struct Subject {
    call: Arc<dyn Fn(usize) -> Pending + Send + Sync>,
    next: Arc<AtomicUsize>,
}

/// What a call took: microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) elapsed: f64,
    /// Of the server's processor; `NAN` if the system does not report it.
    pub(crate) server: f64,
    /// Of this process's processor.
    pub(crate) client: f64,
    /// The part of the calls that were allowed.
    pub(crate) allowed: f64,
}

impl Subject {
    pub(crate) fn new<F>(call: impl Fn(usize) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<bool, Problem>> + Send + 'static,
    {
        Self {
            call: Arc::new(move |turn| Box::pin(call(turn))),
            next: Arc::default(),
        }
    }

    /// Keeps `in_flight` calls in flight for `span`, and returns how many there were, and how many were allowed.
    pub(crate) async fn run(&self, in_flight: u32, span: Duration) -> Result<[u32; 2], Problem> {
        let (begun, mut callers) = (Instant::now(), JoinSet::new());
        for _ in 0..in_flight {
            let subject = self.clone();
            callers.spawn(async move {
                let (mut calls, mut allowed) = (0, 0);
                while calls == 0 || begun.elapsed() < span {
                    let turn = subject.next.fetch_add(1, Ordering::Relaxed);
                    allowed += u32::from((subject.call)(turn).await?);
                    calls += 1;
                }
                Ok::<_, Problem>([calls, allowed])
            });
        }
        let mut sum = [0, 0];
        while let Some(caller) = callers.join_next().await {
            let [calls, allowed] = caller??;
            sum = [sum[0] + calls, sum[1] + allowed];
        }
        Ok(sum)
    }

    /// Measures calls of which each makes `decisions`.
    pub(crate) async fn measure(
        &self,
        in_flight: u32,
        span: Duration,
        server: &Server,
        decisions: u32,
    ) -> Result<Sample, Problem> {
        let busy = async || {
            // Only when both are idle has the system counted all their work.
            sleep(Duration::from_millis(2)).await;
            [server.pid(), std::process::id()].map(processor::time)
        };
        let before = busy().await;
        let begun = Instant::now();
        let [calls, allowed] = self.run(in_flight, span).await?;
        let elapsed = begun.elapsed();
        let after = busy().await;
        let calls = f64::from(calls);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / calls / f64::from(decisions);
        let [server, client] = [0, 1].map(|of| {
            let busy = after[of]
                .zip(before[of])
                .map(|(after, before)| after.saturating_sub(before));
            busy.map_or(f64::NAN, each)
        });
        Ok(Sample {
            elapsed: each(elapsed),
            server,
            client,
            allowed: f64::from(allowed) / calls,
        })
    }
}

/// Returns the middle one of `values`; of two, the greater.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_value_of_the_middle() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 0.1);
        assert!(median([]).is_nan());
    }

    #[test]
    fn calls_are_counted_and_failures_end_a_run() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let every_second = Subject::new(async |turn: usize| Ok(turn.is_multiple_of(2)));
        let run = every_second.run(4, Duration::from_millis(2));
        let [calls, allowed] = runtime.block_on(run).unwrap();
        assert!(calls >= 4 && allowed.abs_diff(calls - allowed) <= 1);
        let fails = Subject::new(async |_| Err("never".into()));
        assert!(runtime.block_on(fails.run(1, Duration::ZERO)).is_err());
    }
}
