//! Leases on a server: encodes a request as the argument of `lease.lua`, sends it, and decodes
//! the reply.

use std::sync::OnceLock;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate_core::inside::encoding::micros_ceil;
use tollgate_core::inside::twins::integer;
use tollgate_core::lease::{self, Acquisition, Lease, MAX_LEASES, NoLease, Occupancy};
use tollgate_core::{Key, StoreError, Timestamp, Wait};

use super::codec::{not_understood, push, push_instant, slack};
use super::engine::{Engine, ScriptCall};
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
    /// Decides `request`, like [`lease::Store::lease`].
    ///
    /// # Errors
    ///
    /// The same as [`lease::Store::lease`].
    pub async fn lease(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        request.validate()?;
        let instant = self.instant(request.caller_time())?;
        let key = self.state_key(request.terms().identity(), request.key(), instant);
        let argument = argument(request, instant, self.options().caller_slack)?;
        let call = ScriptCall {
            script: script(),
            keys: &[key],
            argument: &argument,
            // The server gets a hash of the lease's id, so it cannot repeat the id.
            ids: &[],
        };
        let reply = self.once(&call, effect(request)).await?;
        answer(request, instant, &reply)
    }

    /// Deletes the leases of `key`, like [`lease::Store::reset_leases`].
    ///
    /// # Errors
    ///
    /// The same as [`lease::Store::reset_leases`].
    pub async fn reset_leases(&self, terms: &lease::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.forget_states(terms.identity(), key).await
    }
}

/// Returns what the script does for `request`.
fn effect(request: &lease::Request<'_>) -> Effect {
    match request.operation() {
        lease::Operation::Peek => Effect::Nothing,
        _ => Effect::Holds,
    }
}

/// Returns the argument of the script for `request`; without an `instant`, the server's clock
/// decides.
fn argument(
    request: &lease::Request<'_>,
    instant: Option<Timestamp>,
    caller_slack: Duration,
) -> Result<Vec<u8>, StoreError> {
    let (code, id, weight, token) = match request.operation() {
        lease::Operation::Acquire { id, weight } => (1, id, weight, 0),
        lease::Operation::Renew { id, token } => (2, id, 1, token),
        lease::Operation::Release { id, token } => (3, id, 1, token),
        lease::Operation::Peek => (4, &[][..], 1, 0),
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
    request: &lease::Request<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Result<lease::Answer, StoreError> {
    read(request, instant, reply).ok_or_else(not_understood)
}

fn read(
    request: &lease::Request<'_>,
    instant: Option<Timestamp>,
    reply: &[u8],
) -> Option<lease::Answer> {
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
        (lease::Operation::Acquire { weight, .. }, 0) => {
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
            lease::Answer::Acquired(Acquisition::Denied(denied))
        }
        (lease::Operation::Acquire { id, weight }, 1) => {
            let fits = |lease: &Lease| lease.weight() <= amount && first >= now.as_micros();
            let lease = lease(id, Some(weight), false).filter(fits)?;
            lease::Answer::Acquired(Acquisition::Granted {
                lease,
                is_new: true,
            })
        }
        (lease::Operation::Acquire { id, .. }, 2) => {
            lease::Answer::Acquired(Acquisition::Granted {
                lease: lease(id, None, true)?,
                is_new: false,
            })
        }
        (lease::Operation::Renew { .. }, 0) if is_bare => lease::Answer::Renewed(None),
        (lease::Operation::Renew { id, token }, 1) if first == token => {
            lease::Answer::Renewed(Some(lease(id, None, false)?))
        }
        (lease::Operation::Release { .. }, 0 | 1) if is_bare => {
            lease::Answer::Released(status == 1)
        }
        (lease::Operation::Peek, 1) if first <= MAX_LEASES && none_second && none_third => {
            lease::Answer::Occupied(Occupancy::new(first, amount))
        }
        _ => return None,
    })
}
