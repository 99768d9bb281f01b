//! `BrokenStore`: the reference store with one fault.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tollgate_core::Algorithm;
use tollgate_core::store::{
    Begun, Check, Checks, Fingerprint, Operation, Request, State, Verdicts,
};
use tollgate_core::{ErrorKind, Limit, Store, StoreError, SyncStore, Timestamp};

/// A limit's identity and a key's two parts.
type StateKey = (String, Vec<u8>, Vec<u8>);

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    AcceptsMalformed,
    AcceptsOtherReceipts,
    AdmitsEverything,
    AdmitsOneLess,
    AdmitsOneMore,
    ChargesWhoAllows,
    ClaimsTooMuch,
    ConsumesWhenDenied,
    ConsumesWhenPeeked,
    DeniesEverything,
    FailsOnHugeCosts,
    ForgetsWhatBegins,
    ForgetsWhenTheClockStepsBack,
    ForgetsWithoutWaiting,
    IgnoresBlocks,
    IgnoresCallerTime,
    IgnoresCost,
    IgnoresLowering,
    IgnoresNames,
    IgnoresRefunds,
    IgnoresResets,
    IgnoresSettlements,
    JoinsKeys,
    LosesUpdates,
    PanicsOnHugeCosts,
    RefundsTwice,
    StopsItsClock,
    SupportsNothing,
    WaitsTooLittle,
}

pub(crate) struct BrokenStore {
    fault: Fault,
    held: Mutex<HashMap<StateKey, (Timestamp, State)>>,
}

