//! `Line`: the calls of one process that wait for the same key, in the order in which they came.

mod starts;

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::{Limit, Operation, Timestamp, Verdict, Verdicts};

pub(crate) use self::starts::Start;
use self::starts::Starts;
use super::Patience;
use super::caller::Asker;
use super::error::{TooLong, WaitError};
use super::forecast::Forecast;
use super::turns::Turns;
use crate::random::random;

/// The most calls of a line that are on their way to the store at a time, or have a start later.
const MOST_ON_THEIR_WAY: usize = 64;
/// The same, for starts that are reserved.
const MOST_RESERVED: usize = 256;

/// How far ahead a line reserves one start, at most: so much of a limit may be left unused if the
/// process has no more calls for it.
const AHEAD: Duration = Duration::from_secs(1);
/// How far ahead it reserves further starts: they cover the way to the store.
const LEAD: Duration = Duration::from_millis(50);
/// How long a line is kept for that, after the last start that nobody used.
const MEMORY: Duration = Duration::from_secs(10);
/// The least that a line reserves ahead: longer than lines let each other go first.
const LEAST_AHEAD: Duration = Duration::from_millis(10);
/// By so much more a line reserves ahead after each start that is used. It halves that after each
/// that is not, so lines that are often empty lose few of them, and get equal shares.
const STEP: Duration = Duration::from_millis(2);

/// A refusal rests on an answer that is at most so old, and whoever is first in line asks again
/// when it is.
const FRESH: Duration = Duration::from_secs(1);

/// How exact Tokio's timers are.
const TICK: Duration = Duration::from_millis(1);

/// The calls for one key.
pub(super) struct Line {
    /// Whether calls reserve their starts; otherwise they ask when they may start.
    reserves: bool,
    /// By number, in the order in which they came.
    calls: BTreeMap<u64, Standing>,
    next_number: u64,
    starts: Starts,
    /// How many calls are on their way to the store, and what they cost together.
    asking: usize,
    asking_cost: u128,
    /// What was left according to the latest decision, and when that was.
    remaining: u64,
    decided: Timestamp,
    /// When the store was asked for its latest answer.
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
    /// Until when the line is kept although nobody is in it.
    remembered: Instant,
}

/// A call in a line.
struct Standing {
    cost: u64,
    state: State,
    wake: Arc<Notify>,
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

/// Which call of a line it is, and for how long it may wait.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) number: u64,
    pub(super) cost: u64,
    pub(super) patience: Patience,
}

/// What the task that keeps a line does next.
pub(super) enum Kept {
    /// It gives these back, and then says so by [`Line::gave_back`].
    GiveBack(Vec<Start>),
    Sleep(Instant),
    Done,
}

impl Line {
    pub(super) fn new(reserves: bool, now: Instant) -> Self {
        Self {
            reserves,
            calls: BTreeMap::new(),
            next_number: 0,
            starts: Starts::default(),
            asking: 0,
            asking_cost: 0,
            remaining: 0,
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
            remembered: now,
        }
    }

