//! Prints the measurements as tables.

use std::io::{self, Write};

use super::afterwards::{REFUNDED, SETTLED, WITH_ID};
use super::clients::{Client, Fred, RedisRs};
use super::measure::{DEPTHS, Measured, Sample};
use super::points::{
    COSTLY_LOG, FOUR, INCREMENT, LOG, LONG_LOG, ONE, PLAIN, Point, TRANSACTION, TWO, by_hand, row,
};
use super::schedules::SCHEDULE;
use crate::saved::Saved;
use crate::{Outcome, Problem, median};

const CLIENTS: [&str; 2] = [RedisRs::NAME, Fred::NAME];
const NOTHING: &str = "–";
/// A larger share of calls with an unexpected outcome is reported.
const STRAY: f64 = 0.001;

/// Writes all tables.
pub(crate) fn write(
    out: &mut impl Write,
    points: &[Point],
    measured: &[Measured],
) -> io::Result<()> {
    let results = Results { points, measured };
    for depth in 0..DEPTHS.len() {
        results.absolutes(out, depth)?;
    }
    results.by_hand(out)?;
    results.increments(out)?;
    results.others(out)?;
    results.remarks(out)
}

/// The columns of the CSV file. Ratios are medians of those within a round.
pub(crate) const COLUMNS: [&str; 11] = [
    "server",
    "client",
    "calls_in_flight",
    "call",
    "thousand_calls_per_second",
    "p50_us",
    "p99_us",
    "server_us",
    "client_us",
    "server_time_to_that_of_incr",
    "time_to_that_of_the_script_by_hand",
];

