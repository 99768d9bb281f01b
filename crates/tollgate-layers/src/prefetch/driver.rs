//! `Driver`: asks for units, lets calls wait for them, and gives them back.

use std::future::poll_fn;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tollgate_core::store::{Begun, Check, Checks, Operation, Prefetch as Ahead, Request, Verdicts};
use tollgate_core::{Clock, ErrorKind, Store, StoreError, Timestamp};

use super::changes::Places;
use super::hand::{Answer, Hand, Take};
use super::hot::{Hot, correction, cost_of};
use super::sweeper::Sweeper;
use super::table::Table;
use super::units::{Outcome, Units};
use crate::clock;

/// At most one of this many parts of what is left is asked for.
const PARTS: u32 = 4;
/// How many give-backs are on the way at a time.
const AT_ONCE: usize = 32;
/// How long the store may take to take back what is given back at a time.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the task that gives back pauses, at least.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Driver<S> {
    store: Arc<S>,
    pub(super) within: Duration,
    table: Table,
    clock: Arc<dyn Clock>,
    /// The task that gives back what is not used.
    sweeper: Sweeper,
    lacks_timers: AtomicBool,
    units: Units,
}

impl<S> Driver<S> {
    /// Returns a driver that uses units of `store` `within` this time, and has none in hand yet.
    pub(super) fn new(store: Arc<S>, within: Duration, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            store,
            within,
            table: Table::new(within),
            clock: clock.unwrap_or_else(clock::through_suspension),
            sweeper: Sweeper::default(),
            lacks_timers: AtomicBool::new(false),
            units: Units::default(),
        }
    }
}

