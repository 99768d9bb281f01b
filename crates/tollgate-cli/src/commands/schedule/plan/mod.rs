//! `tollgate schedule plan`: turns the wanted times of many messages into permitted ones.

mod answer;
mod decide;
mod full;
mod messages;

pub(crate) use answer::{Outcome, Plan};

use std::process::ExitCode;

use self::messages::Messages;
use super::options::PlanOptions;
use super::{terms, time};
use crate::ask::DENIED;
use crate::failure::Failure;
use crate::input::is_read_from;
use crate::lanes::Run;
use crate::output::Output;
use crate::progress::Progress;
use crate::store::Location;
use crate::text::Span;

/// How far after the last wanted time messages are planned, if the quotas allow it.
const AHEAD: std::time::Duration = std::time::Duration::from_secs(366 * 86_400);

/// Runs `tollgate schedule plan`.
pub(super) fn run(options: &PlanOptions, output: &Output) -> Result<ExitCode, Failure> {
    // Check the command line before reading a long file.
    let quotas = options.quotas.quotas()?;
    let horizon = options.horizon.as_deref();
    let horizon = horizon.map(|text| time::length("--horizon", text));
    let horizon = horizon.transpose()?;
    let run = match Location::new(&options.store, options.tls_ca.as_deref())? {
        Location::Memory => None,
        Location::Server(server) => Some(Run::new(server, &options.prefix, "plan")?),
    };
    if let Some(report) = &options.report
        && is_read_from(&options.file, report)
    {
        return Err(Failure::ReportOverLog {
            report: report.clone(),
            log: options.file.clone(),
        });
    }

    let progress = Progress::new(output.is_watched());
    let messages = Messages::read(&options.file, &progress)?;
    let (first, last) = messages.span();
    let wanted = horizon.unwrap_or_else(|| last.saturating_duration_since(first) + AHEAD);
    let (terms, is_short) = terms::reaching(quotas, wanted)?;
    let instants = messages.instants(is_short);
    let outcomes = match &run {
        Some(run) => decide::on_server(run, &terms, &messages, &instants, (output, &progress))?,
        None => decide::in_memory(&terms, &messages, &instants, &progress)?,
    };
    progress.finish();
    if is_short {
        output.remark(&format!(
            "tollgate: with these quotas, a key could hold too many messages, so each is planned \
             at most {} after the earliest time that its key still wants\n",
            Span(terms.horizon()),
        ));
    }
    let plan = Plan::new(&messages, &terms, outcomes);
    let written = match &options.report {
        Some(path) => crate::report::write_plan(path, &plan),
        None => Ok(()),
    };
    output.answer(&if options.json {
        plan.to_json()
    } else {
        plan.to_text()
    })?;
    written?;
    Ok(if plan.refused == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DENIED)
    })
}
