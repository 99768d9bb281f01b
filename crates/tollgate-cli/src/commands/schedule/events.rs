//! `tollgate schedule add`, `cancel`, `list`, `move`, `next` and `reserve`: the events of one key on
//! a live server.

use std::process::ExitCode;

use serde::Serialize;
use tollgate_core::schedule::{self, Placement, PlannedEvent, Schedule};
use tollgate_core::{Key, StoreError, Timestamp};

use super::options::{
    AddOptions, CancelOptions, ListOptions, MoveOptions, NextOptions, ReserveOptions,
    SubjectOptions,
};
use super::refusal::{Refused, reason, to_table};
use crate::failure::Failure;
use crate::output::{DENIED, Output, say};
use crate::store::{Remote, wait_for};
use crate::text::{Grouped, Table, exact, named, plural, printable, readable, rfc3339, times_in};
use crate::time;

type OnServer = Schedule<Box<dyn Remote>>;

/// Runs `tollgate schedule add`.
pub(super) fn add(options: &AddOptions, output: &Output) -> Result<ExitCode, Failure> {
    let AddOptions { subject, id, .. } = options;
    let (time, weight) = (
        time::option("--time", &options.time)?,
        options.weight.weight,
    );
    check_id(id)?;
    let terms = subject.terms()?;
    let zone = subject.quotas.zone_of_calls(&terms)?;
    let placement = ask(subject, terms, async |schedule, key| {
        let call = schedule.add(key, id, time).weight(weight).zone(zone);
        call.with_latest().await
    })?;
    answer_placement(
        ("add", Some(time), weight),
        (subject, id),
        placement,
        output,
    )
}

/// Runs `tollgate schedule move`.
pub(super) fn move_to(options: &MoveOptions, output: &Output) -> Result<ExitCode, Failure> {
    let MoveOptions { subject, id, .. } = options;
    let time = time::option("--time", &options.time)?;
    check_id(id)?;
    let terms = subject.terms()?;
    let zone = subject.quotas.zone_of_calls(&terms)?;
    let placement = ask(subject, terms, async |schedule, key| {
        let call = schedule.reschedule(key, id, time).zone(zone);
        call.with_latest().await
    })?;
    answer_placement(("move", Some(time), 1), (subject, id), placement, output)
}

/// Runs `tollgate schedule reserve`.
pub(super) fn reserve(options: &ReserveOptions, output: &Output) -> Result<ExitCode, Failure> {
    let ReserveOptions { subject, id, .. } = options;
    let from = optional("--from", options.from.as_deref())?;
    let weight = options.weight.weight;
    check_id(id)?;
    let terms = subject.terms()?;
    let zone = subject.quotas.zone_of_calls(&terms)?;
    let placement = ask(subject, terms, async |schedule, key| {
        // No event is planned in the past, so the epoch stands for the present.
        let from = from.unwrap_or(Timestamp::UNIX_EPOCH);
        let call = schedule.reserve_next(key, id, from).weight(weight);
        call.zone(zone).with_latest().await
    })?;
    answer_placement(("reserve", from, weight), (subject, id), placement, output)
}

/// Runs `tollgate schedule cancel`.
pub(super) fn cancel(options: &CancelOptions, output: &Output) -> Result<ExitCode, Failure> {
    let CancelOptions { subject, id } = options;
    check_id(id)?;
    let terms = subject.terms()?;
    let was_planned = ask(subject, terms, async |schedule, key| {
        schedule.cancel(key, id).await
    })?;
    let answer = Cancelled {
        of: About::new("cancel", subject),
        id,
        cancelled: was_planned,
    };
    say(subject.server.json, output, &answer, || {
        let done = if was_planned {
            "cancelled"
        } else {
            "no such event is planned"
        };
        format!("{}: {done}\n", title("cancel", subject, Some(id)))
    })?;
    Ok(status(was_planned))
}

/// Runs `tollgate schedule next`.
pub(super) fn next(options: &NextOptions, output: &Output) -> Result<ExitCode, Failure> {
    let subject = &options.subject;
    let from = optional("--from", options.from.as_deref())?;
    let until = optional("--until", options.until.as_deref())?;
    let weight = options.weight.weight;
    let terms = subject.terms()?;
    let zone = subject.quotas.zone_of_calls(&terms)?;
    let time = ask(subject, terms, async |schedule, key| {
        let call = match until {
            Some(until) => schedule.latest_free(key, until),
            None => schedule.next_free(key, from.unwrap_or(Timestamp::UNIX_EPOCH)),
        };
        call.weight(weight).zone(zone.clone()).await
    })?;
    let answer = Free {
        of: About::new("next", subject),
        from: from.map(rfc3339),
        until: until.map(rfc3339),
        weight,
        time: time.map(rfc3339),
    };
    say(subject.server.json, output, &answer, || {
        let free = match (time, until) {
            (Some(time), _) => format!("free at {}", named(time, &zone)),
            (None, None) => "no free time up to the horizon".to_owned(),
            (None, Some(until)) => {
                format!(
                    "no free time from the present until {}",
                    named(until, &zone)
                )
            }
        };
        format!("{}: {free}\n", title("next", subject, None))
    })?;
    Ok(status(time.is_some()))
}

