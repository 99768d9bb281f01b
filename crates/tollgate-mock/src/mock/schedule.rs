//! Calls to schedules, and the answers to them.

use std::slice;

use async_trait::async_trait;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::schedule::{self, Event, Operation, PlannedEvent, Reason, Refusal, Terms};
use tollgate_core::{Key, StoreError, Timestamp};

use super::MockStore;
use super::answer::{Answer, Reply};
use super::operation::Verb;
use super::received::{Detail, Received, literal, unsupported};

#[async_trait]
impl schedule::Store for MockStore {
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.schedule_now(&request)
    }

    async fn reset_schedule<'a>(
        &'a self,
        terms: &'a Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}

impl schedule::SyncStore for MockStore {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        request.validate()?;
        let received = received(request).ok_or_else(unsupported)?;
        let answer = self.ask_one(&received)?;
        Ok(reply(request, &received, &answer))
    }

    fn reset_schedule_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError> {
        let received = Received::reset(Verb::ResetSchedule, terms.name(), key);
        self.ask(&received).map(drop)
    }
}

/// Converts `request`, or returns `None` if the mock does not know its operation.
fn received<'r>(request: &'r schedule::Request<'r>) -> Option<Received<'r>> {
    let detail = |id, time| Detail {
        cost: None,
        id,
        time,
    };
    let of_event = |event: &Event<'r>| detail(Some(event.id()), Some(event.time()));
    let of_time = |time: &Timestamp| vec![detail(None, Some(*time))];
    let (verb, details, more) = match request.operation() {
        Operation::Add(events) => {
            let details = events.iter().map(of_event).collect();
            (Verb::Add, details, events.iter().map(shown).collect())
        }
        Operation::Cancel(id) => {
            let more = format!(", event {}", literal(id));
            (Verb::Cancel, vec![detail(Some(id), None)], more)
        }
        Operation::List { from, until } => {
            let more = format!(", from {from} until {until}");
            (Verb::List, of_time(from), more)
        }
        Operation::NextFree { from, .. } => {
            (Verb::NextFree, of_time(from), format!(", from {from}"))
        }
        Operation::Reschedule(event) => (Verb::Reschedule, vec![of_event(event)], shown(event)),
        Operation::ReserveNext(event) => (Verb::ReserveNext, vec![of_event(event)], shown(event)),
        _ => return None,
    };
    let terms = request.terms();
    let (call, key) = ((verb, request.caller_time()), request.key());
    Some(Received::of_one(call, terms.name(), key, details, &more))
}

fn shown(event: &Event<'_>) -> String {
    let (id, at) = (literal(event.id()), event.time());
    match event.weight() {
        1 => format!(", event {id} at {at}"),
        weight => format!(", event {id} of weight {weight} at {at}"),
    }
}

/// Returns the answer to `request` that `answer` says.
///
/// # Panics
///
/// If no store could give this answer to this request.
fn reply(
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
    let found = |found: Timestamp| {
        if found < time {
            refuse("it is before the time that the search begins at: name a later one");
        }
    };
    let listed = |event: &PlannedEvent| {
        let is_listed = match request.operation() {
            Operation::List { from, until } => (*from..*until).contains(&event.time()),
            _ => false,
        };
        if !is_listed {
            refuse("not all of these events are between the times of the list");
        }
    };
    match &answer.reply {
        Reply::Planned { at, .. } if at.is_some_and(|at| at < time) => {
            refuse("it reserves no earlier time: name a later")
        }
        Reply::Planned { is_new, .. } if received.verb == Verb::Add => {
            schedule::Answer::Added(if *is_new { events.len() } else { 0 })
        }
        Reply::Planned { at, is_new } => schedule::Answer::Planned {
            time: at.unwrap_or(time),
            is_new: *is_new,
        },
        Reply::Refused(refusal) => refused(refusal.clone()),
        Reply::RefusedBy(name, next) => {
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
        Reply::Scheduled(answer) => {
            match answer {
                schedule::Answer::Found(time) => time.iter().copied().for_each(found),
                schedule::Answer::Events(events) => events.iter().for_each(listed),
                _ => {}
            }
            answer.clone()
        }
        _ => refuse("it answers another operation"),
    }
}

fn names(terms: &Terms) -> String {
    let names = terms.quotas().iter();
    let names: Vec<_> = names.map(|quota| format!("`{}`", quota.name())).collect();
    format!("it has {}", names.join(", "))
}
