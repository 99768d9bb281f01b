//! `State`: the events of one key, and how requests are decided on them.

use std::collections::HashSet;

use crate::bytes::{Reader, SCHEDULE, Writer, decode};
use crate::cover::Uncovered;
use crate::error::StoreError;
use crate::schedule::answer::{Answer, Reason, Refusal};
use crate::schedule::event::{Event, LONGEST_ID};
use crate::schedule::operation::Operation;
use crate::schedule::quota::{MAX_AMOUNT, Quota};
use crate::schedule::request::Request;
use crate::schedule::search::{Entry, Found, Search, hash};
use crate::schedule::terms::{LONGEST_US, Terms};
use crate::time::{MAX_EXACT, Timestamp};

/// The events of one key, sorted by time, then by id.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    entries: Vec<Entry>,
    /// The latest instant at which an event was planned.
    latest: Timestamp,
}

/// The times at which events can be planned, and the time up to which they no longer count.
#[derive(Clone, Copy, Debug)]
struct Limits {
    earliest: u64,
    latest: u64,
    gone: Option<u64>,
}

impl State {
    /// Returns whether no event counts any more at `now`, so that the state may be dropped.
    #[must_use]
    pub fn is_fresh(&self, terms: &Terms, now: Timestamp) -> bool {
        let limits = Limits::of(terms, now.max(self.latest));
        let last = self.entries.last().map(|entry| entry.time.as_micros());
        last.is_none_or(|last| limits.gone.is_some_and(|gone| last <= gone))
    }

    /// Returns how many events are held, including those that no longer count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no event is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes that the events allocate.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let ids: usize = self.entries.iter().map(|entry| entry.id.len()).sum();
        self.entries.capacity() * size_of::<Entry>() + ids
    }

    /// Returns this state as bytes, for a store that keeps it elsewhere. Equal states give equal bytes; one without
    /// events gives none.
    ///
    /// They are 0xe0, the latest call, how many events follow, and of each `±` from the one before or the latest
    /// call, the weight, the length of the id, and the id: numbers as in the
    /// [states of limits](crate::store::State::to_bytes).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let (mut to, mut time) = (Writer(vec![SCHEDULE]), self.latest.as_micros());
        to.number(time);
        to.number(self.entries.len() as u64);
        for entry in &self.entries {
            to.difference(time, entry.time.as_micros());
            to.number(entry.weight());
            to.id(&entry.id);
            time = entry.time.as_micros();
        }
        to.0
    }

    /// Returns the state that [`to_bytes`](Self::to_bytes) wrote, under terms with the same
    /// [identity](Terms::identity).
    ///
    /// # Errors
    ///
    /// As [those of limits](crate::store::State::from_bytes).
    pub fn from_bytes(terms: &Terms, bytes: &[u8]) -> Result<Self, StoreError> {
        let what = || format!("the state of schedule `{}`", terms.name());
        decode(bytes, what, Self::read, Self::to_bytes)
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (mut state, mut ids) = (Self::default(), HashSet::new());
        if from.0.is_empty() {
            return Some(state);
        }
        let is_own = from.take(1)? == [SCHEDULE];
        let latest = from.exact()?;
        state.latest = stamp(latest);
        let mut time = latest;
        for _ in 0..from.exact()? {
            time = from.difference(time)?;
            let (weight, id) = (from.number(1..=MAX_AMOUNT)?, from.id(LONGEST_ID)?);
            let entry = Entry::of(&Event::new(id, stamp(time)).with_weight(weight));
            let last = state.entries.last().map(|last| (last.time, &last.id));
            if last >= Some((entry.time, &entry.id)) || !ids.insert(id) {
                return None;
            }
            state.entries.push(entry);
        }
        (is_own && time <= latest + LONGEST_US).then_some(state)
    }

    fn index(&self, id: &[u8], limits: Limits) -> Option<usize> {
        let hash = hash(id);
        let is_it = |entry: &Entry| entry.hash == hash && *entry.id == *id;
        let index = self.entries.iter().position(is_it)?;
        (!limits.is_gone(self.entries[index].time)).then_some(index)
    }

    fn insert(&mut self, entry: Entry) {
        let order = |other: &Entry| (other.time, &other.id) < (entry.time, &entry.id);
        let index = self.entries.partition_point(order);
        self.entries.insert(index, entry);
    }

    /// After an event was planned at `now`, drops those that no longer count.
    fn prune(&mut self, limits: Limits, now: Timestamp) {
        self.latest = now;
        let gone = self
            .entries
            .partition_point(|entry| limits.is_gone(entry.time));
        self.entries.drain(..gone);
    }
}

