//! `Line`: the calls of one process that wait for the same key, in the order in which they came.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::{Timestamp, Verdict, Verdicts, Wait};

use super::caller::Asker;
use super::error::TooLong;
use super::forecast::{Forecast, micros};
use super::turns::Turns;
use crate::random::random;

/// The most calls of a line that are on their way to the store at a time.
const MOST_ON_THEIR_WAY: usize = 64;

/// How exact Tokio's timers are.
const TICK: Duration = Duration::from_millis(1);

/// The calls for one key.
pub(super) struct Line {
    /// By number, in the order in which they came.
    calls: BTreeMap<u64, Standing>,
    /// How many calls are on their way to the store, and what they cost together.
    asking: usize,
    asking_cost: u128,
    /// What was left according to the latest decision, and when that was.
    remaining: u64,
    decided: Timestamp,
    /// The first call that waits is not admitted before this.
    ready: Instant,
    /// How much later than that it asks, because others want the key, too.
    jitter: Duration,
    turns: Turns,
    /// The limit that it waits for.
    binding: usize,
    forecast: Forecast,
}

/// A call in a line.
struct Standing {
    cost: u64,
    state: State,
    wake: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Waiting,
    /// It is on its way to the store.
    Asking,
    /// The same, but its caller has gone.
    Abandoned,
}

/// What a call in a line does next.
pub(super) enum Turn {
    /// It asks the store.
    Ask,
    /// It waits until it is woken, or until this instant.
    Wait(Option<Instant>),
    TooLong(TooLong),
    /// It has lost its place, which is a bug: nobody else takes a call out of its line.
    Gone,
}

/// Which call of a line it is, and for how long it may wait.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) number: u64,
    pub(super) cost: u64,
    pub(super) entered: Instant,
    pub(super) longest: Duration,
}

impl Line {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            calls: BTreeMap::new(),
            asking: 0,
            asking_cost: 0,
            remaining: 0,
            decided: Timestamp::UNIX_EPOCH,
            ready: now,
            jitter: Duration::ZERO,
            turns: Turns::default(),
            binding: 0,
            forecast: Forecast::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Puts a call at the end.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if it would wait too long.
    pub(super) fn enter(
        &mut self,
        asker: Asker<'_>,
        place: Position,
        wake: Arc<Notify>,
    ) -> Result<(), TooLong> {
        let Position { cost, longest, .. } = place;
        let (wait, limit) = self.foresee(asker, place.entered, cost);
        if wait.is_never() || wait > micros(longest) {
            return Err(TooLong::new(asker.limit(limit), wait.duration(), longest));
        }
        self.forecast.join(asker, cost);
        let state = State::Waiting;
        self.calls
            .insert(place.number, Standing { cost, state, wake });
        Ok(())
    }

    /// Lets the first call ask again at once: something was given back.
    pub(super) fn look_again(&mut self, now: Instant) {
        self.ready = now;
        self.forecast = Forecast::default();
        self.wake_first();
    }

    fn first_waiting(&self) -> Option<(u64, &Standing)> {
        let mut calls = self.calls.iter();
        let first = calls.find(|(_, call)| call.state == State::Waiting);
        first.map(|(number, call)| (*number, call))
    }

    fn wake_first(&self) {
        if let Some((_, call)) = self.first_waiting() {
            call.wake.notify_one();
        }
    }

    /// Returns the least time from `now` until a call at the end of the line is admitted, and the
    /// limit that it waits for.
    fn foresee(&mut self, asker: Asker<'_>, now: Instant, cost: u64) -> (Wait, usize) {
        let ahead = self.calls.values().map(|call| call.cost);
        let ready = self.ready.max(now);
        self.forecast.foresee(asker, (now, ready), ahead, cost)
    }

    /// Returns whether a call of `cost` may be sent: alone, or if all that are on their way fit.
    fn may_ask(&self, cost: u64) -> bool {
        let all = self.asking_cost + u128::from(cost);
        self.asking == 0 || self.asking < MOST_ON_THEIR_WAY && all <= u128::from(self.remaining)
    }

    pub(super) fn turn(&mut self, asker: Asker<'_>, place: &Position, now: Instant) -> Turn {
        let deadline = place.entered.checked_add(place.longest);
        let first = self.first_waiting();
        if first.is_some_and(|(number, _)| number == place.number) {
            let asks = self.ready + self.jitter;
            if deadline.is_some_and(|deadline| self.ready > deadline) {
                return self.too_long(asker, place, now);
            }
            if now < asks && deadline.is_none_or(|deadline| now < deadline) {
                return Turn::Wait(Some(deadline.map_or(asks, |deadline| asks.min(deadline))));
            }
            // At its deadline it asks once, whatever is on its way: it may well be admitted.
            if self.may_ask(place.cost) || deadline.is_some_and(|deadline| now >= deadline) {
                self.ask(place);
                return Turn::Ask;
            }
        }
        if deadline.is_some_and(|deadline| now >= deadline) {
            return self.too_long(asker, place, now);
        }
        Turn::Wait(deadline)
    }

