//! `Evaluation`: evaluates all limits of a request before any of them records it.

use std::time::Duration;

use crate::algorithm::{Ahead, BlockSpan, Change, Reserved, State, States};
use crate::one_or_many::OneOrMany;
use crate::store::{Check, Fingerprint, Operation, Prefetch, Request, Source, Verdicts};
use crate::time::{Timestamp, Wait};
use crate::verdict::Verdict;

/// The result of evaluating a request, before anything is recorded.
///
/// A store that has to insert states calls [`Request::evaluate`], makes room for the states that
/// [`writes_to`](Self::writes_to) reports, and then calls [`apply`](Self::apply).
#[derive(Clone, Debug)]
pub struct Evaluation<'r> {
    checks: &'r [Check<'r>],
    now: Timestamp,
    allowed: bool,
    /// Whether it is a call that consumes if it is allowed.
    consumes: bool,
    /// How many microseconds after `now` the call starts.
    delay: u64,
    each: OneOrMany<Planned<'r>>,
}

/// What one limit says, and what is recorded.
#[derive(Clone, Copy, Debug)]
struct Planned<'r> {
    wait: Wait,
    /// What the call consumes.
    consumed: u64,
    write: Write<'r>,
}

/// Marks the verdicts of what was given back, so that no receipt is for them.
const GIVEN: u64 = 0x6769_7665_6e20_7570;

/// What a request records in one state.
#[derive(Clone, Copy, Debug)]
enum Write<'r> {
    Nothing,
    /// Records what the call consumes.
    Commit,
    Ahead(Ahead),
    /// Records what the call consumes, for a call that starts after the delay.
    Later,
    /// Records a denied call of this cost.
    Attempt(u64),
    /// Counts units that no call consumes now.
    Count(u64),
    GiveBack {
        amount: u64,
        at: Timestamp,
    },
    /// Gives the newest units back; zero writes nothing.
    Give(u64),
    Cancel {
        amount: u64,
        reserved: &'r Reserved,
    },
    Block(BlockSpan),
}

impl Write<'_> {
    fn count(check: &Check<'_>, units: u64) -> Self {
        if units > 0 && check.limit().algorithm().counts() {
            Self::Count(units)
        } else {
            Self::Nothing
        }
    }
}

