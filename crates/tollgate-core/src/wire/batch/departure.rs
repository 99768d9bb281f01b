//! `Departure`: calls that go together, in one script.

use std::hash::BuildHasher;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::reply::{self, Answer};
use crate::wire::codec::Turn;
use crate::wire::engine::{Failure, SharedFailure};

/// The most limits that one script decides, so that it holds the server for at most 200 us or so.
const MOST_CHECKS: usize = 64;

/// A call as it is sent.
#[derive(Debug)]
pub(in crate::wire) struct Unit {
    /// The algorithms of its limits.
    pub(in crate::wire) set: usize,
    pub(in crate::wire) keys: Vec<Vec<u8>>,
    /// In the form of a script for any number of limits.
    pub(in crate::wire) argument: Vec<u8>,
    pub(in crate::wire) has_id: bool,
    /// Whether it can be decided together with calls that are equal.
    pub(in crate::wire) joins: bool,
    pub(in crate::wire) deadline: Instant,
}

/// Calls that wait for each other, and then for their answers.
#[derive(Debug, Default)]
pub(in crate::wire) struct Departure {
    calls: Mutex<Calls>,
    /// Whether the server may be counting the calls.
    is_out: AtomicBool,
}

#[derive(Debug, Default)]
struct Calls {
    /// The algorithms of all kinds.
    set: usize,
    kinds: Vec<Kind>,
    groups: Vec<Group>,
    /// The hashes of the keys, and the group of each.
    keys: Vec<(u64, usize)>,
    /// Whether several groups may have the same key.
    shares: bool,
    places: Vec<Place>,
    /// Whether it has departed.
    is_sealed: bool,
    outcome: Option<Outcome>,
}

/// What calls have in common that differ only in their keys.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) argument: Vec<u8>,
    /// How many keys, with that of the answer if calls have an id.
    keys: usize,
    pub(super) has_id: bool,
    /// Whether equal calls are decided together.
    joins: bool,
}

/// Equal calls, with no call between them that has one of their keys.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) kind: usize,
    keys: Vec<Vec<u8>>,
    /// How many calls are sent, once they are.
    pub(super) calls: u32,
}

/// A call of a group.
#[derive(Debug)]
struct Place {
    group: usize,
    /// Which one of the calls of its group it is.
    number: u32,
    deadline: Instant,
    waker: Option<Waker>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    /// Its deadline has passed while it was on its way.
    Late,
    /// It is not sent, or nobody waits for it any more.
    Gone,
}

#[derive(Debug)]
enum Outcome {
    Failed(SharedFailure),
    /// The reply, and where the answer to each group is.
    Answered(Arc<[u8]>, Vec<Answer>),
    /// The reply is not one that the script gives.
    NotUnderstood,
    /// No reply came before the last deadline; the server may have counted the calls if this is true.
    Late(bool),
}

/// How a call ended.
pub(in crate::wire) enum Ended {
    Failed(Failure),
    /// The server refused this call, with this error.
    Refused(String),
    /// The reply to this call and its equals, and which of them it is.
    Reply(Answered, Turn),
    /// Its deadline has passed; it may have been counted if this is true.
    Late(bool),
    NotUnderstood,
}

/// A part of a reply.
pub(in crate::wire) struct Answered {
    whole: Arc<[u8]>,
    part: Range<usize>,
}

impl Deref for Answered {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole[self.part.clone()]
    }
}

/// What is sent for a departure.
pub(in crate::wire) struct Load {
    pub(in crate::wire) set: usize,
    pub(in crate::wire) keys: Vec<Vec<u8>>,
    pub(in crate::wire) argument: Vec<u8>,
}

