//! `ReceivedCall`: a call that the code under test makes, and how messages describe it.

use std::fmt;
use std::str;
use std::time::Duration;

use tollgate_core::store::{BlockSpan, Check, Operation, Request};
use tollgate_core::{Key, Receipt, Timestamp};

/// A call of a store: one operation on one or more limits.
#[derive(Clone, Copy)]
pub(super) struct ReceivedCall<'r> {
    pub(super) verb: Verb,
    pub(super) checks: &'r [Check<'r>],
    pub(super) at: Option<Timestamp>,
    receipt: Option<&'r Receipt>,
    /// The longest delay that a reservation accepts.
    pub(super) within: Option<Duration>,
    /// How long the key is to be blocked.
    pub(super) span: BlockSpan,
}

/// The operation of a call, named like the methods of `RateLimiter`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verb {
    Block,
    Check,
    Lower,
    Peek,
    Refund,
    Reserve,
    Reset,
    Settle,
    TakeUpTo,
}

impl<'r> ReceivedCall<'r> {
    /// Converts `request`, or returns `None` if the mock does not know its operation.
    pub(super) fn of(request: &'r Request<'r>) -> Option<Self> {
        let (verb, receipt) = match request.operation() {
            Operation::Block(_) => (Verb::Block, None),
            Operation::Consume => (Verb::Check, None),
            Operation::Lower => (Verb::Lower, None),
            Operation::Peek => (Verb::Peek, None),
            Operation::Refund(receipt) => (Verb::Refund, Some(receipt)),
            Operation::Reserve { .. } => (Verb::Reserve, None),
            Operation::Settle(_) => (Verb::Settle, None),
            Operation::TakeUpTo => (Verb::TakeUpTo, None),
            _ => return None,
        };
        Some(Self {
            verb,
            checks: request.checks(),
            at: request.caller_time(),
            receipt,
            within: match request.operation() {
                Operation::Reserve { max_delay } => Some(max_delay),
                _ => None,
            },
            span: match request.operation() {
                Operation::Block(span) => span,
                _ => BlockSpan::Usual,
            },
        })
    }

    pub(super) fn reset(checks: &'r [Check<'r>]) -> Self {
        Self {
            verb: Verb::Reset,
            checks,
            at: None,
            receipt: None,
            within: None,
            span: BlockSpan::Usual,
        }
    }

    /// Returns the instant of the decision: the caller's, or else the first of all.
    pub(super) fn now(&self) -> Timestamp {
        self.at.unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns the cost for the limit at `index`; for a refund, what the receipt gives back to that
    /// limit; for a settlement, the cost it is settled at; for `lower`, what may remain.
    ///
    /// A block and a reset have no cost.
    pub(super) fn cost(&self, index: usize) -> Option<u64> {
        match (self.verb, self.receipt) {
            (Verb::Block | Verb::Reset, _) => None,
            (_, Some(receipt)) => receipt
                .consumed()
                .get(index)
                .map(|consumed| consumed.cost()),
            (_, None) => Some(self.checks[index].cost()),
        }
    }

    /// Returns the line of a message that describes the limit at `index`.
    pub(super) fn line(&self, index: usize) -> String {
        let check = &self.checks[index];
        let cost = self.cost(index).map(|cost| format!(" at cost {cost}"));
        format!(
            "limit `{}` for {}{}",
            check.limit(),
            described(check.key()),
            cost.unwrap_or_default()
        )
    }
}

impl Verb {
    /// Returns the names of the answers that an expectation of this operation accepts.
    pub(super) fn answers(self) -> &'static str {
        match self {
            Self::Block => "`succeed`, `deny_for`, `deny_forever` or `fail`",
            Self::Check | Self::Peek => {
                "`allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"
            }
            Self::Lower | Self::Refund | Self::Settle => {
                "`allow`, `allow_with_remaining` or `fail`"
            }
            Self::Reserve => {
                "`allow`, `allow_with_remaining`, `delay_by`, `deny_for`, `deny_forever` or `fail`"
            }
            Self::Reset => "`succeed` or `fail`",
            Self::TakeUpTo => {
                "`grant`, `allow`, `allow_with_remaining`, `deny_for`, `deny_forever` or `fail`"
            }
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Check => "check",
            Self::Lower => "lower",
            Self::Peek => "peek",
            Self::Refund => "refund",
            Self::Reserve => "reservation",
            Self::Reset => "reset",
            Self::Settle => "settle",
            Self::TakeUpTo => "take_up_to",
        })
    }
}

/// Returns both parts of `key`, concatenated, as an expectation names it.
pub(super) fn joined(key: Key<'_>) -> Vec<u8> {
    [&*key.partition(), key.rest()].concat()
}

/// Returns `bytes` as a Rust literal: a string if they are UTF-8.
pub(super) fn literal(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("b\"{}\"", bytes.escape_ascii()),
    }
}

pub(super) fn described(key: Key<'_>) -> String {
    let partition = literal(&key.partition());
    if key.rest().is_empty() {
        return format!("key {partition}");
    }
    format!("key {partition} with rest {}", literal(key.rest()))
}
