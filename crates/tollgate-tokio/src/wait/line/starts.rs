//! `Starts`: the calls of a line that still have to ask the store, and what the store has admitted
//! already, whoever asked for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;
use tollgate_core::Verdicts;

/// What the store has admitted for a line.
pub(crate) struct Start {
    /// When the call that gets it may start.
    pub(crate) at: Instant,
    /// When the store was asked for it.
    pub(crate) asked: Instant,
    pub(crate) verdicts: Verdicts,
}

/// Which calls of a line have to ask the store, and which get a start that others have asked for.
///
/// A start belongs to the line. If the call that asked for it leaves, the next call that costs as
/// much gets it, without another store call.
#[derive(Default)]
pub(super) struct Starts {
    /// The calls that have to ask, by number, with their costs.
    waiting: BTreeMap<u64, u64>,
    /// What these cost together.
    waiting_cost: u128,
    /// By cost: a start is of use only to a call that costs as much.
    pools: BTreeMap<u64, Pool>,
    /// How many starts there are.
    count: usize,
}

/// The calls and starts of one cost.
#[derive(Default)]
struct Pool {
    /// The same as in `Starts::waiting`.
    waiting: BTreeSet<u64>,
    /// The calls that get the next starts, in this order.
    assigned: BTreeSet<u64>,
    /// In the order in which they may be used.
    starts: VecDeque<Start>,
    /// How many calls are on their way whose callers have gone: each may bring another start.
    abandoned: usize,
}

impl Pool {
    /// Returns how many starts there are, or may come, that no call is assigned to.
    fn spare(&self) -> usize {
        (self.starts.len() + self.abandoned).saturating_sub(self.assigned.len())
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
            && self.assigned.is_empty()
            && self.starts.is_empty()
            && self.abandoned == 0
    }
}

impl Starts {
    /// Returns how many starts there are that no call has used yet.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns what the calls cost that have to ask the store.
    pub(super) fn waiting_cost(&self) -> u128 {
        self.waiting_cost
    }

    /// Returns the number and the cost of the first call that has to ask the store.
    pub(super) fn first_waiting(&self) -> Option<(u64, u64)> {
        self.waiting
            .first_key_value()
            .map(|(&number, &cost)| (number, cost))
    }

    /// Adds a call at the end. Returns whether it is assigned to a start that nobody else needs.
    pub(super) fn enter(&mut self, number: u64, cost: u64) -> bool {
        let pool = self.pools.entry(cost).or_default();
        let is_assigned = pool.spare() > 0;
        if is_assigned {
            pool.assigned.insert(number);
        } else {
            self.wait(number, cost);
        }
        is_assigned
    }

    /// The call has to ask the store.
    pub(super) fn wait(&mut self, number: u64, cost: u64) {
        self.pools.entry(cost).or_default().waiting.insert(number);
        self.waiting.insert(number, cost);
        self.waiting_cost += u128::from(cost);
    }

    /// The call no longer has to ask the store: it does so, or it has gone.
    pub(super) fn wait_no_longer(&mut self, number: u64) {
        if let Some(cost) = self.waiting.remove(&number) {
            self.waiting_cost -= u128::from(cost);
            self.change(cost, |pool| pool.waiting.remove(&number));
        }
    }

    /// The call that asked for a start is here to use it, or one that has come before.
    pub(super) fn assign(&mut self, number: u64, cost: u64) {
        self.pools.entry(cost).or_default().assigned.insert(number);
    }

    /// Adds a start for calls of this cost.
    pub(super) fn add(&mut self, cost: u64, start: Start) {
        let starts = &mut self.pools.entry(cost).or_default().starts;
        let index = starts.partition_point(|other| other.at <= start.at);
        starts.insert(index, start);
        self.count += 1;
    }

    /// A call on its way was abandoned. Returns the number of the call that gets what it brings, if
    /// there is one now.
    pub(super) fn abandon(&mut self, cost: u64) -> Option<u64> {
        self.pools.entry(cost).or_default().abandoned += 1;
        self.hand_on(cost)
    }

