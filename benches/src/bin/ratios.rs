//! Prints how long each algorithm takes relative to governor, point by point.
//!
//! On a shared machine, speed drifts by more than the differences to measure. So the subjects of a
//! point are measured in turn, many times, and each is compared with governor in the same round;
//! the program prints the median of these ratios. An argument selects the points whose names
//! contain it, such as `1 key`.

use std::env;
use std::io::{self, Write};
use std::time::Duration;

use tollgate_benches::{Named, Outcome, Problem, keys, subjects, time, warm_up};

/// How often each subject of a point is measured.
const ROUNDS: usize = 31;

/// The approximate duration of each measurement.
const SLICE: Duration = Duration::from_millis(12);

fn main() -> Result<(), Problem> {
    let filter = env::args().nth(1).unwrap_or_default();
    let mut out = io::stdout().lock();
    let mut heading = true;
    for outcome in [Outcome::Allowed, Outcome::Denied] {
        for (label, count) in [("1 key", 1), ("10 k keys", 10_000), ("1 M keys", 1_000_000)] {
            let name = |threads| format!("{outcome:?}, {label}, {threads}").to_lowercase();
            let points = [(1, name("1 thread")), (2, name("2 threads"))];
            if !points.iter().any(|(_, name)| name.contains(&filter)) {
                continue;
            }
            let keys = keys(count);
            let subjects = subjects(outcome)?;
            warm_up(&subjects, &keys);
            for (threads, name) in points {
                let point = measure(&subjects, &keys, threads);
                if std::mem::take(&mut heading) {
                    write_heading(&mut out, &subjects)?;
                }
                write!(out, "| {name} | {:.1} |", point[0])?;
                for ratio in &point[1..] {
                    write!(out, " {ratio:.2} |")?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// Returns the first subject's median in nanoseconds, then the median ratios of the others to it.
fn measure(subjects: &[Named], keys: &[String], threads: usize) -> Vec<f64> {
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
    let mut results = vec![Vec::new(); subjects.len()];
    for round in 0..ROUNDS {
        let mut each = vec![0.0; subjects.len()];
        for turn in 0..subjects.len() {
            // Each round begins with another subject, so that no subject always follows the same
            // one.
            let index = (round + turn) % subjects.len();
            let taken = time(&*subjects[index].1, keys, threads, calls[index]);
            each[index] = taken.as_secs_f64() * 1e9 / scale_back(calls[index]);
        }
        results[0].push(each[0]);
        for (index, time) in each.iter().enumerate().skip(1) {
            results[index].push(time / each[0]);
        }
    }
    results.into_iter().map(median).collect()
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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
