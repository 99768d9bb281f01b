//! Combines the answers for each limit of a call into the verdicts of the store.

use std::slice;
use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request, State, Verdict};
use tollgate_core::{Timestamp, Wait};

use super::answer::{Answer, Reply};
use super::limit::Received;
use super::operation::Verb;

/// The outcome of a call for one limit on its own.
struct Opinion {
    /// The units remaining before the call.
    left: u64,
    /// How long the call is denied; zero if it is allowed.
    wait: Wait,
    /// How long the call is delayed if it is allowed.
    delay: Wait,
}

/// Returns the verdicts of a store whose limits each give their answer in `answers`. A limit
/// without an answer acts as if nothing had been consumed.
///
/// # Panics
///
/// If no store could give one of the answers.
pub(super) fn verdicts(
    request: &Request<'_>,
    received: &Received<'_>,
    answers: Vec<Option<Answer>>,
) -> Vec<Verdict> {
    let opinions: Vec<Opinion> = answers
        .into_iter()
        .enumerate()
        .map(|(index, answer)| opinion(request, received, index, answer))
        .collect();
    let is_allowed = opinions.iter().all(|opinion| opinion.wait.is_zero());
    let most = request.checks().iter().map(|check| check.cost()).min();
    let least_left = opinions.iter().map(|opinion| opinion.left).min();
    // A limit that denies a `take_up_to` call has nothing left.
    let granted = most.min(least_left).unwrap_or_default();
    let verdicts = opinions
        .iter()
        .zip(request.checks())
        .map(|(opinion, check)| {
            let taken = match received.verb {
                Verb::Check | Verb::Reserve if is_allowed => check.cost(),
                Verb::TakeUpTo => granted,
                _ => 0,
            };
            let capacity = check.limit().algorithm().capacity();
            let verdict = if opinion.wait.is_zero() {
                let verdict = Verdict::allow(capacity, opinion.left - taken);
                if received.verb == Verb::Reserve && is_allowed {
                    verdict.with_delay(opinion.delay)
                } else {
                    verdict
                }
            } else {
                Verdict::deny(capacity, opinion.left, opinion.wait)
            };
            let consumed = match received.verb {
                // What was given back remains.
                Verb::Give => check.cost().min(opinion.left),
                _ => taken,
            };
            verdict
                .with_reset_after(reset_after(request, check, &verdict))
                .with_consumed(consumed, now(request))
        });
    verdicts.collect()
}

