//! `Hot`: a key that is called often, with what is in hand of it, and which calls that may decide.

use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{Algorithm, Limit, Receipt, Timestamp};

use super::changes::Places;
use super::hand::Hand;
use crate::key::{OwnedKey, is_long};
use crate::sync::{Mutex, lock};

/// Calls with more limits are not prefetched.
const MOST_CHECKS: usize = 8;
/// Under a sliding log, units are used within this part of its window, since they count for that much longer.
const PARTS_OF_LOG: u32 = 20;

/// A key under some limits that is called often.
pub(super) struct Hot {
    limits: Box<[Limit]>,
    keys: Box<[OwnedKey]>,
    pub(super) places: Places,
    /// Within which time units are used.
    pub(super) within: Duration,
    hand: Mutex<Hand>,
    answered: Notify,
    returned: Notify,
}

impl Hot {
    /// Returns that calls with these `checks`, whose keys are in these `places`, have cost `demand` lately.
    pub(super) fn new(
        checks: &[Check<'_>],
        places: Places,
        demand: u64,
        now: Timestamp,
        within: Duration,
    ) -> Self {
        let logs = checks.iter().map(|check| check.limit().algorithm());
        let logs = logs.filter(|of| matches!(of, Algorithm::SlidingLog(_)));
        let shortest = logs.map(|log| log.longest_window() / PARTS_OF_LOG).min();
        let within = shortest.map_or(within, |most| most.min(within));
        let keys = checks.iter().map(|check| OwnedKey::of(check.key()));
        Self {
            limits: checks.iter().map(|check| check.limit().clone()).collect(),
            keys: keys.collect(),
            places,
            within,
            hand: Mutex::new(Hand::new(within, demand, now)),
            answered: Notify::new(),
            returned: Notify::new(),
        }
    }

    pub(super) fn hand(&self) -> impl DerefMut<Target = Hand> {
        lock(&self.hand)
    }

    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut Hand) -> T) -> T {
        use_it(&mut self.hand())
    }

    /// Waits until the caller that asks has its answer, or goes away.
    pub(super) async fn answered(&self) {
        let answered = self.answered.notified();
        if self.with(|hand| hand.is_asking()) {
            answered.await;
        }
    }

    /// Notes that the caller with this number has its answer, or has gone away.
    pub(super) fn stop_asking(&self, number: u64) {
        self.with(|hand| hand.stop_asking(number));
        self.answered.notify_waiters();
    }

    /// Waits until nothing is on its way back.
    pub(super) async fn all_returned(&self) {
        loop {
            let returned = self.returned.notified();
            if self.with(|hand| hand.all_returned()) {
                return;
            }
            returned.await;
        }
    }

    /// Returns what can no longer be used, or all that is in hand, and begins to go back.
    pub(super) fn over(
        self: &Arc<Self>,
        now: Timestamp,
        all: bool,
    ) -> impl Iterator<Item = (Arc<Self>, u64)> {
        let over = self.with(|hand| hand.over(now, all)).into_iter();
        over.map(|number| (Arc::clone(self), number))
    }

    /// Returns all that is in hand. What is being asked for will not be used.
    pub(super) fn withdraw(
        self: &Arc<Self>,
        now: Timestamp,
    ) -> impl Iterator<Item = (Arc<Self>, u64)> {
        self.with(Hand::withdraw);
        self.answered.notify_waiters();
        self.over(now, true)
    }

    /// Notes that what was on its way back has arrived, or is lost; returns how many units that were.
    pub(super) fn end(&self, which: impl FnOnce(&mut Hand) -> u64) -> u64 {
        let units = self.with(which);
        self.returned.notify_waiters();
        units
    }

    /// Returns whether these are the limits and keys of `checks`.
    pub(super) fn is_of(&self, checks: &[Check<'_>]) -> bool {
        let mut each = self.limits.iter().zip(&self.keys).zip(checks);
        checks.len() == self.limits.len()
            && each
                .all(|((limit, key), check)| check.key() == key.borrow() && check.limit() == limit)
    }

    /// Returns whether one of these is counted in the state of one of `checks`.
    pub(super) fn shares(&self, checks: &[Check<'_>], places: &Places) -> bool {
        if !self.places.iter().any(|place| places.contains(place)) {
            return false;
        }
        let mut each = self.limits.iter().zip(&self.keys);
        each.any(|(limit, key)| {
            let is_state = |check: &Check<'_>| {
                check.key() == key.borrow() && check.limit().identity() == limit.identity()
            };
            checks.iter().any(is_state)
        })
    }

    /// Returns the limits and keys.
    pub(super) fn checks(&self) -> Vec<Check<'_>> {
        let each = self.limits.iter().zip(&self.keys);
        each.map(|(limit, key)| Check::new(limit, key.borrow(), 0))
            .collect()
    }
}

/// Returns the cost of a call, if it may be admitted by units in hand.
pub(super) fn cost_of(request: &Request<'_>) -> Option<u64> {
    let is_plain = matches!(request.operation(), Operation::Consume)
        && request.caller_time().is_none()
        && !request.has_id();
    let checks = if is_plain { request.checks() } else { &[] };
    let cost = checks.first()?.cost();
    let may_be = |check: &Check<'_>| {
        let algorithm = check.limit().algorithm();
        check.cost() == cost
            && cost <= algorithm.capacity()
            // A call that would be denied counts for these: the store has to know of it.
            && !algorithm.counts_denied()
            && !is_long(check.key())
    };
    let all_may_be = cost > 0 && checks.len() <= MOST_CHECKS && checks.iter().all(may_be);
    all_may_be.then_some(cost)
}

/// Returns the receipt of the call that `request` refunds or settles, and what the call costs after that, if
/// units in hand may change by it.
///
/// Not under an anchored window, whose first call is not one of those that are used later.
pub(super) fn correction<'r>(request: &'r Request<'_>) -> Option<(&'r Receipt, u64)> {
    let receipt = request.receipt()?;
    let is_anchored = |check: &Check<'_>| matches!(check.limit().algorithm(), Algorithm::FixedWindow(of) if of.is_anchored());
    let checks = request.checks();
    let cost = checks.first()?.cost();
    let is_plain = !request.has_id() && request.caller_time().is_none();
    if !is_plain || checks.iter().any(is_anchored) {
        return None;
    }
    match request.operation() {
        Operation::Refund(_) => Some((receipt, 0)),
        Operation::Settle(_) if checks.iter().all(|check| check.cost() == cost) => {
            Some((receipt, cost))
        }
        _ => None,
    }
}
