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
    let terms = request.terms();
    let (id, weight, token) = match request.operation() {
        Operation::Acquire { id, weight } => (id, weight, None),
        Operation::Release { id, token } | Operation::Renew { id, token } => (id, 1, Some(token)),
        _ => (&[][..], 1, None),
    };
    let held = |lease: &Lease| {
        if lease.id() != id {
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
    let granted = |lease: &Lease, is_new: bool| {
        if weight > terms.amount() && is_new {
            refuse("a weight above the amount is always denied: answer with `.denied`");
        }
        if lease.weight() != weight && is_new {
            refuse("the lease has another weight: use that of the call");
        }
        let lease = held(lease);
        lease::Answer::Acquired(Acquisition::Granted { lease, is_new })
    };
    match answer {
        Answer::Granted(lease) => granted(lease, true),
        Answer::GrantedAt(now, token) => {
            let end = now.saturating_add(terms.ttl());
            granted(&Lease::new(id, *token, weight, *now, end), true)
        }
        Answer::AlreadyHeld(lease) => granted(lease, false),
        Answer::Denied(held, ends_within) => {
            let amount = terms.amount();
            if weight <= amount.saturating_sub(*held) {
                refuse(&format!(
                    "of {amount}, there is room for it: let more be held"
                ));
            }
            if ends_within.is_never() != (weight > amount) {
                refuse("only a weight above the amount never finds room, and it never does");
            }
            lease::Answer::Acquired(Acquisition::Denied(NoLease::new(
                *held,
                amount,
                *ends_within,
            )))
        }
        Answer::Renewed(lease) => {
            if token != Some(lease.token()) {
                refuse("the lease has another token: use that of the call");
            }
            lease::Answer::Renewed(Some(held(lease)))
        }
        Answer::Lost => lease::Answer::Renewed(None),
        Answer::Released(was_held) => lease::Answer::Released(*was_held),
        Answer::Occupied(held) => lease::Answer::Occupied(Occupancy::new(*held, terms.amount())),
        _ => refuse("it answers another operation"),
    }
}
