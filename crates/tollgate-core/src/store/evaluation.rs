//! `Evaluation`: evaluates all limits of a request before any of them records it.

use std::time::Duration;

use crate::algorithm::{BlockSpan, Change, Reserved, State, States};
use crate::one_or_many::OneOrMany;
use crate::store::verdicts::all_allowed;
use crate::store::{Check, Fingerprint, Operation, Prefetch, Request, Source, Verdicts};
use crate::time::{Timestamp, Wait};
use crate::verdict::Verdict;

/// The result of evaluating a request, before anything is recorded.
///
/// A store that has to insert states calls [`Request::evaluate`], makes room for the states that
/// [`writes_to`](Self::writes_to) reports, and then calls [`apply`](Self::apply).
#[derive(Clone, Debug)]
pub struct Evaluation {
    allowed: bool,
    /// What is consumed from each check's limit if the request is allowed.
    grant: Grant,
    waits: OneOrMany<Wait>,
}

#[derive(Clone, Debug)]
enum Grant {
    /// The check's own cost.
    Costs,
    /// This cost from each.
    Each(u64),
    /// Nothing.
    Nothing,
    /// Nothing: a refund or a settlement, which gives back to each check whose state is not vacant
    /// (`true`).
    Returns(OneOrMany<bool>),
    /// This many units from each, of which the check's own cost is used now, and the others until so many
    /// microseconds later.
    Ahead { units: u64, within: u64 },
    /// From each check, what remains beyond its cost.
    Beyond(OneOrMany<u64>),
    /// Nothing: blocks the keys. Which of the states that changes.
    Blocks(OneOrMany<bool>),
    /// The check's own cost, from a start this many microseconds later.
    Starts(u64),
}

impl<'a> Request<'a> {
    /// Decides as [`decide_on`](Self::decide_on) does, and returns the verdicts with this
    /// `fingerprint`, which the store gives all decisions on such requests.
    ///
    /// Decides as [`evaluate`](Self::evaluate) and [`apply`](Evaluation::apply) do together, and
    /// does less for the usual operations.
    ///
    /// # Panics
    ///
    /// As [`decide_on`](Self::decide_on) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::store::{Check, Fingerprint, Request, State};
    /// use tollgate_core::{Limit, LimitError, Timestamp};
    ///
    /// let limit: Limit = "api=sliding-log:10/1m".parse()?;
    /// let request = Request::consume(Check::new(&limit, "alice", 3));
    /// let own = Fingerprint::new(4711);
    /// let verdicts = request.decide_with(own, &mut State::default(), Timestamp::UNIX_EPOCH);
    /// assert_eq!((verdicts.remaining(), verdicts.fingerprint()), (7, own));
    /// # Ok::<(), LimitError>(())
    /// ```
    #[inline]
    pub fn decide_with(
        &self,
        fingerprint: Fingerprint,
        states: &mut (impl States + ?Sized),
        now: Timestamp,
    ) -> Verdicts {
        let checks = self.checks();
        match (checks, self.operation()) {
            ([check], Operation::Consume) if check.cost() > 0 => {
                return Verdicts::of_one(fingerprint, check.consume_from(states.state_mut(0), now));
            }
            (_, Operation::Consume) => {
                let mut verdicts = Verdicts::blank(fingerprint, checks.len());
                if consume_all(checks, states, now, &mut verdicts.verdicts) {
                    verdicts.allowed = all_allowed(&verdicts.verdicts);
                    return verdicts;
                }
            }
            (_, Operation::Peek) => {
                let mut verdicts = Verdicts::blank(fingerprint, checks.len());
                peek_all(checks, states, now, &mut verdicts.verdicts);
                verdicts.allowed = all_allowed(&verdicts.verdicts);
                return verdicts;
            }
            _ => {}
        }
        self.evaluate(states, now)
            .apply(self, fingerprint, states, now)
    }

    /// Evaluates this request at `now` on `states`, one for each check, and changes nothing.
    #[inline]
    pub fn evaluate(&self, states: &(impl States + ?Sized), now: Timestamp) -> Evaluation {
        match self.operation() {
            Operation::Consume => self.evaluate_costs(states, now, Grant::Costs),
            Operation::Peek => self.evaluate_costs(states, now, Grant::Nothing),
            Operation::Block(span) => self.evaluate_block(states, now, span),
            Operation::Lower => Evaluation {
                allowed: true,
                grant: Grant::Beyond(
                    self.remaining(states, now)
                        .zip(self.checks())
                        .map(|(remaining, check)| remaining.saturating_sub(check.cost()))
                        .collect(),
                ),
                waits: self.checks().iter().map(|_| Wait::ZERO).collect(),
            },
            Operation::Refund(_) | Operation::Settle(_) => Evaluation {
                allowed: true,
                grant: Grant::Returns(
                    (0..self.checks().len())
                        .map(|index| !states.state(index).is_vacant())
                        .collect(),
                ),
                waits: self.checks().iter().map(|_| Wait::ZERO).collect(),
            },
            Operation::Reserve { max_delay } => self.evaluate_reserve(states, now, max_delay),
            Operation::TakeUpTo => self.evaluate_take(states, now),
            Operation::Prefetch(prefetch) => self.evaluate_prefetch(states, now, prefetch),
        }
    }