impl Limits {
    fn of(terms: &Terms, now: Timestamp) -> Self {
        let now = now.as_micros();
        let past = |by: u64| now.checked_sub(terms.tolerance_us() + by);
        Self {
            earliest: past(0).unwrap_or(0),
            latest: (now + terms.horizon_us()).min(MAX_EXACT),
            gone: past(terms.retention_us()),
        }
    }

    fn is_gone(&self, time: Timestamp) -> bool {
        self.gone.is_some_and(|gone| time.as_micros() <= gone)
    }
}

/// Why an event was not planned: it was refused, or the request is short of periods.
enum Failed {
    Refused(Refusal),
    Uncovered(Uncovered),
}

impl From<Uncovered> for Failed {
    fn from(uncovered: Uncovered) -> Self {
        Self::Uncovered(uncovered)
    }
}

impl<'a> Request<'a> {
    /// Decides this request at `now` on the events in `state`.
    ///
    /// This defines the answer that every store must give. It changes only `state` and reads no
    /// clock. It also ignores [`caller_time`](Self::caller_time): the store must pass that as
    /// `now`.
    pub fn decide_on(&self, state: &mut State, now: Timestamp) -> Answer {
        let now = now.max(state.latest);
        let limits = Limits::of(self.terms(), now);
        let decided = match self.operation() {
            Operation::Add(events) => self.add(state, limits, now, events),
            Operation::Reschedule(event) => self.reschedule(state, limits, now, event),
            Operation::ReserveNext(event) => self.reserve(state, limits, now, event),
            Operation::NextFree { from, weight } => {
                let from = from.as_micros().max(limits.earliest);
                let found = self.search(state, limits, *weight, from);
                let found = found.map(|found| Answer::Found(found.time.map(stamp)));
                found.map_err(|uncovered| (0, uncovered.into()))
            }
            Operation::Cancel(id) => {
                let index = state.index(id, limits);
                if let Some(index) = index {
                    state.entries.remove(index);
                }
                if state.entries.is_empty() {
                    *state = State::default();
                }
                Ok(Answer::Cancelled(index.is_some()))
            }
            Operation::List { from, until } => {
                let listed = |entry: &&Entry| {
                    (*from..*until).contains(&entry.time) && !limits.is_gone(entry.time)
                };
                let events = state.entries.iter().filter(listed);
                Ok(Answer::Events(events.map(Entry::planned).collect()))
            }
        };
        match decided {
            Ok(answer) => answer,
            Err((index, Failed::Refused(refusal))) => Answer::Refused { index, refusal },
            Err((_, Failed::Uncovered(uncovered))) => Answer::Uncovered(uncovered),
        }
    }

