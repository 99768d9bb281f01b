//! `Lines`: the calls of one process that wait for the same key, in the order in which they came.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tollgate_core::{
    Check, Limit, Operation, Request, Store, StoreError, Timestamp, Verdict, Verdicts, Wait,
};

use super::forecast::{Forecast, micros};
use super::{Caller, TooLong};
use crate::key::OwnedKey;
use crate::random::random;

/// The most calls of a line that are on their way to the store at a time.
const MOST_ON_THEIR_WAY: usize = 64;

/// How exact Tokio's timers are.
const TICK: Duration = Duration::from_millis(1);
/// The longest time that a line asks later than it could, if others want the key, too: two ticks
/// of Tokio's timers, which tick at other instants in other processes.
const MOST_JITTER: Duration = Duration::from_millis(2);

/// The lines of a limiter and its clones: one for each key for which calls wait or are on their way
/// to the store.
#[derive(Default)]
pub(super) struct Lines {
    lines: Mutex<HashMap<OwnedKey, Line>>,
    /// The number of the next call. Never used again: a line may end, and another begin, between
    /// the answer to a call and the drop of its place.
    next_number: AtomicU64,
}

/// Makes requests for the limits and the key of a line.
pub(super) trait Asker {
    fn request(&self, operation: Operation<'static>, cost: u64) -> Request<'_>;
    fn check(&self, index: usize, cost: u64) -> Check<'_>;
    fn limit(&self, index: usize) -> &Limit;
}

/// The calls for one key.
struct Line {
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
    /// Never: nobody else takes a call out of its line.
    Gone,
}

impl Lines {
    pub(super) fn shared() -> Arc<Self> {
        Arc::default()
    }

    /// Puts a call at the end of its line.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if it would wait longer than `longest`.
    pub(super) fn enter<S: Store + 'static>(
        self: &Arc<Self>,
        caller: &Arc<Caller<S>>,
        longest: Duration,
    ) -> Result<Place<S>, TooLong> {
        let now = Instant::now();
        let wake = Arc::new(Notify::new());
        let mut lines = self.lock();
        let line = lines
            .entry(caller.key.clone())
            .or_insert_with(|| Line::new(now));
        let (wait, limit) = line.foresee(&**caller, now, caller.cost);
        if wait.is_never() || wait > micros(longest) {
            let limit = caller.limit(limit);
            return Err(TooLong::new(limit, wait.duration(), longest));
        }
        line.forecast.join(&**caller, caller.cost);
        // Under the lock, so numbers grow within each line.
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let standing = Standing {
            cost: caller.cost,
            state: State::Waiting,
            wake: Arc::clone(&wake),
        };
        line.calls.insert(number, standing);
        Ok(Place {
            lines: Arc::clone(self),
            caller: Arc::clone(caller),
            wake,
            position: Position {
                number,
                cost: caller.cost,
                entered: now,
                longest,
            },
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnedKey, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the calls for `key` ask again at once: something was given back.
    pub(super) fn look_again(&self, key: &OwnedKey) {
        self.change(key, |line| {
            line.ready = Instant::now();
            line.forecast = Forecast::default();
            line.wake_first();
        });
    }

    /// Changes the line of `key`, if there is one, and removes it if nobody is left in it.
    fn change<T>(&self, key: &OwnedKey, change: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let mut lines = self.lock();
        let line = lines.get_mut(key)?;
        let result = change(line);
        if line.calls.is_empty() {
            lines.remove(key);
        }
        Some(result)
    }
}

impl Line {
    fn new(now: Instant) -> Self {
        Self {
            calls: BTreeMap::new(),
            asking: 0,
            asking_cost: 0,
            remaining: 0,
            decided: Timestamp::UNIX_EPOCH,
            ready: now,
            jitter: Duration::ZERO,
            binding: 0,
            forecast: Forecast::default(),
        }
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

    fn turn(&mut self, asker: &dyn Asker, place: &Position, now: Instant) -> Turn {
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
    fn answered(
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
        self.jitter = Duration::ZERO;
        if answer.is_denied() && was_expected.is_some_and(|ready| ready <= asked) {
            // Others were faster. If all asked at the same instants, the fastest would always win.
            let wait = answer.retry_after().duration().unwrap_or_default();
            self.jitter = random_below((wait / 4).min(MOST_JITTER));
        }
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
    }

    /// Removes a call whose caller has gone.
    fn leave(&mut self, asker: &dyn Asker, number: u64) {
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

/// A place in a line; whoever drops it leaves the line.
pub(super) struct Place<S: Store + 'static> {
    lines: Arc<Lines>,
    caller: Arc<Caller<S>>,
    wake: Arc<Notify>,
    position: Position,
}

/// Which call of a line it is, and for how long it may wait.
#[derive(Clone, Copy)]
struct Position {
    number: u64,
    cost: u64,
    entered: Instant,
    longest: Duration,
}

impl<S: Store + 'static> Place<S> {
    /// Returns what to do next. If that is to ask, the caller must do so.
    pub(super) fn turn(&self) -> Turn {
        let now = Instant::now();
        let turn = self.lines.change(&self.caller.key, |line| {
            line.turn(&*self.caller, &self.position, now)
        });
        turn.unwrap_or(Turn::Gone)
    }

    /// Waits until the call is woken, or until `until`.
    pub(super) async fn wait(&self, until: Option<Instant>) {
        match until {
            Some(until) => tokio::select! {
                () = self.wake.notified() => {}
                () = sleep_until(until) => {}
            },
            None => self.wake.notified().await,
        }
    }

    /// Asks the store, and tells the line what it answered.
    pub(super) fn ask(
        &self,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send + 'static {
        let asking = Asking {
            lines: Arc::clone(&self.lines),
            caller: Arc::clone(&self.caller),
            number: self.position.number,
            asked: Instant::now(),
            answered: false,
        };
        async move { asking.run().await }
    }
}

impl<S: Store + 'static> Drop for Place<S> {
    fn drop(&mut self) {
        let number = self.position.number;
        self.lines
            .change(&self.caller.key, |line| line.leave(&*self.caller, number));
    }
}

/// A call of a line that is on its way to the store.
struct Asking<S: Store + 'static> {
    lines: Arc<Lines>,
    caller: Arc<Caller<S>>,
    number: u64,
    asked: Instant,
    answered: bool,
}

impl<S: Store + 'static> Asking<S> {
    async fn run(mut self) -> Result<Verdicts, StoreError> {
        let answer = self.caller.decide(Operation::Consume).await;
        self.answer(answer.as_ref().ok());
        answer
    }

    fn answer(&mut self, answer: Option<&Verdicts>) {
        self.answered = true;
        self.lines.change(&self.caller.key, |line| {
            line.answered(&*self.caller, self.number, self.asked, answer);
        });
    }
}

/// The runtime may end before the call does.
impl<S: Store + 'static> Drop for Asking<S> {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(None);
        }
    }
}