    fn evaluate_prefetch(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        prefetch: Prefetch,
    ) -> Evaluation {
        let mut evaluation = self.evaluate_costs(states, now, Grant::Costs);
        let within = u64::from(prefetch.within_us);
        let checks = self.checks().iter().enumerate();
        let left = checks.map(|(index, check)| {
            let algorithm = check.limit().algorithm();
            algorithm.left_ahead(states.state(index), now, within)
        });
        if evaluation.allowed
            && let Some(cost) = self.only_cost()
            && let Some(units) = prefetch.grant(cost, left.min().unwrap_or(0))
        {
            evaluation.grant = Grant::Ahead { units, within };
        }
        evaluation
    }

    fn evaluate_block(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        span: BlockSpan,
    ) -> Evaluation {
        let after: OneOrMany<(Wait, bool)> = self
            .checks()
            .iter()
            .enumerate()
            .map(|(index, check)| {
                let algorithm = check.limit().algorithm();
                algorithm.blocked(states.state(index), now, span)
            })
            .collect();
        let waits: OneOrMany<Wait> = after.iter().map(|&(wait, _)| wait).collect();
        Evaluation {
            allowed: self.lets_through(&waits),
            grant: Grant::Blocks(after.iter().map(|&(_, changes)| changes).collect()),
            waits,
        }
    }

    /// Returns how much remains of each limit, in the order of the checks.
    fn remaining(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
    ) -> impl Iterator<Item = u64> {
        let checks = self.checks().iter().enumerate();
        checks.map(move |(index, check)| {
            let algorithm = check.limit().algorithm();
            algorithm.status(states.state(index), now).remaining
        })
    }

    #[inline]
    fn evaluate_costs(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        grant: Grant,
    ) -> Evaluation {
        let checks = self.checks();
        let waits = OneOrMany::from_fn(checks.len(), |index| {
            let check = &checks[index];
            wait(check, states.state(index), now, check.cost())
        });
        Evaluation {
            allowed: self.lets_through(&waits),
            grant,
            waits,
        }
    }

    /// Returns whether nobody has to wait but for limits in shadow.
    #[inline]
    fn lets_through(&self, waits: &[Wait]) -> bool {
        let mut each = waits.iter().zip(self.checks());
        each.all(|(wait, check)| wait.is_zero() || check.limit().is_shadow())
    }

    fn evaluate_reserve(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        max_delay: Duration,
    ) -> Evaluation {
        let evaluation = self.evaluate_costs(states, now, Grant::Costs);
        let most = self.longest_delay_us(max_delay);
        let longest = evaluation.waits.iter().max().copied();
        // A wait that never ends is longer than any delay.
        match longest.unwrap_or(Wait::ZERO).as_micros() {
            Some(delay) if delay <= most => Evaluation {
                allowed: true,
                grant: Grant::Starts(delay),
                ..evaluation
            },
            _ => {
                let beyond = |wait: &Wait| match wait.as_micros() {
                    Some(micros) => Wait::from_micros(micros.saturating_sub(most)),
                    None => Wait::NEVER,
                };
                Evaluation {
                    allowed: false,
                    waits: evaluation.waits.iter().map(beyond).collect(),
                    ..evaluation
                }
            }
        }
    }