impl Request<'_> {
    /// Decides as [`decide_on`](Self::decide_on) does, and returns the verdicts with this
    /// `fingerprint`, which the store gives all decisions on such requests.
    ///
    /// Decides as [`evaluate`](Self::evaluate) and [`apply`](Evaluation::apply) do together, and
    /// does less for one limit, and for a peek.
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
        match (self.checks(), self.operation()) {
            ([check], Operation::Consume) if check.cost() > 0 => {
                Verdicts::of_one(fingerprint, check.consume_from(states.state_mut(0), now))
            }
            (checks, Operation::Peek) => {
                let each = OneOrMany::from_fn(checks.len(), |index| {
                    let (check, state) = (&checks[index], states.state(index));
                    let wait = check.limit().algorithm().wait(state, now, check.cost());
                    verdict(check, state, now, wait, false)
                });
                Verdicts::of(fingerprint, each)
            }
            _ => self.evaluate(states, now).apply(fingerprint, states),
        }
    }

    /// Evaluates this request at `now` on `states`, one for each check, and changes nothing.
    #[inline]
    pub fn evaluate(&self, states: &(impl States + ?Sized), now: Timestamp) -> Evaluation<'_> {
        match self.operation() {
            Operation::Peek => self.waits(states, now, None),
            Operation::Consume => {
                let mut evaluation = self.waits(states, now, None);
                evaluation.consume(None);
                evaluation
            }
            Operation::Prefetch(prefetch) => self.evaluate_prefetch(states, now, prefetch),
            Operation::Reserve { max_delay } => self.evaluate_reserve(states, now, max_delay),
            Operation::TakeUpTo => self.evaluate_take(states, now),
            Operation::Block(span) => self.planned(now, |index, check| {
                let algorithm = check.limit().algorithm();
                match algorithm.blocked(states.state(index), now, span) {
                    (wait, true) => (wait, Write::Block(span)),
                    (wait, false) => (wait, Write::Nothing),
                }
            }),
            Operation::Charge => self.planned(now, |_, check| {
                (Wait::ZERO, Write::count(check, check.cost()))
            }),
            Operation::Give => {
                let mut evaluation = self.planned(now, |index, check| {
                    let givable = check.limit().algorithm().givable(states.state(index), now);
                    (Wait::ZERO, Write::Give(givable.min(check.cost())))
                });
                for planned in evaluation.each.iter_mut() {
                    if let Write::Give(units) = planned.write {
                        planned.consumed = units;
                    }
                }
                evaluation
            }
            Operation::Lower => self.planned(now, |index, check| {
                let status = check.limit().algorithm().status(states.state(index), now);
                let more = status.remaining.saturating_sub(check.cost());
                (Wait::ZERO, Write::count(check, more))
            }),
            Operation::Refund(_) | Operation::Settle(_) => self.planned(now, |index, check| {
                // Nothing is given back to a state that does not exist.
                let holds = !states.state(index).is_vacant() && check.limit().algorithm().counts();
                let write = match (self.change(index), self.cancelled(index)) {
                    (Some(Change::Count(more)), _) => Write::count(check, more),
                    (Some(Change::GiveBack { amount, .. }), Some(reserved)) if holds => {
                        Write::Cancel { amount, reserved }
                    }
                    (Some(Change::GiveBack { amount, at }), None) if holds => {
                        Write::GiveBack { amount, at }
                    }
                    _ => Write::Nothing,
                };
                (Wait::ZERO, write)
            }),
        }
    }

    /// Returns what each limit says and records by `plan`; the call is allowed if nobody has to wait but for
    /// limits in shadow.
    #[inline]
    fn planned<'r>(
        &'r self,
        now: Timestamp,
        plan: impl Fn(usize, &'r Check<'r>) -> (Wait, Write<'r>),
    ) -> Evaluation<'r> {
        let checks = self.checks();
        let each = OneOrMany::from_fn(checks.len(), |index| {
            let (wait, write) = plan(index, &checks[index]);
            Planned {
                wait,
                consumed: 0,
                write,
            }
        });
        let lets_through = |(planned, check): (&Planned<'_>, &Check<'_>)| {
            planned.wait.is_zero() || check.limit().is_shadow()
        };
        Evaluation {
            checks,
            now,
            allowed: each.iter().zip(checks).all(lets_through),
            consumes: false,
            delay: 0,
            each,
        }
    }

    /// Returns how long each limit makes a call of this `cost` wait, or of that of its check.
    #[inline]
    fn waits(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        cost: Option<u64>,
    ) -> Evaluation<'_> {
        self.planned(now, |index, check| {
            let algorithm = check.limit().algorithm();
            let wait = algorithm.wait(
                states.state(index),
                now,
                cost.unwrap_or_else(|| check.cost()),
            );
            (wait, Write::Nothing)
        })
    }

    fn evaluate_prefetch(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        prefetch: Prefetch,
    ) -> Evaluation<'_> {
        let mut evaluation = self.waits(states, now, None);
        evaluation.consume(None);
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
            for planned in evaluation
                .each
                .iter_mut()
                .filter(|planned| planned.consumed > 0)
            {
                planned.consumed = units;
                if let Write::Commit = planned.write {
                    planned.write = Write::Ahead(Ahead {
                        units,
                        own: cost,
                        within,
                    });
                }
            }
        }
        evaluation
    }

    fn evaluate_reserve(
        &self,
        states: &(impl States + ?Sized),
        now: Timestamp,
        max_delay: Duration,
    ) -> Evaluation<'_> {
        let mut evaluation = self.waits(states, now, None);
        let most = self.longest_delay_us(max_delay);
        let waits = evaluation.each.iter().map(|planned| planned.wait);
        // A wait that never ends is longer than any delay.
        match waits.max().unwrap_or(Wait::ZERO).as_micros() {
            Some(delay) if delay <= most => {
                evaluation.allowed = true;
                evaluation.delay = delay;
            }
            _ => {
                evaluation.allowed = false;
                for planned in evaluation.each.iter_mut() {
                    if let Some(micros) = planned.wait.as_micros() {
                        planned.wait = Wait::from_micros(micros.saturating_sub(most));
                    }
                }
            }
        }
        evaluation.consume(None);
        evaluation
    }

    fn evaluate_take(&self, states: &(impl States + ?Sized), now: Timestamp) -> Evaluation<'_> {
        let remaining = self.checks().iter().enumerate().map(|(index, check)| {
            let algorithm = check.limit().algorithm();
            algorithm.status(states.state(index), now).remaining
        });
        let most = self.checks().iter().map(Check::cost).min().unwrap_or(0);
        let taken = remaining.min().unwrap_or(0).min(most);
        // If nothing can be taken, the call is denied as one of cost 1 would be.
        let unit = u64::from(taken == 0 && most > 0);
        let mut evaluation = self.waits(states, now, Some(unit));
        evaluation.allowed = unit == 0;
        evaluation.consume(Some(taken.max(unit)));
        evaluation
    }
}

