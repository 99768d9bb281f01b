//! What a concurrency limiter answers when the test says so, or why none does.

use tollgate_core::lease::{self, Acquisition, Lease, NoLease, Occupancy, Operation};

use super::super::answer::Answer;
use super::super::received::Received;

/// Returns the answer to `request` that `answer` says.
///
/// # Panics
///
/// If no store could give this answer to this request.
pub(super) fn reply(
    request: &lease::Request<'_>,
    received: &Received<'_>,
    answer: &Answer,
) -> lease::Answer {
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
    match (request.operation(), answer) {
        (Operation::Acquire { weight, .. }, Answer::Granted(lease)) => granted(lease, weight),
        (Operation::Acquire { id, weight }, Answer::GrantedAt(now, token)) => {
            let end = now.saturating_add(terms.ttl());
            granted(&Lease::new(id, *token, weight, *now, end), weight)
        }
        (_, Answer::AlreadyHeld(lease)) => acquired(lease, false),
        (Operation::Acquire { weight, .. }, Answer::Denied(held, ends_within)) => {
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
        (Operation::Renew { token, .. }, Answer::Renewed(lease)) => {
            if token != lease.token() {
                refuse("the lease has another token: use that of the call");
            }
            lease::Answer::Renewed(Some(held(lease)))
        }
        (_, Answer::Lost) => lease::Answer::Renewed(None),
        (_, Answer::Released(was_held)) => lease::Answer::Released(*was_held),
        (_, Answer::Occupied(held)) => lease::Answer::Occupied(Occupancy::new(*held, amount)),
        _ => refuse("it answers another operation"),
    }
}
