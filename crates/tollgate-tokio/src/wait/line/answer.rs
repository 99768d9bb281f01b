//! What the answer to a call changes in its line.

use std::cmp::Ordering::{Greater, Less};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{Operation, Verdict, Verdicts};

use super::{Denied, Line, Position, Standing, Start, State, TICK};
use crate::costs::LimitCosts;
use crate::random::random;
use crate::wait::caller::Asker;
use crate::wait::error::TooLong;

impl Line {
    /// Takes note of the answer to a call that asked at `asked`, or that there is none. Returns what
    /// was admitted for the call to use now, if its caller is still there.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if the store says that the call will never be admitted.
    pub(in crate::wait) fn answered(
        &mut self,
        asker: Asker<'_>,
        place: &Position,
        asked: Instant,
        operation: Operation<'_>,
        answer: Option<Verdicts>,
        now: Instant,
    ) -> Result<Option<Start>, TooLong> {
        let number = place.number;
        let Some(Standing { state, .. }) = self.calls.get(&number) else {
            return Ok(None);
        };
        let (cost, state) = (&place.cost, *state);
        self.asking -= 1;
        self.asking_cost -= cost;
        let is_here = state == State::Asking;
        self.abandoned -= usize::from(!is_here);
        let consumes = !matches!(operation, Operation::Peek);
        let is_admitted = |answer: &Verdicts| answer.is_allowed() && consumes;
        match &answer {
            Some(answer) if is_admitted(answer) => {}
            Some(answer) if is_here => {
                if let Some(call) = self.calls.get_mut(&number) {
                    let wait = answer.retry_after().duration();
                    call.denied = Some(Denied {
                        asked,
                        ready: wait
                            .and_then(|wait| asked.checked_add(wait))
                            .unwrap_or(asked),
                        limit: answer.binding(),
                    });
                    call.state = State::Waiting;
                    self.starts.wait(&call.ticket, cost);
                }
            }
            _ => {
                let gone = self.calls.remove(&number);
                if is_here {
                    gone.inspect(|gone| self.starts.give_up(&gone.ticket));
                } else if let Some(number) = self.starts.void(cost) {
                    self.wait_after_all(number);
                }
            }
        }
        if let Some(answer) = &answer {
            self.way = now.duration_since(asked);
            self.learn(asker, asked, operation, number, cost, answer);
            if answer.retry_after().is_never() && is_here {
                let limit = asker.limit(answer.binding());
                return Err(TooLong::new(limit, None, place.patience.longest));
            }
        }
        let start = answer.filter(is_admitted).map(|verdicts| Start {
            at: now + verdicts.delay().duration().unwrap_or_default(),
            asked,
            verdicts,
        });
        let start = start.and_then(|start| self.assign(number, cost, is_here, start, now));
        self.wake_first();
        Ok(start)
    }

    /// Assigns a call of the line to `start`. Returns it if the call that asked for it is here, and
    /// can use it now.
    fn assign(
        &mut self,
        number: u64,
        cost: &LimitCosts,
        is_here: bool,
        start: Start,
        now: Instant,
    ) -> Option<Start> {
        if is_here && start.at <= now {
            self.is_done(number);
            self.reserve_further_ahead();
            return Some(start);
        }
        if is_here && let Some(call) = self.calls.get_mut(&number) {
            call.state = State::Assigned;
            self.starts.assign(&call.ticket, cost);
        } else {
            self.calls.remove(&number);
            self.starts.arrive(cost);
        }
        let place = self.starts.add(cost, start);
        self.has_spare |= self.starts.has_spare(cost);
        self.wake_assigned_from(cost, place);
        None
    }

    /// Takes note of the answer to the call with this number and cost.
    fn learn(
        &mut self,
        asker: Asker<'_>,
        asked: Instant,
        operation: Operation<'_>,
        number: u64,
        cost: &LimitCosts,
        answer: &Verdicts,
    ) {
        // Answers may come in another order than that in which the store decided.
        let decided = answer.as_slice().iter().map(Verdict::decided_at).max();
        let decided = decided.unwrap_or_default();
        let age = decided.cmp(&self.decided);
        if age == Greater {
            self.remaining.clear();
        }
        if age != Less {
            self.remaining.resize(asker.limits.len(), u64::MAX);
            let verdicts = answer.as_slice().iter().zip(asker.limits);
            for (left, (verdict, limit)) in self.remaining.iter_mut().zip(verdicts) {
                // Nobody waits for a limit in shadow.
                if !limit.is_shadow() {
                    *left = verdict.remaining().min(*left);
                }
            }
        }
        self.decided = self.decided.max(decided);
        if answer.source().tells_what_is_left() {
            self.answered = self.answered.max(Some(asked));
        }
        let (max_delay, consumes) = match operation {
            Operation::Reserve { max_delay } => (max_delay, true),
            operation => (Duration::ZERO, !matches!(operation, Operation::Peek)),
        };
        let consumed = (answer.is_allowed() && consumes).then_some(cost);
        let was_expected = self.forecast.ready(asker, cost);
        let was_expected = was_expected.is_some_and(|(ready, _)| ready <= asked + max_delay);
        self.forecast.learn(asker, asked, decided, consumed, answer);
        let first = self.starts.waiting().first().map(|(first, _)| first);
        let first = first.filter(|first| *first != number);
        let first = first.and_then(|first| self.calls.get(&first));
        if answer.is_denied() && first.is_some_and(|first| first.denied.is_some()) {
            // It is not yet the turn of this call, and the first one has had its own answer.
            return;
        }
        self.binding = answer.binding();
        if answer.is_denied() {
            self.reserve_further_ahead();
        }
        let waits_again = self.ready + self.jitter <= asked + max_delay;
        // Where this call is denied, one that costs as much is denied, too.
        let first = self.starts.waiting().first().map(|(_, cost)| cost);
        let costs_as_much = |other: &LimitCosts| other.of(self.binding) >= cost.of(self.binding);
        let is_denied_too = answer.is_denied() && first.is_some_and(costs_as_much);
        self.ready = if is_denied_too {
            let wait = answer.retry_after().duration();
            // A store that denies a call without a wait is not asked again and again.
            let wait = wait.map(|wait| if wait.is_zero() { TICK } else { wait });
            wait.and_then(|wait| asked.checked_add(wait)?.checked_add(max_delay))
        } else {
            let fits = |cost: &&LimitCosts| self.leaves(|limit| u128::from(cost.of(limit)));
            let next = first.filter(|cost| !self.reserves && !fits(cost));
            let ready = next.and_then(|cost| self.forecast.ready(asker, cost));
            ready.map(|(ready, limit)| {
                self.binding = limit;
                ready
            })
        }
        .unwrap_or(asked);
        if let Some(cost) = consumed {
            self.turns.took(cost.of(self.binding));
        }
        let others_were_faster = answer.is_denied() && was_expected;
        let wait = self.ready.duration_since(asked + max_delay);
        if waits_again || others_were_faster {
            let capacity = answer.capacity();
            self.jitter = self
                .turns
                .delay(wait, capacity, others_were_faster, random());
        }
    }
}
