//! `Line`: the calls of one process that wait for the same key.

mod answer;
mod keep;
mod starts;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::store::Operation;
use tollgate_core::{Limit, Timestamp};

pub(super) use self::keep::Kept;
pub(crate) use self::starts::Start;
use self::starts::Starts;
use super::Patience;
use super::caller::Asker;
use super::error::{TooLong, WaitError};
use super::forecast::Forecast;
use super::turns::Turns;
use crate::costs::{LimitCosts, Sum};
use crate::queue::{Class, Ticket};

/// How far ahead a line reserves one start, at most: what a limit admits in this time may be left
/// unused if the process has no more calls for it.
const AHEAD: Duration = Duration::from_secs(1);

/// The age up to which an answer of the store refuses calls; once it is older, the call that is first in
/// line asks again.
const FRESH: Duration = Duration::from_secs(1);

/// How exact Tokio's timers are.
const TICK: Duration = Duration::from_millis(1);

/// The calls for one key.
pub(super) struct Line {
    /// Whether calls reserve their starts; otherwise they ask when they may start.
    reserves: bool,
    /// By number.
    calls: BTreeMap<u64, Standing>,
    /// How many of them have gone.
    abandoned: usize,
    next_number: u64,
    starts: Starts,
    /// How many calls are on their way to the store, and what they cost together.
    asking: usize,
    asking_cost: Sum,
    /// What was left of each limit, at least, according to the latest decision, and when that was.
    remaining: Vec<u64>,
    decided: Timestamp,
    /// When the store was asked for its latest answer that tells what is left.
    answered: Option<Instant>,
    /// The first call that waits is not admitted before this.
    ready: Instant,
    /// How much later than that it asks, because others want the key, too.
    jitter: Duration,
    turns: Turns,
    /// The limit that it waits for.
    binding: usize,
    forecast: Forecast,
    /// How far ahead a start is reserved.
    ahead: Duration,
    /// How long the store took to answer the last time.
    way: Duration,
    /// Whether there may be starts that no call is assigned to.
    has_spare: bool,
    /// Wakes the task that gives them back.
    keeper: Arc<Notify>,
    /// Whether there is such a task.
    is_kept: bool,
    /// Whether it gives something back now.
    is_giving_back: bool,
    /// The calls that ask when that is done.
    after_giving_back: Vec<u64>,
    /// Until when the line is kept although nobody is in it.
    remembered: Instant,
}

/// A call in a line.
struct Standing {
    ticket: Ticket,
    cost: LimitCosts,
    state: State,
    /// The last answer to it, which did not admit it.
    denied: Option<Denied>,
    wake: Arc<Notify>,
}

/// An answer that did not admit a call.
#[derive(Clone, Copy)]
struct Denied {
    /// When the store was asked.
    asked: Instant,
    /// When it would admit the call.
    ready: Instant,
    /// The limit that denied it.
    limit: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// It has to ask the store.
    Waiting,
    /// It is on its way to the store.
    Asking,
    /// The same, but its caller has gone.
    Abandoned,
    /// It gets a start that the store has admitted, or is being asked for.
    Assigned,
}

/// What a call in a line does next.
#[expect(
    clippy::large_enum_variant,
    reason = "a call is admitted once, and a box would be made each time"
)]
pub(super) enum Turn {
    /// It asks the store.
    Ask(Operation<'static>),
    /// It waits until it is woken, or until this instant.
    Wait(Option<Instant>),
    /// It is admitted.
    Admitted(Start),
    TooLong(TooLong),
    /// It has lost its place, which is a bug: nobody else takes a call out of its line.
    Gone,
}

/// Which call of a line it is, and for how long it may wait.
#[derive(Clone)]
pub(super) struct Position {
    pub(super) number: u64,
    pub(super) cost: LimitCosts,
    pub(super) patience: Patience,
}

impl Line {
    pub(super) fn new(reserves: bool, now: Instant) -> Self {
        Self {
            reserves,
            calls: BTreeMap::new(),
            abandoned: 0,
            next_number: 0,
            starts: Starts::default(),
            asking: 0,
            asking_cost: Sum::default(),
            remaining: Vec::new(),
            decided: Timestamp::UNIX_EPOCH,
            answered: None,
            ready: now,
            jitter: Duration::ZERO,
            turns: Turns::default(),
            binding: 0,
            forecast: Forecast::default(),
            ahead: AHEAD,
            way: Duration::ZERO,
            has_spare: false,
            keeper: Arc::default(),
            is_kept: false,
            is_giving_back: false,
            after_giving_back: Vec::new(),
            remembered: now,
        }
    }

