//! What a call in a line does next.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Limit;
use tollgate_core::store::Operation;

use super::{Denied, FRESH, Line, Position, State, Turn};
use crate::costs::LimitCosts;
use crate::wait::Patience;
use crate::wait::caller::Asker;
use crate::wait::error::TooLong;

/// The most calls of a line that are on their way to the store at a time, or have a start later.
const MOST_ON_THEIR_WAY: usize = 64;
/// The same, for starts that are reserved.
const MOST_RESERVED: usize = 256;

/// How far ahead a line reserves further starts, at most: they cover the way to the store.
const LEAD: Duration = Duration::from_millis(50);
/// How many times less far ahead a line reserves further starts than its first one. A line that holds
/// several keeps those of others waiting until their callers have gone.
const PART: u32 = 4;

/// When a call that has to ask the store does so.
enum Asks {
    Now,
    /// Now, although it does not expect to be admitted.
    Looks,
    At(Instant),
    /// When the line is no longer giving something back.
    AfterGivingBack,
    /// When others have been answered.
    Later,
    TooLong,
}

impl Asks {
    fn at(at: Instant, now: Instant) -> Self {
        if at <= now { Self::Now } else { Self::At(at) }
    }
}

impl Line {
    /// Returns what the call does next, and takes note of it.
    pub(in crate::wait) fn turn(
        &mut self,
        asker: Asker<'_>,
        place: &Position,
        now: Instant,
    ) -> Turn {
        let mut deadline = place.patience.deadline();
        let is_over = deadline.is_some_and(|deadline| deadline <= now);
        let until = match self.calls.get(&place.number).map(|call| call.state) {
            None => return Turn::Gone,
            Some(State::Assigned) => match self.starts.due(place.number, &place.cost) {
                Some(due) if due <= now => return self.take(place),
                None if is_over => {
                    // What it was to get has not come: it asks itself.
                    self.wait_after_all(place.number);
                    return self.turn(asker, place, now);
                }
                due => {
                    // What it has reserved in time may be due later here by the way of the answer.
                    deadline = deadline.and_then(|deadline| deadline.checked_add(self.way));
                    due
                }
            },
            Some(_) => match self.asks_at(asker, place, now) {
                Asks::Now => return self.ask(place, now),
                Asks::Looks => return self.look(place, asker, now),
                Asks::At(at) => Some(at),
                // It asks as soon as that is done, whatever its deadline.
                Asks::AfterGivingBack => {
                    self.after_giving_back.push(place.number);
                    return Turn::Wait(None);
                }
                Asks::TooLong => return Turn::TooLong(self.too_long(asker, place, now)),
                Asks::Later => None,
            },
        };
        match (until, deadline) {
            (_, Some(deadline)) if deadline <= now => {
                Turn::TooLong(self.too_long(asker, place, now))
            }
            (Some(until), Some(deadline)) => Turn::Wait(Some(until.min(deadline))),
            (until, deadline) => Turn::Wait(until.or(deadline)),
        }
    }

    /// The call uses the start that is due.
    fn take(&mut self, place: &Position) -> Turn {
        let Some(start) = self.starts.take(place.number, &place.cost) else {
            return Turn::Gone;
        };
        self.is_done(place.number);
        self.reserve_further_ahead();
        self.wake_first();
        Turn::Admitted(start)
    }

    /// Returns when a call that has to ask the store does so.
    fn asks_at(&mut self, asker: Asker<'_>, place: &Position, now: Instant) -> Asks {
        let first = self.starts.waiting().first();
        let is_first = first.is_some_and(|(number, _)| number == place.number);
        let over = place.patience.deadline();
        let over = over.filter(|deadline| *deadline <= now);
        if !is_first && (over.is_none() || self.is_fresh(now)) {
            return Asks::Later;
        }
        if self.is_giving_back {
            return Asks::AfterGivingBack;
        }
        let start = self.earliest(asker, &place.cost, now);
        let is_late = |deadline| start > deadline;
        if self.is_fresh(now) && place.patience.deadline().is_some_and(is_late) {
            return Asks::TooLong;
        }
        if let Some(deadline) = over {
            // It asks once, whatever is on its way: it may well be admitted.
            return match self.denied(place) {
                Some(own) if own.asked >= deadline => Asks::TooLong,
                _ => Asks::Now,
            };
        }
        let on_their_way = self.asking + self.starts.count();
        if self.reserves && on_their_way > 0 && place.cost.leave_out_a_limit() {
            // If that limit delays those before it, it would get an earlier start than they.
            return Asks::Later;
        }
        let lead = if on_their_way == 0 {
            self.ahead
        } else {
            let part = (self.ahead / PART).max(self.least_ahead());
            part.min(self.ahead).min(LEAD)
        };
        let at = self.before(start, lead, now);
        // What may be reserved now was waited for already, and `at` moves along with the time.
        let jitter = if self.reserves && at <= now {
            Duration::ZERO
        } else {
            self.jitter
        };
        if on_their_way == 0 {
            // What others give back is heard of only if the store is asked.
            let looks = self.answered.map(|asked| asked + FRESH);
            return match looks.filter(|looks| *looks < at) {
                Some(looks) if looks <= now => Asks::Looks,
                looks => Asks::at(looks.unwrap_or(at + jitter), now),
            };
        }
        let may_ask = if self.reserves && self.forecast.is_known() {
            on_their_way < MOST_RESERVED
        } else {
            let all = |limit| self.asking_cost.of(limit) + u128::from(place.cost.of(limit));
            self.asking < MOST_ON_THEIR_WAY && self.leaves(all)
        };
        if may_ask || at > now {
            Asks::at(at + jitter, now)
        } else {
            Asks::Later
        }
    }