    fn add(
        &self,
        state: &mut State,
        limits: Limits,
        now: Timestamp,
        events: &[Event<'_>],
    ) -> Result<Answer, (usize, Failed)> {
        let mut added = Vec::new();
        for (index, event) in events.iter().enumerate() {
            match self.place(state, limits, event) {
                Ok(is_new) => added.extend(is_new.then_some((event.time(), event.id()))),
                Err(failed) => {
                    // An event that is over may have the id of a new one, and stays.
                    let is_added = |entry: &Entry| added.contains(&(entry.time, &*entry.id));
                    state.entries.retain(|entry| !is_added(entry));
                    return Err((index, failed));
                }
            }
        }
        if !added.is_empty() {
            state.prune(limits, now);
        }
        Ok(Answer::Added(added.len()))
    }

    /// Adds `event` at its own time, and returns whether it is new.
    fn place(&self, state: &mut State, limits: Limits, event: &Event<'_>) -> Result<bool, Failed> {
        if let Some(index) = state.index(event.id(), limits) {
            let held = &state.entries[index];
            if (held.time, held.weight()) == (event.time(), event.weight()) {
                return Ok(false);
            }
            return Err(refused(Reason::IdTaken(held.time)));
        }
        self.check(state, limits, event)?;
        state.insert(Entry::of(event));
        Ok(true)
    }

    /// Checks that `event` can take place at its own time.
    fn check(&self, state: &State, limits: Limits, event: &Event<'_>) -> Result<(), Failed> {
        let time = event.time().as_micros();
        let (reason, next) = if time > limits.latest {
            (Reason::BeyondHorizon(stamp(limits.latest)), None)
        } else {
            let from = time.max(limits.earliest);
            let found = self.search(state, limits, event.weight(), from)?;
            match found.in_the_way {
                _ if time < limits.earliest => (Reason::Past(stamp(from)), found.time),
                None => return Ok(()),
                Some(quota) => (self.quota_in_the_way(quota, event), found.time),
            }
        };
        let refusal = Refusal::new(reason).with_next_free(next.map(stamp));
        Err(Failed::Refused(refusal))
    }

    /// Returns the quota to name for what a search found in the way at `index`, of an event at `time`: of
    /// several closed times, the last to open.
    #[cfg_attr(
        not(feature = "calendar"),
        allow(unused_variables, reason = "no times are closed")
    )]
    pub(crate) fn in_the_way(&self, index: usize, time: Timestamp) -> Option<&'a Quota> {
        let found = self.terms().quotas().get(index)?;
        #[cfg(feature = "calendar")]
        if !found.counts() {
            return self.last_to_open(time);
        }
        Some(found)
    }

    /// Returns the reason of a refusal of `event` by the quota that a search found at `index`.
    fn quota_in_the_way(&self, index: usize, event: &Event<'_>) -> Reason {
        let quota = self.in_the_way(index, event.time());
        Reason::Quota(
            quota
                .unwrap_or_else(|| &self.terms().quotas()[index])
                .clone(),
        )
    }

    fn reschedule(
        &self,
        state: &mut State,
        limits: Limits,
        now: Timestamp,
        event: &Event<'_>,
    ) -> Result<Answer, (usize, Failed)> {
        let Some(index) = state.index(event.id(), limits) else {
            return Err((0, refused(Reason::UnknownId)));
        };
        let (time, weight) = (state.entries[index].time, state.entries[index].weight());
        if time == event.time() {
            return Ok(Answer::Planned {
                time,
                is_new: false,
            });
        }
        // Its old time does not stand in its own way.
        let old = state.entries.remove(index);
        let event = event.with_weight(weight);
        if let Err(failed) = self.check(state, limits, &event) {
            state.insert(old);
            return Err((0, failed));
        }
        state.insert(Entry::of(&event));
        state.prune(limits, now);
        Ok(Answer::Planned {
            time: event.time(),
            is_new: true,
        })
    }

    fn reserve(
        &self,
        state: &mut State,
        limits: Limits,
        now: Timestamp,
        event: &Event<'_>,
    ) -> Result<Answer, (usize, Failed)> {
        if let Some(index) = state.index(event.id(), limits) {
            let held = &state.entries[index];
            if held.weight() == event.weight() {
                return Ok(Answer::Planned {
                    time: held.time,
                    is_new: false,
                });
            }
            return Err((0, refused(Reason::IdTaken(held.time))));
        }
        let from = event.time().as_micros().max(limits.earliest);
        if from > limits.latest {
            let reason = Reason::BeyondHorizon(stamp(limits.latest));
            return Err((0, refused(reason)));
        }
        let found = self
            .search(state, limits, event.weight(), from)
            .map_err(|uncovered| (0, uncovered.into()))?;
        let Some(time) = found.time else {
            let reason = self.quota_in_the_way(found.in_the_way.unwrap_or(0), event);
            return Err((0, refused(reason)));
        };
        let time = stamp(time);
        state.insert(Entry::of(&event.at(time)));
        state.prune(limits, now);
        Ok(Answer::Planned { time, is_new: true })
    }

    /// Searches room for `weight` from `from` on.
    fn search(
        &self,
        state: &State,
        limits: Limits,
        weight: u64,
        from: u64,
    ) -> Result<Found, Uncovered> {
        let search = Search {
            weight,
            from,
            last: limits.latest,
        };
        search.run(self, &state.entries)
    }
}

fn refused(reason: Reason) -> Failed {
    Failed::Refused(Refusal::new(reason))
}

const fn stamp(micros: u64) -> Timestamp {
    Timestamp::saturating_from_micros(micros)
}