fn opinion(
    request: &Request<'_>,
    received: &Received<'_>,
    index: usize,
    answer: Option<Answer>,
) -> Opinion {
    let check = &request.checks()[index];
    let (capacity, cost) = (check.limit().algorithm().capacity(), check.cost());
    // What the call would consume if this were the only limit.
    let consumes = match received.verb {
        Verb::Check | Verb::Reserve => cost,
        Verb::TakeUpTo => cost.min(capacity),
        _ => 0,
    };
    // What remains at most if the call is allowed.
    let most = match received.verb {
        Verb::Lower => cost.min(capacity),
        _ => capacity.saturating_sub(consumes),
    };
    let is_possible = match received.verb {
        Verb::Check | Verb::Peek | Verb::Reserve => cost <= capacity,
        Verb::TakeUpTo => cost == 0 || capacity > 0,
        _ => true,
    };
    let answer = answer.unwrap_or_else(|| Answer {
        text: String::new(),
        reply: match is_possible {
            true => Reply::Succeed,
            false => Reply::Deny(Wait::NEVER),
        },
    });
    let refuse = |why: &str| -> ! { received.refuse(index, &answer, why) };
    let mut delay = Wait::ZERO;
    let (left, wait) = match answer.reply {
        Reply::Deny(Wait::NEVER) if !is_possible => (capacity, Wait::NEVER),
        Reply::Allow(_) | Reply::Delay(_) | Reply::Deny(_) if !is_possible => refuse(&format!(
            "a cost above the capacity, {capacity}, is always denied: expect a lower cost, or \
             answer with `.deny_forever()`"
        )),
        Reply::Allow(remaining) => {
            if remaining.is_some_and(|remaining| remaining > most) {
                refuse(&format!(
                    "at most {most} of the capacity, {capacity}, can remain after this call: \
                     lower the number"
                ));
            }
            if received.verb == Verb::Peek && remaining.is_some_and(|remaining| remaining < cost) {
                refuse("a peek is allowed only if its cost remains: raise the number, or deny it");
            }
            (remaining.unwrap_or(most) + consumes, Wait::ZERO)
        }
        Reply::Succeed if received.verb == Verb::Block => {
            let wait = blocked(request, check);
            (if wait.is_zero() { capacity } else { 0 }, wait)
        }
        Reply::Deny(_) if cost == 0 => {
            refuse("a call that costs nothing is always allowed: expect a higher cost")
        }
        Reply::Deny(wait) => (0, wait),
        Reply::Delay(_) if cost == 0 => {
            refuse("a call that costs nothing is never delayed: expect a higher cost")
        }
        Reply::Delay(by) => {
            let within = within(request);
            if by.duration().is_none_or(|by| by > within) {
                refuse(&format!(
                    "the call accepts a delay of at most {within:?}: lower the delay, or deny it"
                ));
            }
            delay = by;
            (consumes, Wait::ZERO)
        }
        Reply::Grant(granted) => {
            let most = cost.min(capacity);
            if granted > most {
                refuse(&format!(
                    "at most {most} can be granted, the lower of the cost and the capacity, \
                     {capacity}: lower the number"
                ));
            }
            let is_denied = granted == 0 && cost > 0;
            let wait = if is_denied { ONE_SECOND } else { Wait::ZERO };
            (granted, wait)
        }
        // A call that fails has failed before.
        Reply::Fail(_) | Reply::Succeed => (most + consumes, Wait::ZERO),
    };
    Opinion { left, wait, delay }
}

/// Returns how long until a limit with this `verdict` has its full capacity again, if everything
/// that was consumed from it was consumed at once.
fn reset_after(request: &Request<'_>, check: &Check<'_>, verdict: &Verdict) -> Wait {
    let of_cost = |cost| Check::new(check.limit(), check.key(), cost);
    let now = now(request);
    let mut state = State::default();
    let used = of_cost(verdict.capacity().saturating_sub(verdict.remaining()));
    let used = Request::consume(used).decide_on(&mut state, now);
    if verdict.is_allowed() || verdict.retry_after().is_never() {
        return sum(used.reset_after(), verdict.delay());
    }
    // The call fits, or is delayed by no more than it accepts, when it is to be repeated. What is
    // missing then comes back after that.
    let cost = match request.operation() {
        Operation::TakeUpTo => 1,
        _ => check.cost(),
    };
    let denied = Request::peek(of_cost(cost)).decide_on(&mut state, now);
    let missing = denied.reset_after().duration().unwrap_or_default();
    let missing = missing.saturating_sub(denied.retry_after().duration().unwrap_or_default());
    let later = missing.saturating_add(within(request));
    let later = u64::try_from(later.as_micros()).map_or(Wait::NEVER, Wait::from_micros);
    sum(verdict.retry_after(), later)
}

fn sum(first: Wait, second: Wait) -> Wait {
    match (first.as_micros(), second.as_micros()) {
        (Some(first), Some(second)) => Wait::from_micros(first.saturating_add(second)),
        _ => Wait::NEVER,
    }
}

/// Returns how long a block lasts in a limit that blocked nothing before.
fn blocked(request: &Request<'_>, check: &Check<'_>) -> Wait {
    let block = Request::new(request.operation(), slice::from_ref(check));
    let blocked = block.decide_on(&mut State::default(), now(request));
    blocked.retry_after()
}

/// Returns the instant of the decision: the caller's, or else the first of all.
fn now(request: &Request<'_>) -> Timestamp {
    request.caller_time().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the longest delay that a reservation accepts.
fn within(request: &Request<'_>) -> Duration {
    match request.operation() {
        Operation::Reserve { max_delay } => max_delay,
        _ => Duration::ZERO,
    }
}

/// How long a call is denied if it is granted nothing.
const ONE_SECOND: Wait = Wait::from_micros(1_000_000);
