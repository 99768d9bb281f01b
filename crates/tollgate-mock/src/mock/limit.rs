//! Calls to limits, and the answers to them.

use std::str;

use async_trait::async_trait;
use tollgate_core::store::{Check, Checks, Fingerprint, Operation, Request, Verdicts};
use tollgate_core::{ErrorKind, Key, Store, StoreError, SyncStore, Timestamp};

use super::MockStore;
use super::answer::Answer;
use super::operation::Verb;
use super::verdicts::verdicts;

#[async_trait]
impl Store for MockStore {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.decide_now(&request)
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.reset_now(&checks)
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        // Ids are accepted, and make no difference.
        let (_, request) = request.split_id()?;
        request.validate_operation()?;
        received(&request).map(|_| ())
    }
}

impl SyncStore for MockStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let (_, request) = &request.split_id()?;
        request.validate(Fingerprint::of)?;
        let fingerprint = Fingerprint::of(request);
        let received = received(request)?;
        let verdicts = verdicts(request, &received, self.ask(&received)?);
        Ok(Verdicts::new(fingerprint, verdicts))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        if checks.is_empty() {
            return Ok(());
        }
        let parts = checks.iter().map(|check| Part::new(Verb::Reset, *check));
        let received = Received {
            verb: Verb::Reset,
            at: None,
            parts: parts.collect(),
        };
        self.ask(&received).map(drop)
    }
}

/// A call of the code under test: one operation on one or more limits.
pub(super) struct Received<'r> {
    pub(super) verb: Verb,
    pub(super) at: Option<Timestamp>,
    pub(super) parts: Vec<Part<'r>>,
}

/// One limit of a call.
pub(super) struct Part<'r> {
    /// With the cost that an expectation names.
    pub(super) check: Check<'r>,
    /// The line of a message that describes it.
    pub(super) line: String,
}

/// Converts `request`.
///
/// The cost of a refund is what the receipt gives back to the limit, that of a settlement what it is
/// settled at, and that of `lower` what may remain.
///
/// # Errors
///
/// If the operation is newer than the mock.
fn received<'r>(request: &Request<'r>) -> Result<Received<'r>, StoreError> {
    let (verb, receipt) = match request.operation() {
        Operation::Block(_) => (Verb::Block, None),
        // It grants nothing ahead.
        Operation::Consume | Operation::Prefetch(_) => (Verb::Check, None),
        Operation::Charge => (Verb::Charge, None),
        Operation::Give => (Verb::Give, None),
        Operation::Lower => (Verb::Lower, None),
        Operation::Peek => (Verb::Peek, None),
        Operation::Refund(receipt) => (Verb::Refund, Some(receipt)),
        Operation::Reserve { .. } => (Verb::Reserve, None),
        Operation::Settle(_) => (Verb::Settle, None),
        Operation::TakeUpTo => (Verb::TakeUpTo, None),
        _ => {
            let message = "the mock does not know this operation: wrap another store";
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        }
    };
    let parts = request.checks().iter().enumerate().map(|(index, check)| {
        let refunded = receipt.and_then(|receipt| receipt.consumed().get(index));
        let cost = refunded.map_or_else(|| check.cost(), |used| used.cost());
        Part::new(verb, Check::new(check.limit(), check.key(), cost))
    });
    Ok(Received {
        verb,
        at: request.caller_time(),
        parts: parts.collect(),
    })
}

impl Received<'_> {
    /// Fails the test because no store gives `answer` to the part at `index`, and says `why`.
    pub(super) fn refuse(&self, index: usize, answer: &Answer, why: &str) -> ! {
        let (verb, line, text) = (self.verb, &self.parts[index].line, &answer.text);
        panic!("no store answers `{text}` to this {verb}:\n  {line}\n{why}")
    }
}

impl<'r> Part<'r> {
    fn new(verb: Verb, check: Check<'r>) -> Self {
        let (limit, key) = (check.limit(), check.key());
        let mut line = format!("limit `{limit}` for key {}", literal(&key.partition()));
        if !key.rest().is_empty() {
            line += &format!(" with rest {}", literal(key.rest()));
        }
        if verb.has_cost() {
            line += &format!(" at cost {}", check.cost());
        }
        Self { check, line }
    }
}

/// Returns both parts of the key, concatenated, as an expectation names it.
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
