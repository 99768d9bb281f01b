//! `Known`: what a store said about one limit and key, and for how long it holds.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use quick_cache::Equivalent;
use tollgate_core::store::{Check, Verdict};
use tollgate_core::{Algorithm, Key, Limit, Timestamp, Wait};

use crate::key::OwnedKey;

/// What a store said about one limit for one key.
#[derive(Clone)]
pub(super) struct Known {
    /// Of a limit with the same identity, this makes it another one. Copied for less than the limit is.
    algorithm: Algorithm,
    /// What it was asked for.
    cost: u64,
    verdict: Verdict,
    /// Before it was asked.
    asked_at: Timestamp,
    /// From when on it may allow that.
    until: Timestamp,
}

impl Known {
    pub(super) fn new(
        check: &Check<'_>,
        verdict: Verdict,
        asked_at: Timestamp,
        max_age: Duration,
    ) -> Self {
        let wait = verdict.retry_after().duration();
        let wait = wait.unwrap_or(Duration::MAX).min(max_age);
        Self {
            algorithm: *check.limit().algorithm(),
            cost: check.cost(),
            verdict,
            asked_at,
            until: asked_at.saturating_add(wait),
        }
    }

    /// Returns whether it is about this very limit: one with another amount has the same states. In shadow, a limit
    /// denies the same.
    pub(super) fn is_about(&self, limit: &Limit) -> bool {
        self.algorithm == *limit.algorithm()
    }

    /// Returns whether it was asked for just this `cost`.
    pub(super) fn is_of(&self, cost: u64) -> bool {
        self.cost == cost
    }

    pub(super) fn age(&self, now: Timestamp) -> Duration {
        now.saturating_duration_since(self.asked_at)
    }

    /// Returns whether the store would deny `cost` now. If the clock steps back, that is not known.
    pub(super) fn denies(&self, cost: u64, now: Timestamp) -> bool {
        cost >= self.cost && (self.asked_at..self.until).contains(&now)
    }

    /// Returns the store's denial of `cost` as it would be now, or `None` if the store may say a longer wait
    /// than that of the cost that it denied.
    pub(super) fn denial(&self, cost: u64, now: Timestamp) -> Option<Verdict> {
        let before = &self.verdict;
        let age = self.age(now);
        let retry_after = if cost > before.capacity() {
            Wait::NEVER
        } else if self.is_of(cost) || before.retry_after() == before.reset_after() {
            less(before.retry_after(), age)
        } else {
            return None;
        };
        let verdict = Verdict::deny(before.capacity(), before.remaining(), retry_after);
        let reset_after = less(before.reset_after(), age).max(verdict.retry_after());
        let decided_at = before.decided_at().saturating_add(age);
        Some(
            verdict
                .with_reset_after(reset_after)
                .with_consumed(0, decided_at),
        )
    }
}

/// Returns what is left of `wait` after `passed`.
fn less(wait: Wait, passed: Duration) -> Wait {
    let passed = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
    match wait.as_micros() {
        Some(micros) => Wait::from_micros(micros.saturating_sub(passed)),
        None => Wait::NEVER,
    }
}

/// What stores count in one state: a limit's identity, and the key it is counted for.
pub(super) struct OwnedState {
    identity: Box<str>,
    key: OwnedKey,
}

/// The same, of a request.
pub(super) struct State<'r> {
    identity: &'r str,
    key: Key<'r>,
}

impl<'r> State<'r> {
    pub(super) fn of(check: &Check<'r>) -> Self {
        Self {
            identity: check.limit().identity(),
            key: check.key(),
        }
    }

    pub(super) fn to_owned(&self) -> OwnedState {
        OwnedState {
            identity: self.identity.into(),
            key: OwnedKey::of(self.key),
        }
    }
}

impl OwnedState {
    fn borrow(&self) -> State<'_> {
        State {
            identity: &self.identity,
            key: self.key.borrow(),
        }
    }
}

impl Hash for State<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(self.identity.as_bytes());
        hasher.write(&self.key.partition());
        hasher.write(self.key.rest());
    }
}

impl Hash for OwnedState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.borrow().hash(hasher);
    }
}

impl PartialEq for OwnedState {
    fn eq(&self, other: &Self) -> bool {
        other.borrow().equivalent(self)
    }
}

impl Eq for OwnedState {}

impl Equivalent<OwnedState> for State<'_> {
    fn equivalent(&self, of: &OwnedState) -> bool {
        *self.identity == *of.identity && self.key == of.key.borrow()
    }
}