    fn evaluate_take(&self, states: &(impl States + ?Sized), now: Timestamp) -> Evaluation {
        let most = self.checks().iter().map(Check::cost).min().unwrap_or(0);
        let least = self.remaining(states, now).min().unwrap_or(0);
        let grant = least.min(most);
        // If nothing can be taken, the call is denied as one of cost 1 would be.
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
    /// A refund writes only to states that exist: refunding to a missing one changes nothing, so it
    /// need not be created.
    #[inline]
    #[must_use]
    pub fn writes_to(&self, request: &Request<'_>, index: usize) -> bool {
        let check = &request.checks()[index];
        if let Grant::Blocks(changes) = &self.grant {
            return changes[index];
        }
        if !check.limit().algorithm().counts() {
            return false;
        }
        match request.operation() {
            Operation::Block(_) | Operation::Peek => false,
            Operation::Lower => self.cost(index, check) > 0,
            Operation::Refund(_) | Operation::Settle(_) => match request.change(index) {
                Some(Change::Count(more)) => more > 0,
                Some(Change::GiveBack { .. }) => self.returns_to(index),
                None => false,
            },
            Operation::Consume
            | Operation::Prefetch(_)
            | Operation::Reserve { .. }
            | Operation::TakeUpTo => {
                if self.admits(index, check) {
                    self.cost(index, check) > 0
                } else {
                    check.limit().algorithm().counts_denied() && check.cost() > 0
                }
            }
        }
    }

    /// Records the decision in `states` and returns it with this `fingerprint`.
    ///
    /// `request`, `states` and `now` must be the ones that were evaluated. Calls
    /// [`States::state_mut`] only for the checks that [`writes_to`](Self::writes_to) reports.
    #[inline]
    pub fn apply(
        self,
        request: &Request<'_>,
        fingerprint: Fingerprint,
        states: &mut (impl States + ?Sized),
        now: Timestamp,
    ) -> Verdicts {
        if let Grant::Starts(delay) = self.grant
            && delay > 0
        {
            return self.apply_later(request, fingerprint, states, now, delay);
        }
        let record = |index| self.record(request, states, now, index);
        Verdicts {
            allowed: self.allowed,
            verdicts: OneOrMany::from_fn(request.checks().len(), record),
            fingerprint,
            reserved: None,
            source: Source::Store,
            age_us: 0,
        }
    }

    /// Records a reservation that starts `delay` microseconds after `now`.
    fn apply_later(
        self,
        request: &Request<'_>,
        fingerprint: Fingerprint,
        states: &mut (impl States + ?Sized),
        now: Timestamp,
        delay: u64,
    ) -> Verdicts {
        let reserved: OneOrMany<Reserved> = (0..request.checks().len())
            .map(|index| {
                let check = &request.checks()[index];
                if !self.writes_to(request, index) {
                    return Reserved::default();
                }
                let algorithm = check.limit().algorithm();
                algorithm.reserve(states.state_mut(index), now, delay, check.cost())
            })
            .collect();
        let verdicts = request.checks().iter().enumerate().map(|(index, check)| {
            let algorithm = check.limit().algorithm();
            let status = algorithm.status(states.state(index), now);
            let recorded = check.cost() > 0;
            Verdict {
                allowed: true,
                capacity: algorithm.capacity(),
                remaining: status.remaining,
                wait: self.waits[index],
                starts_later: true,
                reset_after: status.reset_after,
                consumed: check.cost(),
                at: if recorded {
                    Timestamp::saturating_from_micros(reserved[index].at)
                } else {
                    now
                },
                // None of them has reservations.
                shadow: false,
            }
        });
        let verdicts = verdicts.collect();
        Verdicts {
            allowed: true,
            verdicts,
            fingerprint,
            reserved: Some(Box::new(reserved)),
            source: Source::Store,
            age_us: 0,
        }
    }

    /// Records the decision in the state of the check at `index`, and returns its verdict.
    fn record(
        &self,
        request: &Request<'_>,
        states: &mut (impl States + ?Sized),
        now: Timestamp,
        index: usize,
    ) -> Verdict {
        let check = &request.checks()[index];
        let algorithm = check.limit().algorithm();
        let wait = self.waits[index];
        let mut verdict = Verdict {
            allowed: wait.is_zero(),
            capacity: algorithm.capacity(),
            remaining: 0,
            wait,
            starts_later: false,
            reset_after: Wait::ZERO,
            consumed: match self.grant {
                Grant::Costs | Grant::Each(_) | Grant::Ahead { .. } | Grant::Starts(_)
                    if self.admits(index, check) =>
                {
                    self.cost(index, check)
                }
                _ => 0,
            },
            at: now,
            shadow: check.limit().is_shadow(),
        };
        let state = if self.writes_to(request, index) {
            let state = states.state_mut(index);
            if let Some(change) = request.change(index) {
                match (change, request.cancelled(index)) {
                    (Change::Count(more), _) => drop(algorithm.commit(state, now, more)),
                    (Change::GiveBack { amount, .. }, Some(reserved)) => {
                        algorithm.cancel(state, now, reserved, amount);
                    }
                    (Change::GiveBack { amount, at }, None) => {
                        algorithm.refund(state, now, at, amount);
                    }
                }
            } else if let Operation::Block(span) = request.operation() {
                algorithm.block(state, now, span);
            } else if let Operation::Lower = request.operation() {
                algorithm.commit(state, now, self.cost(index, check));
            } else if let Grant::Ahead { units, within } = self.grant {
                verdict.at = algorithm.commit_ahead(state, now, (within, check.cost()), units);
            } else if self.admits(index, check) {
                verdict.at = algorithm.commit(state, now, verdict.consumed);
            } else {
                let attempt = self.attempt(check);
                verdict.at = algorithm.commit(state, now, attempt);
                // The attempt that was just counted makes the wait longer.
                verdict.wait = algorithm.wait(state, now, attempt);
            }
            &*state
        } else {
            states.state(index)
        };
        let status = algorithm.status(state, now);
        verdict.remaining = status.remaining;
        verdict.reset_after = status.reset_after;
        verdict
    }

    /// Returns whether the request is allowed, and by this check's limit, too, if it is in shadow.
    fn admits(&self, index: usize, check: &Check<'_>) -> bool {
        self.allowed && (!check.limit().is_shadow() || self.waits[index].is_zero())
    }

    fn returns_to(&self, index: usize) -> bool {
        matches!(&self.grant, Grant::Returns(held) if held[index])
    }

    #[inline]
    fn cost(&self, index: usize, check: &Check<'_>) -> u64 {
        match &self.grant {
            Grant::Costs | Grant::Starts(_) => check.cost(),
            Grant::Each(amount) | Grant::Ahead { units: amount, .. } => *amount,
            Grant::Beyond(amounts) => amounts[index],
            Grant::Blocks(_) | Grant::Nothing | Grant::Returns(_) => 0,
        }
    }

    /// Returns the cost of a denied call, for limits that count denied calls.
    fn attempt(&self, check: &Check<'_>) -> u64 {
        match self.grant {
            Grant::Each(_) => 1,
            _ => check.cost(),
        }
    }
}

/// Consumes the costs of `checks` if all limits admit them, and otherwise nothing. There is one of
/// `states` and one of `verdicts`, which are overwritten, for each check.
///
/// Returns false, and changes no state, if a limit may have to count the denied call, or is in
/// shadow.
#[inline]
fn consume_all(
    checks: &[Check<'_>],
    states: &mut (impl States + ?Sized),
    now: Timestamp,
    verdicts: &mut [Verdict],
) -> bool {
    if checks.iter().any(|check| check.limit().is_shadow()) {
        return false;
    }
    if !all_admit(checks, states, now) {
        peek_all(checks, states, now, verdicts);
        let counts = |check: &Check<'_>| check.limit().algorithm().counts_denied();
        return !verdicts.iter().all(Verdict::is_allowed) && !checks.iter().any(counts);
    }
    for (index, (check, verdict)) in checks.iter().zip(verdicts).enumerate() {
        consume(check, states.state_mut(index), now, verdict);
    }
    true
}

/// Writes the verdicts of a request that changes nothing.
fn peek_all(
    checks: &[Check<'_>],
    states: &(impl States + ?Sized),
    now: Timestamp,
    verdicts: &mut [Verdict],
) {
    for (index, (check, verdict)) in checks.iter().zip(verdicts).enumerate() {
        *verdict = peek(check, states.state(index), now);
    }
}

/// Returns whether all limits admit what is to be consumed, and will count it.
#[inline]
fn all_admit(checks: &[Check<'_>], states: &(impl States + ?Sized), now: Timestamp) -> bool {
    checks.iter().enumerate().all(|(index, check)| {
        check.cost() > 0
            && check.limit().algorithm().counts()
            && wait(check, states.state(index), now, check.cost()).is_zero()
    })
}

#[inline(never)]
fn consume(check: &Check<'_>, state: &mut State, now: Timestamp, verdict: &mut Verdict) {
    *verdict = check.consume_from(state, now);
}

/// Returns the verdict of a check that changes nothing.
fn peek(check: &Check<'_>, state: &State, now: Timestamp) -> Verdict {
    let wait = wait(check, state, now, check.cost());
    let algorithm = check.limit().algorithm();
    let status = algorithm.status(state, now);
    Verdict {
        allowed: wait.is_zero(),
        capacity: algorithm.capacity(),
        remaining: status.remaining,
        wait,
        starts_later: false,
        reset_after: status.reset_after,
        consumed: 0,
        at: now,
        shadow: check.limit().is_shadow(),
    }
}

#[inline]
fn wait(check: &Check<'_>, state: &State, now: Timestamp, cost: u64) -> Wait {
    check.limit().algorithm().wait(state, now, cost)
}
