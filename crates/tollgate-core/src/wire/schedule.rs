//! Schedules on a server: encodes a request as the argument of `schedule/script.lua`, and decodes
//! its reply.

use std::sync::OnceLock;
use std::time::Duration;

use super::script::Script;
use crate::algorithm::{double, integer};
use crate::error::StoreError;
use crate::schedule::{
    Event, PlannedEvent, Reason, Refusal, ScheduleAnswer, ScheduleOperation, ScheduleRequest,
};
use crate::time::Timestamp;

/// Returns the script of all schedules.
pub(super) fn script() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| Script::of_text(include_str!("../schedule/script.lua")))
}

/// Returns whether the script may write anything for `request`.
pub(super) fn writes(request: &ScheduleRequest<'_>) -> bool {
    !matches!(
        request.operation(),
        ScheduleOperation::NextFree { .. }
            | ScheduleOperation::LatestFree { .. }
            | ScheduleOperation::List { .. }
    )
}

/// Returns the argument of the script for `request`; without an `instant`, the server's clock
/// decides.
pub(super) fn argument(
    request: &ScheduleRequest<'_>,
    instant: Option<Timestamp>,
    caller_slack: Duration,
) -> Vec<u8> {
    let terms = request.terms();
    let point = |time| Event::new(b"", time);
    let (code, events) = match request.operation() {
        ScheduleOperation::Add(events) => (1, events.clone()),
        ScheduleOperation::Reschedule(event) => (2, vec![*event]),
        ScheduleOperation::Cancel(id) => (3, vec![Event::new(*id, Timestamp::UNIX_EPOCH)]),
        ScheduleOperation::NextFree { from, weight } => {
            (4, vec![point(*from).with_weight(*weight)])
        }
        ScheduleOperation::LatestFree { until, weight } => {
            (5, vec![point(*until).with_weight(*weight)])
        }
        ScheduleOperation::ReserveNext(event) => (6, vec![*event]),
        ScheduleOperation::List { from, until } => (7, vec![point(*from), point(*until)]),
    };
    let mut text = Vec::with_capacity(256);
    let mut push = |number: u64| text.extend_from_slice(&double(number));
    push(code);
    match instant {
        Some(instant) => push(instant.as_micros()),
        None => text.extend_from_slice(&(-1_f64).to_le_bytes()),
    }
    let mut push = |number: u64| text.extend_from_slice(&double(number));
    push(instant.map_or(0, |_| super::codec::slack(caller_slack)));
    push(terms.tolerance_us());
    push(terms.horizon_us());
    push(terms.retention_us());
    push(u64::from(request.wants_latest()));
    push(terms.quotas().len() as u64);
    push(events.len() as u64);
    for (quota, periods) in request.quotas() {
        push(quota.amount());
        push(quota.window_us().unwrap_or(0));
        push(periods.len() as u64);
        for period in periods {
            push(period.start().as_micros());
            push(period.end().as_micros());
        }
    }
    for event in events {
        let mut push = |number: u64| text.extend_from_slice(&double(number));
        push(event.time().as_micros());
        push(event.weight());
        push(event.id().len() as u64);
        text.extend_from_slice(event.id());
    }
    text
}

/// Returns the answer in the script's `reply` to `request`.
///
/// # Errors
///
/// [`ErrorKind::Protocol`](crate::ErrorKind::Protocol) if the script gives no such reply to `request`.
pub(super) fn answer(
    request: &ScheduleRequest<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Result<ScheduleAnswer, StoreError> {
    Reply::read(reply)
        .filter(|reply| instant.is_none_or(|instant| instant == reply.now))
        .and_then(|reply| reply.answer(request))
        .ok_or_else(super::codec::not_understood)
}

/// A reply of the script.
struct Reply<'r> {
    status: u8,
    now: Timestamp,
    /// The index of an event, or a number of events.
    index: Option<u64>,
    /// The index of a quota, or the bound that was missed.
    quota: Option<u64>,
    time: Option<Timestamp>,
    other: Option<Timestamp>,
    events: &'r [u8],
}

