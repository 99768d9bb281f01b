//! The two phases of a decision: what each limit says, then what is recorded.

use smallvec::SmallVec;

use crate::algorithm::{State, States};
use crate::decision::{Decision, INLINE, Verdict};
use crate::request::{Check, Operation, Request};
use crate::time::{Timestamp, Wait};

/// What the limits of a request said, before anything is recorded.
///
/// A store that inserts states evaluates first, makes room for the states that
/// [`writes_to`](Self::writes_to) names, and then applies.
#[derive(Clone, Debug)]
pub struct Evaluation {
    allowed: bool,
    /// What each check is to be charged if the request is allowed.
    grant: Grant,
    waits: SmallVec<[Wait; INLINE]>,
}

#[derive(Clone, Copy, Debug)]
enum Grant {
    /// Its own cost.
    Costs,
    /// The same of each.
    Each(u64),
    /// Nothing.
    Nothing,
}

impl<'a> Request<'a> {
    /// Evaluates this request on `states`, one for each check, at `now`, changing nothing.
    #[inline]
    pub fn evaluate(&self, states: &(impl States + ?Sized), now: Timestamp) -> Evaluation {
        match self.operation() {
            Operation::Consume => self.evaluate_costs(states, now, Grant::Costs),
            Operation::Peek => self.evaluate_costs(states, now, Grant::Nothing),
            Operation::Refund(_) => Evaluation {
                allowed: true,
                grant: Grant::Nothing,
                waits: self.checks().iter().map(|_| Wait::ZERO).collect(),
            },
            Operation::TakeUpTo => self.evaluate_take(states, now),
        }
    }

    #[inline]
    fn evaluate_costs(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        grant: Grant,
    ) -> Evaluation {
        let mut waits = SmallVec::new();
        let mut allowed = true;
        for (index, check) in self.checks().iter().enumerate() {
            let wait = wait(check, states.state(index), now, check.cost());
            allowed &= wait.is_zero();
            waits.push(wait);
        }
        Evaluation {
            allowed,
            grant,
            waits,
        }
    }

    fn evaluate_take(&self, states: &(impl States + ?Sized), now: Timestamp) -> Evaluation {
        let most = self.checks().iter().map(Check::cost).min().unwrap_or(0);
        let grant = self
            .checks()
            .iter()
            .enumerate()
            .map(|(index, check)| {
                let algorithm = check.limit().algorithm();
                algorithm.status(states.state(index), now).remaining
            })
            .min()
            .unwrap_or(0)
            .min(most);
        // Where there is nothing to take, the refused call is that of one unit.
        let unit = u64::from(grant == 0 && most > 0);
        Evaluation {
            allowed: unit == 0,
            grant: Grant::Each(grant),
            waits: self
                .checks()
                .iter()
                .enumerate()
                .map(|(index, check)| wait(check, states.state(index), now, unit))
                .collect(),
        }
    }
}

impl Evaluation {
    /// Returns whether the request will be allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns whether applying this records anything in the state of the check at `index`.
    ///
    /// What is given back to a state that remembers nothing changes nothing, so a refund needs
    /// no state to be made for it.
    #[inline]
    #[must_use]
    pub fn writes_to(&self, request: &Request<'_>, index: usize) -> bool {
        let check = &request.checks()[index];
        match request.operation() {
            Operation::Peek => false,
            Operation::Refund(receipt) => receipt.charges()[index].amount() > 0,
            Operation::Consume | Operation::TakeUpTo if self.allowed => self.charge(check) > 0,
            Operation::Consume | Operation::TakeUpTo => {
                check.limit().algorithm().counts_denied() && check.cost() > 0
            }
        }
    }

    /// Records what was decided in `states` and returns the decision.
    ///
    /// `request`, `states` and `now` must be those that were evaluated. Asks for a state to be
    /// changed only where [`writes_to`](Self::writes_to) says so.
    #[inline]
    pub fn apply(
        mut self,
        request: &Request<'_>,
        states: &mut (impl States + ?Sized),
        now: Timestamp,
    ) -> Decision {
        let mut verdicts = SmallVec::new();
        for (index, check) in request.checks().iter().enumerate() {
            let writes = self.writes_to(request, index);
            let wait = self.waits[index];
            let mut verdict = if !writes {
                self.verdict(check, states.state(index), now, now, 0)
            } else if let Operation::Refund(receipt) = request.operation() {
                let (state, charge) = (states.state_mut(index), receipt.charges()[index]);
                let algorithm = check.limit().algorithm();
                algorithm.refund(state, now, charge.at(), charge.amount());
                self.verdict(check, state, now, now, 0)
            } else {
                let state = states.state_mut(index);
                let charge = if self.allowed {
                    self.charge(check)
                } else {
                    self.attempt(check)
                };
                let at = check.limit().algorithm().commit(state, now, charge);
                if !self.allowed {
                    // The attempt that was just counted is one more to wait for.
                    self.waits[index] = crate::evaluation::wait(check, state, now, charge);
                }
                let charged = if self.allowed { charge } else { 0 };
                self.verdict(check, state, now, at, charged)
            };
            verdict.retry_after = self.waits[index];
            verdict.allowed = wait.is_zero();
            verdicts.push(verdict);
        }
        Decision {
            allowed: self.allowed,
            verdicts,
        }
    }

    #[inline]
    fn charge(&self, check: &Check<'_>) -> u64 {
        match self.grant {
            Grant::Costs => check.cost(),
            Grant::Each(amount) => amount,
            Grant::Nothing => 0,
        }
    }

    /// Returns the cost of the call that was refused.
    fn attempt(&self, check: &Check<'_>) -> u64 {
        match self.grant {
            Grant::Each(_) => 1,
            Grant::Costs | Grant::Nothing => check.cost(),
        }
    }

    #[inline]
    fn verdict(
        &self,
        check: &Check<'_>,
        state: &State,
        now: Timestamp,
        at: Timestamp,
        charged: u64,
    ) -> Verdict {
        let algorithm = check.limit().algorithm();
        let status = algorithm.status(state, now);
        Verdict {
            allowed: true,
            limit: algorithm.capacity(),
            remaining: status.remaining,
            retry_after: Wait::ZERO,
            reset_after: status.reset_after,
            charged,
            at,
        }
    }
}

#[inline]
fn wait(check: &Check<'_>, state: &State, now: Timestamp, cost: u64) -> Wait {
    check.limit().algorithm().wait(state, now, cost)
}