    /// Refuses a call that waits for the first one, at least.
    fn too_long(&self, asker: Asker<'_>, place: &Position, now: Instant) -> Turn {
        let least = place.longest.saturating_add(Duration::from_micros(1));
        let wait = self.ready.max(now).duration_since(place.entered).max(least);
        let limit = asker.limit(self.binding);
        Turn::TooLong(TooLong::new(limit, Some(wait), place.longest))
    }

    fn ask(&mut self, place: &Position) {
        self.asking += 1;
        self.asking_cost += u128::from(place.cost);
        if let Some(call) = self.calls.get_mut(&place.number) {
            call.state = State::Asking;
        }
        // There may be enough left for the next one, too.
        self.wake_first();
    }

    /// Takes note of the answer to a call, or that there is none.
    pub(super) fn answered(
        &mut self,
        asker: Asker<'_>,
        number: u64,
        asked: Instant,
        answer: Option<&Verdicts>,
    ) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let cost = call.cost;
        let is_abandoned = call.state == State::Abandoned;
        let waits_on = answer.is_some_and(Verdicts::is_denied) && !is_abandoned;
        if waits_on {
            call.state = State::Waiting;
        } else {
            self.calls.remove(&number);
        }
        self.asking -= 1;
        self.asking_cost -= u128::from(cost);
        match answer {
            // What an abandoned call has consumed is given back.
            Some(answer) if !(is_abandoned && answer.is_allowed()) => {
                self.learn(asker, asked, (number, cost), answer);
            }
            // It may not be counted.
            _ => self.forecast.replan(),
        }
        self.wake_first();
    }

    /// Takes note of the answer to the call with this number and cost.
    fn learn(
        &mut self,
        asker: Asker<'_>,
        asked: Instant,
        (number, cost): (u64, u64),
        answer: &Verdicts,
    ) {
        // Answers may come in another order than that in which the store decided.
        let decided = answer.as_slice().iter().map(Verdict::decided_at).max();
        let decided = decided.unwrap_or_default();
        self.remaining = match decided.cmp(&self.decided) {
            Less => self.remaining,
            Equal => self.remaining.min(answer.remaining()),
            Greater => answer.remaining(),
        };
        self.decided = self.decided.max(decided);
        let was_expected = self.forecast.ready(asker, cost);
        self.forecast.learn(asker, (asked, decided), cost, answer);
        let first = self.first_waiting();
        let first = first.map(|(number, call)| (number, call.cost));
        if answer.is_denied() && first.is_some_and(|(first, _)| first < number) {
            // It is not yet the turn of this call, and the first one has had its own answer.
            return;
        }
        self.binding = answer.binding();
        let waits_again = self.ready + self.jitter <= asked;
        // Where this call is denied, one that costs as much is denied, too.
        let is_denied_too = answer.is_denied() && first.is_some_and(|(_, other)| other >= cost);
        self.ready = if is_denied_too {
            let wait = answer.retry_after().duration();
            // A store that denies a call without a wait is not asked again and again.
            let wait = wait.map(|wait| if wait.is_zero() { TICK } else { wait });
            wait.and_then(|wait| asked.checked_add(wait))
        } else {
            let next = first.filter(|(_, cost)| *cost > self.remaining);
            next.and_then(|(_, cost)| self.forecast.ready(asker, cost))
        }
        .unwrap_or(asked);
        if answer.is_allowed() {
            self.turns.took(cost);
        }
        let was_expected = was_expected.is_some_and(|ready| ready <= asked);
        let others_were_faster = answer.is_denied() && was_expected;
        let wait = self.ready.duration_since(asked);
        if waits_again || others_were_faster {
            let capacity = answer.capacity();
            self.jitter = self
                .turns
                .delay(wait, capacity, others_were_faster, random());
        }
    }

    /// Removes a call whose caller has gone.
    pub(super) fn leave(&mut self, asker: Asker<'_>, number: u64) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        if call.state == State::Waiting {
            let cost = call.cost;
            let was_first = self.first_waiting().is_some_and(|first| first.0 == number);
            self.calls.remove(&number);
            self.forecast.replan();
            if was_first {
                self.follow(asker, cost);
            }
            self.wake_first();
        } else {
            call.state = State::Abandoned;
        }
    }

    /// The first call that waits, of this cost, has gone. If the next one costs less, it may be
    /// admitted earlier.
    fn follow(&mut self, asker: Asker<'_>, gone: u64) {
        let next = self.first_waiting().map(|(_, call)| call.cost);
        if let Some(next) = next.filter(|next| *next < gone) {
            self.ready = self.forecast.ready(asker, next).unwrap_or(self.ready);
        }
    }
}

#[cfg(test)]
mod tests;
