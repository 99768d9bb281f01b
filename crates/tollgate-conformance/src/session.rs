//! A store under test, the instant it is asked at, and what was said so far.

use std::fmt::Write;
use std::sync::Arc;

use tollgate_core::{
    Check, ErrorKind, Limit, Operation, Receipt, Request, Store, Timestamp, Verdict, Verdicts,
};

use crate::clock::takes;
use crate::harness::{Harness, OwnedKey};
use crate::history::{Act, Asked, Move, Step};
use crate::machine::Machine;

/// Why a history was not played to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The promise is broken.
    Broken(String),
    /// The store does not support what the history needs, or time cannot pass as it needs.
    Moot,
}

/// What came of a history.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// A conversation with one store, at the caller's instants or by the store's own clock.
pub(crate) struct Session {
    pub(crate) store: Arc<dyn Store>,
    /// What the pure machines make of the same conversation.
    pub(crate) machine: Machine,
    /// The caller's instant, or the last that the store has told.
    pub(crate) now: Timestamp,
    /// The latest instant so far, from which the clock may have stepped back.
    latest: Timestamp,
    /// Whether the store decides by its own clock, so that nobody else says how time passes.
    pub(crate) by_its_own_clock: bool,
    transcript: String,
    receipts: Vec<(Vec<Asked>, Receipt)>,
}

/// Returns nothing where there was nothing to do.
pub(crate) fn unless_moot<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Moot) => Ok(None),
        Err(broken) => Err(broken),
    }
}

/// What the store and the pure machines answered.
pub(crate) struct Answers {
    pub(crate) store: Verdicts,
    pub(crate) machine: Verdicts,
}

impl Session {
    /// Opens a session with a store of `harness` at `start`.
    pub(crate) async fn open(harness: &impl Harness, start: Timestamp) -> Self {
        Self {
            store: harness.store().await,
            machine: Machine::default(),
            now: start,
            latest: start,
            by_its_own_clock: false,
            transcript: String::new(),
            receipts: Vec::new(),
        }
    }

    /// Opens a session with a store of `harness` that decides by its own clock.
    pub(crate) async fn open_by_its_own_clock(harness: &impl Harness) -> Self {
        Self {
            by_its_own_clock: true,
            ..Self::open(harness, Timestamp::UNIX_EPOCH).await
        }
    }

    /// Opens a session at `start`, or by the store's own clock where it takes no instants for `limit`.
    pub(crate) async fn open_whatever_the_clock(
        harness: &impl Harness,
        limit: &Limit,
        start: Timestamp,
    ) -> Self {
        let mut session = Self::open(harness, start).await;
        session.by_its_own_clock = !takes(&*session.store, limit, start);
        session
    }

    /// Lets exactly `micros` pass, or says that it cannot.
    pub(crate) fn wait(&mut self, micros: u64) -> Outcome {
        let then = self.now.as_micros().saturating_add(micros);
        self.travel(Move::Forward(micros));
        if self.now.as_micros() == then {
            Ok(())
        } else {
            Err(Stop::Moot)
        }
    }

