//! `Session`: a store under test, its current time, and a transcript of requests and answers.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request, Source, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Limit, Receipt, Store, Timestamp};

use crate::clock::takes;
use crate::harness::{OwnedKey, Stores};
use crate::history::{Act, Move, PlannedCheck, Step, settled};
use crate::machine::Machine;
use crate::plan::{Outcome, Stop, unless_moot};

/// A sequence of requests to one store, at the caller's instants or by the store's own clock.
pub(crate) struct Session {
    pub(crate) store: Arc<dyn Store>,
    /// The reference machine, which gets the same requests.
    pub(crate) machine: Machine,
    /// The caller's instant, or the last decision's if the store uses its own clock.
    pub(crate) now: Timestamp,
    /// The latest instant so far; the clock may have stepped back since.
    latest: Timestamp,
    /// Whether the store decides by its own clock, so that the session cannot move time.
    pub(crate) by_its_own_clock: bool,
    transcript: String,
    receipts: Vec<(Vec<PlannedCheck>, Receipt)>,
}

/// The answers of the store and of the reference machine to one request.
pub(crate) struct Answers {
    pub(crate) store: Verdicts,
    pub(crate) machine: Verdicts,
}

impl Session {
    pub(crate) async fn open(harness: &Stores, start: Timestamp) -> Self {
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

    pub(crate) async fn open_by_its_own_clock(harness: &Stores) -> Self {
        Self {
            by_its_own_clock: true,
            ..Self::open(harness, Timestamp::UNIX_EPOCH).await
        }
    }

    /// Opens a session at `start`, or by the store's own clock if it takes no instants for `limit`.
    pub(crate) async fn open_whatever_the_clock(
        harness: &Stores,
        limit: &Limit,
        start: Timestamp,
    ) -> Self {
        let mut session = Self::open(harness, start).await;
        session.by_its_own_clock = !takes(&*session.store, limit, start);
        session
    }

    /// Advances the clock by exactly `micros`; moot if that is not possible.
    pub(crate) fn wait(&mut self, micros: u64) -> Outcome {
        let then = self.now.as_micros().saturating_add(micros);
        self.travel(Move::Forward(micros));
        if self.now.as_micros() == then {
            Ok(())
        } else {
            Err(Stop::Moot)
        }
    }

    /// Moves the clock as far as possible. The store's own clock moves by itself.
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
        // A store may have dropped states that expired by `latest`, so do not go back before their
        // end.
        let behind = self.now < self.latest;
        let dropped = |at| self.machine.may_have_dropped(at);
        if behind && (dropped(self.latest) || dropped(self.now)) {
            self.now = self.latest;
        }
    }

    /// Performs one step with `limits` and `keys`. Returns `None` if nothing was decided.
    pub(crate) async fn step(
        &mut self,
        limits: &[Limit],
        keys: &[OwnedKey],
        step: &Step,
    ) -> Outcome<Option<Answers>> {
        self.travel(step.time);
        let operation = match step.act {
            Act::Block(span) => {
                let checks = checks(limits, keys, &step.planned).into_iter();
                let checks = checks.filter(|check| check.limit().algorithm().can_block());
                let checks: Vec<_> = checks.collect();
                if checks.is_empty() {
                    return Ok(None);
                }
                let request = Request::new(Operation::Block(span.from(self.now)), checks);
                return unless_moot(self.ask(&request).await);
            }
            Act::Give => {
                let request = Request::new(Operation::Give, checks(limits, keys, &step.planned));
                return unless_moot(self.ask(&request).await);
            }
            Act::Charge => {
                let mut planned = step.planned.clone();
                for planned in &mut planned {
                    planned.cost = settled(&limits[planned.limit], planned.cost);
                }
                let request = Request::new(Operation::Charge, checks(limits, keys, &planned));
                return unless_moot(self.ask(&request).await);
            }
            Act::Consume => Operation::Consume,
            Act::Peek => Operation::Peek,
            // By the store's own clock, it says when units end that are used ahead, not when it decided.
            Act::Prefetch(_) if self.by_its_own_clock => Operation::Consume,
            Act::Prefetch(prefetch) => Operation::Prefetch(prefetch),
            Act::Reserve(within) => Operation::Reserve {
                max_delay: Duration::from_micros(within),
            },
            Act::TakeUpTo => Operation::TakeUpTo,
            Act::Refund(index) | Act::Settle(index) => {
                if self.receipts.is_empty() {
                    return Ok(None);
                }
                let index = index % self.receipts.len();
                let (mut planned, receipt) = self.receipts.swap_remove(index);
                let mut operation = Operation::Refund(&receipt);
                if let Act::Settle(_) = step.act {
                    operation = Operation::Settle(&receipt);
                    let costs = step.planned.iter().map(|planned| planned.cost).cycle();
                    for (planned, cost) in planned.iter_mut().zip(costs) {
                        planned.cost = settled(&limits[planned.limit], cost);
                    }
                }
                let request = Request::new(operation, checks(limits, keys, &planned));
                return unless_moot(self.ask(&request).await);
            }
            Act::Lower => Operation::Lower,
            Act::Reset => {
                let checks = checks(limits, keys, &step.planned);
                unless_moot(self.reset(&checks).await)?;
                return Ok(None);
            }
        };
        let request = Request::new(operation, checks(limits, keys, &step.planned));
        let answers = unless_moot(self.ask(&request).await)?;
        let receipt = answers.as_ref();
        let receipt = receipt.map(|answers| answers.store.again().into_receipt());
        if let Some(receipt) = receipt.flatten() {
            self.receipts.push((step.planned.clone(), receipt));
        }
        Ok(answers)
    }

