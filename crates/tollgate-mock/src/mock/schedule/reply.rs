//! What a schedule answers when the test says so, or why none does.

use std::slice;

use tollgate_core::Timestamp;
use tollgate_core::schedule::{self, Event, Operation, PlannedEvent, Reason, Refusal};

use super::super::answer::Answer;
use super::super::received::Received;
use super::super::verb::Verb;

/// Returns the answer to `request` that `answer` says.
///
/// # Panics
///
/// If no store could give this answer to this request.
pub(super) fn reply(
    request: &schedule::Request<'_>,
    received: &Received<'_>,
    answer: &Answer,
) -> schedule::Answer {
    let refuse = |why: &str| -> ! { received.refuse(0, answer, why) };
    let events: &[Event<'_>] = match request.operation() {
        Operation::Add(events) => events,
        Operation::Reschedule(event) | Operation::ReserveNext(event) => slice::from_ref(event),
        _ => &[],
    };
    let planned = |time: Timestamp, is_new: bool| match received.verb {
        Verb::Add => schedule::Answer::Added(if is_new { events.len() } else { 0 }),
        _ => schedule::Answer::Planned { time, is_new },
    };
    // The time of the event, or where a search begins.
    let time = received.parts[0].details[0].time.unwrap_or_default();
    let refused = |refusal: Refusal| {
        let (reason, next) = (refusal.reason(), refusal.next_free());
        // A time that it found would have been reserved.
        if received.verb == Verb::ReserveNext && next.is_some() {
            refuse("it reserves a free time, however late: answer with `.planned_at`");
        }
        let has_reason = |event: &Event<'_>| match reason {
            Reason::Past(earliest) => event.time() < *earliest,
            Reason::BeyondHorizon(latest) => event.time() > *latest,
            Reason::UnknownId => received.verb == Verb::Reschedule,
            Reason::IdTaken(_) => received.verb != Verb::Reschedule,
            _ => true,
        };
        let is_refused =
            |event: &Event<'_>| has_reason(event) && next.is_none_or(|next| next > event.time());
        match events.iter().position(is_refused) {
            Some(index) => schedule::Answer::Refused { index, refusal },
            None if events.iter().any(has_reason) => {
                refuse("a free time after a refused one is later: name a later one")
            }
            None => refuse("this is no reason to refuse the call: answer with another"),
        }
    };
    match answer {
        Answer::Planned => planned(time, true),
        Answer::AlreadyPlanned => planned(time, false),
        Answer::PlannedAt(at) if *at < time => refuse("it reserves no earlier time: name a later"),
        Answer::PlannedAt(at) => planned(*at, true),
        Answer::Refused(refusal) => refused(refusal.clone()),
        Answer::RefusedBy(name, next) => {
            let mut quotas = request.terms().quotas().iter();
            match quotas.find(|quota| quota.name() == *name) {
                Some(quota) => {
                    let refusal = Refusal::new(Reason::Quota(quota.clone()));
                    refused(refusal.with_next_free(*next))
                }
                None => refuse(&format!(
                    "the schedule has no quota of this name: {}",
                    names(request.terms())
                )),
            }
        }
        Answer::Cancelled(was_planned) => schedule::Answer::Cancelled(*was_planned),
        Answer::Found(found) => {
            let is_behind = |found: &Timestamp| match received.verb {
                Verb::LatestFree => *found > time,
                _ => *found < time,
            };
            if found.as_ref().is_some_and(is_behind) {
                refuse("the search goes the other way: name another time");
            }
            schedule::Answer::Found(*found)
        }
        Answer::Events(listed) => {
            let is_listed = |event: &PlannedEvent| match request.operation() {
                Operation::List { from, until } => (*from..*until).contains(&event.time()),
                _ => refuse("it answers another operation"),
            };
            if !listed.iter().all(is_listed) {
                refuse("not all of these events are between the times of the list");
            }
            schedule::Answer::Events(listed.clone())
        }
        _ => refuse("it answers another operation"),
    }
}

fn names(terms: &schedule::Terms) -> String {
    let names: Vec<_> = terms
        .quotas()
        .iter()
        .map(|quota| format!("`{}`", quota.name()))
        .collect();
    format!("it has {}", names.join(", "))
}
