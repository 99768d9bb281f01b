//! `Forecast`: tells when calls can be admitted, from what this process consumed.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::algorithm::{Algorithm, State};
use tollgate_core::{Check, Operation, Request, Timestamp, Verdicts, Wait};

use super::caller::Asker;

/// What this process has consumed for one key, as the state machines count it.
///
/// Other processes and earlier calls can only have consumed more, so a forecast is the least that a
/// call waits; it is exact if nobody else calls. An anchored window, which ends earlier if somebody
/// else has begun it, is taken over from each answer.
#[derive(Default)]
pub(super) struct Forecast {
    granted: Vec<State>,
    /// The runtime's clock and the store's, at the latest answer.
    clocks: Option<(Instant, Timestamp)>,
    plan: Option<Plan>,
}

/// What will be consumed when all calls in the line have been admitted.
struct Plan {
    states: Vec<State>,
    /// When the last of them will be.
    until: Timestamp,
}

impl Forecast {
    /// Takes note of the answer to a call that was made at `asked`, and decided at `decided`.
    pub(super) fn learn(
        &mut self,
        asker: Asker<'_>,
        (asked, decided): (Instant, Timestamp),
        cost: u64,
        answer: &Verdicts,
    ) {
        if decided == Timestamp::UNIX_EPOCH {
            // A store that does not say when it decided.
            return;
        }
        self.clocks = Some((asked, decided));
        if answer.is_allowed() {
            consume(asker, &mut self.granted, decided, cost);
        }
        let anchored = self.anchor(asker, answer);
        if answer.is_denied() || anchored {
            // The plan has not foreseen this.
            self.plan = None;
        }
    }

    /// Takes over the anchored windows that the answer tells of. One that an earlier call has begun
    /// ends earlier than what this process knows. Returns whether there are such windows.
    fn anchor(&mut self, asker: Asker<'_>, answer: &Verdicts) -> bool {
        let mut is_any = false;
        for (index, verdict) in answer.as_slice().iter().enumerate() {
            let Algorithm::FixedWindow(window) = asker.limit(index).algorithm() else {
                continue;
            };
            let (Some(state), true) = (self.granted.get_mut(index), window.is_anchored()) else {
                continue;
            };
            is_any = true;
            *state = State::default();
            let used = verdict.capacity().saturating_sub(verdict.remaining());
            let ends = verdict.reset_after().as_micros().unwrap_or_default();
            let ends = verdict.decided_at().as_micros().saturating_add(ends);
            let length = asker.limit(index).algorithm().quota().window_us();
            let start = Timestamp::saturating_from_micros(ends.saturating_sub(length));
            let check = Check::new(asker.limit(index), asker.key, used);
            let _ = Request::consume(check).decide_on(state, start);
        }
        is_any
    }

    /// Forgets the plan: the line is not what it was.
    pub(super) fn replan(&mut self) {
        self.plan = None;
    }

    /// Returns the earliest instant at which a call of `cost` may be admitted, or `None` if nothing
    /// is known, or it never is.
    pub(super) fn ready(&mut self, asker: Asker<'_>, cost: u64) -> Option<Instant> {
        let (asked, decided) = self.clocks?;
        let wait = peek(asker, &mut self.granted, decided, cost).retry_after();
        asked.checked_add(wait.duration()?)
    }

    /// Returns the least time from `now` until a call of `cost` after those `ahead` is admitted, and
    /// the limit that it waits for. None of them is admitted before `ready`.
    pub(super) fn foresee(
        &mut self,
        asker: Asker<'_>,
        (now, ready): (Instant, Instant),
        ahead: impl Iterator<Item = u64>,
        cost: u64,
    ) -> (Wait, usize) {
        let Some((asked, decided)) = self.clocks else {
            return (Wait::ZERO, 0);
        };
        let at = |instant: Instant| decided.saturating_add(instant.duration_since(asked));
        let plan = self.plan.get_or_insert_with(|| {
            let mut plan = Plan {
                states: self.granted.clone(),
                until: at(ready),
            };
            for cost in ahead {
                plan.admit(asker, cost);
            }
            plan
        });
        plan.until = plan.until.max(at(now));
        let (wait, limit) = plan.foresee(asker, cost);
        let Some(after) = wait.duration() else {
            return (wait, limit);
        };
        let since = plan.until.saturating_add(after);
        (micros(since.saturating_duration_since(at(now))), limit)
    }

    /// Adds a call of `cost` to the plan, if there is one.
    pub(super) fn join(&mut self, asker: Asker<'_>, cost: u64) {
        if let Some(plan) = &mut self.plan {
            plan.admit(asker, cost);
        }
    }
}

impl Plan {
    /// Returns how long after the last of them a call of `cost` is admitted, and the limit that it
    /// waits for.
    fn foresee(&mut self, asker: Asker<'_>, cost: u64) -> (Wait, usize) {
        let verdicts = peek(asker, &mut self.states, self.until, cost);
        (verdicts.retry_after(), verdicts.binding())
    }

    /// Admits a call of `cost` as soon as possible after all others, unless that is never.
    fn admit(&mut self, asker: Asker<'_>, cost: u64) {
        if let Some(wait) = self.foresee(asker, cost).0.duration() {
            self.until = self.until.saturating_add(wait);
            consume(asker, &mut self.states, self.until, cost);
        }
    }
}

pub(super) fn micros(duration: Duration) -> Wait {
    Wait::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

fn peek(asker: Asker<'_>, states: &mut Vec<State>, now: Timestamp, cost: u64) -> Verdicts {
    let request = asker.request(Operation::Peek, cost);
    states.resize_with(request.checks().len(), State::default);
    request.decide_on(&mut states[..], now)
}

fn consume(asker: Asker<'_>, states: &mut Vec<State>, now: Timestamp, cost: u64) {
    let request = asker.request(Operation::Consume, cost);
    states.resize_with(request.checks().len(), State::default);
    // The store has admitted it, or the machines have just said that they would.
    let _ = request.decide_on(&mut states[..], now);
}

#[cfg(test)]
mod tests;