    /// Moves the clock as far as it goes; the store's own goes by itself.
    pub(crate) fn travel(&mut self, time: Move) {
        if self.by_its_own_clock {
            return;
        }
        let now = self.now.as_micros();
        self.now = Timestamp::saturating_from_micros(match time {
            Move::Forward(micros) => now.saturating_add(micros),
            Move::Back(micros) => now.saturating_sub(micros),
            Move::Stay => return,
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
    ) -> Outcome<Option<Answers>> {
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
                let request = Request::new(Operation::Refund(&receipt), checks);
                return unless_moot(self.ask(&request).await);
            }
            Act::Reset => {
                let checks = checks(limits, keys, &step.asked);
                unless_moot(self.reset(&checks).await)?;
                return Ok(None);
            }
        };
        let request = Request::new(operation, checks(limits, keys, &step.asked));
        let answers = unless_moot(self.ask(&request).await)?;
        let decision = answers.as_ref().map(|answers| answers.store.clone());
        if let Some(receipt) = decision.and_then(Verdicts::into_receipt) {
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
    ) -> Outcome {
        for step in history {
            self.step(limits, keys, step).await?;
        }
        Ok(())
    }

    /// Does a whole history, and fails unless every answer is the one of the machines.
    pub(crate) async fn play_as_the_machines(
        &mut self,
        limits: &[Limit],
        keys: &[OwnedKey],
        history: &[Step],
    ) -> Outcome {
        for step in history {
            if let Some(answers) = self.step(limits, keys, step).await? {
                self.alike(&answers)?;
            }
        }
        Ok(())
    }

    /// Fails unless the store and the machines answered the same, field by field.
    pub(crate) fn alike(&self, answers: &Answers) -> Outcome {
        self.ensure(answers.store == answers.machine, || {
            format!("the machines say\n  {}", told(&answers.machine))
        })
    }

    /// Asks the store at the present instant, and the machines at the one it was decided at.
    ///
    /// Moot where the store does not support the request, and says so.
    pub(crate) async fn ask(&mut self, request: &Request<'_>) -> Outcome<Answers> {
        let request = if self.by_its_own_clock {
            request.clone()
        } else {
            request.clone().at(self.now)
        };
        let supported = self.store.supports(&request);
        let answer = self.store.decide(request.clone()).await;
        let store = match answer {
            Ok(decision) if supported => decision,
            Ok(decision) => {
                return Err(self.failure(&format!(
                    "{} is not supported, yet was decided: {decision:?}",
                    shown(&request)
                )));
            }
            Err(error) if !supported && error.kind() == ErrorKind::Unsupported => {
                return Err(Stop::Moot);
            }
            Err(error) => {
                let request = shown(&request);
                return Err(self.failure(&format!("{request} failed: {error:?}")));
            }
        };
        if self.by_its_own_clock {
            let told = store.as_slice().iter().map(|verdict| verdict.decided_at());
            self.now = told.min().unwrap_or(self.now);
        }
        let machine = self.machine.decide(&request, self.now);
        let at = self.now.as_micros();
        let _ = writeln!(
            self.transcript,
            "  at {at} {}: {}",
            shown(&request),
            told(&store)
        );
        Ok(Answers { store, machine })
    }

    /// Asks as [`ask`](Self::ask) does, for what the store says.
    pub(crate) async fn decide(&mut self, request: &Request<'_>) -> Outcome<Verdicts> {
        Ok(self.ask(request).await?.store)
    }

    /// Forgets what was consumed.
    pub(crate) async fn reset(&mut self, checks: &[Check<'_>]) -> Outcome {
        match self.store.reset(checks.into()).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Unsupported => return Err(Stop::Moot),
            Err(error) => return Err(self.failure(&format!("reset failed: {error:?}"))),
        }
        self.machine.reset(checks);
        let _ = writeln!(self.transcript, "  reset {checks:?}");
        Ok(())
    }

    /// Returns whether two verdicts say the same, but for what they say of time where that goes by
    /// itself.
    pub(crate) fn same(&self, one: &Verdict, other: &Verdict) -> bool {
        let counted = |verdict: &Verdict| {
            let remembered = !verdict.reset_after().is_zero();
            let never = verdict.retry_after().is_never();
            let numbers = (verdict.capacity(), verdict.consumed(), verdict.remaining());
            (verdict.is_allowed(), numbers, never, remembered)
        };
        one == other || (self.by_its_own_clock && counted(one) == counted(other))
    }

    /// Returns a failure with what was said so far.
    pub(crate) fn failure(&self, what: &str) -> Stop {
        let at = self.now.as_micros();
        Stop::Broken(format!("at {at}: {what}\nso far:\n{}", self.transcript))
    }

    /// Fails with `what` unless `holds`.
    pub(crate) fn ensure(&self, holds: bool, what: impl FnOnce() -> String) -> Outcome {
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
pub(crate) fn told(decision: &Verdicts) -> String {
    let verdicts: Vec<_> = decision
        .as_slice()
        .iter()
        .map(|verdict| {
            format!(
                "{} consumed={} remaining={} retry_after={:?} reset_after={:?} decided_at={}",
                if verdict.is_allowed() { "yes" } else { "no" },
                verdict.consumed(),
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
