//! `Machine`: the first oracle, which runs the core's state machines on one state per limit and
//! key.

use std::collections::HashMap;

use tollgate_core::store::{Check, Request, State, Verdicts};
use tollgate_core::{Limit, Timestamp};

/// The reference store: every store must answer as it does.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    states: HashMap<StateKey, (Limit, State)>,
}

/// A limit's identity and both parts of a key.
type StateKey = (String, Vec<u8>, Vec<u8>);

impl Machine {
    pub(crate) fn answer(&mut self, request: &Request<'_>, now: Timestamp) -> Verdicts {
        let checks = request.checks();
        let held = |check: &Check<'_>| self.states.get(&state_key(check)).map(|(_, s)| s.clone());
        let mut states: Vec<_> = checks.iter().map(|c| held(c).unwrap_or_default()).collect();
        let evaluation = request.evaluate(&states[..], now);
        let written: Vec<_> = (0..checks.len())
            .map(|index| evaluation.writes_to(index))
            .collect();
        let decision = request.decide_on(&mut states[..], now);
        for ((check, state), written) in checks.iter().zip(states).zip(written) {
            if written {
                let limit = check.limit().clone();
                self.states.insert(state_key(check), (limit, state));
            }
        }
        decision
    }

    pub(crate) fn reset(&mut self, checks: &[Check<'_>]) {
        for check in checks {
            self.states.remove(&state_key(check));
        }
    }

    /// Returns whether some state has expired at `now`.
    ///
    /// A store may have dropped such a state, which no call can observe unless the clock steps
    /// back.
    pub(crate) fn may_have_dropped(&self, now: Timestamp) -> bool {
        let mut states = self.states.values();
        states.any(|(limit, state)| state.is_fresh(limit, now))
    }
}

fn state_key(check: &Check<'_>) -> StateKey {
    (
        check.limit().identity().to_owned(),
        check.key().partition().to_vec(),
        check.key().rest().to_vec(),
    )
}
