//! `CounterCall`: a request that plain commands can decide, and the verdicts that follow from their reply.

use tollgate_core::inside::twins::{self, CounterPlan, CounterReply};
use tollgate_core::store::{Check, MAX_EXACT, Operation, Request, Verdicts};
use tollgate_core::{ErrorKind, Limit, StoreError, Timestamp};

/// A request that plain commands can decide.
pub(super) struct CounterCall<'a> {
    pub(super) check: Check<'a>,
    pub(super) plan: CounterPlan,
    pub(super) step: Step,
}

/// What to do to a counter.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Add(u64),
    GiveBack { amount: u64, at: u64 },
    Look,
}

/// A server's reply, and the window it is about.
pub(super) struct Answer {
    pub(super) window: Option<u64>,
    pub(super) reply: CounterReply,
}

/// Returns how plain commands count for `limit`, or why they cannot.
pub(super) fn plan(limit: &Limit) -> Result<CounterPlan, &'static str> {
    match limit.algorithm() {
        _ if limit.is_shadow() => Err("plain commands deny what a limit denies: it is in shadow"),
        // The state machine counts denied calls up to `MAX_EXACT`, and a refund subtracts from
        // there.
        algorithm if algorithm.counts_denied() && algorithm.capacity() > MAX_EXACT / 2 => {
            Err("the amount is too large: a refund after many denied calls would not be exact")
        }
        algorithm => twins::plan(algorithm),
    }
}

/// Returns the error of a request or limit that plain commands cannot serve.
pub(super) fn unsupported(what: &str) -> StoreError {
    StoreError::new(
        ErrorKind::Unsupported,
        format!(
            "without scripts this cannot be decided exactly: {what}; use the store with scripts"
        ),
    )
}

/// Returns how plain commands decide `request`, or why they cannot.
pub(super) fn counter_call<'a>(request: &Request<'a>) -> Result<CounterCall<'a>, &'static str> {
    let &[check] = request.checks() else {
        return Err("several limits are decided all-or-nothing only by a script");
    };
    if request.has_id() {
        return Err("only a script decides a call and keeps its answer in one step");
    }
    if request.caller_time().is_some() {
        return Err("counters expire by the server's clock");
    }
    let plan = plan(check.limit())?;
    let step = match request.operation() {
        Operation::Consume
            if plan.may_count(check.cost(), check.limit().algorithm().capacity()) =>
        {
            Step::Add(check.cost())
        }
        Operation::Consume | Operation::Peek => Step::Look,
        Operation::Refund(_) if plan.is_anchored() => {
            return Err(
                "a refund in an anchored window depends on its first call, which a counter does not record",
            );
        }
        Operation::Refund(receipt) => {
            let consumed = receipt.consumed()[0];
            Step::GiveBack {
                amount: consumed.cost(),
                at: consumed.at().as_micros(),
            }
        }
        Operation::Reserve { .. } => return Err("a counter cannot delay a call"),
        Operation::TakeUpTo => return Err("a counter cannot take part of a cost"),
        Operation::Block(_) => return Err("a counter cannot block a key"),
        Operation::Give => return Err("a counter does not record what is newest"),
        Operation::Charge | Operation::Lower | Operation::Settle(_) => {
            return Err("a counter cannot count more than fits");
        }
        _ => return Err("counters do not know this operation"),
    };
    Ok(CounterCall { check, plan, step })
}

/// Returns the verdicts that the state machine derives from the reply, or `None` if the server
/// counted otherwise.
pub(super) fn decision(
    request: &Request<'_>,
    call: &CounterCall<'_>,
    answer: &Answer,
) -> Option<Verdicts> {
    let (mut state, now) = call.plan.state(answer.window, answer.reply)?;
    let decision = request.decide_on(&mut state, Timestamp::from_micros(now).ok()?);
    let counts = decision.is_allowed() || call.check.limit().algorithm().counts_denied();
    match answer.reply.counted {
        Some(counted) if counted != counts => None,
        _ => Some(decision),
    }
}