    /// An abandoned call was admitted: its start follows.
    pub(super) fn arrive(&mut self, cost: u64) {
        self.change(cost, |pool| {
            pool.abandoned = pool.abandoned.saturating_sub(1)
        });
    }

    /// An abandoned call was not admitted. Returns the number of the call that was assigned to what
    /// it would have brought, if there is one: it is assigned no longer.
    pub(super) fn void(&mut self, cost: u64) -> Option<u64> {
        self.change(cost, |pool| {
            pool.abandoned = pool.abandoned.saturating_sub(1);
            let is_one_too_many = pool.assigned.len() > pool.starts.len() + pool.abandoned;
            is_one_too_many.then(|| pool.assigned.pop_last())?
        })?
    }

    /// A call that was assigned to a start has gone. Returns the number of the call that gets it, if
    /// there is one now.
    pub(super) fn leave(&mut self, number: u64, cost: u64) -> Option<u64> {
        self.change(cost, |pool| pool.assigned.remove(&number));
        self.hand_on(cost)
    }

    /// Returns when the call may use a start, if it is the next of its cost to get one, and there
    /// is one.
    pub(super) fn due(&self, number: u64, cost: u64) -> Option<Instant> {
        let pool = self.pools.get(&cost)?;
        let is_next = pool.assigned.first() == Some(&number);
        pool.starts
            .front()
            .filter(|_| is_next)
            .map(|start| start.at)
    }

    /// Returns the start that is due for the call, which uses it.
    pub(super) fn take(&mut self, number: u64, cost: u64) -> Option<Start> {
        let start = self.change(cost, |pool| {
            pool.assigned.remove(&number);
            pool.starts.pop_front()
        })?;
        self.count -= usize::from(start.is_some());
        start
    }

    /// Returns the number of the call of this cost that gets the next start.
    pub(super) fn next_assigned(&self, cost: u64) -> Option<u64> {
        let pool = self.pools.get(&cost)?;
        pool.assigned
            .first()
            .filter(|_| !pool.starts.is_empty())
            .copied()
    }

    /// Returns whether there are starts for this cost that no call is assigned to.
    pub(super) fn has_spare(&self, cost: u64) -> bool {
        let pool = self.pools.get(&cost);
        pool.is_some_and(|pool| pool.starts.len() > pool.assigned.len())
    }

    /// Returns when the first start is due that no call is assigned to.
    pub(super) fn first_spare(&self) -> Option<Instant> {
        let spare = |pool: &Pool| pool.starts.get(pool.assigned.len()).map(|start| start.at);
        self.pools.values().filter_map(spare).min()
    }

    /// Removes the starts that are due at `now`, and that no call is assigned to.
    pub(super) fn take_spare(&mut self, now: Instant) -> Vec<Start> {
        let mut spare = Vec::new();
        for pool in self.pools.values_mut() {
            let due = pool.starts.partition_point(|start| start.at <= now);
            let from = pool.assigned.len().min(due);
            spare.extend(pool.starts.drain(from..due));
        }
        self.pools.retain(|_, pool| !pool.is_empty());
        self.count -= spare.len();
        spare
    }

    /// Assigns the first call that has to ask the store to a spare start of the same cost.
    fn hand_on(&mut self, cost: u64) -> Option<u64> {
        let pool = self.pools.get_mut(&cost)?;
        let next = *pool.waiting.first().filter(|_| pool.spare() > 0)?;
        self.wait_no_longer(next);
        self.pools.entry(cost).or_default().assigned.insert(next);
        Some(next)
    }

    /// Changes the pool of this cost, if there is one, and removes it if nothing is left in it.
    fn change<T>(&mut self, cost: u64, change: impl FnOnce(&mut Pool) -> T) -> Option<T> {
        let pool = self.pools.get_mut(&cost)?;
        let result = change(pool);
        if pool.is_empty() {
            self.pools.remove(&cost);
        }
        Some(result)
    }
}
