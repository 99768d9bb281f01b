//! `Forecast`: tells when calls can be admitted, from what this process consumed.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::algorithm::State;
use tollgate_core::{Operation, Timestamp, Verdicts, Wait};

use super::line::Asker;

/// What this process has consumed for one key, as the state machines count it.
///
/// Other processes and earlier calls can only have consumed more, so a forecast is the least that a
/// call waits; it is exact if nobody else calls.
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
    /// Takes note of the answer to a call that was made at `asked`.
    pub(super) fn learn(
        &mut self,
        asker: &dyn Asker,
        asked: Instant,
        cost: u64,
        answer: &Verdicts,
    ) {
        let decided = answer.as_slice().iter().map(|verdict| verdict.decided_at());
        let decided = decided.max().unwrap_or_default();
        self.clocks = Some((asked, decided));
        if answer.is_allowed() {
            consume(asker, &mut self.granted, decided, cost);
        } else {
            // The plan has not foreseen this.
            self.plan = None;
        }
    }

    /// Forgets the plan: the line is not what it was.
    pub(super) fn replan(&mut self) {
        self.plan = None;
    }

    /// Returns the earliest instant at which a call of `cost` may be admitted, or `None` if nothing
    /// is known, or it never is.
    pub(super) fn ready(&mut self, asker: &dyn Asker, cost: u64) -> Option<Instant> {
        let (asked, decided) = self.clocks?;
        let wait = peek(asker, &mut self.granted, decided, cost).retry_after();
        asked.checked_add(wait.duration()?)
    }

    /// Plans a call of `cost` after those `ahead`, none of which is admitted before `ready`.
    /// Returns the least time from `now` until it is admitted, and the limit that it waits for.
    pub(super) fn plan(
        &mut self,
        asker: &dyn Asker,
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
        let (wait, limit) = plan.admit(asker, cost);
        if wait.is_never() {
            return (wait, limit);
        }
        let wait = plan.until.saturating_duration_since(at(now));
        (micros(wait), limit)
    }
}

impl Plan {
    /// Admits a call of `cost` as soon as possible after all others, unless that is never. Returns
    /// how long that is after the last of them, and the limit that it waits for.
    fn admit(&mut self, asker: &dyn Asker, cost: u64) -> (Wait, usize) {
        let verdicts = peek(asker, &mut self.states, self.until, cost);
        let wait = verdicts.retry_after();
        if let Some(wait) = wait.duration() {
            self.until = self.until.saturating_add(wait);
            consume(asker, &mut self.states, self.until, cost);
        }
        (wait, verdicts.binding())
    }
}

pub(super) fn micros(duration: Duration) -> Wait {
    Wait::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

fn peek(asker: &dyn Asker, states: &mut Vec<State>, now: Timestamp, cost: u64) -> Verdicts {
    let request = asker.request(Operation::Peek, cost);
    states.resize_with(request.checks().len(), State::default);
    request.decide_on(&mut states[..], now)
}

fn consume(asker: &dyn Asker, states: &mut Vec<State>, now: Timestamp, cost: u64) {
    let request = asker.request(Operation::Consume, cost);
    states.resize_with(request.checks().len(), State::default);
    // The store has admitted it, or the machines have just said that they would.
    let _ = request.decide_on(&mut states[..], now);
}