    /// Returns whether nothing would be lost with the line.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.starts.count() == 0 && !self.is_kept
    }

    /// Puts a call at the end.
    ///
    /// # Errors
    ///
    /// [`WaitError::TooLong`] and [`WaitError::TooMany`] if it would have to wait longer, or behind
    /// more others, than it may.
    pub(super) fn enter(
        &mut self,
        asker: Asker<'_>,
        (cost, patience): (u64, Patience),
        now: Instant,
        wake: Arc<Notify>,
    ) -> Result<Position, WaitError> {
        let Patience { longest, most, .. } = patience;
        let mut limits = asker.limits.iter();
        if let Some(limit) = limits.find(|limit| limit.algorithm().capacity() < cost) {
            return Err(TooLong::new(limit, None, longest).into());
        }
        if self.calls.len() >= most {
            return Err(WaitError::TooMany { most });
        }
        if let Some((wait, limit)) = self.foresee(asker, now, cost) {
            let wait = wait.saturating_add(now.duration_since(patience.since));
            if wait > longest {
                return Err(TooLong::new(asker.limit(limit), Some(wait), longest).into());
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        let state = if self.starts.enter(number, cost, now) {
            State::Assigned
        } else {
            State::Waiting
        };
        self.calls.insert(number, Standing { cost, state, wake });
        Ok(Position {
            number,
            cost,
            patience,
        })
    }

    /// Returns the least time until a call at the end of the line is admitted, and the limit that it
    /// waits for, or `None` if what is known is too old to say so.
    fn foresee(&mut self, asker: Asker<'_>, now: Instant, cost: u64) -> Option<(Duration, usize)> {
        if !self.is_fresh(now) {
            return None;
        }
        let total = self.starts.waiting_cost() + self.asking_cost + u128::from(cost);
        let from = self.ready.max(now);
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
        let first = self.starts.first_waiting();
        self.wake(first.map(|(number, _)| number));
    }

    fn wake(&self, number: Option<u64>) {
        if let Some(call) = number.and_then(|number| self.calls.get(&number)) {
            call.wake.notify_one();
        }
    }

    fn set(&mut self, number: u64, state: State) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.state = state;
        }
    }

    pub(super) fn turn(&mut self, asker: Asker<'_>, place: &Position, now: Instant) -> Turn {
        let mut deadline = place.patience.deadline();
        let until = match self.calls.get(&place.number).map(|call| call.state) {
            None => return Turn::Gone,
            Some(State::Assigned) => {
                // What it has reserved in time may be due later here by the way of the answer.
                deadline = deadline.and_then(|deadline| deadline.checked_add(self.way));
                let due = self.starts.due(place.number, place.cost);
                if due.is_some_and(|due| due <= now) {
                    return self.take(place);
                }
                due
            }
            Some(_) => match self.asks_at(asker, place, now) {
                Asks::Now => return self.ask(place, now),
                Asks::Looks => return self.look(place, asker, now),
                Asks::At(at) => Some(at),
                // It starts as soon as that is done, whatever its deadline.
                Asks::AfterGivingBack => return Turn::Wait(None),
                Asks::TooLong => return self.too_long(asker, place, now),
                Asks::Later => None,
            },
        };
        match (until, deadline) {
            (_, Some(deadline)) if deadline <= now => self.too_long(asker, place, now),
            (Some(until), Some(deadline)) => Turn::Wait(Some(until.min(deadline))),
            (until, deadline) => Turn::Wait(until.or(deadline)),
        }
    }

    /// The call uses the start that is due.
    fn take(&mut self, place: &Position) -> Turn {
        let Some(start) = self.starts.take(place.number, place.cost) else {
            return Turn::Gone;
        };
        self.calls.remove(&place.number);
        self.reserve_further_ahead();
        self.wake(self.starts.next_assigned(place.cost));
        self.wake_first();
        Turn::Admitted(start)
    }

    /// Returns when a call that has to ask the store does so.
    fn asks_at(&mut self, asker: Asker<'_>, place: &Position, now: Instant) -> Asks {
        let first = self.starts.first_waiting();
        if first.is_none_or(|(number, _)| number != place.number) {
            return Asks::Later;
        }
        if self.is_giving_back {
            return Asks::AfterGivingBack;
        }
        let deadline = place.patience.deadline();
        let start = self.earliest(asker, place.cost, now);
        if self.is_fresh(now) && deadline.is_some_and(|deadline| start > deadline) {
            return Asks::TooLong;
        }
        if deadline.is_some_and(|deadline| now >= deadline) {
            // It asks once, whatever is on its way: it may well be admitted.
            return Asks::Now;
        }
        let on_their_way = self.asking + self.starts.count();
        let lead = if on_their_way == 0 {
            self.ahead
        } else {
            self.ahead.min(LEAD)
        };
        let at = self.before(start, lead, now);
        if on_their_way == 0 {
            // What others give back is heard of only if the store is asked.
            let looks = self.answered.map(|asked| asked + FRESH);
            return match looks.filter(|looks| *looks < at) {
                Some(looks) if looks <= now => Asks::Looks,
                looks => Asks::at(looks.unwrap_or(at + self.jitter), now),
            };
        }
        let may_ask = if self.reserves && self.forecast.is_known() {
            on_their_way < MOST_RESERVED
        } else {
            let all = self.asking_cost + u128::from(place.cost);
            self.asking < MOST_ON_THEIR_WAY && all <= u128::from(self.remaining)
        };
        if may_ask || at > now {
            Asks::at(at + self.jitter, now)
        } else {
            Asks::Later
        }
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

    /// Returns when to ask for `start`: so long before, if it is reserved.
    fn before(&self, start: Instant, lead: Duration, now: Instant) -> Instant {
        if !self.reserves || start <= now {
            return start;
        }
        // What was foreseen is rounded down: a microsecond earlier, the store would deny it.
        start.checked_sub(lead).unwrap_or(now) + Duration::from_micros(1)
    }

    /// Returns the earliest instant at which the first call that waits may be admitted.
    fn earliest(&mut self, asker: Asker<'_>, cost: u64, now: Instant) -> Instant {
        if !self.reserves {
            return self.ready;
        }
        let total = self.asking_cost + u128::from(cost);
        let wait = self.forecast.least_wait(asker, now, total);
        let start = wait.map_or(now, |(wait, _)| now + wait);
        start.max(self.ready)
    }

    /// Refuses a call that waits for the first one, at least.
    fn too_long(&mut self, asker: Asker<'_>, place: &Position, now: Instant) -> Turn {
        let least = place
            .patience
            .longest
            .saturating_add(Duration::from_micros(1));
        let start = self.earliest(asker, place.cost, now).max(now);
        let wait = start.duration_since(place.patience.since).max(least);
        let limit = asker.limit(self.binding);
        Turn::TooLong(TooLong::new(limit, Some(wait), place.patience.longest))
    }

    fn ask(&mut self, place: &Position, now: Instant) -> Turn {
        self.asking += 1;
        self.asking_cost += u128::from(place.cost);
        self.starts.wait_no_longer(place.number);
        self.set(place.number, State::Asking);
        // There may be enough left for the next one, too.
        self.wake_first();
        if !self.reserves {
            return Turn::Ask(Operation::Consume);
        }
        let left = place
            .patience
            .deadline()
            .map(|deadline| deadline.duration_since(now));
        let max_delay = left.map_or(self.ahead, |left| left.min(self.ahead));
        Turn::Ask(Operation::Reserve { max_delay })
    }

    /// Takes note of the answer to a call that asked at `asked`, or that there is none. Returns what
    /// was admitted for the call to use now, if its caller is still there.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if the store says that the call will never be admitted.
    pub(super) fn answered(
        &mut self,
        asker: Asker<'_>,
        place: &Position,
        (asked, operation): (Instant, Operation<'_>),
        answer: Option<Verdicts>,
        now: Instant,
    ) -> Result<Option<Start>, TooLong> {
        let number = place.number;
        let Some(&Standing { cost, state, .. }) = self.calls.get(&number) else {
            return Ok(None);
        };
        self.asking -= 1;
        self.asking_cost -= u128::from(cost);
        let is_here = state == State::Asking;
        let consumes = !matches!(operation, Operation::Peek);
        let is_admitted = |answer: &Verdicts| answer.is_allowed() && consumes;
        let waits_on = match &answer {
            Some(answer) if is_admitted(answer) => None,
            Some(_) if is_here => Some(number),
            _ => {
                self.calls.remove(&number);
                if is_here {
                    None
                } else {
                    self.starts.void(cost)
                }
            }
        };
        if let Some(number) = waits_on {
            self.set(number, State::Waiting);
            self.starts.wait(number, cost);
        }
        if let Some(answer) = &answer {
            self.way = now.duration_since(asked);
            self.learn(asker, (asked, operation), (number, cost), answer);
            if answer.retry_after().is_never() && is_here {
                let limit = asker.limit(answer.binding());
                return Err(TooLong::new(limit, None, place.patience.longest));
            }
        }
        let start = answer.filter(is_admitted).map(|verdicts| Start {
            at: now + verdicts.delay().duration().unwrap_or_default(),
            asked,
            verdicts,
        });
        let start = start.and_then(|start| self.assign((number, cost, is_here), start, now));
        self.wake_first();
        Ok(start)
    }

    /// Assigns a call of the line to `start`. Returns it if the call that asked for it is here, and
    /// can use it now.
    fn assign(
        &mut self,
        (number, cost, is_here): (u64, u64, bool),
        start: Start,
        now: Instant,
    ) -> Option<Start> {
        if is_here && start.at <= now {
            self.calls.remove(&number);
            self.reserve_further_ahead();
            return Some(start);
        }
        if is_here {
            self.set(number, State::Assigned);
            self.starts.assign(number, cost);
        } else {
            self.calls.remove(&number);
            self.starts.arrive(cost);
        }
        self.starts.add(cost, start);
        self.has_spare |= self.starts.has_spare(cost);
        self.wake(self.starts.next_assigned(cost));
        None
    }

    /// Takes note of the answer to the call with this number and cost.
    fn learn(
        &mut self,
        asker: Asker<'_>,
        (asked, operation): (Instant, Operation<'_>),
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
        self.answered = self.answered.max(Some(asked));
        let (max_delay, consumes) = match operation {
            Operation::Reserve { max_delay } => (max_delay, true),
            operation => (Duration::ZERO, !matches!(operation, Operation::Peek)),
        };
        let consumed = (answer.is_allowed() && consumes).then_some(cost);
        let was_expected = self.forecast.ready(asker, cost);
        let was_expected = was_expected.is_some_and(|ready| ready <= asked + max_delay);
        self.forecast
            .learn(asker, (asked, decided), consumed, answer);
        let first = self.starts.first_waiting();
        if answer.is_denied() && first.is_some_and(|(first, _)| first < number) {
            // It is not yet the turn of this call, and the first one has had its own answer.
            return;
        }
        self.binding = answer.binding();
        if answer.is_denied() {
            self.reserve_further_ahead();
        }
        let waits_again = self.ready + self.jitter <= asked + max_delay;
        // Where this call is denied, one that costs as much is denied, too.
        let is_denied_too = answer.is_denied() && first.is_some_and(|(_, other)| other >= cost);
        self.ready = if is_denied_too {
            let wait = answer.retry_after().duration();
            // A store that denies a call without a wait is not asked again and again.
            let wait = wait.map(|wait| if wait.is_zero() { TICK } else { wait });
            wait.and_then(|wait| asked.checked_add(wait)?.checked_add(max_delay))
        } else {
            let next = first.filter(|(_, cost)| *cost > self.remaining && !self.reserves);
            next.and_then(|(_, cost)| self.forecast.ready(asker, cost))
        }
        .unwrap_or(asked);
        if let Some(cost) = consumed {
            self.turns.took(cost);
        }
        let others_were_faster = answer.is_denied() && was_expected;
        let wait = self.ready.duration_since(asked + max_delay);
        if waits_again || others_were_faster {
            let capacity = answer.capacity();
            self.jitter = self
                .turns
                .delay(wait, capacity, others_were_faster, random());
        }
    }

    /// Removes a call whose caller has gone.
    pub(super) fn leave(&mut self, asker: Asker<'_>, number: u64, now: Instant) {
        let Some(&Standing { cost, state, .. }) = self.calls.get(&number) else {
            return;
        };
        let was_first = self
            .starts
            .first_waiting()
            .is_some_and(|first| first.0 == number);
        let next = match state {
            State::Abandoned => return,
            State::Waiting => {
                self.calls.remove(&number);
                self.starts.wait_no_longer(number);
                None
            }
            State::Assigned => {
                self.calls.remove(&number);
                self.starts.leave(number, cost, now)
            }
            State::Asking => {
                self.set(number, State::Abandoned);
                self.starts.abandon(cost, now)
            }
        };
        if let Some(next) = next {
            self.set(next, State::Assigned);
        }
        self.has_spare |= self.starts.has_spare(cost);
        if was_first {
            self.follow(asker, cost);
        }
        self.wake(self.starts.next_assigned(cost));
        self.wake_first();
    }

    /// The first call that waits, of this cost, has gone. If the next one costs less, it may be
    /// admitted earlier.
    fn follow(&mut self, asker: Asker<'_>, gone: u64) {
        let next = self.starts.first_waiting().map(|(_, cost)| cost);
        if let Some(next) = next.filter(|next| *next < gone) {
            self.ready = self.forecast.ready(asker, next).unwrap_or(self.ready);
        }
    }

    /// A start was used, or others had reserved all starts so far ahead.
    fn reserve_further_ahead(&mut self) {
        self.ahead = (self.ahead + STEP).min(AHEAD);
    }

    /// Returns whether a task must be started that keeps this line: nobody uses what it has. Wakes
    /// it if there is one.
    pub(super) fn wants_keeper(&mut self) -> bool {
        if !self.has_spare {
            return false;
        }
        if self.is_kept {
            self.keeper.notify_one();
        }
        !std::mem::replace(&mut self.is_kept, true)
    }

    /// Returns what wakes that task.
    pub(super) fn keeper(&self) -> Arc<Notify> {
        Arc::clone(&self.keeper)
    }

    /// Returns what the task does next that keeps this line.
    pub(super) fn keep(&mut self, now: Instant) -> Kept {
        let spare = self.starts.take_spare(Some(now));
        if !spare.is_empty() {
            let delays = spare
                .iter()
                .filter_map(|start| start.verdicts.delay().duration());
            if let Some(delay) = delays.filter(|delay| !delay.is_zero()).min() {
                self.ahead = (self.ahead.min(delay) / 2).max(LEAST_AHEAD);
                self.remembered = now + MEMORY;
            }
            self.is_giving_back = true;
            return Kept::GiveBack(spare);
        }
        self.has_spare = false;
        if let Some(at) = self.starts.first_spare() {
            return Kept::Sleep(at);
        }
        if self.calls.is_empty() && now < self.remembered {
            return Kept::Sleep(self.remembered);
        }
        self.is_kept = false;
        Kept::Done
    }

    /// What nobody used was given back.
    pub(super) fn gave_back(&mut self) {
        self.is_giving_back = false;
        self.wake_first();
    }

    /// The task has ended with its runtime: what it would have given back stays consumed.
    pub(super) fn lost_keeper(&mut self) {
        drop(self.starts.take_spare(None));
        self.has_spare = false;
        self.is_kept = false;
        self.gave_back();
    }
}

#[cfg(test)]
mod tests;
