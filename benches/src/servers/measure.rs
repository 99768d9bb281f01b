//! Measures every point in turn, round after round.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tollgate_testkit::Server;

use super::keys::Keys;
use super::run::{DEPTHS, Run, Runs, percentile};
use crate::{Outcome, Problem, processor};

/// The default number of keys.
pub(crate) const KEYS: usize = 1_000;

/// One subject through one client.
pub(crate) struct Point {
    pub(crate) row: String,
    /// The name of the client.
    pub(crate) client: &'static str,
    pub(crate) runs: Box<dyn Runs>,
    pub(crate) keys: Arc<Keys>,
    /// How long the subject runs before each measurement.
    pub(crate) warm_up: Duration,
    /// The expected outcome of every call.
    pub(crate) expected: Option<Outcome>,
}

/// Returns the name of a row of decisions.
pub(crate) fn row(case: &str, outcome: Outcome) -> String {
    format!("{case}, {outcome:?}").to_lowercase()
}

/// The number and duration of measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The numbers of calls in flight.
    pub(crate) depths: [usize; DEPTHS],
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
    pub(crate) warm_up: Duration,
    /// The window of limits whose state grows with the calls in it.
    pub(crate) window: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            depths: [1, 64, 256],
            rounds: 9,
            slice: Duration::from_millis(80),
            warm_up: Duration::from_millis(10),
            window: Duration::from_millis(240),
        }
    }
}

impl Plan {
    /// Returns a plan that only checks that everything works.
    pub(crate) fn quick() -> Self {
        Self {
            depths: [1, 4, 8],
            rounds: 1,
            slice: Duration::from_millis(1),
            warm_up: Duration::from_millis(1),
            window: Duration::from_millis(12),
        }
    }
}

/// The measurements of one slice; times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The server's processor time per call; `None` if the system does not report it.
    pub(crate) server: Option<f64>,
    /// This process's processor time per call.
    pub(crate) client: Option<f64>,
    /// The share of calls with another outcome than expected.
    pub(crate) astray: f64,
}

/// All measurements of one point.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// One sample per round, for each number of calls in flight.
    pub(crate) samples: [Vec<Sample>; DEPTHS],
    /// Why the point was left out, if it was.
    pub(crate) failure: Option<String>,
}

/// Measures each of `points`.
///
/// Round 0 is a warm-up: it is measured like the others and discarded.
pub(crate) async fn all(
    points: &[Point],
    plan: &Plan,
    server: &Server,
) -> Result<Vec<Measured>, Problem> {
    let mut all: Vec<Measured> = points.iter().map(|_| Measured::default()).collect();
    let mut progress = io::stderr();
    for round in 0..=plan.rounds {
        for depth in 0..DEPTHS {
            for index in order(points.len(), round) {
                let (point, measured) = (&points[index], &mut all[index]);
                if measured.failure.is_some() {
                    continue;
                }
                match one(point, depth, plan, server.pid()).await {
                    Ok(sample) if round > 0 => measured.samples[depth].push(sample),
                    Ok(_) => {}
                    Err(problem) => {
                        *measured = Measured {
                            failure: Some(problem.to_string()),
                            ..Measured::default()
                        }
                    }
                }
            }
        }
        let rounds = plan.rounds;
        let _ = write!(progress, "\rround {round} of {rounds}");
    }
    let _ = writeln!(progress);
    Ok(all)
}

/// Returns the order of a round. Each round starts elsewhere, and every second one runs backwards,
/// so that no subject always follows the same one.
fn order(points: usize, round: usize) -> impl Iterator<Item = usize> {
    let first = round * 7;
    (0..points).map(move |turn| {
        let index = (first + turn) % points;
        if round.is_multiple_of(2) {
            index
        } else {
            points - 1 - index
        }
    })
}

/// Measures one slice.
async fn one(point: &Point, depth: usize, plan: &Plan, server: u32) -> Result<Sample, Problem> {
    let own = std::process::id();
    point.keys.prepare(depth);
    point.runs.run(plan.depths[depth], point.warm_up).await?;
    settle().await;
    let before = (processor::time(server), processor::time(own));
    let run = point.runs.run(plan.depths[depth], plan.slice).await?;
    settle().await;
    let after = (processor::time(server), processor::time(own));
    let calls = number(run.calls());
    let each = |before: Option<Duration>, after: Option<Duration>| {
        let busy = after?.saturating_sub(before?);
        Some(busy.as_secs_f64() * 1e6 / calls)
    };
    let per_second = calls / run.elapsed.as_secs_f64();
    point.keys.saw(depth, per_second);
    let micros = |percent| {
        let nanos = percentile(&run.latencies, percent);
        f64::from(nanos.unwrap_or(u32::MAX)) / 1e3
    };
    Ok(Sample {
        per_second,
        p50: micros(50),
        p99: micros(99),
        server: each(before.0, after.0),
        client: each(before.1, after.1),
        astray: number(astray(&run, point.expected)) / calls,
    })
}

fn astray(run: &Run, expected: Option<Outcome>) -> usize {
    match expected {
        Some(Outcome::Allowed) => run.calls() - run.allowed,
        Some(Outcome::Denied) => run.allowed,
        _ => 0,
    }
}

/// Waits until the server and this process are idle: only then has the system counted all their
/// work.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

#[expect(
    clippy::cast_precision_loss,
    reason = "far fewer calls than a double counts exactly"
)]
fn number(calls: usize) -> f64 {
    calls as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_point_once() {
        for round in 0..4 {
            let mut indexes: Vec<usize> = order(5, round).collect();
            assert_ne!(indexes, order(5, round + 1).collect::<Vec<_>>());
            indexes.sort_unstable();
            assert_eq!(indexes, [0, 1, 2, 3, 4]);
        }
        // The next round runs backwards.
        assert!(order(5, 0).is_sorted() && !order(5, 1).is_sorted());
        assert_eq!(order(0, 1).count(), 0);
    }

    #[test]
    fn unexpected_outcomes_are_counted() {
        let run = Run {
            allowed: 2,
            latencies: vec![1, 1, 1],
            ..Run::default()
        };
        assert_eq!(astray(&run, Some(Outcome::Allowed)), 1);
        assert_eq!(astray(&run, Some(Outcome::Denied)), 2);
        assert_eq!(astray(&run, None), 0);
    }
}
