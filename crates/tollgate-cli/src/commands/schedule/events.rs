//! `tollgate schedule cancel` and `list`: the events of one key on a live server.

use std::process::ExitCode;

use serde::Serialize;
use tollgate_core::schedule::{self, PlannedEvent, Schedule};
use tollgate_core::{Key, StoreError, Timestamp};

use super::options::{CancelOptions, ListOptions, SubjectOptions};
use super::terms;
use crate::failure::Failure;
use crate::output::{Output, say, status};
use crate::store::{Remote, Whom, wait_for};
use crate::text::{Table, exact, grouped, plural, printable, rfc3339, times_in};
use crate::time;

pub(super) fn cancel(options: &CancelOptions, output: &Output) -> Result<ExitCode, Failure> {
    let CancelOptions { subject, id, .. } = options;
    let quotas = options.quotas.quotas()?;
    let terms = terms::of_service(&subject.schedule, quotas, options.tolerance.as_deref())?;
    let whom = subject.one.whom()?;
    let cancelled = ask(subject, &whom, terms, async |schedule, key| {
        schedule.cancel(key, id).await
    })?;
    let mut answer = Answer::new("cancel", subject, &whom);
    answer.id = Some(id);
    answer.cancelled = Some(cancelled);
    say(subject.server.json, output, &answer, || {
        let done = if cancelled {
            "cancelled"
        } else {
            "no such event is planned"
        };
        format!("cancel {whom}, {}: {done}\n", printable(id.as_bytes()))
    })?;
    Ok(status(cancelled))
}

pub(super) fn list(options: &ListOptions, output: &Output) -> Result<ExitCode, Failure> {
    let subject = &options.subject;
    let bound = |option, text: &Option<String>, otherwise| {
        let text = text.as_deref();
        text.map_or(Ok(otherwise), |text| time::option(option, text))
    };
    let from = bound("--from", &options.from, Timestamp::UNIX_EPOCH)?;
    let until = bound("--until", &options.until, Timestamp::MAX)?;
    let zone = options.zone.zone()?;
    let terms = terms::of_service(&subject.schedule, vec![terms::any()?], None)?;
    let whom = subject.one.whom()?;
    let events = ask(subject, &whom, terms, async |schedule, key| {
        schedule.list(key, from, until).await
    })?;
    let mut answer = Answer::new("list", subject, &whom);
    answer.events = Some(events.iter().map(Listing::new).collect());
    say(subject.server.json, output, &answer, || {
        let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
        let count = plural(count, "event", "events");
        let mut text = format!("list {whom}: {count}{}\n", times_in(&zone));
        if !events.is_empty() {
            let mut table = Table::new(&["TIME", "WEIGHT", "ID"], 2);
            for event in &events {
                table.row([
                    exact(event.time(), &zone),
                    grouped(event.weight()),
                    String::from_utf8_lossy(event.id()).into_owned(),
                ]);
            }
            text += &format!("\n{table}");
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Connects to the server of `subject`, and calls `question` with its schedule and key.
fn ask<T>(
    subject: &SubjectOptions,
    whom: &Whom,
    terms: schedule::Terms,
    question: impl AsyncFnOnce(&Schedule<Box<dyn Remote>>, Key<'_>) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let server = subject.server.server()?;
    let settings = subject.one.key.settings(&subject.server)?;
    wait_for(async {
        let store = server.connect(settings).await?;
        let schedule = Schedule::with_terms(store, terms);
        Ok(question(&schedule, whom.key()).await?)
    })
}

/// The answer of `cancel`, which has an id, or of `list`, which has events.
#[derive(Serialize)]
struct Answer<'a> {
    command: &'static str,
    schedule: &'a str,
    key: &'a str,
    rest: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Listing>>,
}

impl<'a> Answer<'a> {
    fn new(command: &'static str, subject: &'a SubjectOptions, whom: &'a Whom) -> Self {
        Self {
            command,
            schedule: &subject.schedule,
            key: &whom.partition,
            rest: &whom.rest,
            id: None,
            cancelled: None,
            events: None,
        }
    }
}

#[derive(Serialize)]
struct Listing {
    id: String,
    time: String,
    weight: u64,
}

impl Listing {
    fn new(event: &PlannedEvent) -> Self {
        Self {
            id: String::from_utf8_lossy(event.id()).into_owned(),
            time: rfc3339(event.time()),
            weight: event.weight(),
        }
    }
}
