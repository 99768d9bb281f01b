//! `Scene`: a session with one limit and two keys, on which most promises are checked.

use proptest::strategy::Strategy;
use tollgate_core::store::{Check, Request, Verdict, Verdicts};
use tollgate_core::{Limit, Receipt};

use crate::harness::{OwnedKey, Stores};
use crate::history::{Move, PlannedCheck, Start, Step, starts};
use crate::plan::{Outcome, Plan};
use crate::session::Session;

/// The key that most promises are checked on.
pub(crate) const ALICE: usize = 0;
/// The key to compare it with.
pub(crate) const BOB: usize = 1;

/// One limit and two keys on one store.
pub(crate) struct Scene<'l> {
    pub(crate) session: Session,
    pub(crate) limit: &'l Limit,
    pub(crate) keys: [OwnedKey; 2],
}

impl<'l> Scene<'l> {
    /// Opens a scene with two unused keys, at the caller's instants.
    pub(crate) async fn open(harness: &Stores, limit: &'l Limit, start: Start) -> Self {
        Self::of(Session::open(harness, start.0).await, limit)
    }

    /// Opens a scene with two unused keys; uses the store's own clock if the store takes no
    /// instants.
    pub(crate) async fn open_whatever_the_clock(
        harness: &Stores,
        limit: &'l Limit,
        start: Start,
    ) -> Self {
        let session = Session::open_whatever_the_clock(harness, limit, start.0);
        Self::of(session.await, limit)
    }

    /// Opens a scene with two unused keys, by the store's own clock.
    pub(crate) async fn open_by_its_own_clock(harness: &Stores, limit: &'l Limit) -> Self {
        Self::of(Session::open_by_its_own_clock(harness).await, limit)
    }

    fn of(session: Session, limit: &'l Limit) -> Self {
        Self {
            session,
            limit,
            keys: [OwnedKey::fresh("alice"), OwnedKey::fresh("bob")],
        }
    }

    /// Performs one step for each key that it names.
    pub(crate) async fn step(&mut self, step: &Step) -> Outcome<Option<Verdicts>> {
        let limits = std::slice::from_ref(self.limit);
        let answers = self.session.step(limits, &self.keys, step).await?;
        Ok(answers.map(|answers| answers.store))
    }

    /// Performs a whole history.
    pub(crate) async fn play(&mut self, history: &[Step]) -> Outcome {
        for step in history {
            self.step(step).await?;
        }
        Ok(())
    }

    /// Performs a whole history, and fails unless every answer equals the machine's.
    pub(crate) async fn play_as_the_machine(&mut self, history: &[Step]) -> Outcome {
        let limits = std::slice::from_ref(self.limit);
        let session = &mut self.session;
        session
            .play_as_the_machines(limits, &self.keys, history)
            .await
    }

    /// Performs a history for both keys at the same instants, and fails unless they get the same
    /// answers.
    pub(crate) async fn play_twins(&mut self, history: &[Step]) -> Outcome {
        for step in history {
            let alice = self.step(&for_key(step, step.time, ALICE)).await?;
            let bob = self.step(&for_key(step, Move::Stay, BOB)).await?;
            self.alike(alice.as_ref(), bob.as_ref())?;
        }
        Ok(())
    }

    /// Fails with `why` unless `holds`.
    pub(crate) fn ensure(&self, holds: bool, why: impl FnOnce() -> String) -> Outcome {
        self.session.ensure(holds, why)
    }

    /// Fails unless both keys got the same answer.
    pub(crate) fn alike(&self, alice: Option<&Verdicts>, bob: Option<&Verdicts>) -> Outcome {
        self.session.ensure(self.same(alice, bob), || {
            "the keys alice and bob got different answers".to_owned()
        })
    }

    /// Returns whether two steps got the same answer.
    pub(crate) fn same(&self, one: Option<&Verdicts>, other: Option<&Verdicts>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => {
                let (one, other) = (one.as_slice(), other.as_slice());
                self.session.same(&one[0], &other[0])
            }
            _ => one == other,
        }
    }

    /// Fails unless a peek at `cost` returns the same for both keys.
    pub(crate) async fn look_alike(&mut self, cost: u64) -> Outcome {
        let alice = self.peek(ALICE, cost).await?;
        let bob = self.peek(BOB, cost).await?;
        let same = self.session.same(&alice, &bob);
        self.session
            .ensure(same, || "the keys alice and bob look different".to_owned())
    }

    pub(crate) async fn consume(&mut self, key: usize, cost: u64) -> Outcome<Verdict> {
        let request = Request::consume(Check::new(self.limit, self.keys[key].key(), cost));
        Ok(self.session.call(&request).await?.as_slice()[0])
    }

    pub(crate) async fn peek(&mut self, key: usize, cost: u64) -> Outcome<Verdict> {
        let request = Request::peek(Check::new(self.limit, self.keys[key].key(), cost));
        Ok(self.session.call(&request).await?.as_slice()[0])
    }

    pub(crate) async fn take(&mut self, key: usize, most: u64) -> Outcome<Verdict> {
        let request = Request::take_up_to(Check::new(self.limit, self.keys[key].key(), most));
        Ok(self.session.call(&request).await?.as_slice()[0])
    }

    /// Consumes `cost` and returns the receipt, if the call was allowed.
    pub(crate) async fn acquire(&mut self, key: usize, cost: u64) -> Outcome<Option<Receipt>> {
        let request = Request::consume(Check::new(self.limit, self.keys[key].key(), cost));
        Ok(self.session.call(&request).await?.into_receipt())
    }

    pub(crate) async fn refund(&mut self, key: usize, receipt: &Receipt) -> Outcome<Verdict> {
        let check = Check::new(self.limit, self.keys[key].key(), 0);
        let request = Request::refund(receipt, check);
        Ok(self.session.call(&request).await?.as_slice()[0])
    }

    pub(crate) async fn reset(&mut self, key: usize) -> Outcome {
        let check = Check::new(self.limit, self.keys[key].key(), 0);
        self.session.reset(&[check]).await
    }
}

impl Plan {
    /// Checks `test` on each limit in a scene of its own, by the store's own clock if the store takes
    /// no instants, with values of the strategy that `values` returns for the limit.
    pub(crate) fn in_scenes<S: Strategy>(
        &self,
        harness: &Stores,
        values: impl Fn(&Limit) -> S,
        test: impl AsyncFn(Scene<'_>, S::Value) -> Outcome,
    ) {
        self.check_each(
            |limit| (starts(limit), values(limit)),
            async |limit, (start, values)| {
                let scene = Scene::open_whatever_the_clock(harness, limit, start);
                test(scene.await, values).await
            },
        );
    }
}

/// Returns `step` with every check on `key`.
fn for_key(step: &Step, time: Move, key: usize) -> Step {
    let planned = step
        .planned
        .iter()
        .map(|planned| PlannedCheck { key, ..*planned });
    Step {
        time,
        act: step.act,
        planned: planned.collect(),
    }
}
