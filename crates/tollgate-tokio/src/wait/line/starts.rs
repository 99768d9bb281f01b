//! `Starts`: the calls of a line that still have to ask the store, and what the store has admitted
//! already, whoever asked for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::Verdicts;

use crate::costs::LimitCosts;
use crate::queue::{Queue, Ticket};

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
    /// The calls that have to ask, in their order. All others in the line are taken from it.
    waiting: Queue,
    /// By cost: a start is of use only to a call that costs as much.
    pools: BTreeMap<LimitCosts, Pool>,
    /// Starts that were due long ago, and that no call may use any more.
    overdue: Vec<Start>,
    /// How many starts there are.
    count: usize,
}

/// A start is not handed on if it was due longer ago than this: calls that start late come too close
/// to later ones.
const OVERDUE: Duration = Duration::from_millis(50);

/// The calls and starts of one cost.
#[derive(Default)]
struct Pool {
    /// The same as in `Starts::waiting`, by number.
    waiting: BTreeSet<u64>,
    /// The ranks and numbers of the calls that get the next starts, in this order.
    assigned: VecDeque<(u64, u64)>,
    /// In the order in which they may be used.
    starts: VecDeque<Start>,
    /// How many calls are on their way whose callers have gone: each may bring another start.
    abandoned: usize,
}

impl Pool {
    /// Returns whether there is a start, or may come one, that another call could be assigned to.
    fn has_one_for_others(&self, now: Instant) -> bool {
        match self.starts.get(self.assigned.len()) {
            Some(start) => start.at + OVERDUE >= now,
            None => self.starts.len() + self.abandoned > self.assigned.len(),
        }
    }

    /// Returns how many calls are assigned before this one.
    fn place(&self, number: u64) -> usize {
        let mut assigned = self.assigned.iter();
        let place = assigned.position(|(_, other)| *other == number);
        place.unwrap_or(self.assigned.len())
    }

    fn assign(&mut self, ticket: &Ticket) {
        let rank = ticket.rank();
        let place = self.assigned.partition_point(|(other, _)| *other < rank);
        self.assigned.insert(place, (rank, ticket.number()));
    }