impl<S: Store + 'static> Driver<S> {
    pub(super) async fn give_back(self: &Arc<Self>) {
        let (now, all) = (self.clock.now(), self.table.which(|_| true));
        let unused = all.iter().flat_map(|hot| hot.over(now, true)).collect();
        Returning(Arc::clone(self), unused).arrive(&all).await;
    }

    /// Returns whether units may be asked for; called under the lock of the hand: a change that begins later
    /// withdraws what is asked for now.
    fn may_ask(&self, hot: &Hot, now: Timestamp) -> bool {
        self.table.changes.permit(&hot.places, now)
    }

    /// Begins to decide: by units in hand, if there are enough.
    pub(super) fn begin<'a>(self: &'a Arc<Self>, request: &Request<'a>) -> Begun<'a> {
        if let Some(verdicts) = self.correct(request) {
            return Begun::Decided(verdicts);
        }
        // It changes what is held of the keys, such as a block.
        if request.receipt().is_none() && !request.operation().decides_a_call() {
            return Begun::Waits(Box::pin(self.decide_without_units(request.clone())));
        }
        let Some(cost) = cost_of(request) else {
            return self.store.begin(request);
        };
        let now = self.clock.now();
        let Some(hot) = self.table.find(request.checks(), cost, now) else {
            return self.store.begin(request);
        };
        let mut hand = hot.hand();
        if let Some(grant) = hand.take(cost, now) {
            let decided = Begun::Decided(grant.answer(cost, now));
            drop(hand);
            drop(hot);
            self.units.count(Outcome::Used, cost);
            return decided;
        }
        let taken = hand.otherwise(cost, now, || self.may_ask(&hot, now));
        let call = Call::new(&hot, cost, &taken);
        drop(hand);
        drop(hot);
        if !matches!(taken, Take::Directly) {
            return Begun::Waits(Box::pin(self.decide(call, taken, request.clone())));
        }
        match self.store.begin(request) {
            Begun::Waits(asked) => {
                Begun::Waits(Box::pin(
                    async move { Ok(self.or_in_hand(&call, asked.await?)) },
                ))
            }
            decided => decided,
        }
    }

    /// Asks the store to decide the call, as the caller with this number, and for `most` units ahead.
    async fn ask(
        self: &Arc<Self>,
        call: &mut Call,
        number: u64,
        most: u64,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        let within = call.hot.within;
        let asked = request
            .clone()
            .with_prefetch(Ahead::new(most, within).one_of(PARTS));
        let sent = self.clock.now();
        self.sweep_later(sent, within);
        let outcome = self.store.decide(asked.clone()).await;
        let answer = match &outcome {
            // What answers in the store's place grants nothing.
            Ok(verdicts) => match asked.granted(verdicts) {
                Some((units, lasts)) => Answer::Granted {
                    units,
                    lasts,
                    verdicts,
                },
                None => Answer::Refused,
            },
            // Not found out by `supports`: a `Lazy` knows only once it has connected.
            Err(error) if error.kind() == ErrorKind::Unsupported => Answer::Unsupported,
            Err(_) => Answer::Failed,
        };
        let received = self.clock.now();
        let answered = |hand: &mut Hand| hand.answered(number, sent, answer, received);
        let lost = call.hot.with(answered);
        call.stop_asking();
        // What was too little for the call is there for the next one that asks.
        let unused = call.hot.over(received, false).collect();
        Returning(Arc::clone(self), unused).run_later();
        match answer {
            Answer::Granted {
                units, verdicts, ..
            } => {
                self.units.count(Outcome::Granted, units);
                self.units.count(Outcome::Lost, lost);
                // The caller has its own units; the others are for those who come now.
                let own = verdicts.as_slice().iter();
                let own = own.map(|of| of.with_consumed(call.cost, of.decided_at()));
                Ok(Verdicts::new(verdicts.fingerprint(), own))
            }
            Answer::Unsupported => self.store.decide(request).await,
            Answer::Refused | Answer::Failed => outcome,
        }
    }

    /// Decides a call of a busy key that units in hand did not admit at first.
    pub(super) async fn decide(
        self: &Arc<Self>,
        mut call: Call,
        mut taken: Take,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        // Otherwise nobody could wait or give back.
        if !matches!(taken, Take::Directly) && !self.has_timers() {
            call.stop_asking();
            taken = Take::Directly;
        }
        if let Take::Later(patience) = taken {
            // Whoever asks may have gone away.
            let _ = timeout(patience, call.hot.answered()).await;
            let (cost, now) = (call.cost, self.clock.now());
            let again = call.hot.with(|hand| match hand.take(cost, now) {
                Some(grant) => Ok(grant.answer(cost, now)),
                None => Err(hand.otherwise(cost, now, || self.may_ask(&call.hot, now))),
            });
            match again {
                Ok(verdicts) => {
                    self.units.count(Outcome::Used, cost);
                    return Ok(verdicts);
                }
                Err(again) => taken = again,
            }
            call = Call::new(&call.hot, cost, &taken);
        }
        let verdicts = match taken {
            Take::Ask { number, most } => self.ask(&mut call, number, most, request).await?,
            Take::Later(..) | Take::Directly => self.store.decide(request).await?,
        };
        Ok(self.or_in_hand(&call, verdicts))
    }

    /// Returns the store's answer; what it had too little of may be in hand by now.
    fn or_in_hand(&self, call: &Call, verdicts: Verdicts) -> Verdicts {
        if verdicts.is_allowed() {
            return verdicts;
        }
        let (cost, now) = (call.cost, self.clock.now());
        let admitted = call.hot.with(|hand| {
            let grant = hand.take_in_hand(cost, now)?;
            Some(grant.answer(cost, now))
        });
        if admitted.is_some() {
            self.units.count(Outcome::Used, cost);
        }
        admitted.unwrap_or(verdicts)
    }

    /// Corrects the cost of a call that was admitted by units in hand, with those that still are.
    pub(super) fn correct(&self, request: &Request<'_>) -> Option<Verdicts> {
        let (receipt, kept) = correction(request)?;
        let (hot, now) = (self.table.known(request.checks())?, self.clock.now());
        let (left, more) = hot.with(|hand| hand.correct(receipt, kept, now))?;
        self.units.count(Outcome::Used, more);
        Some(left)
    }

    /// Returns whether there is a runtime with timers.
    fn has_timers(&self) -> bool {
        if Handle::try_current().is_err() || self.lacks_timers.load(Ordering::Relaxed) {
            return false;
        }
        let has_timers = catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok();
        if !has_timers {
            self.lacks_timers.store(true, Ordering::Relaxed);
        }
        has_timers
    }

    /// Makes sure that a task gives back what is not used `within` this time.
    fn sweep_later(self: &Arc<Self>, now: Timestamp, mut within: Duration) {
        let Some(number) = self.sweeper.start(now, self.within * 2, within) else {
            return;
        };
        let driver = Arc::downgrade(self);
        let (sooner, longest) = (self.sweeper.sooner(), self.within);
        let task = tokio::spawn(async move {
            let after = |time: Duration| (time / 2).max(SHORTEST_PAUSE);
            let mut looked_at = Instant::now();
            let mut all_at = looked_at + after(longest);
            loop {
                let next = all_at.min(looked_at + after(within));
                let is_sooner = timeout_at(next, sooner.notified()).await.is_ok();
                let Some(driver) = Weak::upgrade(&driver) else {
                    return;
                };
                if is_sooner {
                    within = driver.sweeper.within();
                    continue;
                }
                // For a short log, one looks often, but not at all keys.
                looked_at = Instant::now();
                let is_all = looked_at >= all_at;
                if is_all {
                    all_at = looked_at + after(longest);
                }
                // One that takes long holds up no other.
                Returning(Arc::clone(&driver), driver.sweep(is_all)).run_later();
                let (now, table) = (driver.clock.now(), &driver.table);
                let Some(next) = driver.sweeper.goes_on(number, table, now, longest * 2) else {
                    return;
                };
                within = next;
            }
        });
        self.sweeper.started(number, task.abort_handle());
    }

    /// Returns what was not used in time, of all keys or of short logs, and forgets keys that are quiet.
    fn sweep(&self, is_all: bool) -> Vec<(Arc<Hot>, u64)> {
        let now = self.clock.now();
        let hots = self.table.which(|hot| is_all || hot.within < self.within);
        let unused = hots.iter().flat_map(|hot| hot.over(now, false)).collect();
        if is_all {
            self.give_up(&hots, now, PATIENCE);
            drop(hots);
            self.table.forget_quiet(now);
        }
        unused
    }

    /// Gives back what is on its way with this number, unless it counts as lost meanwhile; returns whether the
    /// store took it.
    async fn give_back_one(&self, hot: &Hot, number: u64) -> bool {
        let Some(receipt) = hot.with(|hand| hand.receipt(number)) else {
            return false;
        };
        let checks = hot.checks();
        let request = Request::new(Operation::Refund(&receipt), &checks);
        let mut call = self.store.decide(request);
        let is_on_its_way = || hot.with(|hand| hand.receipt(number).is_some());
        let arrived = poll_fn(|context| match is_on_its_way() {
            true => call.as_mut().poll(context).map(|outcome| outcome.is_ok()),
            false => Poll::Ready(false),
        });
        arrived.await
    }

    /// Counts as lost what of these keys has been on its way back for this `time`.
    fn give_up(&self, of: &[Arc<Hot>], now: Timestamp, time: Duration) {
        let lost = of.iter();
        let lost = lost.map(|hot| hot.end(|hand| hand.give_up(now, time)));
        self.units.count(Outcome::Lost, lost.sum());
    }

    /// Begins to change keys, such as by a charge, a give, a block or a reset: until the end, and for some time
    /// after it, nobody asks for units of these keys. What is in hand of them, with whatever other limits, is to
    /// go back.
    fn change(self: &Arc<Self>, checks: &[Check<'_>]) -> (Changing<'_, S>, Returning<S>) {
        let places = self.table.changes.places(checks);
        // First: whoever asks later sees it, and whoever asked before is among those whose units are withdrawn.
        self.table.changes.begin(&places);
        let now = self.clock.now();
        let hots = self.table.which(|hot| hot.shares(checks, &places));
        let unused = hots.iter().flat_map(|hot| hot.withdraw(now)).collect();
        let changing = Changing {
            driver: self,
            places,
            hots,
        };
        (changing, Returning(Arc::clone(self), unused))
    }

    /// Gives back what is in hand before the store decides: otherwise that would undo a part of it later.
    pub(super) async fn decide_without_units(
        self: &Arc<Self>,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        let (changing, unused) = self.change(request.checks());
        unused.arrive(&changing.hots).await;
        self.store.decide(request).await
    }

    pub(super) async fn reset(self: &Arc<Self>, checks: Checks<'_>) -> Result<(), StoreError> {
        let (changing, mut unused) = self.change(&checks);
        // Given back later, they would be subtracted from what is counted afresh.
        unused.lose();
        unused.arrive(&changing.hots).await;
        self.store.reset(checks).await
    }
}