impl<'r> Reply<'r> {
    fn read(reply: &'r [u8]) -> Option<Self> {
        let (&[status], rest) = reply.split_first_chunk()?;
        let (now, rest) = rest.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        let (quota, rest) = rest.split_first_chunk()?;
        let (time, rest) = rest.split_first_chunk()?;
        let (other, events) = rest.split_first_chunk()?;
        Some(Self {
            status,
            now: Timestamp::from_micros(integer(*now)?).ok()?,
            index: optional(*index)?,
            quota: optional(*quota)?,
            time: instant(*time)?,
            other: instant(*other)?,
            events,
        })
    }

    fn answer(self, request: &ScheduleRequest<'_>) -> Option<ScheduleAnswer> {
        let index = || usize::try_from(self.index?).ok();
        match (self.status, request.operation()) {
            (0, ScheduleOperation::List { .. }) => {
                return Some(ScheduleAnswer::Events(events(self.events)?));
            }
            _ if !self.events.is_empty() => return None,
            _ => {}
        }
        let refused = |reason| {
            Some(ScheduleAnswer::Refused {
                index: index().unwrap_or(0),
                refusal: Refusal::new(reason)
                    .with_next_free(self.time)
                    .with_latest_free(self.other),
            })
        };
        let bound = || Timestamp::from_micros(self.quota?).ok();
        let can_be_refused = matches!(
            request.operation(),
            ScheduleOperation::Add(_)
                | ScheduleOperation::Reschedule(_)
                | ScheduleOperation::ReserveNext(_)
        );
        match (self.status, request.operation()) {
            (0, ScheduleOperation::Add(given)) => {
                let added = index().filter(|added| *added <= given.len())?;
                Some(ScheduleAnswer::Added(added))
            }
            (0, ScheduleOperation::Reschedule(_) | ScheduleOperation::ReserveNext(_)) => {
                Some(ScheduleAnswer::Planned {
                    time: self.time?,
                    is_new: flag(self.index?)?,
                })
            }
            (0, ScheduleOperation::Cancel(_)) => {
                Some(ScheduleAnswer::Cancelled(flag(self.index?)?))
            }
            (0, ScheduleOperation::NextFree { .. } | ScheduleOperation::LatestFree { .. }) => {
                Some(ScheduleAnswer::Found(self.time))
            }
            (1, _) if can_be_refused => {
                let quotas = request.terms().quotas();
                let quota = quotas.get(usize::try_from(self.quota?).ok()?)?;
                refused(Reason::Quota(quota.clone()))
            }
            (2, _) if can_be_refused => refused(Reason::Past(bound()?)),
            (3, _) if can_be_refused => refused(Reason::BeyondHorizon(bound()?)),
            (4, _) if can_be_refused => Some(ScheduleAnswer::Refused {
                index: index()?,
                refusal: Refusal::new(Reason::IdTaken(self.time?)),
            }),
            (5, ScheduleOperation::Reschedule(_)) => refused(Reason::UnknownId),
            (6, _) => Some(ScheduleAnswer::Uncovered(self.time?)),
            _ => None,
        }
    }
}

fn events(mut text: &[u8]) -> Option<Vec<PlannedEvent>> {
    let mut events = Vec::new();
    while !text.is_empty() {
        let (time, rest) = text.split_first_chunk()?;
        let (weight, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(integer(*length)?).ok()?;
        let (id, rest) = rest.split_at_checked(length)?;
        let time = Timestamp::from_micros(integer(*time)?).ok()?;
        events.push(PlannedEvent::new(id, time, integer(*weight)?));
        text = rest;
    }
    Some(events)
}

fn flag(number: u64) -> Option<bool> {
    (number <= 1).then_some(number == 1)
}

/// Decodes an integer, or -1 as none; the outer `None` is neither.
fn optional(word: [u8; 8]) -> Option<Option<u64>> {
    if word == (-1_f64).to_le_bytes() {
        return Some(None);
    }
    integer(word).map(Some)
}

fn instant(word: [u8; 8]) -> Option<Option<Timestamp>> {
    match optional(word)? {
        Some(micros) => Timestamp::from_micros(micros).ok().map(Some),
        None => Some(None),
    }
}