/// Runs `tollgate schedule list`.
pub(super) fn list(options: &ListOptions, output: &Output) -> Result<ExitCode, Failure> {
    let subject = &options.subject;
    let from = optional("--from", options.from.as_deref())?;
    let until = optional("--until", options.until.as_deref())?;
    let terms = subject.terms_for_list()?;
    let zone = subject.quotas.zone()?;
    let events = ask(subject, terms, async |schedule, key| {
        let from = from.unwrap_or(Timestamp::UNIX_EPOCH);
        schedule
            .list(key, from, until.unwrap_or(Timestamp::MAX))
            .await
    })?;
    let answer = Listed {
        of: About::new("list", subject),
        events: events.iter().map(Listing::new).collect(),
    };
    say(subject.server.json, output, &answer, || {
        let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
        let count = plural(count, "event", "events");
        let times = times_in(&zone);
        let mut text = format!("{}: {count}{times}\n", title("list", subject, None));
        if !events.is_empty() {
            let mut table = Table::new(&["TIME", "WEIGHT", "ID"], 2);
            for event in &events {
                table.row([
                    exact(event.time(), &zone),
                    Grouped(event.weight()).to_string(),
                    printable(event.id()),
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
    terms: schedule::Terms,
    question: impl AsyncFnOnce(&OnServer, Key<'_>) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let server = subject.server.server()?;
    let settings = subject.key.settings(&subject.server)?;
    wait_for(async {
        let store = server.connect(settings).await?;
        let schedule = Schedule::with_terms(store, terms);
        Ok(question(&schedule, subject.key.key()).await?)
    })
}

fn optional(option: &'static str, text: Option<&str>) -> Result<Option<Timestamp>, Failure> {
    text.map(|text| time::option(option, text)).transpose()
}

fn check_id(id: &str) -> Result<(), Failure> {
    if (1..=schedule::LONGEST_ID).contains(&id.len()) {
        Ok(())
    } else {
        Err(Failure::EventId { bytes: id.len() })
    }
}

fn status(is_done: bool) -> ExitCode {
    if is_done {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DENIED)
    }
}

/// Returns what the answer is about, for people.
fn title(command: &str, subject: &SubjectOptions, id: Option<&str>) -> String {
    let mut title = format!(
        "{command} {}",
        readable(&subject.key.key, &subject.key.rest)
    );
    if let Some(id) = id {
        title += &format!(", {}", printable(id.as_bytes()));
    }
    title
}

fn answer_placement(
    (command, time, weight): (&'static str, Option<Timestamp>, u64),
    (subject, id): (&SubjectOptions, &str),
    placement: Placement,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let (planned, is_new, refusal) = match placement {
        Placement::Planned { time, is_new } => (Some(time), is_new, None),
        Placement::Refused(refusal) => (None, false, Some(refusal)),
    };
    let answer = Placed {
        of: About::new(command, subject),
        id,
        weight: (command != "move").then_some(weight),
        planned: planned.is_some(),
        is_new,
        time: planned.map(rfc3339),
        refused: refusal.as_ref().map(Refused::new),
    };
    let zone = subject.quotas.zone()?;
    say(subject.server.json, output, &answer, || {
        let title = title(command, subject, Some(id));
        match (planned, &refusal) {
            (Some(planned), _) => {
                let already = if is_new { "" } else { "already " };
                format!("{title}: {already}planned at {}\n", named(planned, &zone))
            }
            (None, Some(refusal)) => {
                let at = time.map(|time| format!(" at {}", named(time, &zone)));
                let at = at.unwrap_or_default();
                let reason = reason(refusal, &zone);
                let table = to_table(refusal, &zone);
                format!("{title}{at}: refused, {reason}\n\n{table}")
            }
            (None, None) => String::new(),
        }
    })?;
    Ok(status(planned.is_some()))
}

/// Whom an answer is about.
#[derive(Serialize)]
struct About<'a> {
    command: &'static str,
    schedule: &'a str,
    key: &'a str,
    rest: &'a str,
}

impl<'a> About<'a> {
    fn new(command: &'static str, subject: &'a SubjectOptions) -> Self {
        Self {
            command,
            schedule: &subject.schedule,
            key: &subject.key.key,
            rest: &subject.key.rest,
        }
    }
}

/// The answer of `add`, `move` and `reserve`.
#[derive(Serialize)]
struct Placed<'a> {
    #[serde(flatten)]
    of: About<'a>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    planned: bool,
    #[serde(rename = "new")]
    is_new: bool,
    time: Option<String>,
    refused: Option<Refused>,
}

/// The answer of `cancel`.
#[derive(Serialize)]
struct Cancelled<'a> {
    #[serde(flatten)]
    of: About<'a>,
    id: &'a str,
    cancelled: bool,
}

/// The answer of `next`.
#[derive(Serialize)]
struct Free<'a> {
    #[serde(flatten)]
    of: About<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    weight: u64,
    time: Option<String>,
}

/// The answer of `list`.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    of: About<'a>,
    events: Vec<Listing>,
}

/// One event of a list.
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
