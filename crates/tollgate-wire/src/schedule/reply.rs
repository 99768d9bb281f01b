//! The reply of the script of schedules, and the answer that it is.

use std::ops::Range;
use std::slice;

use tollgate_core::inside::encoding::{has_calendar, in_the_way};
use tollgate_core::inside::twins::integer;
use tollgate_core::schedule::{self, PlannedEvent, Reason, Refusal};
use tollgate_core::store::Uncovered;
use tollgate_core::{StoreError, Timestamp};

use crate::codec::not_understood;

/// Returns the answer in the script's `reply` to `request` and, if that is only the beginning of a
/// long list, the time from which to go on.
///
/// # Errors
///
/// [`ErrorKind::Protocol`](tollgate_core::ErrorKind::Protocol) if the script gives no such reply to `request`.
pub(super) fn answer(
    request: &schedule::Request<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Result<(schedule::Answer, Option<Timestamp>), StoreError> {
    Reply::read(reply)
        .filter(|reply| instant.is_none_or(|instant| instant == reply.now))
        .and_then(|reply| match request.operation() {
            schedule::Operation::List { from, until } if reply.status == DONE => {
                reply.list(*from, *until)
            }
            _ => reply.answer(request).map(|answer| (answer, None)),
        })
        .ok_or_else(not_understood)
}

/// What a reply begins with: done, or why not.
const DONE: u8 = 0;
const QUOTA: u8 = 1;
const PAST: u8 = 2;
const BEYOND: u8 = 3;
const TAKEN: u8 = 4;
const UNKNOWN: u8 = 5;
const UNCOVERED: u8 = 6;

/// A reply of the script.
struct Reply<'r> {
    status: u8,
    now: Timestamp,
    /// The index of an event, or a number of events.
    index: Option<u64>,
    /// The index of a quota, or the bound that was missed.
    quota: Option<u64>,
    time: Option<Timestamp>,
    events: &'r [u8],
}

impl<'r> Reply<'r> {
    fn read(reply: &'r [u8]) -> Option<Self> {
        let (&[status], rest) = reply.split_first_chunk()?;
        let (now, rest) = rest.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        let (quota, rest) = rest.split_first_chunk()?;
        let (time, events) = rest.split_first_chunk()?;
        Some(Self {
            status,
            now: Timestamp::from_micros(integer(*now)?).ok()?,
            index: optional(*index)?,
            quota: optional(*quota)?,
            time: instant(*time)?,
            events,
        })
    }

    /// Returns what this reply answers to `request`, or `None` if the script gives no such reply.
    fn answer(self, request: &schedule::Request<'_>) -> Option<schedule::Answer> {
        let given = [
            self.index.is_some(),
            self.quota.is_some(),
            self.time.is_some(),
        ];
        let has = |index, quota, time| given == [index, quota, time];
        let operation = request.operation();
        if !self.events.is_empty() {
            return None;
        }
        if self.status == UNCOVERED {
            let searches = !matches!(
                operation,
                schedule::Operation::Cancel(_) | schedule::Operation::List { .. }
            );
            let is_right = searches && has_calendar(request.terms()) && has(false, false, true);
            let uncovered = Uncovered(self.time?);
            return is_right.then_some(schedule::Answer::Uncovered(uncovered));
        }
        if self.status != DONE {
            return self.refusal(request);
        }
        match operation {
            schedule::Operation::Add(given) => {
                let added = usize::try_from(self.index?).ok()?;
                let is_right = added <= given.len() && has(true, false, false);
                is_right.then_some(schedule::Answer::Added(added))
            }
            schedule::Operation::Reschedule(event) | schedule::Operation::ReserveNext(event) => {
                let (time, is_new) = (self.time?, flag(self.index?)?);
                let is_possible = match operation {
                    schedule::Operation::Reschedule(_) => time == event.time(),
                    _ => time >= event.time() || !is_new,
                };
                let is_right = is_possible && has(true, false, true);
                is_right.then_some(schedule::Answer::Planned { time, is_new })
            }
            schedule::Operation::Cancel(_) => {
                let was_planned = flag(self.index?)?;
                let is_right = has(true, false, false);
                is_right.then_some(schedule::Answer::Cancelled(was_planned))
            }
            schedule::Operation::NextFree { from, .. } => {
                let is_possible = self.time.is_none_or(|time| time >= *from);
                let is_right = is_possible && has(false, false, self.time.is_some());
                is_right.then_some(schedule::Answer::Found(self.time))
            }
            _ => None,
        }
    }

