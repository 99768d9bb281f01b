//! Encodes the argument of a script, and decodes its reply.
//!
//! Numbers are little-endian IEEE doubles, the number type of Lua, which hold integers below 2^53
//! exactly. A script unpacks them in one step, without parsing decimal text.

use std::time::Duration;

use super::fault::FOREIGN;
use super::script::Form;
use crate::algorithm::{CallContext, MOST_PARAMETERS, State, double, integer, words};
use crate::decision::Verdicts;
use crate::error::{ErrorKind, StoreError};
use crate::request::{Check, Operation, Request};
use crate::time::{MAX_EXACT, Timestamp};

/// The longest slack in milliseconds: 285 years, as long as any state lasts.
const MOST_SLACK: u64 = MAX_EXACT / 1_000;

/// Returns the argument of the script for `request`; without an `instant`, the server's clock
/// decides.
pub(super) fn argument(
    request: &Request<'_>,
    instant: Option<Timestamp>,
    caller_slack: Duration,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(24 + 64 * request.checks().len());
    let slack = instant.map_or(0, |_| slack(caller_slack));
    if let Form::Few(_) = Form::of(request) {
        push_instant(&mut text, instant);
        push(&mut text, slack);
        if let Operation::Reserve { max_delay } = request.operation() {
            push(&mut text, request.longest_delay_us(max_delay));
        }
        for check in request.checks() {
            let algorithm = check.limit().algorithm();
            push(&mut text, check.cost());
            push(&mut text, u64::from(algorithm.counts_denied()));
            for parameter in algorithm.parameters() {
                push(&mut text, parameter);
            }
        }
        return text;
    }
    push(
        &mut text,
        match request.operation() {
            Operation::Consume => 1,
            Operation::Peek => 2,
            Operation::Refund(_) => 3,
            Operation::TakeUpTo => 4,
            Operation::Reserve { .. } => 6,
        },
    );
    push_instant(&mut text, instant);
    push(&mut text, slack);
    for (index, check) in request.checks().iter().enumerate() {
        push_member(&mut text, request, index, check);
    }
    if let Operation::Refund(receipt) = request.operation() {
        for (index, check) in request.checks().iter().enumerate() {
            if let Some(reserved) = receipt.reserved(index) {
                for number in check.limit().algorithm().reserved(reserved) {
                    push(&mut text, number);
                }
            }
        }
    }
    text
}

/// Returns `slack` in milliseconds, rounded up.
pub(super) fn slack(slack: Duration) -> u64 {
    let millis = slack.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(MOST_SLACK, |millis| millis.min(MOST_SLACK))
}

fn push_member(text: &mut Vec<u8>, request: &Request<'_>, index: usize, check: &Check<'_>) {
    let algorithm = check.limit().algorithm();
    let (cost, since) = match request.operation() {
        Operation::Refund(receipt) => {
            let consumed = receipt.consumed()[index];
            (consumed.cost(), consumed.at().as_micros())
        }
        Operation::Reserve { max_delay } => (check.cost(), request.longest_delay_us(max_delay)),
        _ => (check.cost(), 0),
    };
    push(text, algorithm.code() as u64);
    push(text, u64::from(algorithm.counts_denied()));
    push(text, cost);
    push(text, since);
    let parameters = algorithm.parameters();
    for index in 0..MOST_PARAMETERS {
        push(text, parameters.get(index).copied().unwrap_or(0));
    }
}

/// Appends an integer, at most 2^53.
pub(super) fn push(text: &mut Vec<u8>, number: u64) {
    text.extend_from_slice(&double(number));
}

/// Appends a caller's instant, or -1 for the server's clock.
pub(super) fn push_instant(text: &mut Vec<u8>, instant: Option<Timestamp>) {
    match instant {
        Some(instant) => push(text, instant.as_micros()),
        None => text.extend_from_slice(&(-1_f64).to_le_bytes()),
    }
}

/// Returns the verdicts that follow from a script's `reply`.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if no script gives such a reply to `request`, or if the state machines
/// decide otherwise than the script did on the same states; [`ErrorKind::Misconfigured`] if no limit
/// has written such states.
pub(super) fn decision(
    request: &Request<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Result<Verdicts, StoreError> {
    let told = Reply::read(request, reply)?;
    if instant.is_some_and(|instant| instant != told.now) {
        return Err(not_understood());
    }
    let mut states = told.states;
    let decision = match request.operation() {
        // The reply to a refund holds the states after it: peek at those.
        Operation::Refund(_) => {
            let checks = request.checks().iter();
            let look = checks.map(|check| Check::new(check.limit(), check.key(), 0));
            let look = Request::new(Operation::Peek, look);
            look.decide_on(&mut states[..], told.now)
        }
        _ => request.decide_on(&mut states[..], told.now),
    };
    if decision.is_allowed() != told.allowed {
        return Err(not_understood());
    }
    Ok(decision)
}

pub(super) fn not_understood() -> StoreError {
    StoreError::new(
        ErrorKind::Protocol,
        "the reply is not one that the script gives: delete the keys of this prefix if another program has written to them, and check that no proxy changes replies",
    )
}

fn foreign() -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, FOREIGN)
}

/// A script's reply: whether the request was allowed, when it was decided, and the states.
struct Reply {
    allowed: bool,
    now: Timestamp,
    states: Vec<State>,
}

impl Reply {
    fn read(request: &Request<'_>, reply: &[u8]) -> Result<Self, StoreError> {
        let parts = Self::parts(request.checks().len(), reply).ok_or_else(not_understood)?;
        let (allowed, now, raw) = parts;
        let states = request.checks().iter().zip(raw).map(|(check, raw)| {
            let call = CallContext {
                now: now.as_micros(),
                cost: cost(request, check, allowed),
            };
            let algorithm = check.limit().algorithm();
            algorithm.decode(&words(raw)?, call)
        });
        let states: Option<Vec<State>> = states.collect();
        Ok(Self {
            allowed,
            now,
            states: states.ok_or_else(foreign)?,
        })
    }

    /// Returns whether the request was allowed, when it was decided, and so many states.
    fn parts(count: usize, reply: &[u8]) -> Option<(bool, Timestamp, Vec<&[u8]>)> {
        let (&[allowed], rest) = reply.split_first_chunk()?;
        let (now, mut rest) = rest.split_first_chunk()?;
        let allowed = match allowed {
            0 => false,
            1 => true,
            _ => return None,
        };
        let now = Timestamp::from_micros(integer(*now)?).ok()?;
        let mut states = Vec::with_capacity(count);
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
        Operation::Refund(_) => 0,
        Operation::TakeUpTo if !allowed => 1,
        Operation::Consume | Operation::Peek | Operation::Reserve { .. } | Operation::TakeUpTo => {
            check.cost()
        }
    }
}
