//! `tollgate demo`: all algorithms on a day of synthetic traffic, without a file or a server.

mod traffic;

use std::path::{Path, PathBuf};

use clap::Args;
use tollgate_core::{Algorithm, FixedWindow, Gcra, LimitError, Quota};

use self::traffic::ABUSER;
use crate::decisions::{Comparison, Judgement, Outcome, Summary, Tally, replay_in_memory};
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{Report, Timeline};
use crate::text::{Table, grouped, share, times};
use crate::trace::Trace;

#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// The quota for every algorithm, as N/WINDOW
    #[arg(long, value_name = "N/WINDOW", default_value = "60/1m")]
    pub(crate) quota: String,

    /// Also write an HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

pub(super) fn run(options: &DemoOptions, output: &Output) -> Result<(), Failure> {
    let bad = |error: LimitError| Failure::wrong("--quota", &options.quota, error);
    let quota: Quota = options.quota.parse().map_err(bad)?;
    let trace = traffic::day()?;
    let keys = trace.keys();
    let abuser = (0..keys.len()).find(|&index| keys.bytes(index) == ABUSER.as_bytes());
    let mut comparison = Comparison::new(&trace, quota, abuser)?;
    let abusive = abuser.map_or(0, |key| trace.requests_of_each_key()[key]);
    judge(&mut comparison, abusive);
    let text = tell(&trace, abusive, &comparison);
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

/// Says of each algorithm what it does to the abusive client, which makes `abusive` requests, and to
/// the others.
fn judge(comparison: &mut Comparison, abusive: u64) {
    let quota = comparison.quota;
    let others_denied = |outcome: &Outcome| {
        let abuser_denied = abusive - outcome.watched_allowed;
        outcome.denied - abuser_denied
    };
    let outcomes = comparison.rows.iter().flat_map(|row| &row.outcome);
    let fewest = outcomes.filter(|outcome| outcome.worst <= quota.amount());
    let fewest = fewest.map(others_denied).min();
    for row in &mut comparison.rows {
        let outcome = row.outcome.as_ref().ok();
        row.judgement = outcome.map(|outcome| {
            let others_denied = others_denied(outcome);
            Judgement {
                others_denied,
                verdict: verdict(quota, outcome, others_denied, fewest),
            }
        });
    }
}

/// Returns one sentence: which algorithm serves best, and which is furthest over the quota.
fn conclusion(comparison: &Comparison) -> String {
    let quota = comparison.quota;
    let judged = || {
        let rows = comparison.rows.iter();
        rows.filter_map(|row| Some((row, row.outcome.as_ref().ok()?, row.judgement.as_ref()?)))
    };
    let exact = judged().filter(|(_, outcome, _)| outcome.worst <= quota.amount());
    let best = exact.min_by_key(|(.., judgement)| judgement.others_denied);
    let best = best.map_or_else(
        || "no algorithm kept every client within the quota".to_owned(),
        |(row, _, judgement)| {
            format!(
                "{} kept every client within the quota and denied the fewest requests of those who \
                 do not abuse it ({})",
                row.limit,
                grouped(judgement.others_denied)
            )
        },
    );
    let worst = judged().max_by_key(|(_, outcome, _)| outcome.worst);
    let worst = worst.filter(|(_, outcome, _)| outcome.worst > quota.amount());
    let worst = worst.map_or_else(String::new, |(row, outcome, _)| {
        format!(
            ", while {} admitted {} requests of one client within one window, {} times the quota",
            row.limit,
            grouped(outcome.worst),
            times(outcome.worst, quota.amount())
        )
    });
    format!("With {quota} for each client, {best}{worst}.")
}

fn tell(trace: &Trace, abusive: u64, comparison: &Comparison) -> String {
    let requests = trace.requests();
    let quota = comparison.quota;
    let mut text = format!(
        "A day of traffic: {} requests of {} clients. One, {ABUSER}, is abusive: {} requests ({}),\n\
         up to {} within one window. Every algorithm counts {quota} for each client:\n\n",
        grouped(requests),
        grouped(u64::try_from(trace.keys().len()).unwrap_or(u64::MAX)),
        grouped(abusive),
        share(abusive, requests),
        grouped(comparison.demand),
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
    let mut table = Table::new(&header, 6);
    for row in &comparison.rows {
        let mut cells = vec![row.limit.clone()];
        match (&row.outcome, &row.judgement) {
            (Ok(outcome), Some(judgement)) => cells.extend([
                grouped(outcome.allowed),
                grouped(outcome.denied),
                grouped(outcome.watched_allowed),
                grouped(judgement.others_denied),
                worst_window(outcome.worst, quota.amount()),
                judgement.verdict.to_owned(),
            ]),
            (outcome, _) => {
                cells.extend(vec!["-".to_owned(); 5]);
                cells.extend(outcome.as_ref().err().map(ToString::to_string));
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
    let worst_grouped = grouped(worst);
    if amount == 0 {
        return worst_grouped.to_string();
    }
    format!("{worst_grouped} ({}x)", times(worst, amount))
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
    let mut timeline = Timeline::new(trace.span());
    let mut tally = Tally::new(trace, 1);
    replay_in_memory(trace, &[algorithm], |event, decision| {
        tally.count(event, decision);
        timeline.count(event.at, decision.is_allowed());
    })?;
    let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let summary = Summary::new(tally, trace, &[algorithm], TOP, name);
    let report = Report {
        title: "A day with an abusive client".to_owned(),
        conclusion: conclusion(&comparison),
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
