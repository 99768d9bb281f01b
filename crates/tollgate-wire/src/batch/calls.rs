//! `Batch`: calls that one script decides.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use tollgate_core::StoreError;
use tollgate_core::store::Verdicts;

use super::call::{BatchedCall, Kind};
use super::reply::{self, Answer};
use crate::codec::{Question, Series, Turn};
use crate::failure::{Failure, SharedFailure};
use crate::keyspace::Keys;
use crate::script::set_of;

/// Calls that wait for each other, and then for their answers.
#[derive(Default)]
pub(crate) struct Batch {
    calls: Mutex<Calls>,
    /// Whether the server may be counting the calls.
    is_out: AtomicBool,
    /// Whether there is a reply, to be read without the lock.
    is_answered: AtomicBool,
}

#[derive(Default)]
struct Calls {
    /// The algorithms of all kinds.
    set: usize,
    kinds: Vec<Kind>,
    groups: Vec<Group>,
    /// The hashes of all limits and keys.
    hashes: Vec<u64>,
    /// Whether several groups may have the same key.
    shares: bool,
    places: Vec<Place>,
    /// Whether it was sent, or had no call left.
    is_closed: bool,
    outcome: Option<Outcome>,
}

/// Equal calls, with no call between them that has one of their keys.
pub(super) struct Group {
    pub(super) kind: usize,
    keys: Keys,
    /// How many calls are sent, once they are.
    pub(super) calls: u32,
    /// The states in the reply, once the first of several calls has read them.
    series: Option<Box<Series>>,
}

/// A call of a group.
struct Place {
    group: usize,
    /// Which one of the calls of its group it is.
    number: u32,
    deadline: Instant,
    waker: Option<Waker>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    /// Its deadline has passed while it was on its way.
    Late,
    /// It is not sent, or nobody waits for it any more.
    Gone,
}

enum Outcome {
    Failed(SharedFailure),
    /// The reply, and where the answer to each group is.
    Answered(Arc<[u8]>, Vec<Answer>),
    /// The reply is not one that the script gives.
    NotUnderstood,
    /// No reply came before the last deadline; the server may have counted the calls if this is true.
    Late(bool),
}

/// Whether a call ended with a reply, which its [`Member`] reads, or with what kind of failure.
#[derive(Clone, Copy)]
pub(crate) enum Ended {
    Answered,
    Failed,
    /// Its deadline has passed; it may have been counted if this is true.
    Late(bool),
}

/// Why a call was not decided.
pub(crate) enum Undecided {
    Failed(Failure),
    /// Its deadline has passed; it may have been counted if this is true.
    Late(bool),
    NotUnderstood,
    /// The server refused this call, with this error.
    Refused(String),
}

/// What is sent for a batch.
pub(crate) struct Load {
    pub(crate) set: usize,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) argument: Vec<u8>,
}