    /// Returns from when on nothing would be lost with the line, or `None` if it is in use.
    pub(super) fn idle_from(&self) -> Option<Instant> {
        let is_unused = self.calls.is_empty() && self.starts.count() == 0 && !self.is_kept;
        is_unused.then_some(self.remembered)
    }

    /// Puts a call at the end of its flow.
    ///
    /// # Errors
    ///
    /// [`WaitError::TooLong`] and [`WaitError::TooManyWaiting`] if it would have to wait longer, or behind
    /// more others, than it may.
    pub(super) fn enter(
        &mut self,
        asker: Asker<'_>,
        class: &Class,
        cost: LimitCosts,
        patience: Patience,
        now: Instant,
        wake: Arc<Notify>,
    ) -> Result<Position, WaitError> {
        let Patience { longest, most, .. } = patience;
        let mut limits = asker.limits.iter().enumerate();
        let never = |(index, limit): &(usize, &Limit)| {
            !limit.is_shadow() && limit.algorithm().capacity() < cost.of(*index)
        };
        if let Some((_, limit)) = limits.find(never) {
            return Err(TooLong::new(limit, None, longest).into());
        }
        if self.calls.len() - self.abandoned >= most {
            return Err(WaitError::TooManyWaiting { most });
        }
        let foreseen = match self.starts.for_another(&cost, now) {
            Some(start) => start.map(|at| (at.duration_since(now), self.binding)),
            None => self.foresee(asker, now, class, &cost),
        };
        if let Some((wait, limit)) = foreseen {
            let wait = wait.saturating_add(now.duration_since(patience.since));
            if wait > longest {
                return Err(TooLong::new(asker.limit(limit), Some(wait), longest).into());
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        let mut ticket = Ticket::new(number, class.clone(), asker.units(&cost));
        let first = self.first_waiting();
        let state = if self.starts.enter(&mut ticket, &cost, now) {
            State::Assigned
        } else {
            State::Waiting
        };
        let standing = Standing {
            ticket,
            cost: cost.clone(),
            state,
            denied: None,
            wake,
        };
        self.calls.insert(number, standing);
        if let Some(first) = first {
            self.follow(asker, &first);
        }
        Ok(Position {
            number,
            cost,
            patience,
        })
    }

    /// Returns the least time until a call at the end of its flow is admitted, and the limit that it
    /// waits for, or `None` if what is known is too old to say so. Other flows may leave.
    fn foresee(
        &mut self,
        asker: Asker<'_>,
        now: Instant,
        class: &Class,
        cost: &LimitCosts,
    ) -> Option<(Duration, usize)> {
        if !self.is_fresh(now) {
            return None;
        }
        let (queue, asking) = (self.starts.waiting(), &self.asking_cost);
        let waiting = queue.cost_of(class);
        let total = |limit| {
            let waiting = waiting.map_or(0, |waiting| waiting.of(limit));
            waiting + asking.of(limit) + u128::from(cost.of(limit))
        };
        // A call of another flow may be before the one that is first now.
        let may_be_first = waiting.is_none() && queue.first().is_some();
        let from = if may_be_first {
            now
        } else {
            self.ready.max(now)
        };
        let (wait, limit) = self.forecast.least_wait(asker, from, total)?;
        let until_ready = from.duration_since(now);
        // What the first one waits for may be more than this process knows the reason of.
        let limit = if until_ready > wait {
            self.binding
        } else {
            limit
        };
        Some((wait.saturating_add(until_ready), limit))
    }

    /// Returns whether the latest answer still says what the store would say.
    fn is_fresh(&self, now: Instant) -> bool {
        let age = self.answered.map(|asked| now.duration_since(asked));
        age.is_some_and(|age| age <= FRESH) && !self.is_giving_back
    }

    /// Lets the first call ask again at once: something was given back.
    pub(super) fn look_again(&mut self, now: Instant) {
        self.ready = now;
        self.jitter = Duration::ZERO;
        self.answered = None;
        self.forecast = Forecast::default();
        self.wake_first();
    }

    fn wake_first(&self) {
        let first = self.starts.waiting().first();
        self.wake(first.map(|(number, _)| number));
    }

    /// Returns the number and the cost of the first call that has to ask the store.
    fn first_waiting(&self) -> Option<(u64, LimitCosts)> {
        let first = self.starts.waiting().first();
        first.map(|(number, cost)| (number, cost.clone()))
    }

    fn wake(&self, number: Option<u64>) {
        if let Some(call) = number.and_then(|number| self.calls.get(&number)) {
            call.wake.notify_one();
        }
    }

    /// A call was admitted, and uses its start.
    fn is_done(&mut self, number: u64) {
        if let Some(call) = self.calls.remove(&number) {
            self.starts.done(&call.ticket);
        }
    }

    /// What a call was assigned to does not come: it has to ask the store.
    fn wait_after_all(&mut self, number: u64) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.state = State::Waiting;
            self.starts.wait_after_all(&call.ticket, &call.cost);
        }
    }

