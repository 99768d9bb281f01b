//! `Series`: the verdicts on equal calls that a script decided together.

use tollgate_core::store::{Check, Fingerprint, Operation, Request, Verdicts};
use tollgate_core::{StoreError, Timestamp};

use super::Question;
use super::reply::{Reply, States, not_understood};

/// One of several equal calls that a script decided as if each came after the one before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// How many came before it.
    pub(crate) before: u32,
    /// How many there are.
    pub(crate) calls: u32,
    /// How many of them are admitted: the first ones.
    pub(crate) admitted: u32,
}

/// The states of several equal calls, which are read once.
pub(crate) struct Series {
    fingerprint: Fingerprint,
    allowed: bool,
    now: Timestamp,
    /// The states before the first call.
    first: States,
    /// The states after the first `counted` calls.
    states: States,
    counted: u32,
    /// The verdicts on every call that changes nothing.
    unchanged: Option<Verdicts>,
}

impl Series {
    /// Reads the states in a script's `reply` to equal calls.
    ///
    /// # Errors
    ///
    /// The same as [`decision`](super::decision).
    pub(crate) fn read(
        question: &Question<'_>,
        reply: &[u8],
        turn: Turn,
    ) -> Result<Self, StoreError> {
        let calls = match question.request.operation() {
            Operation::Consume => turn.calls.min(turn.admitted.saturating_add(1)),
            _ => 1,
        };
        let reply = Reply::read(question, reply, u64::from(calls))?;
        Ok(Self {
            fingerprint: Fingerprint::of(question.request),
            allowed: reply.allowed,
            now: reply.now,
            states: reply.states.clone(),
            first: reply.states,
            counted: 0,
            unchanged: None,
        })
    }

    /// Decides about one of the calls.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`](tollgate_core::ErrorKind::Protocol) if the state machines decide otherwise than the script did.
    pub(crate) fn decide(
        &mut self,
        request: &Request<'_>,
        turn: Turn,
    ) -> Result<Verdicts, StoreError> {
        let consumes = matches!(request.operation(), Operation::Consume);
        let (counted, expected) = match consumes {
            true => (turn.before.min(turn.admitted), turn.before < turn.admitted),
            false => (0, self.allowed),
        };
        let changes = consumes && expected;
        if !changes && let Some(verdicts) = &self.unchanged {
            return Ok(verdicts.again());
        }
        if counted < self.counted {
            // Callers usually come in order.
            self.states.clone_from(&self.first);
            self.counted = 0;
        }
        if counted > self.counted {
            // All that came in between are as one call.
            let calls = u64::from(counted - self.counted);
            let cost = |check: &Check<'_>| check.cost().saturating_mul(calls);
            let checks = request.checks().iter();
            let checks = checks.map(|check| Check::new(check.limit(), check.key(), cost(check)));
            let between = Request::new(Operation::Consume, checks);
            let between = between.decide_with(self.fingerprint, &mut self.states[..], self.now);
            if between.is_denied() {
                return Err(not_understood());
            }
            self.counted = counted;
        }
        let decision = request.decide_with(self.fingerprint, &mut self.states[..], self.now);
        self.counted += u32::from(consumes && decision.is_allowed());
        if decision.is_allowed() != expected {
            return Err(not_understood());
        }
        if !changes {
            self.unchanged = Some(decision.again());
        }
        Ok(decision)
    }
}