    /// Returns the events from `from` until before `until`, or the first of them, and the time of the
    /// first that may be missing.
    fn list(
        self,
        from: Timestamp,
        until: Timestamp,
    ) -> Option<(schedule::Answer, Option<Timestamp>)> {
        let events = events(self.events, from..until)?;
        let is_whole = usize::try_from(self.index?) == Ok(events.len());
        let goes_on = self.time.is_none_or(|next| {
            let is_later = events.last().is_some_and(|last| last.time() < next);
            is_later && next <= until
        });
        let is_right = is_whole && goes_on && self.quota.is_none();
        is_right.then_some((schedule::Answer::Events(events), self.time))
    }

    fn refusal(self, request: &schedule::Request<'_>) -> Option<schedule::Answer> {
        let (events, reserves) = match request.operation() {
            schedule::Operation::Add(events) => (&events[..], false),
            schedule::Operation::Reschedule(event) => (slice::from_ref(event), false),
            schedule::Operation::ReserveNext(event) => (slice::from_ref(event), true),
            _ => return None,
        };
        let moves = matches!(request.operation(), schedule::Operation::Reschedule(_));
        if self.status == UNKNOWN {
            let is_bare = (self.index, self.quota, self.time) == (None, None, None);
            let refusal = Refusal::new(Reason::UnknownId);
            return (moves && is_bare).then_some(schedule::Answer::Refused { index: 0, refusal });
        }
        let index = usize::try_from(self.index?).ok()?;
        let time = events.get(index)?.time();
        let bound = || Timestamp::from_micros(self.quota?).ok();
        let next = self.time;
        let (reason, is_right) = match self.status {
            QUOTA => {
                let quota = usize::try_from(self.quota?).ok()?;
                let quota = in_the_way(request, quota, time)?.clone();
                // A search that reserves what it finds names no time when it fails.
                let is_right = next.is_none_or(|next| next > time && !reserves);
                (Reason::Quota(quota), is_right)
            }
            PAST => {
                let bound = bound()?;
                let is_right = bound > time && next.is_none_or(|next| next >= bound) && !reserves;
                (Reason::Past(bound), is_right)
            }
            BEYOND => {
                let bound = bound()?;
                (Reason::BeyondHorizon(bound), bound < time && next.is_none())
            }
            TAKEN => {
                let refusal = Refusal::new(Reason::IdTaken(next?));
                let is_right = self.quota.is_none() && !moves;
                return is_right.then_some(schedule::Answer::Refused { index, refusal });
            }
            _ => return None,
        };
        let refusal = Refusal::new(reason).with_next_free(next);
        is_right.then_some(schedule::Answer::Refused { index, refusal })
    }
}

/// Decodes a list, whose events are sorted by time, and sorts them by id, too.
fn events(mut text: &[u8], range: Range<Timestamp>) -> Option<Vec<PlannedEvent>> {
    let mut events: Vec<PlannedEvent> = Vec::new();
    while !text.is_empty() {
        let (time, rest) = text.split_first_chunk()?;
        let (weight, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(integer(*length)?).ok()?;
        let (id, rest) = rest.split_at_checked(length)?;
        let time = Timestamp::from_micros(integer(*time)?).ok()?;
        let event = PlannedEvent::new(id, time, integer(*weight)?);
        let is_sorted = events.last().is_none_or(|last| last.time() <= time);
        let is_valid = (1..=schedule::LONGEST_ID).contains(&length) && event.weight() > 0;
        if !is_sorted || !is_valid || !range.contains(&time) {
            return None;
        }
        events.push(event);
        text = rest;
    }
    let order = |a: &PlannedEvent, b: &PlannedEvent| (a.time(), a.id()).cmp(&(b.time(), b.id()));
    events.sort_by(order);
    // No event is listed twice.
    events
        .is_sorted_by(|a, b| order(a, b).is_lt())
        .then_some(events)
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