impl Departure {
    /// Returns a departure with one call, whose keys have these hashes.
    pub(super) fn of(unit: Unit, hashes: &[u64]) -> (Arc<Self>, Seat) {
        let departure = Arc::new(Self::default());
        let seat = departure.lock().add(unit, hashes, None);
        let seat = Seat::new(&departure, seat);
        (departure, seat)
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call, whose keys have these hashes, or returns it if there is no room.
    pub(super) fn board(departure: &Arc<Self>, unit: Unit, hashes: &[u64]) -> Result<Seat, Unit> {
        let mut calls = departure.lock();
        let joined = calls.joined_by(&unit, hashes);
        if joined.is_none() && calls.keys.len() + hashes.len() > MOST_CHECKS {
            return Err(unit);
        }
        let place = calls.add(unit, hashes, joined);
        Ok(Seat::new(departure, place))
    }

    /// Closes the departure at `now`, and returns what to send and the first deadline, or `None` if
    /// nobody is left.
    pub(super) fn seal(&self, now: Instant) -> Option<(Load, Instant)> {
        let mut late = Vec::new();
        let mut calls = self.lock();
        let all = &mut *calls;
        for place in all.places.iter_mut().filter(|place| place.waits()) {
            if place.deadline <= now {
                place.state = State::Gone;
                late.extend(place.waker.take());
            } else {
                let group = &mut all.groups[place.group];
                place.number = group.calls;
                group.calls += 1;
            }
        }
        calls.is_sealed = true;
        let sealed = calls.load();
        drop(calls);
        late.into_iter().for_each(Waker::wake);
        sealed
    }

    /// Ends the calls whose deadlines have passed at `now`, after they were sent, and returns the next
    /// deadline. If that was the last one, all is left to [`arrive`](Self::arrive).
    pub(super) fn expire(&self, now: Instant) -> Option<Instant> {
        let mut calls = self.lock();
        let next = calls.first_deadline_after(Some(now))?;
        let late = calls.places.iter_mut().filter(|place| place.waits());
        let late = late.filter(|place| place.deadline <= now);
        let wakers: Vec<_> = late
            .filter_map(|place| {
                place.state = State::Late;
                place.waker.take()
            })
            .collect();
        drop(calls);
        wakers.into_iter().for_each(Waker::wake);
        Some(next)
    }

    /// Returns where to note whether the server may be counting the calls.
    pub(super) fn out(&self) -> &AtomicBool {
        &self.is_out
    }

    /// Returns whether the server may be counting the calls.
    pub(super) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Ends all calls, because the task that was to send them has ended.
    pub(super) fn abandon(&self) {
        let ended = "the task that sends calls together has ended, as it does with its runtime";
        self.arrive(Some(Err(if self.is_out() {
            Failure::lost(ended)
        } else {
            Failure::not_sent(ended)
        })));
    }

    /// Ends all calls that still wait, with the reply to them or a failure, or because there was none.
    pub(super) fn arrive(&self, outcome: Option<Result<Vec<u8>, Failure>>) {
        let mut calls = self.lock();
        let sent = calls.groups.iter().map(|group| group.calls);
        calls.outcome = Some(match outcome {
            Some(Ok(reply)) => match reply::read(sent, &reply) {
                Some(answers) => Outcome::Answered(reply.into(), answers),
                None => Outcome::NotUnderstood,
            },
            Some(Err(failure)) => Outcome::Failed(failure.share()),
            None => Outcome::Late(self.is_out()),
        });
        let wakers = calls
            .places
            .iter_mut()
            .filter_map(|place| place.waker.take());
        let wakers: Vec<_> = wakers.collect();
        drop(calls);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Calls {
    /// Returns what to send and the first deadline, or `None` if nobody waits.
    fn load(&mut self) -> Option<(Load, Instant)> {
        let first = self.first_deadline_after(None)?;
        let sent = self.groups.iter().filter(|group| group.calls > 0);
        let argument = reply::argument(self.shares, &self.kinds, sent);
        let mut keys = Vec::with_capacity(self.keys.len());
        for group in self.groups.iter_mut().filter(|group| group.calls > 0) {
            keys.append(&mut group.keys);
        }
        let load = Load {
            set: self.set,
            keys,
            argument,
        };
        Some((load, first))
    }

    /// Returns the first deadline of calls that wait, of those after `now` if that is given.
    fn first_deadline_after(&self, now: Option<Instant>) -> Option<Instant> {
        let waiting = self.places.iter().filter(|place| place.waits());
        let deadlines = waiting.map(|place| place.deadline);
        deadlines.filter(|deadline| Some(*deadline) > now).min()
    }

    /// Returns the last group that has one of the keys with these hashes.
    fn last_with(&self, hashes: &[u64]) -> Option<usize> {
        let keys = self.keys.iter().rev();
        let mut shared = keys.filter(|(hash, _)| hashes.contains(hash));
        shared.next().map(|(_, group)| *group)
    }

    /// Returns the group that the unit, whose keys have these hashes, is one more call of.
    fn joined_by(&self, unit: &Unit, hashes: &[u64]) -> Option<usize> {
        let last = self.last_with(hashes)?;
        let group = &self.groups[last];
        let kind = &self.kinds[group.kind];
        let is_joined = kind.joins && kind.is_of(unit) && group.keys == unit.keys;
        is_joined.then_some(last)
    }

    /// Adds a call, to the group that it joins or to a new one, and returns its place.
    fn add(&mut self, unit: Unit, hashes: &[u64], joined: Option<usize>) -> usize {
        let deadline = unit.deadline;
        let group = joined.unwrap_or_else(|| self.add_group(unit, hashes));
        self.places.push(Place {
            group,
            number: 0,
            deadline,
            waker: None,
            state: State::Waits,
        });
        self.places.len() - 1
    }

    fn add_group(&mut self, unit: Unit, hashes: &[u64]) -> usize {
        self.shares |= self.last_with(hashes).is_some();
        let group = self.groups.len();
        self.keys.extend(hashes.iter().map(|hash| (*hash, group)));
        let known = self.kinds.iter().rposition(|kind| kind.is_of(&unit));
        self.groups.push(Group {
            kind: known.unwrap_or(self.kinds.len()),
            keys: unit.keys,
            calls: 0,
        });
        if known.is_none() {
            self.set |= unit.set;
            self.kinds.push(Kind {
                argument: unit.argument,
                keys: hashes.len(),
                has_id: unit.has_id,
                joins: unit.joins,
            });
        }
        group
    }
}

impl Place {
    fn waits(&self) -> bool {
        self.state == State::Waits
    }
}

impl Kind {
    fn is_of(&self, unit: &Unit) -> bool {
        // It begins with the operation, and is longer for each limit and for an id.
        self.argument == unit.argument
    }

    /// Returns how many limits the calls are about.
    pub(super) fn limits(&self) -> usize {
        self.keys - usize::from(self.has_id)
    }
}

/// Returns hashes that are made fast. If someone makes keys that have the same, equal calls for them
/// are decided one after the other.
pub(super) fn hashes(keys: &[Vec<u8>]) -> SmallVec<[u64; 4]> {
    let hasher = FixedState::default();
    let hash = |key: &Vec<u8>| hasher.hash_one(key.as_slice());
    keys.iter().map(hash).collect()
}

/// The place of a call in a departure. If it is dropped before the departure, the call is not sent.
pub(in crate::wire) struct Seat {
    departure: Arc<Departure>,
    place: usize,
}

impl Seat {
    fn new(departure: &Arc<Departure>, place: usize) -> Self {
        Self {
            departure: Arc::clone(departure),
            place,
        }
    }

    /// Returns how the call ended, or `None` if it still waits: then `waker` is woken later.
    pub(super) fn poll(&self, waker: &Waker) -> Option<Ended> {
        let mut calls = self.departure.lock();
        let calls = &mut *calls;
        let place = &mut calls.places[self.place];
        if place.state == State::Gone {
            return Some(Ended::Late(false));
        }
        let Some(outcome) = &calls.outcome else {
            if place.state == State::Late {
                return Some(Ended::Late(true));
            }
            place.waker = Some(waker.clone());
            return None;
        };
        let (reply, answers) = match outcome {
            Outcome::Failed(failure) => return Some(Ended::Failed(failure.again())),
            Outcome::NotUnderstood => return Some(Ended::NotUnderstood),
            Outcome::Late(is_out) => return Some(Ended::Late(*is_out)),
            Outcome::Answered(reply, answers) => (reply, answers),
        };
        Some(match answers[place.group].clone() {
            Answer::Nothing => Ended::NotUnderstood,
            Answer::Refused(part) => {
                Ended::Refused(String::from_utf8_lossy(&reply[part]).into_owned())
            }
            Answer::Reply(part, admitted) => {
                let whole = Arc::clone(reply);
                let turn = Turn {
                    before: place.number,
                    calls: calls.groups[place.group].calls,
                    admitted,
                };
                Ended::Reply(Answered { whole, part }, turn)
            }
        })
    }
}

impl Seat {
    /// Gives the call up, and returns how it ended.
    pub(super) fn late(&self) -> Ended {
        let mut calls = self.departure.lock();
        let was_sent = calls.places[self.place].state != State::Gone && calls.is_sealed;
        calls.places[self.place].state = State::Gone;
        Ended::Late(was_sent)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut calls = self.departure.lock();
        calls.places[self.place].state = State::Gone;
    }
}