    /// The call is assigned no longer.
    fn unassign(&mut self, number: u64) {
        self.assigned.remove(self.place(number));
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

    /// Returns the calls that have to ask the store.
    pub(super) fn waiting(&self) -> &Queue {
        &self.waiting
    }

    /// Adds a call at the end. Returns whether it is assigned to a start that nobody else needs.
    pub(super) fn enter(&mut self, ticket: &mut Ticket, cost: &LimitCosts, now: Instant) -> bool {
        self.waiting.enter(ticket, cost.clone());
        let pool = self.pool(cost);
        pool.waiting.insert(ticket.number());
        let is_assigned = pool.has_one_for_others(now);
        if is_assigned {
            self.take_waiting(ticket, cost);
            self.assign(ticket, cost);
        }
        is_assigned
    }

    /// A call that was taken has to ask the store.
    pub(super) fn wait(&mut self, ticket: &Ticket, cost: &LimitCosts) {
        self.pool(cost).waiting.insert(ticket.number());
        self.waiting.put_back(ticket, cost.clone());
    }

    /// The call no longer has to ask the store: it does so, or gets a start without.
    pub(super) fn take_waiting(&mut self, ticket: &mut Ticket, cost: &LimitCosts) {
        self.waiting.take(ticket);
        self.change(cost, |pool| pool.waiting.remove(&ticket.number()));
    }

    /// The call no longer has to ask the store: it has gone.
    pub(super) fn leave_waiting(&mut self, ticket: &Ticket, cost: &LimitCosts) {
        self.waiting.leave(ticket);
        self.change(cost, |pool| pool.waiting.remove(&ticket.number()));
    }

    /// A call that was taken goes, without a start.
    pub(super) fn give_up(&mut self, ticket: &Ticket) {
        self.waiting.give_up(ticket);
    }

    /// A call that was taken goes, with its start.
    pub(super) fn done(&mut self, ticket: &Ticket) {
        self.waiting.done(ticket);
    }

    /// The call that asked for a start is here to use it, or one that was taken before.
    pub(super) fn assign(&mut self, ticket: &Ticket, cost: &LimitCosts) {
        self.pool(cost).assign(ticket);
    }

    /// Adds a start for calls of this cost. Returns its place among them.
    pub(super) fn add(&mut self, cost: &LimitCosts, start: Start) -> usize {
        let starts = &mut self.pool(cost).starts;
        let index = starts.partition_point(|other| other.at <= start.at);
        starts.insert(index, start);
        self.count += 1;
        index
    }

    /// What the call is assigned to has not come: it has to ask the store.
    pub(super) fn wait_after_all(&mut self, ticket: &Ticket, cost: &LimitCosts) {
        self.change(cost, |pool| pool.unassign(ticket.number()));
        self.wait(ticket, cost);
    }

    /// A call on its way was abandoned. Returns the number of the call that gets what it brings, if
    /// there is one now.
    pub(super) fn abandon(&mut self, cost: &LimitCosts, now: Instant) -> Option<u64> {
        self.pool(cost).abandoned += 1;
        self.hand_on(cost, now)
    }

    /// An abandoned call was admitted: its start follows.
    pub(super) fn arrive(&mut self, cost: &LimitCosts) {
        self.change(cost, |pool| {
            pool.abandoned = pool.abandoned.saturating_sub(1)
        });
    }

    /// An abandoned call was not admitted. Returns the number of the call that was assigned to what
    /// it would have brought, if there is one: it is assigned no longer.
    pub(super) fn void(&mut self, cost: &LimitCosts) -> Option<u64> {
        self.change(cost, |pool| {
            pool.abandoned = pool.abandoned.saturating_sub(1);
            let is_one_too_many = pool.assigned.len() > pool.starts.len() + pool.abandoned;
            is_one_too_many
                .then(|| pool.assigned.pop_back())?
                .map(|(_, number)| number)
        })?
    }

    /// A call that was assigned to a start has gone. Returns the number of the call that gets it, if
    /// there is one now.
    pub(super) fn leave(&mut self, number: u64, cost: &LimitCosts, now: Instant) -> Option<u64> {
        let is_overdue = |due: Instant| due + OVERDUE < now;
        if self.due(number, cost).is_some_and(is_overdue) {
            let start = self.take(number, cost)?;
            self.overdue.push(start);
            self.count += 1;
            return None;
        }
        self.change(cost, |pool| pool.unassign(number));
        self.hand_on(cost, now)
    }

    /// Returns when the start is due that the call is assigned to, if it has come: each call of a
    /// cost gets the start that has its place among the starts of that cost. So one that does not
    /// use its start holds up nobody.
    pub(super) fn due(&self, number: u64, cost: &LimitCosts) -> Option<Instant> {
        let pool = self.pools.get(cost)?;
        pool.starts.get(pool.place(number)).map(|start| start.at)
    }

    /// Removes the start that the call is assigned to, and the call.
    pub(super) fn take(&mut self, number: u64, cost: &LimitCosts) -> Option<Start> {
        let start = self.change(cost, |pool| {
            let start = pool.starts.remove(pool.place(number));
            pool.unassign(number);
            start
        })??;
        self.count -= 1;
        Some(start)
    }

    /// Returns how many calls of this cost get earlier starts than this one.
    pub(super) fn place(&self, number: u64, cost: &LimitCosts) -> usize {
        self.pools.get(cost).map_or(0, |pool| pool.place(number))
    }

    /// Returns the calls of this cost that get the starts from `place` on.
    pub(super) fn assigned_from(
        &self,
        cost: &LimitCosts,
        place: usize,
    ) -> impl Iterator<Item = u64> {
        let assigned = self.pools.get(cost).map(|pool| pool.assigned.iter());
        assigned
            .into_iter()
            .flatten()
            .skip(place)
            .map(|(_, number)| *number)
    }

    /// Returns `None` unless there is a start, or may come one, that another call of this cost would
    /// be assigned to, and when it is due, if it has come.
    pub(super) fn for_another(&self, cost: &LimitCosts, now: Instant) -> Option<Option<Instant>> {
        let pool = self.pools.get(cost)?;
        let start = pool.starts.get(pool.assigned.len());
        pool.has_one_for_others(now)
            .then(|| start.map(|start| start.at))
    }

    /// Returns whether there are starts for this cost that no call is assigned to.
    pub(super) fn has_spare(&self, cost: &LimitCosts) -> bool {
        let pool = self.pools.get(cost);
        let is_spare = pool.is_some_and(|pool| pool.starts.len() > pool.assigned.len());
        is_spare || !self.overdue.is_empty()
    }

    /// Returns when the first start is due that no call is assigned to.
    pub(super) fn first_spare(&self) -> Option<Instant> {
        let spare = |pool: &Pool| pool.starts.get(pool.assigned.len()).map(|start| start.at);
        self.pools.values().filter_map(spare).min()
    }

    /// Removes the starts that are due at `now`, or all of them, and that no call is assigned to.
    pub(super) fn take_spare(&mut self, now: Option<Instant>) -> Vec<Start> {
        let mut spare = mem::take(&mut self.overdue);
        for pool in self.pools.values_mut() {
            let is_due = |start: &Start| now.is_none_or(|now| start.at <= now);
            let due = pool.starts.partition_point(is_due);
            let from = pool.assigned.len().min(due);
            spare.extend(pool.starts.drain(from..due));
        }
        self.pools.retain(|_, pool| !pool.is_empty());
        self.count -= spare.len();
        spare
    }

    /// Returns the number of the call that is to be assigned to a spare start: the next one if it costs
    /// the same, or else the one of that cost that has come first.
    fn hand_on(&self, cost: &LimitCosts, now: Instant) -> Option<u64> {
        let pool = self.pools.get(cost)?;
        let next = self.waiting.first().filter(|(_, next)| *next == cost);
        let next = next.map(|(next, _)| next);
        let next = next.or_else(|| pool.waiting.first().copied());
        next.filter(|_| pool.has_one_for_others(now))
    }

    /// Returns the pool of this cost, and makes it if there is none.
    fn pool(&mut self, cost: &LimitCosts) -> &mut Pool {
        self.pools.entry(cost.clone()).or_default()
    }

    /// Changes the pool of this cost, if there is one, and removes it if nothing is left in it.
    fn change<T>(&mut self, cost: &LimitCosts, change: impl FnOnce(&mut Pool) -> T) -> Option<T> {
        let pool = self.pools.get_mut(cost)?;
        let result = change(pool);
        if pool.is_empty() {
            self.pools.remove(cost);
        }
        Some(result)
    }
}
