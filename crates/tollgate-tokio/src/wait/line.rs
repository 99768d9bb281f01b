//! `Line`: the calls of one process that wait for the same key, in the order in which they came.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::{Check, Limit, Operation, Request, Timestamp, Verdict, Verdicts, Wait};

use super::TooLong;
use super::forecast::{Forecast, micros};
use crate::random::random;

/// The most calls of a line that are on their way to the store at a time.
const MOST_ON_THEIR_WAY: usize = 64;

/// How exact Tokio's timers are.
const TICK: Duration = Duration::from_millis(1);
/// The longest time that a line asks later than it could, if others want the key, too: some ticks
/// of Tokio's timers, which tick at other instants in other processes.
const MOST_JITTER: Duration = Duration::from_millis(8);
/// After others were faster, a line expects them for so many more waits. Without any, it lets them
/// go first once in so many waits: a line that always takes everything would not notice them.
const EXPECTED: u32 = 16;
/// Among how many lines a limit is meant to be shared equally: with more or fewer, a line that gets
/// less than others still asks before them more often.
const RIVALS: u32 = 8;

/// Makes requests for the limits and the key of a line.
pub(super) trait Asker {
    fn request(&self, operation: Operation<'static>, cost: u64) -> Request<'_>;
    fn check(&self, index: usize, cost: u64) -> Check<'_>;
    fn limit(&self, index: usize) -> &Limit;
}

/// The calls for one key.
pub(super) struct Line {
    /// By number, in the order in which they came.
    calls: BTreeMap<u64, Standing>,
    /// How many calls are on their way to the store, and their costs.
    asking: usize,
    asking_cost: u64,
    /// What was left according to the latest decision, and when that was.
    remaining: u64,
    decided: Timestamp,
    /// The first call that waits is not admitted before this.
    ready: Instant,
    /// How much later than that it asks, because others want the key, too.
    jitter: Duration,
    /// How many units this line has got too few when it shared the limit with others.
    owed: u64,
    /// How many times it has waited since others were faster.
    waits: u32,
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
            owed: 0,
            // So that it soon finds out whether there are others.
            waits: 2 * EXPECTED - 4,
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
        asker: &dyn Asker,
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
    fn foresee(&mut self, asker: &dyn Asker, now: Instant, cost: u64) -> (Wait, usize) {
        let ahead = self.calls.values().map(|call| call.cost);
        let ready = self.ready.max(now);
        self.forecast.foresee(asker, (now, ready), ahead, cost)
    }

    /// Returns whether a call of `cost` may be sent: alone, or if all that are on their way fit.
    fn may_ask(&self, cost: u64) -> bool {
        let all = self.asking_cost.saturating_add(cost);
        self.asking == 0 || self.asking < MOST_ON_THEIR_WAY && all <= self.remaining
    }

    pub(super) fn turn(&mut self, asker: &dyn Asker, place: &Position, now: Instant) -> Turn {
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
    fn too_long(&self, asker: &dyn Asker, place: &Position, now: Instant) -> Turn {
        let least = place.longest.saturating_add(Duration::from_micros(1));
        let wait = self.ready.max(now).duration_since(place.entered).max(least);
        let limit = asker.limit(self.binding);
        Turn::TooLong(TooLong::new(limit, Some(wait), place.longest))
    }

    fn ask(&mut self, place: &Position) {
        self.asking += 1;
        self.asking_cost = self.asking_cost.saturating_add(place.cost);
        if let Some(call) = self.calls.get_mut(&place.number) {
            call.state = State::Asking;
        }
        // There may be enough left for the next one, too.
        self.wake_first();
    }

    /// Takes note of the answer to a call, or that there is none.
    pub(super) fn answered(
        &mut self,
        asker: &dyn Asker,
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
        self.asking_cost = self.asking_cost.saturating_sub(cost);
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
        asker: &dyn Asker,
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
        let is_first = first.is_some_and(|(first, _)| first == number);
        if answer.is_denied() && first.is_some_and(|(first, _)| first < number) {
            // It is not yet the turn of this call, and the first one has had its own answer.
            return;
        }
        self.binding = answer.binding();
        let waits_again = self.ready + self.jitter <= asked;
        self.ready = if answer.is_denied() && is_first {
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
            self.owed = self.owed.saturating_sub(cost);
        }
        let was_expected = was_expected.is_some_and(|ready| ready <= asked);
        let others_were_faster = answer.is_denied() && was_expected;
        let wait = self.ready.duration_since(asked);
        let binding = answer.as_slice().get(self.binding);
        let capacity = binding.map_or(0, Verdict::capacity);
        if waits_again || others_were_faster {
            self.jitter = self.yields(wait, capacity, others_were_faster);
        }
    }

    /// Returns how much later than it could the line asks after `wait`, so that the lines of several
    /// processes take turns.
    ///
    /// If all asked at the same instants, the fastest would always win. So each time that others
    /// were faster, a line is owed its share of the limit, and the more it is owed, the earlier it
    /// asks. A line that does not know of others lets them go first now and then.
    fn yields(&mut self, wait: Duration, capacity: u64, others_were_faster: bool) -> Duration {
        if wait.is_zero() {
            return Duration::ZERO;
        }
        if others_were_faster {
            self.waits = 0;
            let share = capacity.div_ceil(u64::from(RIVALS));
            self.owed = self.owed.saturating_add(share).min(capacity);
        } else {
            self.waits = self.waits.wrapping_add(1);
        }
        let most = (wait / 4).min(MOST_JITTER);
        match self.waits {
            0..EXPECTED => {}
            waits if waits % EXPECTED == 0 => return most,
            _ => return Duration::ZERO,
        }
        let step = most / (RIVALS + 1);
        let owed = u128::from(self.owed) * u128::from(RIVALS) / u128::from(capacity.max(1));
        let steps = RIVALS.saturating_sub(u32::try_from(owed).unwrap_or(RIVALS));
        step * steps + random_below(step)
    }

    /// Removes a call whose caller has gone.
    pub(super) fn leave(&mut self, asker: &dyn Asker, number: u64) {
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
    fn follow(&mut self, asker: &dyn Asker, gone: u64) {
        let next = self.first_waiting().map(|(_, call)| call.cost);
        if let Some(next) = next.filter(|next| *next < gone) {
            self.ready = self.forecast.ready(asker, next).unwrap_or(self.ready);
        }
    }
}

/// Returns a random time from zero to `most`.
fn random_below(most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX >> 32);
    Duration::from_nanos(nanos.saturating_mul(random() >> 32) >> 32)
}