    /// Returns whether what was left according to the latest decision is enough for what `cost`
    /// returns for each limit.
    pub(super) fn leaves(&self, cost: impl Fn(usize) -> u128) -> bool {
        let mut left = self.remaining.iter().enumerate();
        !self.remaining.is_empty() && left.all(|(limit, left)| cost(limit) <= u128::from(*left))
    }

    /// The call asks earlier than it expects to be admitted, to hear what others have given back.
    fn look(&mut self, place: &Position, asker: Asker<'_>, now: Instant) -> Turn {
        let turn = self.ask(place, now);
        // Limits that count denied calls would count this one.
        let counts = |limit: &Limit| limit.algorithm().counts_denied();
        if asker.limits.iter().any(counts) {
            return Turn::Ask(Operation::Peek);
        }
        turn
    }

    /// Returns when to ask for `start`: `lead` before, if it is reserved.
    fn before(&self, start: Instant, lead: Duration, now: Instant) -> Instant {
        if !self.reserves || start <= now {
            return start;
        }
        // What was foreseen is rounded down: a microsecond earlier, the store would deny it.
        start.checked_sub(lead).unwrap_or(now) + Duration::from_micros(1)
    }

    /// Returns the last answer to the call, if it was denied.
    fn denied(&self, place: &Position) -> Option<Denied> {
        self.calls.get(&place.number)?.denied
    }

    /// Returns the earliest instant at which the first call that waits may be admitted.
    fn earliest(&mut self, asker: Asker<'_>, cost: &LimitCosts, now: Instant) -> Instant {
        if !self.reserves {
            return self.ready;
        }
        let asking = &self.asking_cost;
        let total = |limit| asking.of(limit) + u128::from(cost.of(limit));
        let wait = self.forecast.least_wait(asker, now, total);
        let start = wait.map_or(now, |(wait, _)| now + wait);
        start.max(self.ready)
    }

    /// Refuses a call that waits for the first one, at least.
    pub(in crate::wait) fn too_long(
        &mut self,
        asker: Asker<'_>,
        place: &Position,
        now: Instant,
    ) -> TooLong {
        let Patience { since, longest, .. } = place.patience;
        let least = longest.saturating_add(Duration::from_micros(1));
        // What it asked at its deadline says more than what others were told.
        let deadline = place.patience.deadline();
        let own = self.denied(place).filter(|own| Some(own.asked) >= deadline);
        let (start, limit) = match own {
            Some(Denied { ready, limit, .. }) => (ready, limit),
            None => (self.earliest(asker, &place.cost, now), self.binding),
        };
        let wait = start.max(now).duration_since(since).max(least);
        let limit = asker.limit(limit);
        TooLong::new(limit, Some(wait), longest)
    }

    fn ask(&mut self, place: &Position, now: Instant) -> Turn {
        self.asking += 1;
        self.asking_cost += &place.cost;
        if let Some(call) = self.calls.get_mut(&place.number) {
            self.starts.take_waiting(&mut call.ticket, &call.cost);
            call.state = State::Asking;
        }
        // There may be enough left for the next one, too.
        self.wake_first();
        if !self.reserves {
            return Turn::Ask(Operation::Consume);
        }
        let deadline = place.patience.deadline();
        let left = deadline.map(|deadline| deadline.duration_since(now));
        let max_delay = left.map_or(self.ahead, |left| left.min(self.ahead));
        Turn::Ask(Operation::Reserve { max_delay })
    }
}
