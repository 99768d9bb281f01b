//! `Member`: a caller's handle to its call in a batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use tollgate_core::StoreError;
use tollgate_core::store::{Uncovered, Verdicts};

use super::{Batch, Group, Outcome, Reply, State};
use crate::batch::reply::Answer;
use crate::codec::{self, Question, Series, Turn};
use crate::failure::Failure;
use crate::wait::Wait;

/// How a call ended.
#[derive(Clone, Copy)]
pub(crate) enum Ended {
    /// With a reply, which [`Member::decide`] reads.
    Answered,
    /// With the failure of its batch: see [`Member::failure`].
    Failed,
    /// Its deadline passed. If true, it may have been counted.
    Late(bool),
}

/// Why a call was not decided.
pub(crate) enum Undecided {
    Failed(Failure),
    /// Its deadline passed. If true, it may have been counted.
    Late(bool),
    /// The script never gives such a reply.
    NotUnderstood,
    /// The server refused this call, with this error line.
    Refused(String),
    /// The call brought no period of a calendar that holds this instant.
    Uncovered(Uncovered),
}

/// A caller's handle to its call in a batch. If it is dropped before the batch is sent, the call is not
/// sent.
pub(crate) struct Member {
    batch: Arc<Batch>,
    place: usize,
}

impl Member {
    pub(super) fn new(batch: &Arc<Batch>, place: usize) -> Self {
        Self {
            batch: Arc::clone(batch),
            place,
        }
    }

    /// Returns how the call ended, or `None` if it has not: then `waker` is woken when it has. `now` is the time
    /// of the runtime that polls the call.
    pub(in crate::batch) fn poll(&self, waker: &Waker, now: fn() -> Instant) -> Option<Ended> {
        if self.batch.is_answered.load(Ordering::Acquire) {
            return Some(Ended::Answered);
        }
        // Dropped after the lock is released: a waker may drop a future, and so a member.
        let _replaced;
        let mut calls = self.batch.lock();
        let calls = &mut *calls;
        let place = &mut calls.places[self.place];
        if place.state == State::Overdue && calls.outcome.is_none() {
            place.state = if !super::is_over(&mut calls.wait, place.deadline, now()) {
                State::Waits
            } else if calls.is_closed {
                State::Late
            } else {
                State::Gone
            };
        }
        let place = &calls.places[self.place];
        if place.state == State::Gone {
            return Some(Ended::Late(false));
        }
        Some(match &calls.outcome {
            Some(Outcome::Answered(..)) => Ended::Answered,
            Some(Outcome::Failed(_) | Outcome::NotUnderstood) => Ended::Failed,
            Some(Outcome::Late(is_out)) => Ended::Late(*is_out),
            None if place.state == State::Late => Ended::Late(true),
            None => {
                _replaced = calls.places[self.place].waker.replace(waker.clone());
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

    /// Returns the verdicts on the call, whose batch was answered; its caller learns of that `now`. `alone` reads
    /// the reply if it is to this call only.
    ///
    /// # Errors
    ///
    /// The reason why there is no reply to it.
    pub(crate) fn decide(
        &self,
        question: &Question<'_>,
        now: Instant,
        alone: impl FnOnce(&[u8]) -> Result<Result<Verdicts, StoreError>, Undecided>,
    ) -> Result<Result<Verdicts, StoreError>, Undecided> {
        let mut locked = self.batch.lock();
        let calls = &mut *locked;
        let place = &calls.places[self.place];
        let (Some(Outcome::Answered(answered)), State::Waits | State::Overdue | State::Late) =
            (&calls.outcome, place.state)
        else {
            return Err(Undecided::Late(false));
        };
        Wait::note_turn(answered.at, now);
        let Reply {
            bytes: reply,
            answers,
            ..
        } = answered;
        let group = &mut calls.groups[place.group];
        match &answers[place.group] {
            Answer::Nothing => Err(Undecided::NotUnderstood),
            Answer::Refused(part) => {
                let line = String::from_utf8_lossy(&reply[part.clone()]);
                Err(Undecided::Refused(line.into_owned()))
            }
            Answer::Reply(part, _) if group.calls == 1 => {
                // No other call reads this part, so they need not wait for the lock.
                let (reply, part) = (Arc::clone(reply), part.clone());
                drop(locked);
                alone(&reply[part])
            }
            Answer::Reply(part, admitted) => {
                if let Some(uncovered) = codec::uncovered(question, &reply[part.clone()]) {
                    return Err(Undecided::Uncovered(uncovered));
                }
                let turn = Turn {
                    before: place.number,
                    calls: group.calls,
                    admitted: *admitted,
                };
                Ok(group.decide(&reply[part.clone()], question, turn))
            }
        }
    }

    /// Returns the deadline of the call.
    pub(crate) fn deadline(&self) -> Instant {
        self.batch.lock().places[self.place].deadline
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

impl Group {
    /// Returns the verdicts on one of several equal calls.
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
