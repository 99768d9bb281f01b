//! `Queue`: which of the waiting calls is next. It knows neither the time nor a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::Key;

use crate::costs::{LimitCosts, Sum};
use crate::key::OwnedKey;

/// The urgency of calls that set none. As in the `Priority` header of HTTP (RFC 9218), 0 is the most urgent.
const USUAL: u8 = 3;
pub(crate) const LEAST_URGENT: u8 = 7;
/// While less urgent calls wait, one of this many units is for them.
const SHARE: u64 = 8;

/// How urgent a call is, and with which others it stands in one flow.
#[derive(Clone)]
pub(crate) struct Class {
    urgency: u8,
    flow: Option<Arc<OwnedKey>>,
}

impl Class {
    pub(crate) fn set_flow(&mut self, flow: Key<'_>) {
        self.flow = Some(Arc::new(flow.into()));
    }

    pub(crate) fn set_urgency(&mut self, urgency: u8) {
        self.urgency = urgency.min(LEAST_URGENT);
    }

    pub(crate) fn urgency(&self) -> u8 {
        self.urgency
    }
}

impl Default for Class {
    fn default() -> Self {
        Self {
            urgency: USUAL,
            flow: None,
        }
    }
}

/// The place of a call in a [`Queue`].
pub(crate) struct Ticket {
    number: u64,
    class: Class,
    units: u64,
    /// As which call of the queue it was taken first, or `u64::MAX`.
    rank: u64,
    /// Whether nothing more urgent waited when it was taken, and what its level paid for it.
    was_most_urgent: bool,
    paid: u64,
}

impl Ticket {
    /// A later call has a larger number.
    pub(crate) fn new(number: u64, class: Class, units: u64) -> Self {
        Self {
            number,
            class,
            units,
            rank: u64::MAX,
            was_most_urgent: false,
            paid: 0,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns its place in the order in which calls were taken; one that was put back keeps it.
    pub(crate) fn rank(&self) -> u64 {
        self.rank
    }
}

/// Orders waiting calls by urgency, flow and age.
///
/// A call enters; then it is taken, and [done](Self::done), [put back](Self::put_back) or
/// [given up](Self::give_up); or it leaves. A call that was put back stands where it stood.
///
/// # Order
///
/// Within a flow, calls are first come, first served. The flows of one urgency are served by deficit
/// round robin with a quantum of one unit: each waiting flow gets a unit in each round, and pays with
/// these for its first call; rounds in which nobody can pay are skipped. If several flows can pay, those
/// that were not served since they began to wait are first, and then those that were served longest ago.
/// A flow without waiting calls keeps no units; if its first call leaves, it keeps at most what the next
/// one costs.
///
/// The most urgent waiting calls are served, and each less urgent level with waiting calls gets a
/// credit of as many units. With `k` such levels, a level whose credit is `7 * k` times the cost of
/// its first call is served before them.
///
/// # Bounds
///
/// In one flow, let calls of `s` units stand before a call of `c`. While it waits, each other flow of
/// its urgency gets at most `s + c + m` units, where `m` is the cost of that flow's costliest call.
///
/// While `k` less urgent levels wait, each of them gets at least one of `8 * k` units: from when a call of
/// cost `c` is the first of its level, and its level was served last, the most urgent calls get less than
/// `7 * k * c + m` before it, where `m` is the cost of their costliest call.
///
/// Neither counts calls that were taken before, or that are taken although they are not next.
#[derive(Default)]
pub(crate) struct Queue {
    /// The calls of the usual urgency: most queues have no others.
    usual: Level,
    others: BTreeMap<u8, Level>,
    /// How many calls were taken.
    taken: u64,
}

/// The calls of one urgency.
#[derive(Default)]
struct Level {
    /// The calls without a flow.
    unnamed: Flow,
    named: BTreeMap<Arc<OwnedKey>, Flow>,
    /// The named flows with waiting calls, in their order.
    order: BTreeMap<Due, Arc<OwnedKey>>,
    /// The round in which the latest call was taken.
    round: u128,
    /// The units that it is owed of those that more urgent calls got.
    credit: u64,
}

#[derive(Default)]
struct Flow {
    waiting: BTreeMap<u64, Waiting>,
    cost: Sum,
    /// The round up to which it has paid with its units.
    paid: u128,
    /// Whether a call was taken since the flow began to wait.
    was_served: bool,
    /// The number of the call with which it began, or which call of the queue was taken last of its calls.
    since: u64,
    /// How many of its calls are taken.
    taken: usize,
}

struct Waiting {
    units: u64,
    cost: LimitCosts,
}

/// The round in which a flow can pay for its first call, whether it was served, and since when it waits.
type Due = (u128, bool, u64);

/// The first call of a flow.
struct First<'q> {
    due: Due,
    number: u64,
    call: &'q Waiting,
}

impl Queue {
    /// Returns the number and the cost of the next call.
    pub(crate) fn first(&self) -> Option<(u64, &LimitCosts)> {
        if self.others.is_empty() {
            let first = self.usual.first()?;
            return Some((first.number, &first.call.cost));
        }
        let mut waiting = self.waiting();
        let (_, _, most_urgent) = waiting.next()?;
        let less_urgent = self.less_urgent();
        let surplus = |level: &Level, first: &First<'_>| {
            let price = price(first.call.units, less_urgent);
            level.credit.checked_sub(price)
        };
        let owed = waiting.filter_map(|(_, level, first)| Some((surplus(level, &first)?, first)));
        let owed = owed.max_by_key(|(surplus, _)| *surplus);
        let first = owed.map_or(most_urgent, |(_, first)| first);
        Some((first.number, &first.call.cost))
    }

