//! The argument of a script: a request as numbers.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate_core::inside::encoding::{Change, change, longest_delay_us, micros_ceil};
use tollgate_core::inside::twins::{MOST_PARAMETERS, Words, code, double, parameters, reserved};
use tollgate_core::store::{BlockSpan, Check, MAX_EXACT, Operation, Request};
use tollgate_core::{CallId, Limit, Timestamp};

use super::Question;
use crate::script::Form;

/// The longest slack in milliseconds: 285 years, as long as any state lasts.
const MOST_SLACK: u64 = MAX_EXACT / 1_000;

/// Returns the argument of the script for a question; without an instant, the server's clock decides.
pub(crate) fn argument(question: &Question<'_>, caller_slack: Duration) -> Vec<u8> {
    let Question {
        request, instant, ..
    } = *question;
    let slack = slack_at(instant, caller_slack);
    if let Form::Few(_) = Form::of(request) {
        let mut text = Vec::with_capacity(24 + 64 * request.checks().len());
        push_instant(&mut text, instant);
        push(&mut text, slack);
        if let Operation::Reserve { max_delay } = request.operation() {
            push(&mut text, longest_delay_us(request, max_delay));
        }
        for (index, check) in request.checks().iter().enumerate() {
            push(&mut text, check.cost());
            push(&mut text, counted(check.limit()));
            for parameter in all_parameters(question, index, check) {
                push(&mut text, parameter);
            }
        }
        return text;
    }
    many_argument(question, slack)
}

/// Returns the number of an operation in the argument of a script, or `None` if no script knows it.
pub(crate) fn operation_number(operation: Operation<'_>) -> Option<u64> {
    Some(match operation {
        Operation::Consume => 1,
        Operation::Peek => 2,
        // A charge is a settlement that counts more.
        Operation::Charge | Operation::Refund(_) | Operation::Settle(_) => 3,
        Operation::TakeUpTo => 4,
        Operation::Reserve { .. } => 6,
        Operation::Lower => 7,
        Operation::Block(_) => 8,
        Operation::Prefetch(_) => 9,
        Operation::Give => 10,
        _ => return None,
    })
}

/// Returns the argument of a script for any operation on any number of limits, with `slack` in
/// milliseconds.
pub(crate) fn many_argument(question: &Question<'_>, slack: u64) -> Vec<u8> {
    let Question {
        request, instant, ..
    } = *question;
    let mut text = Vec::with_capacity(24 + 64 * request.checks().len());
    push(
        &mut text,
        // The store supports no operation without a number.
        operation_number(request.operation()).unwrap_or_default(),
    );
    push_instant(&mut text, instant);
    push(&mut text, slack);
    for (index, check) in request.checks().iter().enumerate() {
        push_member(&mut text, question, index, check);
    }
    for (index, check) in request.checks().iter().enumerate() {
        for number in reserved(request, index, check).into_iter().flatten() {
            push(&mut text, number);
        }
    }
    if let Operation::Prefetch(prefetch) = request.operation() {
        push(&mut text, prefetch.most());
        push(&mut text, prefetch.parts().into());
    }
    text
}

