//! Calls to limits, and the answers to them.

mod reply;

use async_trait::async_trait;
use tollgate_core::store::{Check, Checks, Fingerprint, Operation, Request, Verdicts};
use tollgate_core::{Store, StoreError, SyncStore};

use super::MockStore;
use super::operation::Verb;
use super::received::{Detail, Part, Received, unsupported};

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
        received(&request).map(|_| ()).ok_or_else(unsupported)
    }
}

impl SyncStore for MockStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let (_, request) = &request.split_id()?;
        request.validate(Fingerprint::of)?;
        let fingerprint = Fingerprint::of(request);
        let received = received(request).ok_or_else(unsupported)?;
        let verdicts = reply::verdicts(request, &received, self.ask(&received)?);
        Ok(Verdicts::new(fingerprint, verdicts))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        if checks.is_empty() {
            return Ok(());
        }
        let received = Received {
            verb: Verb::Reset,
            at: None,
            parts: parts(Verb::Reset, checks, |_| None),
        };
        self.ask(&received).map(drop)
    }
}

/// Converts `request`, or returns `None` if the mock does not know its operation.
///
/// The cost of a refund is what the receipt gives back to the limit, that of a settlement what it is
/// settled at, and that of `lower` what may remain.
fn received<'r>(request: &'r Request<'_>) -> Option<Received<'r>> {
    let (verb, receipt) = match request.operation() {
        Operation::Block(_) => (Verb::Block, None),
        // It grants nothing ahead.
        Operation::Consume | Operation::Prefetch(_) => (Verb::Check, None),
        Operation::Lower => (Verb::Lower, None),
        Operation::Peek => (Verb::Peek, None),
        Operation::Refund(receipt) => (Verb::Refund, Some(receipt)),
        Operation::Reserve { .. } => (Verb::Reserve, None),
        Operation::Settle(_) => (Verb::Settle, None),
        Operation::TakeUpTo => (Verb::TakeUpTo, None),
        _ => return None,
    };
    let checks = request.checks();
    let cost = |index: usize| match receipt {
        Some(receipt) => receipt.consumed().get(index).map(|used| used.cost()),
        None => verb.has("cost").then(|| checks[index].cost()),
    };
    Some(Received {
        verb,
        at: request.caller_time(),
        parts: parts(verb, checks, cost),
    })
}

fn parts<'r>(
    verb: Verb,
    checks: &'r [Check<'_>],
    cost: impl Fn(usize) -> Option<u64>,
) -> Vec<Part<'r>> {
    let part = |(index, check): (usize, &'r Check<'_>)| {
        let (limit, cost) = (check.limit(), cost(index));
        let more = cost.map_or_else(String::new, |cost| format!(" at cost {cost}"));
        let details = vec![Detail {
            cost,
            ..Detail::default()
        }];
        Part::new(verb, (limit.name(), limit), check.key(), details, &more)
    };
    checks.iter().enumerate().map(part).collect()
}