impl BrokenStore {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            fault,
            held: Mutex::default(),
        }
    }

    fn read(&self, request: &Request<'_>, now: Timestamp) -> Vec<State> {
        let held = self.held.lock().unwrap();
        let checks = request.checks().iter();
        checks
            .map(|check| match held.get(&self.state_key(check)) {
                Some((at, _)) if self.is(Fault::ForgetsWhenTheClockStepsBack) && *at > now => {
                    State::default()
                }
                Some((_, state)) => state.clone(),
                None => State::default(),
            })
            .collect()
    }

    fn write(&self, request: &Request<'_>, written: &[bool], states: Vec<State>, now: Timestamp) {
        let mut held = self.held.lock().unwrap();
        for ((check, state), written) in request.checks().iter().zip(states).zip(written) {
            let lost = match request.operation() {
                Operation::Block(_) => self.is(Fault::IgnoresBlocks),
                Operation::Lower => self.is(Fault::IgnoresLowering),
                Operation::Refund(_) => self.is(Fault::IgnoresRefunds),
                Operation::Settle(_) => self.is(Fault::IgnoresSettlements),
                _ => self.is(Fault::AdmitsEverything),
            };
            if *written && !lost {
                held.insert(self.state_key(check), (now, state));
            }
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn state_key(&self, check: &Check<'_>) -> StateKey {
        let identity = check.limit().identity().to_owned();
        let partition = check.key().partition().to_vec();
        let rest = check.key().rest().to_vec();
        match self.fault {
            Fault::JoinsKeys => (identity, [partition, rest].concat(), Vec::new()),
            Fault::IgnoresNames => (String::new(), partition, rest),
            _ => (identity, partition, rest),
        }
    }

    /// Returns `limit` as the fault changes it.
    fn limit(&self, limit: &Limit) -> Limit {
        let quota = limit.algorithm().quota();
        let amount = match self.fault {
            Fault::AdmitsOneMore => quota.amount() + 1,
            Fault::AdmitsOneLess => quota.amount().saturating_sub(1),
            _ => return limit.clone(),
        };
        let text = limit.algorithm().to_string();
        let (before, after) = text.split_once(&format!(":{}/", quota.amount())).unwrap();
        let mut text = format!("{before}:{amount}/{after}");
        if let Some((_, burst)) = text.clone().split_once("burst=") {
            let more = burst.parse::<u64>().unwrap() + amount - quota.amount();
            text = text.replace(burst, &more.to_string());
        }
        match Algorithm::from_str(&text) {
            Ok(algorithm) => Limit::new(limit.name(), algorithm).unwrap(),
            Err(_) => limit.clone(),
        }
    }

    /// Returns `cost` as the fault changes it.
    fn cost(&self, operation: Operation<'_>, cost: u64) -> u64 {
        match (self.fault, operation) {
            (Fault::DeniesEverything, Operation::Consume | Operation::Peek) if cost > 0 => u64::MAX,
            (Fault::IgnoresCost, _) => cost.min(1),
            _ => cost,
        }
    }

    /// Applies the fault to the states of a decided request, and returns which to write as well.
    fn spoil(
        &self,
        request: &Request<'_>,
        decision: &Verdicts,
        states: &mut [State],
        now: Timestamp,
    ) -> Vec<bool> {
        let mut spoilt = vec![false; states.len()];
        let consuming = matches!(request.operation(), Operation::Consume);
        for (index, check) in request.checks().iter().enumerate() {
            let verdict = decision.as_slice()[index];
            let cost = match self.fault {
                Fault::ConsumesWhenDenied if consuming && decision.is_denied() => {
                    verdict.remaining()
                }
                Fault::ChargesWhoAllows
                    if consuming && decision.is_denied() && verdict.is_allowed() =>
                {
                    check.cost()
                }
                Fault::ConsumesWhenPeeked if matches!(request.operation(), Operation::Peek) => {
                    check.cost().min(verdict.remaining())
                }
                _ => continue,
            };
            let check = Check::new(check.limit(), check.key(), cost);
            let _ = Request::consume(check).decide_on(&mut states[index], now);
            spoilt[index] = true;
        }
        if self.is(Fault::RefundsTwice) && matches!(request.operation(), Operation::Refund(_)) {
            let _ = request.decide_on(states, now);
        }
        spoilt
    }
}

#[async_trait]
impl Store for BrokenStore {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let request = &request;
        let operation = request.operation();
        if self.is(Fault::AcceptsOtherReceipts) {
            request.validate_checks()?;
        } else if !self.is(Fault::AcceptsMalformed) {
            request.validate(Fingerprint::of)?;
        }
        let fingerprint = Fingerprint::of(request);
        let taking = matches!(operation, Operation::TakeUpTo);
        if self.is(Fault::SupportsNothing) || (self.is(Fault::ClaimsTooMuch) && taking) {
            return Err(StoreError::new(ErrorKind::Unsupported, "not supported"));
        }
        let huge = request.checks();
        let huge = huge.iter().any(|check| check.cost() == u64::MAX);
        assert!(!(self.is(Fault::PanicsOnHugeCosts) && huge), "overflow");
        if self.is(Fault::FailsOnHugeCosts) && huge {
            return Err(StoreError::new(ErrorKind::Protocol, "not a number"));
        }
        let now = match request.caller_time() {
            Some(given) if !self.is(Fault::IgnoresCallerTime) => given,
            _ if self.is(Fault::StopsItsClock) => Timestamp::UNIX_EPOCH,
            _ => Timestamp::try_from(SystemTime::now()).unwrap(),
        };
        let limits = request.checks().iter();
        let limits: Vec<_> = limits.map(|c| self.limit(c.limit())).collect();
        let checks = request.checks().iter().zip(&limits).map(|(check, limit)| {
            Check::new(limit, check.key(), self.cost(operation, check.cost()))
        });
        let request = &Request::new(operation, checks.collect::<Vec<_>>());
        let mut states = self.read(request, now);
        if self.is(Fault::LosesUpdates) {
            tokio::task::yield_now().await;
        }
        let evaluation = request.evaluate(&states[..], now);
        let mut written: Vec<_> = (0..states.len())
            .map(|index| evaluation.writes_to(index))
            .collect();
        let decision = evaluation.apply(fingerprint, &mut states[..]);
        let spoilt = self.spoil(request, &decision, &mut states, now);
        for (written, spoilt) in written.iter_mut().zip(spoilt) {
            *written |= spoilt;
        }
        self.write(request, &written, states.clone(), now);
        if self.is(Fault::WaitsTooLittle) && decision.is_denied() {
            let late = now.saturating_add(Duration::from_micros(1));
            let request = Request::new(Operation::Peek, request.checks().to_vec());
            let early = request.decide_on(&mut states[..], late);
            return Ok(if early.is_denied() { early } else { decision });
        }
        Ok(decision)
    }

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        match self.is(Fault::ForgetsWhatBegins) {
            true => self.decide_now(request).into(),
            false => Begun::Waits(self.decide(request.clone())),
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        let mut held = self.held.lock().unwrap();
        for check in checks.iter() {
            if !self.is(Fault::IgnoresResets) {
                held.remove(&self.state_key(check));
            }
        }
        Ok(())
    }

    fn supports<'a>(&self, _request: &Request<'a>) -> Result<(), StoreError> {
        match self.is(Fault::SupportsNothing) {
            true => Err(StoreError::new(
                ErrorKind::Unsupported,
                "nothing is supported",
            )),
            false => Ok(()),
        }
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        self.is(Fault::ForgetsWithoutWaiting).then_some(self)
    }
}

/// Decides on fresh states, and forgets them.
impl SyncStore for BrokenStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let mut states = vec![State::default(); request.checks().len()];
        let now = Timestamp::try_from(SystemTime::now()).unwrap();
        Ok(request.decide_on(&mut states[..], now))
    }

    fn reset_now(&self, _checks: &[Check<'_>]) -> Result<(), StoreError> {
        Ok(())
    }
}