    /// Returns what the waiting calls of this flow cost, or `None` if none waits.
    pub(crate) fn cost_of(&self, class: &Class) -> Option<&Sum> {
        let level = match class.urgency {
            USUAL => &self.usual,
            urgency => self.others.get(&urgency)?,
        };
        let flow = match &class.flow {
            None => &level.unnamed,
            Some(name) => level.named.get(name)?,
        };
        (!flow.waiting.is_empty()).then_some(&flow.cost)
    }

    pub(crate) fn enter(&mut self, ticket: &Ticket, cost: LimitCosts) {
        self.change(ticket, |level| {
            if !level.waits() {
                level.credit = 0;
            }
            let round = level.round;
            level.change(ticket, |flow| {
                if flow.waiting.is_empty() {
                    flow.paid = flow.paid.max(round);
                    (flow.was_served, flow.since) = (false, ticket.number);
                }
                flow.insert(ticket, cost);
            });
        });
    }

    /// Lets a call be served, whether it is the next one or not.
    pub(crate) fn take(&mut self, ticket: &mut Ticket) {
        let price = price(ticket.units, self.less_urgent());
        let taken = self.taken;
        self.taken += 1;
        ticket.rank = ticket.rank.min(taken);
        let most_urgent = self.waiting().next().map(|(urgency, ..)| urgency);
        ticket.was_most_urgent = most_urgent == Some(ticket.class.urgency);
        ticket.paid = self.change(ticket, |level| {
            let is_first = level
                .first()
                .is_some_and(|first| first.number == ticket.number);
            let paid = level.change(ticket, |flow| {
                flow.remove(ticket.number);
                flow.taken += 1;
                (flow.was_served, flow.since) = (true, taken);
                flow.paid += u128::from(ticket.units);
                flow.paid
            });
            if is_first {
                level.round = level.round.max(paid);
            }
            let paid = level.credit.min(price);
            level.credit -= paid;
            paid
        });
        if ticket.was_most_urgent {
            self.credit(ticket, u64::saturating_add);
        }
    }

    /// A call that was taken is not admitted yet.
    pub(crate) fn put_back(&mut self, ticket: &Ticket, cost: LimitCosts) {
        self.change(ticket, |level| {
            let before = level.round.saturating_sub(1);
            level.change(ticket, |flow| {
                if flow.waiting.is_empty() {
                    // It still stands before all others, but nothing is saved up while calls are taken.
                    flow.paid = flow.paid.max(before);
                }
                flow.insert(ticket, cost);
            });
        });
        self.give_up(ticket);
    }

    /// A call that was taken is not admitted, and its caller has gone.
    pub(crate) fn give_up(&mut self, ticket: &Ticket) {
        self.change(ticket, |level| {
            level.credit = level.credit.saturating_add(ticket.paid);
            level.change(ticket, |flow| {
                flow.taken = flow.taken.saturating_sub(1);
                flow.paid = flow.paid.saturating_sub(ticket.units.into());
            });
        });
        if ticket.was_most_urgent {
            self.credit(ticket, u64::saturating_sub);
        }
    }

    /// A call that was taken is admitted.
    pub(crate) fn done(&mut self, ticket: &Ticket) {
        self.change(ticket, |level| {
            level.change(ticket, |flow| flow.taken = flow.taken.saturating_sub(1));
        });
    }

