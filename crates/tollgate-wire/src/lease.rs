//! Leases on a server: encodes a request as the argument of `lease.lua`, sends it, and decodes
//! the reply.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tollgate_core::inside::encoding::micros_ceil;
use tollgate_core::inside::twins::integer;
use tollgate_core::{
    Acquisition, Key, Lease, LeaseAnswer, LeaseOperation, LeaseRequest, LeaseStore, LeaseTerms,
    MAX_LEASES, NoLease, Occupancy, StoreError, Timestamp, Wait,
};

use super::codec::{not_understood, push, push_instant, slack};
use super::engine::{Call, Engine};
use super::fault::{Effect, unknown_operation};
use super::script::Script;
use super::store::WireStore;

/// How many bytes of the SHA-256 of an id stand for it: so few that records are short and of one
/// length, and so many that nobody finds two ids with the same.
const ID: usize = 16;

/// The script of all leases.
const SCRIPT: &str = include_str!("lease.lua");

/// Returns the script of all leases.
fn script() -> &'static Script {
    static PREPARED: OnceLock<Script> = OnceLock::new();
    PREPARED.get_or_init(|| Script::of_text(SCRIPT))
}

impl<E: Engine> WireStore<E> {
    /// Decides `request`, like [`LeaseStore::lease`].
    ///
    /// # Errors
    ///
    /// The same as [`LeaseStore::lease`].
    pub async fn lease(&self, request: &LeaseRequest<'_>) -> Result<LeaseAnswer, StoreError> {
        request.validate()?;
        let instant = self.instant(request.caller_time())?;
        let key = self.state_key(request.terms().identity(), request.key(), instant);
        let argument = argument(request, instant, self.options().caller_slack)?;
        let call = Call {
            script: script(),
            keys: &[key],
            argument: &argument,
            // The server gets a hash of the lease's id, so it cannot repeat the id.
            ids: &[],
        };
        let reply = self.once(&call, effect(request)).await?;
        answer(request, instant, &reply)
    }

    /// Deletes the leases of `key`, like [`LeaseStore::reset_leases`].
    ///
    /// # Errors
    ///
    /// The same as [`LeaseStore::reset_leases`].
    pub async fn reset_leases(&self, terms: &LeaseTerms, key: Key<'_>) -> Result<(), StoreError> {
        self.forget_states(terms.identity(), key).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<E: Engine> LeaseStore for WireStore<E> {
    async fn lease<'a>(&self, request: LeaseRequest<'a>) -> Result<LeaseAnswer, StoreError> {
        self.lease(&request).await
    }

    async fn reset_leases<'a>(
        &self,
        terms: &'a LeaseTerms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_leases(terms, key).await
    }
}

/// Returns what the script does for `request`.
fn effect(request: &LeaseRequest<'_>) -> Effect {
    match request.operation() {
        LeaseOperation::Peek => Effect::Nothing,
        _ => Effect::Holds,
    }
}

/// Returns the argument of the script for `request`; without an `instant`, the server's clock
/// decides.
fn argument(
    request: &LeaseRequest<'_>,
    instant: Option<Timestamp>,
    caller_slack: Duration,
) -> Result<Vec<u8>, StoreError> {
    let (code, id, weight, token) = match request.operation() {
        LeaseOperation::Acquire { id, weight } => (1, id, weight, 0),
        LeaseOperation::Renew { id, token } => (2, id, 1, token),
        LeaseOperation::Release { id, token } => (3, id, 1, token),
        LeaseOperation::Peek => (4, &[][..], 1, 0),
        _ => return Err(unknown_operation()),
    };
    let terms = request.terms();
    let slack = instant.map_or(0, |_| slack(caller_slack));
    let mut text = Vec::with_capacity(56 + ID);
    push(&mut text, code);
    push_instant(&mut text, instant);
    for number in [
        slack,
        micros_ceil(terms.ttl()),
        terms.amount(),
        weight,
        token,
    ] {
        push(&mut text, number);
    }
    if !id.is_empty() {
        text.extend_from_slice(&Sha256::digest(id)[..ID]);
    }
    Ok(text)
}

/// Returns the answer in the script's `reply` to `request`.
///
/// # Errors
///
/// [`ErrorKind::Protocol`](tollgate_core::ErrorKind::Protocol) if the script gives no such reply to
/// `request`.
fn answer(
    request: &LeaseRequest<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Result<LeaseAnswer, StoreError> {
    read(request, instant, reply).ok_or_else(not_understood)
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
    let terms = request.terms();
    let (first, amount) = (integer(first)?, terms.amount());
    let [none_second, none_third] = [second, third].map(|word| word == 0_f64.to_le_bytes());
    let is_bare = first == 0 && none_second && none_third;
    // A lease of this weight, or of any, that was held already or ends a time to live from now.
    let lease = |id: &[u8], weight: Option<u64>, is_held: bool| {
        let (held, end) = (
            integer(second)?,
            Timestamp::from_micros(integer(third)?).ok()?,
        );
        let is_lasting = match is_held {
            true => end > now,
            false => end >= now.saturating_add(terms.ttl()),
        };
        let is_right = first > 0
            && (1..=MAX_LEASES).contains(&held)
            && weight.is_none_or(|weight| weight == held)
            && is_lasting;
        is_right.then(|| Lease::new(id, first, held, now, end).with_ttl(terms.ttl()))
    };
    Some(match (request.operation(), status) {
        (LeaseOperation::Acquire { weight, .. }, 0) => {
            let is_over = first <= MAX_LEASES && weight > amount.saturating_sub(first);
            let ends_within = if second == (-1_f64).to_le_bytes() {
                Wait::NEVER
            } else {
                Wait::from_micros(integer(second).filter(|micros| *micros > 0)?)
            };
            if !is_over || !none_third || ends_within.is_never() != (weight > amount) {
                return None;
            }
            let denied = NoLease::new(first, amount, ends_within);
            LeaseAnswer::Acquired(Acquisition::Denied(denied))
        }
        (LeaseOperation::Acquire { id, weight }, 1) => {
            let fits = |lease: &Lease| lease.weight() <= amount && first >= now.as_micros();
            let lease = lease(id, Some(weight), false).filter(fits)?;
            LeaseAnswer::Acquired(Acquisition::Granted {
                lease,
                is_new: true,
            })
        }
        (LeaseOperation::Acquire { id, .. }, 2) => LeaseAnswer::Acquired(Acquisition::Granted {
            lease: lease(id, None, true)?,
            is_new: false,
        }),
        (LeaseOperation::Renew { .. }, 0) if is_bare => LeaseAnswer::Renewed(None),
        (LeaseOperation::Renew { id, token }, 1) if first == token => {
            LeaseAnswer::Renewed(Some(lease(id, None, false)?))
        }
        (LeaseOperation::Release { .. }, 0 | 1) if is_bare => LeaseAnswer::Released(status == 1),
        (LeaseOperation::Peek, 1) if first <= MAX_LEASES && none_second && none_third => {
            LeaseAnswer::Occupied(Occupancy::new(first, amount))
        }
        _ => return None,
    })
}
