//! `State`: the leases of one key, and how requests are decided on them.

use std::collections::HashSet;

use crate::bytes::{LEASES, Reader, Writer, decode};
use crate::error::StoreError;
use crate::lease::answer::{Acquisition, Answer, Lease, NoLease, Occupancy};
use crate::lease::request::{LONGEST_ID, Operation, Request};
use crate::lease::terms::{LONGEST_US, MAX_LEASES, Terms};
use crate::time::{MAX_EXACT, Timestamp, Wait};

/// The leases of one key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// By the order of their ends.
    held: Vec<Held>,
    /// The latest instant at which a lease was acquired or renewed.
    latest: u64,
    /// The token of the latest lease.
    last_token: u64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Held {
    id: Box<[u8]>,
    token: u64,
    weight: u64,
    expires: u64,
}

impl State {
    /// Returns whether this state may be dropped: no lease is held at `now`, none was acquired or
    /// renewed after it, and new tokens would be greater than all earlier ones.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        // After a clock stepped back, later tokens may still be smaller.
        let now = now.as_micros();
        self.last_token < now
            && self.latest <= now
            && self.held.iter().all(|held| held.expires <= now)
    }

    /// Returns a state without leases whose tokens will be greater than `token`: that of the latest
    /// lease of a state that was dropped.
    #[must_use]
    pub fn after(token: u64) -> Self {
        Self {
            last_token: token,
            ..Self::default()
        }
    }

    /// Returns the token of the latest lease, or zero if none was ever acquired.
    #[must_use]
    pub fn last_token(&self) -> u64 {
        self.last_token
    }

    /// Returns whether no lease was ever acquired.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last_token == 0
    }

    /// Returns the bytes that the leases allocate.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let ids: usize = self.held.iter().map(|held| held.id.len()).sum();
        self.held.capacity() * size_of::<Held>() + ids
    }

    /// Returns this state as bytes, for a store that keeps it elsewhere. Equal states give equal bytes; one that
    /// [`is_empty`](Self::is_empty) gives none.
    ///
    /// They are 0xe1, the latest token, `±` from it to the latest call, how many leases follow, and of each `±`
    /// from the end of the one before or the latest call to its end, by how much its token is less than the
    /// latest, the weight, the length of the id, and the id: numbers as in the
    /// [states of limits](crate::store::State::to_bytes).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let (mut to, mut ends) = (Writer(vec![LEASES]), self.latest);
        to.number(self.last_token);
        to.difference(self.last_token, self.latest);
        to.number(self.held.len() as u64);
        for held in &self.held {
            to.difference(ends, held.expires);
            to.number(self.last_token - held.token);
            to.number(held.weight);
            to.id(&held.id);
            ends = held.expires;
        }
        to.0
    }

    /// Returns the state that [`to_bytes`](Self::to_bytes) wrote, under terms with the same
    /// [identity](Terms::identity).
    ///
    /// # Errors
    ///
    /// As [those of limits](crate::store::State::from_bytes).
    pub fn from_bytes(terms: &Terms, bytes: &[u8]) -> Result<Self, StoreError> {
        let what = || format!("the state of leases `{}`", terms.name());
        decode(bytes, what, Self::read, Self::to_bytes)
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        if from.0.is_empty() {
            return Some(Self::default());
        }
        let is_own = from.take(1)? == [LEASES];
        // Once the clock has come to its end, tokens still grow.
        let last_token = from.number(1..=2 * MAX_EXACT)?;
        let latest = from.difference(last_token)?;
        let (mut held, mut ends, mut sum) = (Vec::new(), latest, 0);
        let (mut ids, mut tokens) = (HashSet::new(), HashSet::new());
        for index in 0..from.number(0..=MAX_LEASES)? {
            let expires = from.difference(ends)?;
            let token = last_token - from.number(0..=last_token - 1)?;
            let (weight, id) = (from.number(1..=MAX_LEASES)?, from.id(LONGEST_ID)?);
            if (index > 0 && expires < ends) || !ids.insert(id) || !tokens.insert(token) {
                return None;
            }
            (ends, sum) = (expires, sum + weight);
            held.push(Held {
                id: id.into(),
                token,
                weight,
                expires,
            });
        }
        let is_near = ends <= latest + LONGEST_US;
        (is_own && is_near && sum <= MAX_LEASES).then_some(Self {
            held,
            latest,
            last_token,
        })
    }

    fn insert(&mut self, lease: Held) {
        let index = self
            .held
            .partition_point(|held| held.expires <= lease.expires);
        self.held.insert(index, lease);
    }
}