    /// A waiting call leaves.
    pub(crate) fn leave(&mut self, ticket: &Ticket) {
        self.change(ticket, |level| {
            let round = level.round;
            level.change(ticket, |flow| {
                flow.remove(ticket.number);
                if let Some(First { call, .. }) = flow.first() {
                    let most = u128::from(call.units);
                    flow.paid = flow.paid.max(round.saturating_sub(most));
                }
            });
        });
        self.change(ticket, |level| {
            let first = level.first().map(|first| first.call.units);
            // The largest price that it may have.
            let most = price(first.unwrap_or_default(), LEAST_URGENT.into());
            level.credit = level.credit.min(most);
        });
    }

    /// Returns the levels with waiting calls and their first ones, the most urgent level first.
    fn waiting(&self) -> impl Iterator<Item = (u8, &Level, First<'_>)> {
        let more = self.others.range(..USUAL);
        let less = self.others.range(USUAL..);
        let levels = more.chain([(&USUAL, &self.usual)]).chain(less);
        levels.filter_map(|(urgency, level)| Some((*urgency, level, level.first()?)))
    }

    /// Returns how many less urgent levels wait, but at least 1.
    fn less_urgent(&self) -> u64 {
        if self.others.is_empty() {
            return 1;
        }
        let less_urgent = self.waiting().skip(1).fold(0, |count, _| count + 1);
        less_urgent.max(1)
    }

    /// Changes the credit of all waiting levels that are less urgent than a call, by its cost.
    fn credit(&mut self, ticket: &Ticket, change: impl Fn(u64, u64) -> u64) {
        let others = self
            .others
            .iter_mut()
            .map(|(urgency, level)| (*urgency, level));
        for (urgency, level) in others.chain([(USUAL, &mut self.usual)]) {
            if urgency > ticket.class.urgency && level.waits() {
                level.credit = change(level.credit, ticket.units);
            }
        }
    }

    fn level(&mut self, urgency: u8) -> &mut Level {
        match urgency {
            USUAL => &mut self.usual,
            urgency => self.others.entry(urgency).or_default(),
        }
    }

    /// Changes the level of a call, and removes it if nothing is left in it.
    fn change<R>(&mut self, ticket: &Ticket, change: impl FnOnce(&mut Level) -> R) -> R {
        let urgency = ticket.class.urgency;
        let level = self.level(urgency);
        let result = change(level);
        if level.named.is_empty() && level.unnamed.is_over() {
            self.others.remove(&urgency);
        }
        result
    }
}

/// Returns the credit that each of so many less urgent levels needs for a call that costs this.
fn price(units: u64, less_urgent: u64) -> u64 {
    ((SHARE - 1) * less_urgent).saturating_mul(units)
}

impl Level {
    fn waits(&self) -> bool {
        !self.order.is_empty() || !self.unnamed.waiting.is_empty()
    }

    /// Returns the next call of this level.
    fn first(&self) -> Option<First<'_>> {
        if self.order.is_empty() {
            return self.unnamed.first();
        }
        let named = self.order.values().next();
        let named = named.and_then(|name| self.named.get(name)?.first());
        let first = [named, self.unnamed.first()];
        first.into_iter().flatten().min_by_key(|first| first.due)
    }

    /// Changes the flow of a call, and removes it if nothing is left in it.
    fn change<R>(&mut self, ticket: &Ticket, change: impl FnOnce(&mut Flow) -> R) -> R {
        let Some(name) = &ticket.class.flow else {
            let result = change(&mut self.unnamed);
            if self.unnamed.is_over() {
                self.unnamed.paid = 0;
            }
            return result;
        };
        let flow = self.named.entry(Arc::clone(name)).or_default();
        if let Some(First { due, .. }) = flow.first() {
            self.order.remove(&due);
        }
        let result = change(flow);
        if let Some(First { due, .. }) = flow.first() {
            self.order.insert(due, Arc::clone(name));
        } else if flow.is_over() {
            self.named.remove(name);
        }
        result
    }
}

impl Flow {
    fn first(&self) -> Option<First<'_>> {
        let (&number, call) = self.waiting.first_key_value()?;
        let round = self.paid + u128::from(call.units);
        let due = (round, self.was_served, self.since);
        Some(First { due, number, call })
    }

    fn insert(&mut self, ticket: &Ticket, cost: LimitCosts) {
        self.cost += &cost;
        let units = ticket.units;
        self.waiting.insert(ticket.number, Waiting { units, cost });
    }

    fn remove(&mut self, number: u64) {
        if let Some(Waiting { cost, .. }) = self.waiting.remove(&number) {
            self.cost -= &cost;
        }
    }

    /// Returns whether none of its calls waits or is taken.
    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.taken == 0
    }
}

#[cfg(test)]
mod tests;