impl Evaluation<'_> {
    /// Lets an allowed call consume this `cost`, or that of each check, and a denied one count where denied calls do.
    #[inline]
    fn consume(&mut self, cost: Option<u64>) {
        self.consumes = true;
        for (planned, check) in self.each.iter_mut().zip(self.checks) {
            let algorithm = check.limit().algorithm();
            let cost = cost.unwrap_or_else(|| check.cost());
            // A limit in shadow counts what it would allow.
            let admits = self.allowed && (planned.wait.is_zero() || !check.limit().is_shadow());
            planned.consumed = if admits { cost } else { 0 };
            planned.write = match admits {
                _ if cost == 0 || !algorithm.counts() => Write::Nothing,
                true if self.delay > 0 => Write::Later,
                true => Write::Commit,
                false if algorithm.counts_denied() => Write::Attempt(cost),
                false => Write::Nothing,
            };
        }
    }

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
    pub fn writes_to(&self, index: usize) -> bool {
        !matches!(self.each[index].write, Write::Nothing | Write::Give(0))
    }

    /// Returns the decision of a give that has been recorded elsewhere: `states` are those after it.
    #[cfg(feature = "__twins")]
    pub(crate) fn given(mut self, fingerprint: Fingerprint, states: &mut [State]) -> Verdicts {
        for planned in self.each.iter_mut() {
            planned.write = Write::Give(0);
        }
        self.apply(fingerprint, states)
    }

    /// Records the decision in `states`, which must be those that were evaluated, and returns it with this
    /// `fingerprint`.
    ///
    /// Calls [`States::state_mut`] only for the checks that [`writes_to`](Self::writes_to) reports.
    #[inline]
    pub fn apply(self, fingerprint: Fingerprint, states: &mut (impl States + ?Sized)) -> Verdicts {
        let count = self.checks.len();
        let is_later = self.delay > 0;
        let mut reserved = is_later.then(|| OneOrMany::from_fn(count, |_| Reserved::default()));
        let fingerprint = match self.each[0].write {
            // What was given back cannot be given back once more.
            Write::Give(_) => fingerprint.marked(GIVEN),
            _ => fingerprint,
        };
        let verdicts = OneOrMany::from_fn(count, |index| {
            self.record(index, states, reserved.as_deref_mut())
        });
        Verdicts {
            allowed: self.allowed,
            verdicts,
            fingerprint,
            reserved: reserved.map(Box::new),
            source: Source::Store,
            age_us: 0,
        }
    }

    /// Records the decision in the state of the check at `index`, and in `reserved` if the call starts later;
    /// returns its verdict.
    fn record(
        &self,
        index: usize,
        states: &mut (impl States + ?Sized),
        reserved: Option<&mut [Reserved]>,
    ) -> Verdict {
        let (check, now) = (&self.checks[index], self.now);
        let Planned {
            mut wait,
            consumed,
            write,
        } = self.each[index];
        let algorithm = check.limit().algorithm();
        let mut at = now;
        let state = if let Write::Nothing | Write::Give(0) = write {
            states.state(index)
        } else {
            let state = states.state_mut(index);
            match write {
                Write::Nothing => {}
                Write::Commit => at = algorithm.commit(state, now, consumed),
                Write::Ahead(ahead) => at = algorithm.commit_ahead(state, now, ahead),
                Write::Later => {
                    let later = algorithm.reserve(state, now, self.delay, consumed);
                    at = Timestamp::saturating_from_micros(later.at);
                    if let Some(reserved) = reserved {
                        reserved[index] = later;
                    }
                }
                Write::Attempt(cost) => {
                    at = algorithm.commit(state, now, cost);
                    // The attempt that was just counted makes the wait longer.
                    wait = algorithm.wait(state, now, cost);
                }
                Write::Count(units) => drop(algorithm.commit(state, now, units)),
                Write::GiveBack { amount, at } => algorithm.refund(state, now, at, amount),
                Write::Give(amount) => algorithm.give(state, now, amount),
                Write::Cancel { amount, reserved } => {
                    algorithm.cancel(state, now, reserved, amount);
                }
                Write::Block(span) => algorithm.block(state, now, span),
            }
            &*state
        };
        Verdict {
            // Before the attempt was counted.
            allowed: self.each[index].wait.is_zero() || self.delay > 0,
            starts_later: self.delay > 0,
            consumed,
            at,
            ..verdict(check, state, now, wait, self.consumes)
        }
    }
}

/// Returns the verdict of a check that consumes nothing, and has to `wait`; without a debt, if it is of a call
/// that `consumes` once it is allowed.
#[inline]
fn verdict(
    check: &Check<'_>,
    state: &State,
    now: Timestamp,
    wait: Wait,
    consumes: bool,
) -> Verdict {
    let algorithm = check.limit().algorithm();
    let status = algorithm.status(state, now);
    let owed = match status.remaining {
        0 if !consumes => algorithm.owed(state, now),
        _ => 0,
    };
    Verdict {
        allowed: wait.is_zero(),
        capacity: algorithm.capacity(),
        remaining: status.remaining.max(owed),
        owes: owed > 0,
        wait,
        starts_later: false,
        reset_after: status.reset_after,
        consumed: 0,
        at: now,
        shadow: check.limit().is_shadow(),
    }
}