/// A call of a busy key. While it asks for units, others wait for its answer, or until it goes away.
pub(super) struct Call {
    hot: Arc<Hot>,
    cost: u64,
    /// Its number, while it asks.
    asks: Option<u64>,
}

impl Call {
    fn new(hot: &Arc<Hot>, cost: u64, taken: &Take) -> Self {
        Self {
            hot: Arc::clone(hot),
            cost,
            asks: match taken {
                Take::Ask { number, .. } => Some(*number),
                Take::Later(_) | Take::Directly => None,
            },
        }
    }

    fn stop_asking(&mut self) {
        if let Some(number) = self.asks.take() {
            self.hot.stop_asking(number);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.stop_asking();
    }
}

/// A change of the states of the keys in these places, until it ends.
struct Changing<'d, S: Store + 'static> {
    driver: &'d Driver<S>,
    places: Places,
    /// Those whose states change.
    hots: Vec<Arc<Hot>>,
}

impl<S: Store + 'static> Drop for Changing<'_, S> {
    fn drop(&mut self) {
        let driver = self.driver;
        let until = driver.clock.now().saturating_add(driver.within);
        driver.table.changes.end(&self.places, until);
    }
}

/// Units on their way back, by their keys and numbers: those that have not arrived when this is dropped, by
/// whatever way, are lost.
struct Returning<S: Store + 'static>(Arc<Driver<S>>, Vec<(Arc<Hot>, u64)>);

impl<S: Store + 'static> Returning<S> {
    async fn run(self) {
        let driver = &self.0;
        let each = futures_util::stream::iter(&self.1);
        let returned = each.for_each_concurrent(AT_ONCE, async |(hot, number)| {
            let outcome = match driver.give_back_one(hot, *number).await {
                true => Outcome::GivenBack,
                false => Outcome::Lost,
            };
            driver
                .units
                .count(outcome, hot.end(|hand| hand.returned(*number)));
        });
        if driver.has_timers() {
            let _ = timeout(PATIENCE, returned).await;
        } else {
            returned.await;
        }
    }