    /// Performs a whole history.
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

    /// Performs a whole history, and fails unless every answer equals the machine's.
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

    /// Fails unless the store and the machine gave the same answer, field by field.
    pub(crate) fn alike(&self, answers: &Answers) -> Outcome {
        let (store, machine) = (&answers.store, &answers.machine);
        let is_alike = match store.source() {
            Source::Cache => is_known_denial(store, machine),
            _ => store == machine,
        };
        self.ensure(is_alike, || {
            format!("the machines say\n  {}", told(&answers.machine))
        })
    }

    /// Sends a request to the store, and to the machine at the instant of the store's decision.
    ///
    /// Moot if the store says that it does not support the request.
    pub(crate) async fn ask(&mut self, request: &Request<'_>) -> Outcome<Answers> {
        let request = if self.by_its_own_clock {
            request.clone()
        } else {
            request.clone().at(self.now)
        };
        let supported = self.store.supports(&request);
        let answer = self.store.decide(request.clone()).await;
        let store = match answer {
            Ok(decision) if supported.is_ok() => decision,
            Ok(decision) => {
                return Err(self.failure(&format!(
                    "{} is not supported, yet was decided: {decision:?}",
                    shown(&request)
                )));
            }
            Err(error) if supported.is_err() && error.kind() == ErrorKind::Unsupported => {
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
        // Whether there is an id makes no difference to a call that is not repeated.
        let plain = request
            .split_id()
            .map_or_else(|_| request.clone(), |(_, plain)| plain);
        let machine = self.machine.answer(&plain, self.now);
        let at = self.now.as_micros();
        let _ = writeln!(
            self.transcript,
            "  at {at} {}: {}",
            shown(&request),
            told(&store)
        );
        Ok(Answers { store, machine })
    }

    /// Like [`ask`](Self::ask), but returns only the store's answer.
    pub(crate) async fn call(&mut self, request: &Request<'_>) -> Outcome<Verdicts> {
        Ok(self.ask(request).await?.store)
    }

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

    /// Returns whether two verdicts are the same. By the store's own clock, compares waits only
    /// roughly, because time passes between them.
    pub(crate) fn same(&self, one: &Verdict, other: &Verdict) -> bool {
        let counted = |verdict: &Verdict| {
            let remembered = !verdict.reset_after().is_zero();
            let never = verdict.retry_after().is_never();
            let numbers = (verdict.capacity(), verdict.consumed(), verdict.remaining());
            (verdict.is_allowed(), numbers, never, remembered)
        };
        one == other || (self.by_its_own_clock && counted(one) == counted(other))
    }

    /// Returns a failure that includes the transcript so far.
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

/// Returns the checks for `planned`.
pub(crate) fn checks<'a>(
    limits: &'a [Limit],
    keys: &'a [OwnedKey],
    planned: &[PlannedCheck],
) -> Vec<Check<'a>> {
    planned
        .iter()
        .map(|planned| {
            Check::new(
                &limits[planned.limit],
                keys[planned.key].key(),
                planned.cost,
            )
        })
        .collect()
}

/// Formats a request for the transcript.
fn shown(request: &Request<'_>) -> String {
    let checks: Vec<_> = request
        .checks()
        .iter()
        .map(|check| {
            let key = check.key();
            let partition = key.partition();
            let partition = partition.escape_ascii();
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

/// Formats a decision for the transcript.
pub(crate) fn told(decision: &Verdicts) -> String {
    let verdicts: Vec<_> = decision
        .as_slice()
        .iter()
        .map(|verdict| {
            format!(
                "{} delay={} consumed={} remaining={} retry_after={:?} reset_after={:?} decided_at={}",
                if verdict.is_allowed() { "yes" } else { "no" },
                verdict.delay(),
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

/// Returns whether a denial that was remembered agrees with the machine's: what denies, denies for at
/// least as long. It says nothing about other limits.
fn is_known_denial(known: &Verdicts, machine: &Verdicts) -> bool {
    let mut each = known.as_slice().iter().zip(machine.as_slice());
    machine.is_denied()
        && known.is_denied()
        && each.all(|(known, machine)| {
            known.is_allowed()
                || (!machine.is_allowed() && known.retry_after() <= machine.retry_after())
        })
}
