//! Combines the answers for each limit of a call into the verdicts of the store.

use tollgate_core::store::State;
use tollgate_core::store::{Check, Request, Verdict};
use tollgate_core::{StoreError, Wait};

use super::expected::Answer;
use super::received::{ReceivedCall, Verb};

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
/// # Errors
///
/// If an answer says to fail; with several, the first one's error.
///
/// # Panics
///
/// If no store could give one of the answers.
pub(super) fn verdicts(
    received: &ReceivedCall<'_>,
    answers: &[Option<Answer>],
) -> Result<Vec<Verdict>, StoreError> {
    let opinions: Vec<Opinion> = answers
        .iter()
        .enumerate()
        .map(|(index, answer)| opinion(received, index, *answer))
        .collect::<Result<_, _>>()?;
    let is_allowed = opinions.iter().all(|opinion| opinion.wait.is_zero());
    let most = received.checks.iter().map(|check| check.cost()).min();
    let least_left = opinions.iter().map(|opinion| opinion.left).min();
    // A limit that denies a `take_up_to` call has nothing left.
    let granted = most.min(least_left).unwrap_or_default();
    let verdicts = opinions
        .iter()
        .zip(received.checks)
        .map(|(opinion, check)| {
            let consumed = match received.verb {
                Verb::Check | Verb::Reserve if is_allowed => check.cost(),
                Verb::TakeUpTo => granted,
                _ => 0,
            };
            let capacity = check.limit().algorithm().capacity();
            let verdict = if opinion.wait.is_zero() {
                let verdict = Verdict::allow(capacity, opinion.left - consumed);
                if received.verb == Verb::Reserve && is_allowed {
                    verdict.with_delay(opinion.delay)
                } else {
                    verdict
                }
            } else {
                Verdict::deny(capacity, opinion.left, opinion.wait)
            };
            verdict
                .with_reset_after(reset_after(received, check, &verdict))
                .with_consumed(consumed, received.now())
        });
    Ok(verdicts.collect())
}

fn opinion(
    received: &ReceivedCall<'_>,
    index: usize,
    answer: Option<Answer>,
) -> Result<Opinion, StoreError> {
    let check = &received.checks[index];
    let (capacity, cost) = (check.limit().algorithm().capacity(), check.cost());
    // What the call would consume if this were the only limit.
    let consumes = match received.verb {
        Verb::Check | Verb::Reserve => cost,
        Verb::TakeUpTo => cost.min(capacity),
        Verb::Block | Verb::Lower | Verb::Peek | Verb::Refund | Verb::Reset | Verb::Settle => 0,
    };
    // What remains at most if the call is allowed.
    let most = match received.verb {
        Verb::Lower => cost.min(capacity),
        _ => capacity.saturating_sub(consumes),
    };
    let is_possible = match received.verb {
        Verb::Check | Verb::Peek | Verb::Reserve => cost <= capacity,
        Verb::TakeUpTo => cost == 0 || capacity > 0,
        Verb::Block | Verb::Lower | Verb::Refund | Verb::Reset | Verb::Settle => true,
    };
    let refuse = |why: String| -> ! {
        let answer = answer.map_or_else(String::new, |answer| answer.to_string());
        let (verb, line) = (received.verb, received.line(index));
        panic!("no store answers `{answer}` to this {verb}:\n  {line}\n{why}")
    };
    let mut delay = Wait::ZERO;
    let (left, wait) = match answer {
        None | Some(Answer::Deny(Wait::NEVER)) if !is_possible => (capacity, Wait::NEVER),
        Some(Answer::Allow { .. } | Answer::Delay(_) | Answer::Deny(_)) if !is_possible => {
            refuse(format!(
                "a cost above the capacity, {capacity}, is always denied: expect a lower cost, or \
             answer with `.deny_forever()`"
            ))
        }
        Some(Answer::Allow { remaining }) => {
            if remaining.is_some_and(|remaining| remaining > most) {
                refuse(format!(
                    "at most {most} of the capacity, {capacity}, can remain after this call: \
                     lower the number"
                ));
            }
            if received.verb == Verb::Peek && remaining.is_some_and(|remaining| remaining < cost) {
                refuse(
                    "a peek is allowed only if its cost remains: raise the number, or deny it"
                        .to_owned(),
                );
            }
            (remaining.unwrap_or(most) + consumes, Wait::ZERO)
        }
        None | Some(Answer::Succeed) if received.verb == Verb::Block => {
            let wait = blocked(received, check);
            (if wait.is_zero() { capacity } else { 0 }, wait)
        }
        Some(Answer::Deny(_)) if cost == 0 => {
            refuse("a call that costs nothing is always allowed: expect a higher cost".to_owned())
        }
        Some(Answer::Deny(wait)) => (0, wait),
        Some(Answer::Delay(_)) if cost == 0 => {
            refuse("a call that costs nothing is never delayed: expect a higher cost".to_owned())
        }
        Some(Answer::Delay(by)) => {
            if by.duration().is_none_or(|by| Some(by) > received.within) {
                refuse(format!(
                    "the call accepts a delay of at most {:?}: lower the delay, or deny it",
                    received.within.unwrap_or_default()
                ));
            }
            delay = by;
            (consumes, Wait::ZERO)
        }
        Some(Answer::Grant(granted)) => {
            let most = cost.min(capacity);
            if granted > most {
                refuse(format!(
                    "at most {most} can be granted, the lower of the cost and the capacity, \
                     {capacity}: lower the number"
                ));
            }
            let is_denied = granted == 0 && cost > 0;
            let wait = if is_denied { ONE_SECOND } else { Wait::ZERO };
            (granted, wait)
        }
        Some(Answer::Fail(kind)) => {
            let message = format!("the test says to fail: {kind:?}");
            return Err(StoreError::new(kind, message));
        }
        None | Some(Answer::Succeed) => (most + consumes, Wait::ZERO),
    };
    Ok(Opinion { left, wait, delay })
}

/// Returns how long until a limit with this `verdict` has its full capacity again, if everything
/// that was consumed from it was consumed at once.
fn reset_after(received: &ReceivedCall<'_>, check: &Check<'_>, verdict: &Verdict) -> Wait {
    let of_cost = |cost| Check::new(check.limit(), check.key(), cost);
    let now = received.now();
    let mut state = State::default();
    let used = of_cost(verdict.capacity().saturating_sub(verdict.remaining()));
    let used = Request::consume(used).decide_on(&mut state, now);
    if verdict.is_allowed() || verdict.retry_after().is_never() {
        return sum(used.reset_after(), verdict.delay());
    }
    // The call fits, or is delayed by no more than it accepts, when it is to be repeated. What is
    // missing then comes back after that.
    let cost = match received.verb {
        Verb::TakeUpTo => 1,
        _ => check.cost(),
    };
    let denied = Request::peek(of_cost(cost)).decide_on(&mut state, now);
    let missing = denied.reset_after().duration().unwrap_or_default();
    let missing = missing.saturating_sub(denied.retry_after().duration().unwrap_or_default());
    let later = missing.saturating_add(received.within.unwrap_or_default());
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
fn blocked(received: &ReceivedCall<'_>, check: &Check<'_>) -> Wait {
    let request = Request::block(received.span, *check);
    let blocked = request.decide_on(&mut State::default(), received.now());
    blocked.retry_after()
}

/// How long a call is denied if it is granted nothing.
const ONE_SECOND: Wait = Wait::from_micros(1_000_000);