    /// Removes a call whose caller has gone.
    pub(super) fn leave(&mut self, asker: Asker<'_>, number: u64, now: Instant) {
        let state = self.calls.get(&number).map(|call| call.state);
        if state == Some(State::Abandoned) {
            return;
        }
        let Some(mut call) = self.calls.remove(&number) else {
            return;
        };
        let first = self.first_waiting();
        let cost = &call.cost.clone();
        let next = match call.state {
            State::Waiting => {
                self.starts.leave_waiting(&call.ticket, cost);
                None
            }
            State::Assigned => {
                self.starts.give_up(&call.ticket);
                let place = self.starts.place(number, cost);
                let next = self.starts.leave(number, cost, now);
                self.wake_assigned_from(cost, place);
                next
            }
            State::Asking | State::Abandoned => {
                self.starts.give_up(&call.ticket);
                call.state = State::Abandoned;
                self.calls.insert(number, call);
                self.abandoned += 1;
                self.starts.abandon(cost, now)
            }
        };
        if let Some(next) = next.and_then(|next| self.calls.get_mut(&next)) {
            self.starts.take_waiting(&mut next.ticket, cost);
            self.starts.assign(&next.ticket, cost);
            next.state = State::Assigned;
            next.wake.notify_one();
        }
        self.has_spare |= self.starts.has_spare(cost);
        if let Some(first) = first {
            self.follow(asker, &first);
        }
        self.wake_first();
    }

    /// Wakes the calls that get the starts from this place on: they start earlier than they knew.
    fn wake_assigned_from(&self, cost: &LimitCosts, place: usize) {
        for number in self.starts.assigned_from(cost, place) {
            self.wake(Some(number));
        }
    }

    /// The first call that waits was this one. If it is another one now, which costs less, that may be
    /// admitted earlier.
    fn follow(&mut self, asker: Asker<'_>, (was, its): &(u64, LimitCosts)) {
        let Some((first, cost)) = self.starts.waiting().first() else {
            return;
        };
        if first == *was {
            return;
        }
        if cost.of(self.binding) < its.of(self.binding)
            && let Some((ready, limit)) = self.forecast.ready(asker, cost)
        {
            (self.ready, self.binding) = (ready, limit);
        }
        self.wake(Some(first));
    }
}

#[cfg(test)]
mod tests;