impl Request<'_> {
    /// Decides this request at `now` on the leases in `state`.
    ///
    /// This defines the answer that every store must give. It changes only `state` and reads no
    /// clock. It also ignores [`caller_time`](Self::caller_time): the store must pass that as
    /// `now`.
    pub fn decide_on(&self, state: &mut State, now: Timestamp) -> Answer {
        let at = now.as_micros().max(state.latest);
        let amount = self.terms().amount();
        let live = state.held.partition_point(|held| held.expires <= at);
        let live = &state.held[live..];
        let sum: u64 = live.iter().map(|held| held.weight).sum();
        let find = |id: &[u8], token: Option<u64>| {
            let is = |held: &Held| {
                *held.id == *id && held.expires > at && token.is_none_or(|of| of == held.token)
            };
            state.held.iter().position(is)
        };
        match self.operation() {
            Operation::Peek => Answer::Occupied(Occupancy { held: sum, amount }),
            Operation::Acquire { id, weight } => {
                if let Some(index) = find(id, None) {
                    return Answer::Acquired(Acquisition::Granted {
                        lease: self.lease(&state.held[index], now),
                        is_new: false,
                    });
                }
                if sum.saturating_add(weight) > amount {
                    let ends_within = ends(live, sum, weight, amount, now);
                    return Answer::Acquired(Acquisition::Denied(NoLease {
                        held: sum,
                        amount,
                        ends_within,
                    }));
                }
                state.held.retain(|held| held.expires > at);
                state.latest = at;
                // Instants are greater than all tokens of states that were dropped.
                state.last_token = at.max(state.last_token + 1);
                let new = Held {
                    id: id.into(),
                    token: state.last_token,
                    weight,
                    expires: self.end(at),
                };
                let lease = self.lease(&new, now);
                state.insert(new);
                Answer::Acquired(Acquisition::Granted {
                    lease,
                    is_new: true,
                })
            }
            Operation::Renew { id, token } => {
                let Some(index) = find(id, Some(token)) else {
                    return Answer::Renewed(None);
                };
                let mut held = state.held.remove(index);
                held.expires = held.expires.max(self.end(at));
                state.latest = at;
                let lease = self.lease(&held, now);
                state.insert(held);
                Answer::Renewed(Some(lease))
            }
            Operation::Release { id, token } => {
                let index = find(id, Some(token));
                if let Some(index) = index {
                    state.held.remove(index);
                }
                Answer::Released(index.is_some())
            }
        }
    }

    fn end(&self, at: u64) -> u64 {
        (at + self.terms().ttl_us()).min(MAX_EXACT)
    }

    fn lease(&self, held: &Held, now: Timestamp) -> Lease {
        let ends = Timestamp::saturating_from_micros(held.expires);
        let lease = Lease::new(held.id.clone(), held.token, held.weight, now, ends);
        lease.with_ttl(self.terms().ttl())
    }
}

/// Returns how long until enough of `live` have ended for `weight` to fit.
fn ends(live: &[Held], mut sum: u64, weight: u64, amount: u64, now: Timestamp) -> Wait {
    if weight > amount {
        return Wait::NEVER;
    }
    for held in live {
        sum -= held.weight;
        if sum + weight <= amount {
            return Wait::from_micros(held.expires - now.as_micros());
        }
    }
    Wait::ZERO
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lease::terms::Terms;

    /// A state that is dropped too early would give a token twice, or a place to one more.
    #[test]
    fn a_state_is_fresh_once_its_leases_have_ended_and_its_tokens_are_past() {
        let terms = Terms::new("places", 9, Duration::from_millis(1)).unwrap();
        let mut state = State::default();
        assert!(state.is_empty() && state.is_fresh(Timestamp::from_micros(1).unwrap()));
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        for (id, token) in [(b"a", 5), (b"b", 6), (b"c", 7)] {
            let acquire = Operation::Acquire { id, weight: 1 };
            Request::new(&terms, "key", acquire).decide_on(&mut state, at(5));
            assert!(!state.is_empty() && !state.is_fresh(at(1_004)));
            if token > 5 {
                let release = Operation::Release { id, token };
                let released = Request::new(&terms, "key", release);
                let answer = released.decide_on(&mut state, at(5));
                assert_eq!(answer, Answer::Released(true));
            }
        }
        assert!(state.is_fresh(at(1_005)));
        let release = Operation::Release { id: b"a", token: 5 };
        Request::new(&terms, "key", release).decide_on(&mut state, at(5));
        // The latest token is 7.
        assert!(!state.is_fresh(at(7)) && state.is_fresh(at(8)));
    }

    #[test]
    fn a_state_is_kept_while_a_clock_that_stepped_back_is_behind_its_tokens() {
        let terms = Terms::new("places", 9, Duration::from_secs(1)).unwrap();
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        let mut state = State::default();
        let mut decide = |operation, now| {
            let request = Request::new(&terms, "key", operation);
            let answer = request.decide_on(&mut state, at(now));
            (answer, state.clone())
        };
        let (id, token) = (b"a", 60);
        decide(Operation::Acquire { id, weight: 1 }, token);
        decide(Operation::Renew { id, token }, 100);
        let (released, state) = decide(Operation::Release { id, token }, 51);
        assert_eq!(released, Answer::Released(true));
        assert!(!state.is_fresh(at(51)) && !state.is_fresh(at(60)));
        assert!(!state.is_fresh(at(99)) && state.is_fresh(at(100)));
    }
}
