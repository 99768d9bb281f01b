//! A store under test, the instant it is asked at, and what was said so far.

use std::fmt::Write;
use std::sync::Arc;

use proptest::test_runner::{TestCaseError, TestCaseResult};
use tollgate_core::{
    Check, Decision, ErrorKind, Limit, Operation, Receipt, Request, Store, Timestamp,
};

use crate::harness::{Harness, OwnedKey};
use crate::history::{Act, Asked, Move, Step};
use crate::machine::Machine;

/// A conversation with one store at the caller's instants.
pub(crate) struct Session {
    pub(crate) store: Arc<dyn Store>,
    /// What the pure machines make of the same conversation.
    pub(crate) machine: Machine,
    pub(crate) now: Timestamp,
    /// The latest instant so far, from which the clock may have stepped back.
    latest: Timestamp,
    transcript: String,
    receipts: Vec<(Vec<Asked>, Receipt)>,
}

/// What the store and the pure machines answered.
pub(crate) struct Answers {
    pub(crate) store: Decision,
    pub(crate) machine: Decision,
}

impl Session {
    /// Opens a session with a store of `harness` at `start`.
    pub(crate) async fn open(harness: &impl Harness, start: Timestamp) -> Self {
        Self {
            store: harness.store().await,
            machine: Machine::default(),
            now: start,
            latest: start,
            transcript: String::new(),
            receipts: Vec::new(),
        }
    }

    /// Returns whether the clock could go on by `micros`, which it cannot near the end of time.
    pub(crate) fn can_wait(&self, micros: u64) -> bool {
        self.now
            .as_micros()
            .checked_add(micros)
            .is_some_and(|then| then <= Timestamp::MAX.as_micros())
    }

    /// Lets `micros` pass.
    pub(crate) fn wait(&mut self, micros: u64) {
        self.travel(Move::Forward(micros));
    }

    /// Moves the clock.
    pub(crate) fn travel(&mut self, time: Move) {
        let now = self.now.as_micros();
        self.now = Timestamp::saturating_from_micros(match time {
            Move::Forward(micros) => now.saturating_add(micros),
            Move::Back(micros) => now.saturating_sub(micros),
        });
        self.latest = self.latest.max(self.now);
        // What a store may have dropped at the latest instant would be missed at an earlier one.
        let behind = self.now < self.latest;
        let dropped = |at| self.machine.may_have_dropped(at);
        if behind && (dropped(self.latest) || dropped(self.now)) {
            self.now = self.latest;
        }
    }

    /// Does one step of a history with `limits` and `keys`; `None` where nothing was decided.
    pub(crate) async fn step(
        &mut self,
        limits: &[Limit],
        keys: &[OwnedKey],
        step: &Step,
    ) -> Result<Option<Answers>, TestCaseError> {
        self.travel(step.time);
        let operation = match step.act {
            Act::Consume => Operation::Consume,
            Act::Peek => Operation::Peek,
            Act::TakeUpTo => Operation::TakeUpTo,
            Act::Refund(index) => {
                if self.receipts.is_empty() {
                    return Ok(None);
                }
                let index = index % self.receipts.len();
                let (asked, receipt) = self.receipts.swap_remove(index);
                let checks = checks(limits, keys, &asked);
                let request = Request::with_checks(Operation::Refund(&receipt), checks);
                return self.ask(&request).await;
            }
            Act::Reset => {
                self.reset(&checks(limits, keys, &step.asked)).await?;
                return Ok(None);
            }
        };
        let request = Request::with_checks(operation, checks(limits, keys, &step.asked));
        let answers = self.ask(&request).await?;
        if let Some(receipt) = answers
            .as_ref()
            .and_then(|a| a.store.clone().into_receipt())
        {
            self.receipts.push((step.asked.clone(), receipt));
        }
        Ok(answers)
    }

    /// Does a whole history.
    pub(crate) async fn play(
        &mut self,
        limits: &[Limit],
        keys: &[OwnedKey],
        history: &[Step],
    ) -> TestCaseResult {
        for step in history {
            self.step(limits, keys, step).await?;
        }
        Ok(())
    }

