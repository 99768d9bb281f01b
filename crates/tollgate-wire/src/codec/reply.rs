//! The reply of a script, and the verdicts that follow from it.

use smallvec::SmallVec;
use tollgate_core::inside::twins::{CallContext, decode, given, integer, words};
use tollgate_core::store::{Check, Operation, Request, State, Uncovered, Verdicts};
use tollgate_core::{CallId, ErrorKind, StoreError, Timestamp};

use super::Question;
use crate::fault::FOREIGN;
use crate::script::UNCOVERED;

/// Returns the verdicts that follow from a script's `reply`.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if no script gives such a reply to the request, or if the state machines
/// decide otherwise than the script did on the same states; [`ErrorKind::Misconfigured`] if no limit
/// has written such states.
pub(crate) fn decision(question: &Question<'_>, reply: &[u8]) -> Result<Verdicts, StoreError> {
    let request = question.request;
    let mut reply = Reply::read(question, reply, 1)?;
    let states = &mut reply.states[..];
    let checks = request.checks().len();
    let decision = match request.operation() {
        // The reply to these holds the states after them: peek at those.
        Operation::Charge | Operation::Refund(_) | Operation::Settle(_) => {
            let checks = request.checks().iter();
            let look = checks.map(|check| Check::new(check.limit(), check.key(), 0));
            let look = Request::new(Operation::Peek, look);
            look.decide_on(states, reply.now)
        }
        // The states before it, and those after it.
        Operation::Give => {
            let (before, after) = states.split_at_mut(checks);
            given(request, before, after, reply.now)
        }
        _ => request.decide_on(states, reply.now),
    };
    if decision.is_allowed() != reply.allowed {
        return Err(not_understood());
    }
    Ok(decision)
}

/// Returns what a script answered that is called with periods of other times, in a `reply` without the hash
/// of the call: it has done nothing.
pub(crate) fn uncovered(question: &Question<'_>, reply: &[u8]) -> Option<Uncovered> {
    let cover = question.cover?;
    let (&[UNCOVERED], now) = reply.split_first_chunk()? else {
        return None;
    };
    let now = Timestamp::from_micros(integer(now.try_into().ok()?)?).ok()?;
    // At a caller's instant, the periods are those around it.
    match question.instant {
        Some(_) => None,
        None => cover.check(now).err(),
    }
}

/// Returns the part of `reply` after the hash of the call, which must be `call`.
///
/// # Errors
///
/// [`ErrorKind::Malformed`] if the answer is one to another call.
pub(crate) fn answer_to(call: [u8; 8], reply: &[u8]) -> Result<&[u8], StoreError> {
    match reply.split_first_chunk() {
        Some((answered, rest)) if *answered == call => Ok(rest),
        Some(_) => Err(CallId::taken()),
        None => Err(not_understood()),
    }
}

pub(crate) fn not_understood() -> StoreError {
    StoreError::new(
        ErrorKind::Protocol,
        "the reply is not one that the script gives: delete the keys of this prefix if another program has written to them, and check that no proxy changes replies",
    )
}

fn foreign() -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, FOREIGN)
}

/// A script's reply: whether the request was allowed, when it was decided, and the states.
pub(super) struct Reply {
    pub(super) allowed: bool,
    pub(super) now: Timestamp,
    pub(super) states: States,
}

/// One state for each limit of a request.
pub(super) type States = SmallVec<[State; 1]>;
/// The same, as bytes.
type Parts<'r> = SmallVec<[&'r [u8]; 1]>;

impl Reply {
    /// `calls`: how many equal calls the script decided together.
    pub(super) fn read(
        question: &Question<'_>,
        reply: &[u8],
        calls: u64,
    ) -> Result<Self, StoreError> {
        let request = question.request;
        let times = match request.operation() {
            Operation::Give => 2,
            _ => 1,
        };
        let count = times * request.checks().len();
        let parts = Self::parts(count, reply).ok_or_else(not_understood)?;
        let (allowed, now, raw) = parts;
        if question.instant.is_some_and(|instant| instant != now) {
            return Err(not_understood());
        }
        let states = request
            .checks()
            .iter()
            .cycle()
            .zip(raw)
            .map(|(check, raw)| {
                let call = CallContext {
                    now: now.as_micros(),
                    cost: cost(request, check, allowed).saturating_mul(calls),
                };
                let algorithm = check.limit().algorithm();
                decode(algorithm, &words(raw)?, call)
            });
        let states: Option<States> = states.collect();
        Ok(Self {
            allowed,
            now,
            states: states.ok_or_else(foreign)?,
        })
    }

    /// Returns whether the request was allowed, when it was decided, and `count` states.
    fn parts(count: usize, reply: &[u8]) -> Option<(bool, Timestamp, Parts<'_>)> {
        let (&[allowed], rest) = reply.split_first_chunk()?;
        let (now, mut rest) = rest.split_first_chunk()?;
        let allowed = match allowed {
            0 => false,
            1 => true,
            _ => return None,
        };
        let now = Timestamp::from_micros(integer(*now)?).ok()?;
        let mut states = Parts::with_capacity(count);
        for _ in 0..count {
            let (length, after) = rest.split_first_chunk()?;
            let length = usize::from(u16::from_le_bytes(*length));
            let (raw, after) = after.split_at_checked(length)?;
            states.push(raw);
            rest = after;
        }
        rest.is_empty().then_some((allowed, now, states))
    }
}

/// Returns the cost that the script evaluated `check` with.
fn cost(request: &Request<'_>, check: &Check<'_>, allowed: bool) -> u64 {
    match request.operation() {
        operation if !operation.decides_a_call() => 0,
        Operation::TakeUpTo if !allowed => 1,
        _ => check.cost(),
    }
}
