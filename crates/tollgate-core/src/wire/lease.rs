//! Leases on a server: encodes a request as the argument of `lease/script.lua`, and decodes its
//! reply.

use std::sync::OnceLock;
use std::time::Duration;

use super::codec;
use super::script::Script;
use crate::algorithm::{double, integer};
use crate::error::StoreError;
use crate::lease::{
    Acquisition, Lease, LeaseAnswer, LeaseOperation, LeaseRequest, NoLease, Occupancy,
};
use crate::time::{Timestamp, Wait};

/// Returns the script of all leases.
pub(super) fn script() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| Script::of_text(include_str!("../lease/script.lua")))
}

/// Returns whether the script may write anything for `request`.
pub(super) fn writes(request: &LeaseRequest<'_>) -> bool {
    !matches!(request.operation(), LeaseOperation::Peek)
}

/// Returns the argument of the script for `request`; without an `instant`, the server's clock
/// decides.
pub(super) fn argument(
    request: &LeaseRequest<'_>,
    instant: Option<Timestamp>,
    caller_slack: Duration,
) -> Vec<u8> {
    let (code, id, weight, token) = match request.operation() {
        LeaseOperation::Acquire { id, weight } => (1, id, weight, 0),
        LeaseOperation::Renew { id, token } => (2, id, 1, token),
        LeaseOperation::Release { id, token } => (3, id, 1, token),
        LeaseOperation::Peek => (4, &[][..], 1, 0),
    };
    let terms = request.terms();
    let slack = instant.map_or(0, |_| codec::slack(caller_slack));
    let mut text = Vec::with_capacity(56 + id.len());
    text.extend_from_slice(&double(code));
    match instant {
        Some(instant) => text.extend_from_slice(&double(instant.as_micros())),
        None => text.extend_from_slice(&(-1_f64).to_le_bytes()),
    }
    for number in [slack, terms.ttl_us(), terms.amount(), weight, token] {
        text.extend_from_slice(&double(number));
    }
    text.extend_from_slice(id);
    text
}

/// Returns the answer in the script's `reply` to `request`.
///
/// # Errors
///
/// [`ErrorKind::Protocol`](crate::ErrorKind::Protocol) if the script gives no such reply to
/// `request`.
pub(super) fn answer(
    request: &LeaseRequest<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Result<LeaseAnswer, StoreError> {
    read(request, instant, reply).ok_or_else(codec::not_understood)
}

fn read(
    request: &LeaseRequest<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Option<LeaseAnswer> {
    let (&[status], rest) = reply.split_first_chunk()?;
    let (words, []) = rest.as_chunks() else {
        return None;
    };
    let &[now, first, second, third] = words else {
        return None;
    };
    let now = Timestamp::from_micros(integer(now)?).ok()?;
    if instant.is_some_and(|instant| instant != now) {
        return None;
    }
    let first = integer(first)?;
    let amount = request.terms().amount();
    let lease = |id: &[u8]| {
        let expires = Timestamp::from_micros(integer(third)?).ok()?;
        Some(Lease::new(id, first, integer(second)?, now, expires))
    };
    Some(match (request.operation(), status) {
        (LeaseOperation::Acquire { .. }, 0) => {
            let ends_within = if second == (-1_f64).to_le_bytes() {
                Wait::NEVER
            } else {
                Wait::from_micros(integer(second)?)
            };
            let denied = NoLease::new(first, amount, ends_within);
            LeaseAnswer::Acquired(Acquisition::Denied(denied))
        }
        (LeaseOperation::Acquire { id, .. }, 1 | 2) => {
            LeaseAnswer::Acquired(Acquisition::Granted {
                lease: lease(id)?,
                is_new: status == 1,
            })
        }
        (LeaseOperation::Renew { .. }, 0) => LeaseAnswer::Renewed(None),
        (LeaseOperation::Renew { id, token }, 1) => {
            LeaseAnswer::Renewed(Some(lease(id).filter(|lease| lease.token() == token)?))
        }
        (LeaseOperation::Release { .. }, 0 | 1) => LeaseAnswer::Released(status == 1),
        (LeaseOperation::Peek, 1) => LeaseAnswer::Occupied(Occupancy::new(first, amount)),
        _ => return None,
    })
}