    /// Gives back in a task; without a runtime, the units are lost.
    fn run_later(self) {
        if !self.1.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(self.run());
        }
    }

    /// Gives back, and waits until that, and what of `hots` was on its way before, has arrived.
    async fn arrive(self, hots: &[Arc<Hot>]) {
        if hots.is_empty() {
            return;
        }
        let driver = Arc::clone(&self.0);
        if !driver.has_timers() {
            return self.run().await;
        }
        let since = driver.clock.now();
        self.run_later();
        let returned = async {
            for hot in hots {
                hot.all_returned().await;
            }
        };
        if timeout(PATIENCE, returned).await.is_err() {
            // Also if the runtime that gives back stands still: it may go on later.
            let now = driver.clock.now();
            driver.give_up(hots, now, now.saturating_duration_since(since));
        }
    }

    fn lose(&mut self) {
        let lost = self
            .1
            .drain(..)
            .map(|(hot, number)| hot.end(|hand| hand.returned(number)));
        self.0.units.count(Outcome::Lost, lost.sum());
    }
}

impl<S: Store + 'static> Drop for Returning<S> {
    fn drop(&mut self) {
        self.lose();
    }
}

impl<S> Drop for Driver<S> {
    /// What is in hand is lost.
    fn drop(&mut self) {
        let (now, all) = (self.clock.now(), self.table.which(|_| true));
        let unused = all.iter().flat_map(|hot| hot.over(now, true));
        let lost = unused
            .map(|(hot, number)| hot.end(|hand| hand.returned(number)))
            .sum();
        self.units.count(Outcome::Lost, lost);
    }
}
