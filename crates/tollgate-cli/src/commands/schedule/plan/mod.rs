//! `tollgate schedule plan`: turns the wanted times of many messages into permitted ones.

mod answer;
mod csv;
mod decide;
mod messages;
mod report;

use std::process::ExitCode;
use std::slice;
use std::time::Duration;

use tollgate_core::Timestamp;

use self::answer::Plan;
use self::decide::Task;
use self::messages::Messages;
use super::options::PlanOptions;
use super::terms;
use crate::failure::Failure;
use crate::lanes::Run;
use crate::output::{Output, status};
use crate::progress::Progress;
use crate::report::page::spare_logs;
use crate::text::{Span, printable};
use crate::time;

/// How far after the last wanted time messages are planned, if the quotas allow it.
const AHEAD: Duration = Duration::from_secs(366 * 86_400);

/// For how many messages of a key the quota in the way is looked up.
const MOST_ASKED: usize = 10_000;

pub(super) fn run(options: &PlanOptions, output: &Output) -> Result<ExitCode, Failure> {
    // Check the command line before reading a long file.
    let quotas = options.quotas.quotas()?;
    let zone = options.quotas.zone()?;
    let horizon = options.horizon.as_deref();
    let horizon = horizon.map(|text| time::length("--horizon", text));
    let horizon = horizon.transpose()?;
    let run = Run::at(&options.location, "plan")?;
    spare_logs(options.report.as_deref(), slice::from_ref(&options.file))?;

    let progress = Progress::new(output.is_watched());
    let messages = Messages::read(&options.file, &progress)?;
    let (first, last) = messages.span();
    let wanted = horizon.unwrap_or_else(|| last.saturating_duration_since(first) + AHEAD);
    let (terms, is_short) = terms::reaching(quotas, wanted)?;
    let without_zone = messages.iter().find(|message| message.zone.is_none());
    if let Some(message) = without_zone
        && terms.needs_zone()
        && options.quotas.time_zone.is_none()
    {
        let [key, id] = [messages.key(message.key), &message.id];
        let [key, id] = [key, id].map(|text| printable(text.as_bytes()));
        return Err(Failure::NoZone { id, key });
    }
    let task = Task {
        messages: &messages,
        terms,
        until: horizon.map_or(Timestamp::MAX, |horizon| first.saturating_add(horizon)),
        instants: messages.instants(is_short),
        zone,
        most_asked: MOST_ASKED,
    };
    let outcomes = match &run {
        Some(run) => task.on_server(run, output, &progress)?,
        None => task.in_memory(&progress)?,
    };
    progress.finish();
    if is_short {
        output.remark(&format!(
            "tollgate: with these quotas, a key could hold too many messages, so each is planned \
             at most {} after the earliest time that its key still wants\n",
            Span(task.terms.horizon()),
        ));
    }
    let plan = Plan::new(&task, outcomes);
    let written = match &options.report {
        Some(path) => report::write(path, &plan),
        None => Ok(()),
    };
    match (options.json, options.csv) {
        (true, _) => output.answer(&plan.to_json(options.only)),
        (_, true) => output.data(&plan.to_csv(options.only, options.per_key)),
        _ => output.answer(&plan.to_text(options.only, options.per_key)),
    }?;
    written?;
    Ok(status(plan.refused == 0))
}
