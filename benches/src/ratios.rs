//! Prints how long each algorithm takes relative to governor, point by point.
//!
//! On a shared machine, speed drifts by more than the differences to measure. So the subjects of a
//! point are measured in turn, many times, and each is compared with governor in the same round;
//! the program prints the median of these ratios.

use std::io::{self, Write};
use std::time::Duration;

use clap::Parser;

use crate::{Named, Outcome, Problem, keys, median, subjects, time, warm_up};

/// How often each subject of a point is measured.
const ROUNDS: usize = 31;

/// The approximate duration of each measurement.
const SLICE: Duration = Duration::from_millis(12);

/// Measures rate limiters in memory, relative to governor.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Selects the points whose names contain this, such as `1 key`.
    #[arg(default_value = "")]
    filter: String,
    /// How often each subject of a point is measured.
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Leaves out the points of more keys.
    #[arg(long, default_value_t = usize::MAX)]
    most: usize,
}

impl Arguments {
    /// Measures these subjects by one thread if `name` is selected, and prints a row for each: its time,
    /// and the ratio to that of the first.
    ///
    /// # Errors
    ///
    /// If standard output is closed.
    pub fn print(&self, name: &str, subjects: &[Named]) -> Result<(), Problem> {
        if !name.contains(&*self.filter) {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(out, "\n| {name} | ns | ratio |\n|---|---|---|")?;
        let point = measure(subjects, &keys(1), 1, self.rounds.max(1));
        for ((subject, _), (ns, ratio)) in subjects.iter().zip(point) {
            writeln!(out, "| {subject} | {ns:.1} | {ratio:.2} |")?;
        }
        Ok(())
    }
}

/// Measures the limiters of this library and, after them, those that `peers` returns.
///
/// # Errors
///
/// If a limit is not valid.
pub fn run(
    arguments: &Arguments,
    peers: impl Fn(Outcome) -> Result<Vec<Named>, Problem>,
) -> Result<(), Problem> {
    let filter = &*arguments.filter;
    let rounds = arguments.rounds.max(1);
    let mut out = io::stdout().lock();
    let mut heading = true;
    for outcome in [Outcome::Allowed, Outcome::Denied] {
        for (label, count) in [("1 key", 1), ("10 k keys", 10_000), ("1 M keys", 1_000_000)] {
            let name = |threads| format!("{outcome:?}, {label}, {threads}").to_lowercase();
            let points = [(1, name("1 thread")), (2, name("2 threads"))];
            let is_chosen = points.iter().any(|(_, name)| name.contains(filter));
            if !is_chosen || count > arguments.most {
                continue;
            }
            let keys = keys(count);
            let mut subjects = subjects(outcome)?;
            subjects.extend(peers(outcome)?);
            warm_up(&subjects, &keys);
            for (threads, name) in points {
                let point = measure(&subjects, &keys, threads, rounds);
                if std::mem::take(&mut heading) {
                    write_heading(&mut out, &subjects)?;
                }
                write!(out, "| {name} | {:.1} |", point[0].0)?;
                for (_, ratio) in &point[1..] {
                    write!(out, " {ratio:.2} |")?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// Returns each subject's median in nanoseconds, and the median of its ratios to the first one.
fn measure(subjects: &[Named], keys: &[String], threads: usize, rounds: usize) -> Vec<(f64, f64)> {
    let calls: Vec<u64> = subjects
        .iter()
        .map(|(_, subject)| {
            let probe = 20_000;
            let taken = time(&**subject, keys, threads, probe).max(Duration::from_micros(1));
            let slice = SLICE.as_secs_f64() / taken.as_secs_f64();
            // At least one call; the cast saturates at what fits into a minute.
            scale(probe, slice)
        })
        .collect();
    let mut results = vec![(Vec::new(), Vec::new()); subjects.len()];
    for round in 0..rounds {
        let mut each = vec![0.0; subjects.len()];
        for turn in 0..subjects.len() {
            // Each round begins with another subject, so that no subject always follows the same
            // one.
            let index = (round + turn) % subjects.len();
            let taken = time(&*subjects[index].1, keys, threads, calls[index]);
            each[index] = taken.as_secs_f64() * 1e9 / scale_back(calls[index]);
        }
        for ((times, ratios), time) in results.iter_mut().zip(&each) {
            times.push(*time);
            ratios.push(time / each[0]);
        }
    }
    let results = results.into_iter();
    results
        .map(|(times, ratios)| {
            [times, ratios]
                .map(|all| median(all).unwrap_or(f64::NAN))
                .into()
        })
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a number of calls that is off by a few is as good"
)]
fn scale(calls: u64, by: f64) -> u64 {
    (calls as f64 * by).max(1.0) as u64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "far fewer calls than a double counts exactly"
)]
fn scale_back(calls: u64) -> f64 {
    calls as f64
}

fn write_heading(out: &mut impl Write, subjects: &[Named]) -> io::Result<()> {
    write!(out, "| calls | {}, ns |", subjects[0].0)?;
    for (name, _) in &subjects[1..] {
        write!(out, " {name} |")?;
    }
    write!(out, "\n|---|")?;
    for _ in subjects {
        write!(out, "---|")?;
    }
    writeln!(out)
}