/// Saves the measurements from the server of this name and release.
pub(crate) fn save(
    saved: &mut Saved,
    release: &str,
    points: &[Point],
    measured: &[Measured],
) -> Result<(), Problem> {
    let results = Results { points, measured };
    for row in results.rows() {
        let increments = results.ratios(row, INCREMENT, |sample| sample.server);
        let by_hand = results
            .twin(row)
            .map(|(case, hand)| results.ratios(&hand, case, |sample| Some(sample.per_second)));
        let places = CLIENTS.into_iter().flat_map(|client| {
            let depths = DEPTHS.into_iter().enumerate();
            depths.map(move |(depth, calls)| (client, depth, calls))
        });
        for (place, (client, depth, calls)) in places.enumerate() {
            let measured = results.absolute(row, client, depth);
            if measured[0] == NOTHING {
                continue;
            }
            let mut cells = vec![
                release.to_owned(),
                client.to_owned(),
                calls.to_string(),
                row.to_owned(),
            ];
            cells.extend(measured);
            cells.push(increments[place].clone());
            cells.push(
                by_hand
                    .as_ref()
                    .map_or(NOTHING, |all| &*all[place])
                    .to_owned(),
            );
            let cells = cells
                .iter()
                .map(|cell| if cell == NOTHING { "" } else { cell });
            saved.row(cells)?;
        }
    }
    Ok(())
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

    /// Writes calls per second, latencies, and the processor time of both sides.
    fn absolutes(&self, out: &mut impl Write, depth: usize) -> io::Result<()> {
        let count = DEPTHS[depth];
        let calls = if count == 1 { "call" } else { "calls" };
        writeln!(out, "{count} {calls} in flight:\n")?;
        let columns = CLIENTS.map(|client| {
            [
                format!("{client}, thousands a second"),
                "p50, µs".to_owned(),
                "p99, µs".to_owned(),
                "server busy, µs".to_owned(),
                "client busy, µs".to_owned(),
            ]
        });
        heading(out, "calls", &columns.concat())?;
        for row in self.rows() {
            let mut cells = Vec::new();
            for client in CLIENTS {
                cells.extend(self.absolute(row, client, depth));
            }
            line(out, row, &cells)?;
        }
        writeln!(out)
    }

    /// Returns the medians of thousands of calls a second, the latencies, and the processor times.
    fn absolute(&self, row: &str, client: &str, depth: usize) -> [String; 5] {
        let samples = self.samples(row, client, depth);
        let of = |value: fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(value));
        [
            cell(of(|sample| Some(sample.per_second / 1e3)), 1),
            cell(of(|sample| Some(sample.p50)), 0),
            cell(of(|sample| Some(sample.p99)), 0),
            cell(of(|sample| sample.server), 2),
            cell(of(|sample| sample.client), 2),
        ]
    }

    /// Writes the library's time relative to the same scripts sent by hand.
    fn by_hand(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "Time of a decision, for each time of the same script sent by hand:\n"
        )?;
        self.ratio_heading(out, "decision")?;
        for row in self.rows() {
            let Some((case, hand)) = self.twin(row) else {
                continue;
            };
            // More calls in the same time mean less time per call, so the ratio is inverted.
            let cells = self.ratios(&hand, case, |sample| Some(sample.per_second));
            line(out, case, &cells)?;
        }
        writeln!(out)
    }

    /// Returns a row of allowed decisions with the row of the same scripts by hand, or `None` for
    /// other rows.
    fn twin<'r>(&self, row: &'r str) -> Option<(&'r str, String)> {
        let case = row.strip_suffix(", allowed")?;
        let hand = by_hand(case);
        self.rows().contains(&&*hand).then_some((row, hand))
    }

    /// Writes the server's processor time of each call relative to `INCR`.
    fn increments(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "Time that the server is busy with a call, for each such time of `INCR`:\n"
        )?;
        self.ratio_heading(out, "call")?;
        for row in self.rows() {
            if row != INCREMENT {
                line(
                    out,
                    row,
                    &self.ratios(row, INCREMENT, |sample| sample.server),
                )?;
            }
        }
        writeln!(out)
    }

    /// Writes the ratios that the documentation promises.
    fn others(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "Time that the server is busy with an allowed decision, for each such time of another:\n"
        )?;
        self.ratio_heading(out, "decision : other")?;
        let one = row(ONE, Outcome::Allowed);
        let allowed = |case| row(case, Outcome::Allowed);
        for (case, other) in [
            (allowed(TWO), &*one),
            (allowed(FOUR), &one),
            (allowed(PLAIN), TRANSACTION),
            (allowed(LOG), &one),
            (allowed(LONG_LOG), &one),
            (allowed(COSTLY_LOG), &allowed(LOG)),
            (allowed(SCHEDULE), &one),
            (allowed(WITH_ID), &one),
            (allowed(SETTLED), &allowed(REFUNDED)),
        ] {
            if self.rows().contains(&&*case) {
                let cells = self.ratios(&case, other, |sample| sample.server);
                line(out, &format!("{case} : {other}"), &cells)?;
            }
        }
        writeln!(out)
    }

    fn ratio_heading(&self, out: &mut impl Write, first: &str) -> io::Result<()> {
        let columns =
            CLIENTS.map(|client| DEPTHS.map(|depth| format!("{client}, {depth} in flight")));
        heading(out, first, &columns.concat())
    }

    /// Returns, for each client and depth, the ratio of two rows' values in the same round.
    fn ratios(&self, row: &str, other: &str, value: fn(&Sample) -> Option<f64>) -> Vec<String> {
        let depths = 0..DEPTHS.len();
        let all = CLIENTS.into_iter().flat_map(|client| {
            let depths = depths.clone();
            depths.map(move |depth| (client, depth))
        });
        all.map(|(client, depth)| {
            let one = self.samples(row, client, depth);
            let two = self.samples(other, client, depth);
            let rounds = one.iter().zip(two);
            let ratios = rounds.filter_map(|(one, two)| Some(value(one)? / value(two)?));
            cell(median(ratios), 2)
        })
        .collect()
    }

    /// Writes which points were left out, and which had calls with an unexpected outcome.
    fn remarks(&self, out: &mut impl Write) -> io::Result<()> {
        for (point, measured) in self.points.iter().zip(self.measured) {
            let (row, client) = (&point.row, point.client);
            if let Some(failure) = &measured.failure {
                writeln!(out, "- {row}, {client}: left out: {failure}")?;
            }
            for (samples, depth) in measured.samples.iter().zip(DEPTHS) {
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

fn heading(out: &mut impl Write, first: &str, columns: &[String]) -> io::Result<()> {
    line(out, first, columns)?;
    writeln!(out, "|---|{}", "---:|".repeat(columns.len()))
}

fn line(out: &mut impl Write, first: &str, cells: &[String]) -> io::Result<()> {
    writeln!(out, "| {first} | {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
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

    #[test]
    fn ratios_are_of_the_same_round() {
        let points = [INCREMENT, "gcra, by hand", "gcra, allowed"].map(point);
        let of = |samples: &[Sample]| Measured {
            samples: [samples.to_vec(), Vec::new(), Vec::new()],
            failure: None,
        };
        // The second round is ten times as slow as the others.
        let measured = [
            of(&[sample(1.0, 1.0), sample(0.1, 10.0), sample(1.0, 1.0)]),
            of(&[sample(2e4, 3.9), sample(2e3, 39.0), sample(2e4, 3.9)]),
            of(&[sample(1e4, 4.0), sample(1e3, 40.0), sample(2e4, 4.0)]),
        ];
        let mut out = Vec::new();
        write(&mut out, &points, &measured).unwrap();
        let text = String::from_utf8(out).unwrap();
        for expected in [
            "1 call in flight:\n\n| calls | redis-rs, thousands a second | p50, µs |",
            "| gcra, allowed | 10.0 | 20 | 30 | 4.00 | – | – | – | – | – | – |\n",
            "same script sent by hand:\n\n| decision | redis-rs, 1 in flight |",
            "| gcra, allowed | 2.00 | – | – | – | – | – |\n",
            "| gcra, allowed | 4.00 | – | – | – | – | – |\n",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
    }

    #[test]
    fn tables_name_omitted_points_and_unexpected_outcomes() {
        let points = [point("a"), point("b")];
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
        let mut out = Vec::new();
        write(&mut out, &points, &measured).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("- a, redis-rs: left out: unknown\n"),
            "{text}"
        );
        let expected = "- b, redis-rs, 1 in flight: up to 25.0 % were told otherwise\n";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("| a |"), "{text}");
    }
}