/// Appends what a script needs to keep the answer to `request` by `id`: a hash of the call, and how
/// long in milliseconds, with `slack` in milliseconds. Returns the hash.
pub(crate) fn push_id(
    text: &mut Vec<u8>,
    request: &Request<'_>,
    keys: &[Vec<u8>],
    id: &CallId<'_>,
    slack: u64,
) -> [u8; 8] {
    let mut hasher = Sha256::new();
    // What is the same when the call is repeated: everything but the time.
    let timeless = Question {
        request,
        instant: None,
        cover: None,
    };
    hasher.update(argument(&timeless, Duration::ZERO));
    if let Operation::Reserve { max_delay } = request.operation() {
        hasher.update(max_delay.as_nanos().to_le_bytes());
    }
    // The argument holds large costs as doubles, which are rounded.
    for check in request.checks() {
        hasher.update(check.cost().to_le_bytes());
    }
    for key in keys {
        hasher.update(u64::try_from(key.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(key);
    }
    let hash: [u8; 32] = hasher.finalize().into();
    let (call, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
    text.extend_from_slice(call);
    push(
        text,
        (id.kept_us() / 1_000).saturating_add(slack).min(MOST_SLACK),
    );
    *call
}

/// Returns the slack in milliseconds of a call at a caller's `instant`; at the server's there is
/// none.
pub(crate) fn slack_at(instant: Option<Timestamp>, caller_slack: Duration) -> u64 {
    instant.map_or(0, |_| slack(caller_slack))
}

/// Returns `slack` in milliseconds, rounded up.
pub(crate) fn slack(slack: Duration) -> u64 {
    let millis = slack.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(MOST_SLACK, |millis| millis.min(MOST_SLACK))
}

/// What a script for any operation needs to know of a limit beside its cost: the field `detail` in
/// `unit.lua`. The operation determines which of these it is.
#[derive(Clone, Copy)]
enum Detail {
    /// An operation that needs no more.
    None,
    /// [`Operation::Reserve`]: the longest delay, in microseconds.
    LongestDelay(u64),
    /// [`Operation::Prefetch`]: within which time units are used, in microseconds.
    Within(u64),
    /// [`Operation::Refund`] and [`Operation::Settle`], if the cost is given back: when it was
    /// counted, in microseconds.
    CountedAt(u64),
    /// [`Operation::Settle`], if the cost is counted, and [`Operation::Charge`].
    CountMore,
    /// [`Operation::Block`] for the usual time: the cost is 1, or the script would record nothing.
    BlockUsual,
    /// [`Operation::Block`] until an instant: that is in the place of the cost.
    BlockUntil,
    /// [`Operation::Block`] for a time: that is in the place of the cost.
    BlockLasting,
}

impl Detail {
    /// Returns the number that is sent, or `None` for -1.
    fn number(self) -> Option<u64> {
        match self {
            Self::None | Self::BlockUsual => Some(0),
            Self::LongestDelay(time) | Self::Within(time) => Some(time),
            Self::CountedAt(instant) => Some(instant),
            Self::CountMore => None,
            Self::BlockUntil => Some(1),
            Self::BlockLasting => Some(2),
        }
    }
}

fn push_member(text: &mut Vec<u8>, question: &Question<'_>, index: usize, check: &Check<'_>) {
    let request = question.request;
    let algorithm = check.limit().algorithm();
    let (cost, detail) = match (change(request, index), request.operation()) {
        (Some(Change::GiveBack { amount, at }), _) => (amount, Detail::CountedAt(at.as_micros())),
        (Some(Change::Count(more)), _) => (more, Detail::CountMore),
        // A limit in shadow that counted nothing.
        (None, Operation::Refund(_) | Operation::Settle(_)) => (0, Detail::CountMore),
        (None, Operation::Charge) => (check.cost(), Detail::CountMore),
        (None, Operation::Reserve { max_delay }) => {
            let longest = longest_delay_us(request, max_delay);
            (check.cost(), Detail::LongestDelay(longest))
        }
        (None, Operation::Prefetch(prefetch)) => {
            (check.cost(), Detail::Within(micros_ceil(prefetch.within())))
        }
        (None, Operation::Block(BlockSpan::Usual)) => (1, Detail::BlockUsual),
        (None, Operation::Block(BlockSpan::Until(instant))) => {
            (instant.as_micros(), Detail::BlockUntil)
        }
        (None, Operation::Block(BlockSpan::Lasting(time))) => {
            (micros_ceil(time), Detail::BlockLasting)
        }
        (None, _) => (check.cost(), Detail::None),
    };
    push(text, count(code(algorithm)));
    push(text, counted(check.limit()));
    push(text, cost);
    push_or_minus_one(text, detail.number());
    let parameters = all_parameters(question, index, check);
    for index in 0..MOST_PARAMETERS {
        push(text, parameters.get(index).copied().unwrap_or(0));
    }
}

/// Returns the parameters of a check's script, and the boundaries of its periods.
fn all_parameters(question: &Question<'_>, index: usize, check: &Check<'_>) -> Words {
    let mut all = parameters(check.limit().algorithm());
    if let Some(cover) = question.cover
        && let periods @ [first, ..] = cover.periods(index)
    {
        all.push(first.start().as_micros());
        all.extend(periods.iter().map(|period| period.end().as_micros()));
    }
    all
}

/// Returns which calls a limit counts beside those that all limits allow: 1 for those that are denied,
/// too. It is 2 more if the limit is in shadow, which denies none and counts those that it would
/// allow.
fn counted(limit: &Limit) -> u64 {
    u64::from(limit.algorithm().counts_denied()) + 2 * u64::from(limit.is_shadow())
}

/// Returns a number of things in memory as one to send.
pub(crate) fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

/// Appends an integer, at most 2^53.
pub(crate) fn push(text: &mut Vec<u8>, number: u64) {
    text.extend_from_slice(&double(number));
}

/// Appends a caller's instant, or -1 for the server's clock.
pub(crate) fn push_instant(text: &mut Vec<u8>, instant: Option<Timestamp>) {
    push_or_minus_one(text, instant.map(Timestamp::as_micros));
}

/// Appends an integer, at most 2^53, or -1 for none.
pub(crate) fn push_or_minus_one(text: &mut Vec<u8>, number: Option<u64>) {
    match number {
        Some(number) => push(text, number),
        None => text.extend_from_slice(&(-1_f64).to_le_bytes()),
    }
}
