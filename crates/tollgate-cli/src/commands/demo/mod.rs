//! `tollgate demo`: all algorithms on a day of synthetic traffic, without a file or a server.

mod traffic;

use std::path::{Path, PathBuf};

use clap::Args;
use tollgate_core::{Algorithm, FixedWindow, Gcra, LimitError, Quota};

use self::traffic::ABUSER;
use crate::decisions::{Comparison, Outcome, Summary, Tally, replay_in_memory};
use crate::failure::Failure;
use crate::input::ReadAs;
use crate::output::Output;
use crate::report::{Report, Timeline};
use crate::text::{Grouped, Share, Table, Times};
use crate::trace::Trace;

/// The options of `demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// The quota for every algorithm, as N/WINDOW
    #[arg(long, value_name = "N/WINDOW", default_value = "60/1m")]
    pub(crate) quota: String,

    /// Also write an HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Runs `tollgate demo`.
pub(super) fn run(options: &DemoOptions, output: &Output) -> Result<(), Failure> {
    let bad = |source: LimitError| Failure::Quota {
        quota: options.quota.clone(),
        source,
    };
    let quota: Quota = options.quota.parse().map_err(bad)?;
    let trace = traffic::day()?;
    let is_abuser = |&index: &usize| trace.key(index) == ABUSER.as_bytes();
    let abuser = (0..trace.keys()).find(is_abuser);
    let comparison = Comparison::new(&trace, quota, abuser)?;
    let text = tell(&trace, abuser, &comparison);
    let mut written = Ok(());
    if let Some(path) = &options.report {
        written = write_report(&trace, shown(quota), comparison, path);
    }
    output.answer(&text)?;
    written
}

/// Returns the algorithm that the report shows over time.
fn shown(quota: Quota) -> Algorithm {
    // Not every algorithm supports every quota, but an aligned window does.
    Gcra::new(quota).map_or_else(|_| FixedWindow::aligned(quota).into(), Algorithm::from)
}

/// Returns the table and its explanation.
fn tell(trace: &Trace, abuser: Option<usize>, comparison: &Comparison) -> String {
    let requests = count(trace.requests());
    let abusive = count(abuser.map_or(0, |key| trace.requests_of(key)));
    let quota = comparison.quota;
    let mut text = format!(
        "A day of traffic: {} requests of {} clients. One, {ABUSER}, is abusive: {} requests ({}),\n\
         up to {} within one window. Every algorithm counts {quota} for each client:\n\n",
        Grouped(requests),
        Grouped(count(trace.keys())),
        Grouped(abusive),
        Share(abusive, requests),
        Grouped(comparison.demand),
    );
    let header = [
        "LIMIT",
        "ADMITTED",
        "DENIED",
        "ABUSER ADMITTED",
        "OTHERS DENIED",
        "WORST WINDOW",
        "VERDICT",
    ];
    let others_denied = |outcome: &Outcome| {
        let abuser_denied = abusive - outcome.watched_allowed;
        outcome.denied - abuser_denied
    };
    let exact = comparison
        .rows
        .iter()
        .filter_map(|row| row.outcome.as_ref().ok());
    let fewest = exact
        .filter(|outcome| outcome.worst <= quota.amount())
        .map(others_denied)
        .min();
    let mut table = Table::new(&header, 6);
    for row in &comparison.rows {
        let mut cells = vec![row.limit.clone()];
        match &row.outcome {
            Ok(outcome) => {
                let others = others_denied(outcome);
                cells.extend([
                    Grouped(outcome.allowed).to_string(),
                    Grouped(outcome.denied).to_string(),
                    Grouped(outcome.watched_allowed).to_string(),
                    Grouped(others).to_string(),
                    worst_window(outcome.worst, quota.amount()),
                    verdict(quota, outcome, others, fewest).to_owned(),
                ]);
            }
            Err(error) => {
                cells.extend(vec!["-".to_owned(); 5]);
                cells.push(error.to_string());
            }
        }
        table.row(cells);
    }
    text += &table.to_string();
    text += "\nWORST WINDOW: the most requests of one client admitted within any window of the quota's length.\n\
             Where the quota must hold, choose one that is never over it; where clients send bursts, one that\n\
             denies few of the others. Try your own log: tollgate replay access.log --limit sliding-log:";
    text += &format!("{quota}\n");
    text
}

/// Returns the worst window, and how many times the quota it is unless the quota is 0.
fn worst_window(worst: u64, amount: u64) -> String {
    let worst_grouped = Grouped(worst);
    if amount == 0 {
        return worst_grouped.to_string();
    }
    format!("{worst_grouped} ({}x)", Times(worst, amount))
}

/// Returns a verdict on an algorithm; `fewest` is the fewest denials of other clients by any
/// algorithm that keeps to the quota.
fn verdict(quota: Quota, outcome: &Outcome, others: u64, fewest: Option<u64>) -> &'static str {
    let amount = quota.amount();
    if outcome.worst.saturating_mul(2) > amount.saturating_mul(3) {
        "far over the quota"
    } else if outcome.worst > amount {
        "over the quota"
    } else if fewest.is_some_and(|fewest| others > fewest.saturating_mul(2)) {
        "never over, but hard on bursts"
    } else {
        "never over"
    }
}

fn write_report(
    trace: &Trace,
    algorithm: Algorithm,
    comparison: Comparison,
    path: &Path,
) -> Result<(), Failure> {
    let mut timeline = Timeline::new(trace);
    let mut tallies = Vec::new();
    for part in trace.parts() {
        let mut tally = Tally::new(part, 1);
        replay_in_memory(part, &[algorithm], |event, decision| {
            tally.count(event, decision);
            timeline.count(event, decision);
        })?;
        tallies.push(tally);
    }
    let name = |index: usize| String::from_utf8_lossy(trace.key(index)).into_owned();
    let summary = Summary::new(
        tallies,
        (trace, &[algorithm]),
        (0, ReadAs::default()),
        TOP,
        name,
    );
    let report = Report {
        title: "A day with an abusive client".to_owned(),
        source: "synthetic traffic".to_owned(),
        key: "client".to_owned(),
        summary: &summary,
        timeline: &timeline,
        comparisons: vec![comparison],
    };
    report.write(path)
}

/// The number of clients in the report.
const TOP: usize = 10;

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
