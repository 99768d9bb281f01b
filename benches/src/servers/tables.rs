//! Prints the measurements as a table.

use std::io::{self, Write};

use super::clients::{Client, Fred, RedisRs};
use super::measure::{Measured, Plan, Point, Sample};
use super::points::INCREMENT;
use crate::median;

const NOTHING: &str = "–";
/// A larger share of calls with an unexpected outcome is reported.
const STRAY: f64 = 0.001;

/// Writes a row for each call, and then what was left out, and which had calls with an unexpected
/// outcome.
pub(crate) fn write(
    out: &mut impl Write,
    plan: &Plan,
    points: &[Point],
    measured: &[Measured],
) -> io::Result<()> {
    let [one, some, most] = plan.depths;
    let columns = [
        format!("µs a call, {one} in flight"),
        format!("thousands a second, {some}"),
        format!("p99 µs, {some}"),
        format!("thousands a second, {most}"),
        format!("p99 µs, {most}"),
        format!("server µs, {most}"),
        "times that of `INCR`".to_owned(),
        format!("client µs, {most}"),
        format!("fred: thousands a second, {some}"),
        format!("thousands a second, {most}"),
        format!("server µs, {most}"),
        format!("client µs, {most}"),
    ];
    writeln!(out, "| call | {} |", columns.join(" | "))?;
    writeln!(out, "|---|{}", "---:|".repeat(columns.len()))?;
    let results = Results { points, measured };
    for row in results.rows() {
        writeln!(out, "| {row} | {} |", results.cells(row).join(" | "))?;
    }
    writeln!(out)?;
    results.remarks(out, plan)
}

struct Results<'a> {
    points: &'a [Point],
    measured: &'a [Measured],
}

impl Results<'_> {
    /// Returns the rows with measurements, in order.
    fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = Vec::new();
        for (point, measured) in self.points.iter().zip(self.measured) {
            if measured.failure.is_none() && !rows.contains(&&*point.row) {
                rows.push(&point.row);
            }
        }
        rows
    }

    /// Returns the samples of a row in the order of rounds; empty if it was not measured.
    fn samples(&self, row: &str, client: &str, depth: usize) -> &[Sample] {
        let mut all = self.points.iter().zip(self.measured);
        let found = all.find(|(point, _)| point.row == row && point.client == client);
        found.map_or(&[], |(_, measured)| &measured.samples[depth])
    }

    /// Returns the medians of a row.
    fn cells(&self, row: &str) -> [String; 12] {
        let of = |client, depth, value: fn(&Sample) -> Option<f64>| {
            let samples = self.samples(row, client, depth);
            median(samples.iter().filter_map(value))
        };
        let rate = |sample: &Sample| Some(sample.per_second / 1e3);
        [
            cell(of(RedisRs::NAME, 0, |sample| Some(sample.p50)), 0),
            cell(of(RedisRs::NAME, 1, rate), 1),
            cell(of(RedisRs::NAME, 1, |sample| Some(sample.p99)), 0),
            cell(of(RedisRs::NAME, 2, rate), 1),
            cell(of(RedisRs::NAME, 2, |sample| Some(sample.p99)), 0),
            cell(of(RedisRs::NAME, 2, |sample| sample.server), 2),
            cell(self.to_increment(row), 2),
            cell(of(RedisRs::NAME, 2, |sample| sample.client), 2),
            cell(of(Fred::NAME, 1, rate), 1),
            cell(of(Fred::NAME, 2, rate), 1),
            cell(of(Fred::NAME, 2, |sample| sample.server), 2),
            cell(of(Fred::NAME, 2, |sample| sample.client), 2),
        ]
    }

    /// Returns the median of the ratios of a row's time on the server to that of `INCR` in the same
    /// round.
    fn to_increment(&self, row: &str) -> Option<f64> {
        let [own, increment] = [row, INCREMENT].map(|row| self.samples(row, RedisRs::NAME, 2));
        let rounds = own.iter().zip(increment);
        median(rounds.filter_map(|(own, other)| Some(own.server? / other.server?)))
    }

    /// Writes which points were left out, and which had calls with an unexpected outcome.
    fn remarks(&self, out: &mut impl Write, plan: &Plan) -> io::Result<()> {
        for (point, measured) in self.points.iter().zip(self.measured) {
            let (row, client) = (&point.row, point.client);
            if let Some(failure) = &measured.failure {
                writeln!(out, "- {row}, {client}: left out: {failure}")?;
            }
            for (samples, depth) in measured.samples.iter().zip(plan.depths) {
                let share = samples.iter().map(|sample| sample.astray);
                let most = share.fold(0.0, f64::max);
                if most > STRAY {
                    let percent = most * 100.0;
                    writeln!(
                        out,
                        "- {row}, {client}, {depth} in flight: up to {percent:.1} % were told otherwise"
                    )?;
                }
            }
        }
        writeln!(out)
    }
}

fn cell(value: Option<f64>, digits: usize) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{value:.digits$}"),
        _ => NOTHING.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::Problem;
    use crate::servers::keys::Keys;
    use crate::servers::run::{Subject, erase};

    struct Never;

    impl Subject for Never {
        async fn call(&self, _turn: usize) -> Result<bool, Problem> {
            Err("never".into())
        }
    }

    fn point(row: &str) -> Point {
        Point {
            row: row.to_owned(),
            client: RedisRs::NAME,
            runs: erase(Never),
            keys: Arc::new(Keys::new(1)),
            warm_up: Duration::ZERO,
            expected: None,
        }
    }

    fn sample(per_second: f64, server: f64) -> Sample {
        Sample {
            per_second,
            p50: 20.0,
            p99: 30.0,
            server: Some(server),
            client: None,
            astray: 0.0,
        }
    }

    fn text(points: &[Point], measured: &[Measured]) -> String {
        let mut out = Vec::new();
        write(&mut out, &Plan::default(), points, measured).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let points = [INCREMENT, "gcra, allowed"].map(point);
        let of = |samples: &[Sample]| Measured {
            samples: [Vec::new(), Vec::new(), samples.to_vec()],
            failure: None,
        };
        // The second round is ten times as slow as the others.
        let measured = [
            of(&[sample(1e5, 1.0), sample(1e4, 10.0), sample(1e5, 1.0)]),
            of(&[sample(1e4, 4.0), sample(1e3, 40.0), sample(2e4, 4.0)]),
        ];
        let text = text(&points, &measured);
        let expected =
            "| gcra, allowed | – | – | – | 10.0 | 30 | 4.00 | 4.00 | – | – | – | – | – |\n";
        assert!(text.contains(expected), "{text}");
        let said = "| call | µs a call, 1 in flight |";
        assert!(text.starts_with(said), "{text}");
    }

    #[test]
    fn omitted_points_and_unexpected_outcomes_are_named() {
        let strayed = Sample {
            astray: 0.25,
            ..sample(1.0, 1.0)
        };
        let measured = [
            Measured {
                failure: Some("unknown".to_owned()),
                ..Measured::default()
            },
            Measured {
                samples: [vec![strayed], Vec::new(), Vec::new()],
                failure: None,
            },
        ];
        let text = text(&["a", "b"].map(point), &measured);
        for expected in [
            "- a, redis-rs: left out: unknown\n",
            "- b, redis-rs, 1 in flight: up to 25.0 % were told otherwise\n",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text.contains("| a |"), "{text}");
    }
}