impl Batch {
    pub(super) fn new() -> Arc<Self> {
        // Batches of fewer calls need not grow.
        const CALLS: usize = 32;
        let calls = Calls {
            groups: Vec::with_capacity(CALLS),
            hashes: Vec::with_capacity(CALLS),
            places: Vec::with_capacity(CALLS),
            ..Calls::default()
        };
        Arc::new(Self {
            calls: calls.into(),
            ..Self::default()
        })
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a call can have a group of its own.
    pub(super) fn has_room(&self, call: &BatchedCall<'_>) -> bool {
        self.limits() + call.hashes.len() <= call.options.batch_limits
    }

    /// Returns how many limits it decides: equal calls count once, and an id as one more.
    pub(super) fn limits(&self) -> usize {
        self.lock().hashes.len()
    }

    /// Adds a call to a group, or returns `None` if it is not equal to the calls in it.
    pub(super) fn join(
        self: &Arc<Self>,
        call: &mut BatchedCall<'_>,
        group: usize,
    ) -> Option<Member> {
        let mut calls = self.lock();
        let place = calls
            .is_joined_by(call, group)
            .then(|| calls.place(call, group))?;
        Some(Member::new(self, place))
    }

    /// Adds a call, which is packed, in a group of its own.
    pub(super) fn add(self: &Arc<Self>, call: &mut BatchedCall<'_>) -> (usize, Member) {
        let mut calls = self.lock();
        let group = calls.group(call);
        let place = calls.place(call, group);
        (group, Member::new(self, place))
    }

    /// Notes that several groups may have the same key.
    pub(super) fn share(&self) {
        self.lock().shares = true;
    }

    /// Returns how many calls were added.
    pub(super) fn calls(&self) -> usize {
        self.lock().places.len()
    }

    /// Calls `each` with the hashes of all limits and keys.
    pub(super) fn for_each_hash(&self, each: impl FnMut(u64)) {
        self.lock().hashes.iter().copied().for_each(each);
    }

    /// Closes the batch at `now`, and returns what to send and the first deadline, or `None` if
    /// nobody is left.
    pub(super) fn close(&self, now: Instant) -> Option<(Load, Instant)> {
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
        calls.is_closed = true;
        let closed = calls.load();
        drop(calls);
        wake(late);
        closed
    }

    /// Ends the calls whose deadlines have passed at `now`, after they were sent, and returns the next
    /// deadline. If that was the last one, all is left to [`end`](Self::end).
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
        wake(wakers);
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

    /// Wakes all callers that have not been woken. If their calls have not ended, they end now, because
    /// the task that was to send them has ended.
    pub(super) fn finish(&self) {
        if self.lock().outcome.is_none() {
            let ended = "the task that sends calls together has ended, as it does with its runtime";
            let failure = if self.is_out() {
                Failure::lost(ended)
            } else {
                Failure::not_sent(ended)
            };
            self.end(Some(Err(failure)));
        }
        wake(self.wakers(usize::MAX));
    }

    /// Ends all calls: with the reply to them, with a failure, or, if there was neither, as late.
    pub(super) fn end(&self, outcome: Option<Result<Vec<u8>, Failure>>) {
        let mut calls = self.lock();
        let sent = calls.groups.iter().map(|group| group.calls);
        calls.outcome = Some(match outcome {
            Some(Ok(reply)) => match reply::read(sent, &reply) {
                Some(answers) => {
                    self.is_answered.store(true, Ordering::Release);
                    Outcome::Answered(reply.into(), answers)
                }
                None => Outcome::NotUnderstood,
            },
            Some(Err(failure)) => Outcome::Failed(failure.share()),
            None => Outcome::Late(self.is_out()),
        });
    }

    /// Wakes half of the callers, after their calls have ended.
    pub(super) fn wake_half(&self) {
        let half = self.calls() / 2;
        wake(self.wakers(half));
    }

    /// Takes the wakers of the first `calls` calls, of those that have not been woken.
    fn wakers(&self, calls: usize) -> Vec<Waker> {
        let mut locked = self.lock();
        let places = locked.places.iter_mut().take(calls);
        places.filter_map(|place| place.waker.take()).collect()
    }
}

/// Wakes callers. A waker that panics keeps neither the others nor the task from going on.
fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        let _panic = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

impl Calls {
    /// Returns what to send and the first deadline, or `None` if nobody waits.
    fn load(&mut self) -> Option<(Load, Instant)> {
        let first = self.first_deadline_after(None)?;
        let sent = self.groups.iter().filter(|group| group.calls > 0);
        let argument = reply::argument(self.shares, &self.kinds, sent);
        let mut keys = Vec::with_capacity(self.hashes.len());
        for group in self.groups.iter_mut().filter(|group| group.calls > 0) {
            keys.extend(group.keys.drain(..));
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

    /// Returns whether the call is one more call of this group.
    fn is_joined_by(&self, call: &BatchedCall<'_>, group: usize) -> bool {
        let group = &self.groups[group];
        let kind = &self.kinds[group.kind];
        kind.joins && kind.is_of(call) && call.has_keys(&group.keys)
    }

    /// Adds a call to a group, and returns its place.
    fn place(&mut self, call: &mut BatchedCall<'_>, group: usize) -> usize {
        self.places.push(Place {
            group,
            number: 0,
            deadline: call.deadline,
            waker: call.waker.take(),
            state: State::Waits,
        });
        self.places.len() - 1
    }

    /// Adds a group for a call that is packed.
    fn group(&mut self, call: &mut BatchedCall<'_>) -> usize {
        self.hashes.extend_from_slice(&call.hashes);
        let known = self.kinds.iter().rposition(|kind| kind.is_of(call));
        let kind = known.unwrap_or_else(|| {
            self.set |= set_of(call.question.request);
            self.kinds.push(Kind::of(call));
            self.kinds.len() - 1
        });
        let keys = call.packed.take().map(|packed| packed.keys);
        self.groups.push(Group {
            kind,
            keys: keys.unwrap_or_default(),
            calls: 0,
            series: None,
        });
        self.groups.len() - 1
    }
}

impl Place {
    fn waits(&self) -> bool {
        self.state == State::Waits
    }
}

/// The place of a call in a batch. If it is dropped before the batch, the call is not sent.
pub(crate) struct Member {
    batch: Arc<Batch>,
    place: usize,
}

impl Member {
    fn new(batch: &Arc<Batch>, place: usize) -> Self {
        Self {
            batch: Arc::clone(batch),
            place,
        }
    }

    /// Returns how the call ended, or `None` if it still waits: then `waker` is woken later.
    pub(super) fn poll(&self, waker: &Waker) -> Option<Ended> {
        if self.batch.is_answered.load(Ordering::Acquire) {
            return Some(Ended::Answered);
        }
        // Dropped after the lock is released: a waker may drop a future, and so a member.
        let _replaced;
        let mut calls = self.batch.lock();
        let calls = &mut *calls;
        let place = &mut calls.places[self.place];
        if place.state == State::Gone {
            return Some(Ended::Late(false));
        }
        Some(match &calls.outcome {
            Some(Outcome::Answered(..)) => Ended::Answered,
            Some(Outcome::Failed(_) | Outcome::NotUnderstood) => Ended::Failed,
            Some(Outcome::Late(is_out)) => Ended::Late(*is_out),
            None if place.state == State::Late => Ended::Late(true),
            None => {
                _replaced = place.waker.replace(waker.clone());
                return None;
            }
        })
    }

    /// Returns how the batch failed, if it did.
    pub(crate) fn failure(&self) -> Undecided {
        match &self.batch.lock().outcome {
            Some(Outcome::Failed(failure)) => Undecided::Failed(failure.again()),
            _ => Undecided::NotUnderstood,
        }
    }

    /// Decides about the call, which asks `question`, after its batch was answered: `alone` reads a
    /// reply to this call only.
    ///
    /// # Errors
    ///
    /// The error of the reply, or what `error` makes of the reason why there is no decision.
    pub(crate) fn decide(
        &self,
        question: &Question<'_>,
        alone: impl FnOnce(&[u8]) -> Result<Verdicts, StoreError>,
        error: impl FnOnce(Undecided) -> StoreError,
    ) -> Result<Verdicts, StoreError> {
        let mut locked = self.batch.lock();
        let calls = &mut *locked;
        let place = &calls.places[self.place];
        let (Some(Outcome::Answered(reply, answers)), State::Waits | State::Late) =
            (&calls.outcome, place.state)
        else {
            return Err(error(Undecided::Late(false)));
        };
        let group = &mut calls.groups[place.group];
        match &answers[place.group] {
            Answer::Nothing => Err(error(Undecided::NotUnderstood)),
            Answer::Refused(part) => {
                let line = String::from_utf8_lossy(&reply[part.clone()]);
                Err(error(Undecided::Refused(line.into_owned())))
            }
            Answer::Reply(part, _) if group.calls == 1 => {
                // Nothing is shared with others, so they need not wait.
                let (reply, part) = (Arc::clone(reply), part.clone());
                drop(locked);
                alone(&reply[part])
            }
            Answer::Reply(part, admitted) => {
                let turn = Turn {
                    before: place.number,
                    calls: group.calls,
                    admitted: *admitted,
                };
                group.decide(&reply[part.clone()], question, turn)
            }
        }
    }
}

impl Group {
    /// Decides about one of several equal calls.
    fn decide(
        &mut self,
        reply: &[u8],
        question: &Question<'_>,
        turn: Turn,
    ) -> Result<Verdicts, StoreError> {
        let series = match &mut self.series {
            Some(series) => series,
            none => none.insert(Box::new(Series::read(question, reply, turn)?)),
        };
        series.decide(question.request, turn)
    }
}

impl Member {
    /// Returns the deadline of the call.
    pub(crate) fn deadline(&self) -> Instant {
        self.batch.lock().places[self.place].deadline
    }

    /// Gives the call up, and returns how it ended.
    pub(super) fn late(&self) -> Ended {
        let mut calls = self.batch.lock();
        let was_sent = calls.places[self.place].state != State::Gone && calls.is_closed;
        calls.places[self.place].state = State::Gone;
        Ended::Late(was_sent)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.batch.is_answered.load(Ordering::Relaxed) {
            let mut calls = self.batch.lock();
            calls.places[self.place].state = State::Gone;
        }
    }
}