    /// Asks the store and the machines at the present instant; `None` where the store does not
    /// support the request, and says so.
    pub(crate) async fn ask(
        &mut self,
        request: &Request<'_>,
    ) -> Result<Option<Answers>, TestCaseError> {
        let request = request.clone().at(self.now);
        let supported = self.store.supports(&request);
        let answer = self.store.decide(&request).await;
        let store = match answer {
            Ok(decision) if supported => decision,
            Ok(decision) => {
                return Err(self.failure(&format!(
                    "{} is not supported, yet was decided: {decision:?}",
                    shown(&request)
                )));
            }
            Err(error) if !supported && error.kind() == ErrorKind::Unsupported => return Ok(None),
            Err(error) => {
                let request = shown(&request);
                return Err(self.failure(&format!("{request} failed: {error:?}")));
            }
        };
        let machine = self.machine.decide(&request, self.now);
        let at = self.now.as_micros();
        let _ = writeln!(
            self.transcript,
            "  at {at} {}: {}",
            shown(&request),
            told(&store)
        );
        Ok(Some(Answers { store, machine }))
    }

    /// Asks as [`ask`](Self::ask) does, for what the store says.
    pub(crate) async fn decide(
        &mut self,
        request: &Request<'_>,
    ) -> Result<Option<Decision>, TestCaseError> {
        Ok(self.ask(request).await?.map(|answers| answers.store))
    }

    /// Forgets what was consumed.
    pub(crate) async fn reset(&mut self, checks: &[Check<'_>]) -> TestCaseResult {
        match self.store.reset(checks).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(self.failure(&format!("reset failed: {error:?}"))),
        }
        self.machine.reset(checks);
        let _ = writeln!(self.transcript, "  reset {checks:?}");
        Ok(())
    }

    /// Returns a failure with what was said so far.
    pub(crate) fn failure(&self, what: &str) -> TestCaseError {
        let at = self.now.as_micros();
        TestCaseError::fail(format!("at {at}: {what}\nso far:\n{}", self.transcript))
    }

    /// Fails with `what` unless `holds`.
    pub(crate) fn ensure(&self, holds: bool, what: impl FnOnce() -> String) -> TestCaseResult {
        if holds {
            Ok(())
        } else {
            Err(self.failure(&what()))
        }
    }
}

/// Returns the checks that `asked` means.
pub(crate) fn checks<'a>(
    limits: &'a [Limit],
    keys: &'a [OwnedKey],
    asked: &[Asked],
) -> Vec<Check<'a>> {
    asked
        .iter()
        .map(|asked| Check::new(&limits[asked.limit], keys[asked.key].key(), asked.cost))
        .collect()
}

/// Returns a request as a line of a transcript.
fn shown(request: &Request<'_>) -> String {
    let checks: Vec<_> = request
        .checks()
        .iter()
        .map(|check| {
            let key = check.key();
            let partition = key.partition().escape_ascii();
            let rest = key.rest().escape_ascii();
            format!(
                "{} of {} for {partition}|{rest}",
                check.cost(),
                check.limit()
            )
        })
        .collect();
    format!("{:?} [{}]", request.operation(), checks.join(", "))
}

/// Returns a decision as a line of a transcript.
pub(crate) fn told(decision: &Decision) -> String {
    let verdicts: Vec<_> = decision
        .verdicts()
        .iter()
        .map(|verdict| {
            format!(
                "{} charged={} remaining={} retry_after={:?} reset_after={:?} decided_at={}",
                if verdict.is_allowed() { "yes" } else { "no" },
                verdict.charged(),
                verdict.remaining(),
                verdict.retry_after().as_micros(),
                verdict.reset_after(),
                verdict.decided_at().as_micros(),
            )
        })
        .collect();
    let answer = if decision.is_allowed() {
        "allowed"
    } else {
        "denied"
    };
    format!("{answer} [{}]", verdicts.join("; "))
}
