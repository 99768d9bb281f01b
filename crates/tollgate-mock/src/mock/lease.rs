//! Calls to concurrency limiters, and the answers to them.

use async_trait::async_trait;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{self, Acquisition, Lease, NoLease, Occupancy, Operation, Terms};
use tollgate_core::{Key, StoreError};

use super::MockStore;
use super::answer::{Answer, Reply};
use super::operation::Verb;
use super::received::{Detail, Received, literal, unsupported};

#[async_trait]
impl lease::Store for MockStore {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(&'a self, terms: &'a Terms, key: Key<'a>) -> Result<(), StoreError> {
        self.reset_leases_now(terms, key)
    }
}

impl lease::SyncStore for MockStore {
    fn lease_now(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        request.validate()?;
        let received = received(request).ok_or_else(unsupported)?;
        let answer = self.ask_one(&received)?;
        Ok(reply(request, &received, &answer))
    }

    fn reset_leases_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError> {
        let received = Received::reset(Verb::ResetLeases, terms.name(), key);
        self.ask(&received).map(drop)
    }
}

/// Converts `request`, or returns `None` if the mock does not know its operation.
fn received<'r>(request: &lease::Request<'r>) -> Option<Received<'r>> {
    let (verb, id, more) = match request.operation() {
        Operation::Acquire { id, weight: 1 } => (Verb::Acquire, Some(id), String::new()),
        Operation::Acquire { id, weight } => {
            (Verb::Acquire, Some(id), format!(" of weight {weight}"))
        }
        Operation::Peek => (Verb::PeekLeases, None, String::new()),
        Operation::Release { id, token } => {
            (Verb::Release, Some(id), format!(" with token {token}"))
        }
        Operation::Renew { id, token } => (Verb::Renew, Some(id), format!(" with token {token}")),
        _ => return None,
    };
    let lease = id.map_or_else(String::new, |id| format!(", lease {}", literal(id)));
    let details = vec![Detail {
        id,
        ..Detail::default()
    }];
    let (call, key) = ((verb, request.caller_time()), request.key());
    let (name, more) = (request.terms().name(), lease + &more);
    Some(Received::of_one(call, name, key, details, &more))
}

/// Returns the answer to `request` that `answer` says.
///
/// # Panics
///
/// If no store could give this answer to this request.
fn reply(request: &lease::Request<'_>, received: &Received<'_>, answer: &Answer) -> lease::Answer {
    let refuse = |why: &str| -> ! { received.refuse(0, answer, why) };
    let (terms, amount) = (request.terms(), request.terms().amount());
    let held = |lease: &Lease| {
        if Some(lease.id()) != received.parts[0].details[0].id {
            refuse("the lease has another id: expect only that one with `.id(..)`");
        }
        if lease.expires_at() <= lease.decided_at() {
            refuse("the lease has ended: let it end after the instant of the answer");
        }
        if received.at.is_some_and(|at| at != lease.decided_at()) {
            refuse("the call is decided at the caller's instant: use that for the lease");
        }
        lease.clone()
    };
    let acquired = |lease: &Lease, is_new: bool| {
        let lease = held(lease);
        lease::Answer::Acquired(Acquisition::Granted { lease, is_new })
    };
    let granted = |lease: &Lease, weight: u64| {
        if weight > amount {
            refuse("a weight above the amount is always denied: answer with `.denied`");
        }
        if lease.weight() != weight {
            refuse("the lease has another weight: use that of the call");
        }
        acquired(lease, true)
    };
    match (request.operation(), &answer.reply) {
        (Operation::Acquire { weight, .. }, Reply::Granted(lease)) => granted(lease, weight),
        (Operation::Acquire { id, weight }, Reply::GrantedAt(now, token)) => {
            let end = now.saturating_add(terms.ttl());
            granted(&Lease::new(id, *token, weight, *now, end), weight)
        }
        (_, Reply::AlreadyHeld(lease)) => acquired(lease, false),
        (Operation::Acquire { weight, .. }, Reply::Denied(held, ends_within)) => {
            if weight <= amount.saturating_sub(*held) {
                refuse(&format!(
                    "of {amount}, there is room for it: let more be held"
                ));
            }
            if ends_within.is_never() != (weight > amount) {
                refuse("only a weight above the amount never finds room, and it never does");
            }
            let denied = NoLease::new(*held, amount, *ends_within);
            lease::Answer::Acquired(Acquisition::Denied(denied))
        }
        (Operation::Renew { token, .. }, Reply::Renewed(lease)) => {
            if token != lease.token() {
                refuse("the lease has another token: use that of the call");
            }
            lease::Answer::Renewed(Some(held(lease)))
        }
        (_, Reply::Leased(answer)) => answer.clone(),
        (_, Reply::Occupied(held)) => lease::Answer::Occupied(Occupancy::new(*held, amount)),
        _ => refuse("it answers another operation"),
    }
}
