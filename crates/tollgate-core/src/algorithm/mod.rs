//! The rate-limiting algorithms: what each remembers, and when it allows a call.
//!
//! Each algorithm has a folder with its specification (`README.md`), its pure state machine
//! (`mod.rs`), its text syntax (`text.rs`), its tests (`tests.rs`), and, for servers, its script
//! (`script.lua`) and the code that connects script and machine (`twin.rs`). A machine uses
//! integers only and reads no clock. It decides a call in two phases, so that several limits can be
//! decided all-or-nothing: it returns how long the call would have to wait, and records the call
//! afterwards.
//!
//! To add an algorithm, add a folder, and a line to the list below.

mod block;
#[cfg(feature = "calendar")]
mod calendar_window;
mod change;
mod fixed_window;
mod gcra;
mod list;
mod machine;
mod sliding_buckets;
mod sliding_counter;
mod sliding_log;
mod state;
mod text;
#[cfg(feature = "__twins")]
mod twin;

pub use change::{BlockSpan, Change};
#[cfg(feature = "__twins")]
pub use fixed_window::{CounterPlan, CounterReply};
use list::algorithms;
#[cfg(feature = "calendar")]
pub(crate) use machine::Brought;
pub(crate) use machine::{Ahead, Left, Outcome, Reserved, Status};
use machine::{Listed, Machine};
use state::Remembered;
pub use state::{State, States};
use text::{Spelling, Written};
#[cfg(feature = "__twins")]
use twin::Paired;
#[cfg(feature = "__twins")]
pub use twin::{CallContext, MOST_PARAMETERS, Told, Twin, Words, double, integer, words};

use std::time::Duration;

use crate::bytes::{Reader, Writer};
use crate::cover::Period;
use crate::error::LimitError;
use crate::quota::Quota;
use crate::text::{Forms, Options};
use crate::time::{MAX_EXACT, Timestamp, Wait};
use crate::verdict::Verdict;

algorithms! { $
/// An algorithm with its quota and options.
///
/// Its text is `ALGORITHM:N/WINDOW[,OPTION...]`, such as `gcra:10/1m,burst=3`.
///
/// # Examples
///
/// ```
/// use tollgate_core::{Quota, Algorithm, Gcra};
///
/// let read: Algorithm = "gcra:10/1m,burst=3".parse()?;
/// assert_eq!(read, Gcra::with_burst(Quota::per_minute(10), 3)?.into());
/// assert_eq!(read.to_string(), "gcra:10/1m,burst=3");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Counts calls in consecutive windows.
    FixedWindow(fixed_window) keeps fixed_window::State;
    /// Spaces calls at the quota's rate after a burst: an exact token bucket.
    Gcra(gcra) keeps gcra::State;
    /// Divides the window into `k` buckets, and counts calls in the last `k + 1`.
    SlidingBuckets(sliding_buckets) keeps Box<sliding_buckets::State>;
    /// Estimates the calls of the last window from two counters.
    SlidingCounter(sliding_counter) keeps sliding_counter::State;
    /// Remembers when each unit of the last window was consumed.
    SlidingLog(sliding_log) keeps sliding_log::State;
    /// Denies every call of a key while the key is blocked, and counts none.
    Block(block) keeps block::State;
    /// Counts calls per day, week, month or year of a time zone.
    CalendarWindow(calendar_window) keeps calendar_window::State, if "calendar";
}
}

#[expect(
    clippy::single_component_path_imports,
    reason = "other files import the macro from here"
)]
use with_machine;

impl Algorithm {
    /// Returns the quota.
    #[must_use]
    pub fn quota(&self) -> Quota {
        with_machine!(self, machine => machine.quota())
    }

    /// Returns a time that no window exceeds: the window of the quota, unless the lengths of windows
    /// vary, as those of days do.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::{Algorithm, LimitError};
    ///
    /// let log: Algorithm = "sliding-log:10/1m".parse()?;
    /// assert_eq!(log.longest_window(), Duration::from_secs(60));
    /// # Ok::<(), LimitError>(())
    /// ```
    #[must_use]
    pub fn longest_window(&self) -> Duration {
        Duration::from_micros(with_machine!(self, machine => machine.longest_window_us()))
    }

    /// Returns whether it counts in the time zone of the call.
    pub(crate) fn needs_zone(&self) -> bool {
        with_machine!(self, machine => machine.needs_zone())
    }

    /// Returns whether its months begin on the day of the call.
    pub(crate) fn needs_day(&self) -> bool {
        with_machine!(self, machine => machine.needs_day())
    }

    /// Returns the same algorithm with what a call brings, if it needs that.
    #[cfg(feature = "calendar")]
    pub(crate) fn bring(&self, brought: Brought<'_>) -> Result<Self, LimitError> {
        with_machine!(self, machine => machine.bring(brought).map(Into::into))
    }

    /// Returns whether a store needs periods of a calendar to decide.
    pub(crate) fn counts_by_calendar(&self) -> bool {
        with_machine!(self, machine => counts_by_calendar(machine))
    }

    /// Returns the periods around the instant `around`, if it counts by a calendar.
    pub(crate) fn periods(&self, around: Timestamp) -> Option<Vec<Period>> {
        with_machine!(self, machine => machine.periods(around))
    }

    /// Returns the same algorithm with another amount, and otherwise as it is: a bucket keeps its
    /// burst.
    ///
    /// # Errors
    ///
    /// If that cannot be counted exactly.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{Algorithm, LimitError};
    ///
    /// let log: Algorithm = "sliding-log:10/1m".parse()?;
    /// assert_eq!(log.with_amount(4)?, "sliding-log:4/1m".parse()?);
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        with_machine!(self, machine => machine.with_amount(amount).map(Into::into))
    }

    /// Returns the largest cost that can ever be admitted: the quota's amount, or GCRA's burst.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> u64 {
        with_machine!(self, machine => machine.capacity())
    }

    /// Returns whether denied calls are counted too.
    #[must_use]
    pub fn counts_denied(&self) -> bool {
        with_machine!(self, machine => machine.counts_denied())
    }

    /// Returns whether calls are counted.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        with_machine!(self, machine => machine.counts())
    }

    /// Returns whether a key can be [blocked](crate::RateLimiter::block).
    #[must_use]
    pub fn can_block(&self) -> bool {
        with_machine!(self, machine => machine.can_block())
    }

    /// Returns the wait of a call after the key has been blocked, and whether that changes the
    /// state.
    pub(crate) fn blocked(&self, state: &State, now: Timestamp, span: BlockSpan) -> (Wait, bool) {
        with_machine!(self, machine => blocked(machine, state, now, span))
    }

    /// Blocks the key.
    pub(crate) fn block(&self, state: &mut State, now: Timestamp, span: BlockSpan) {
        with_machine!(self, machine => {
            let state = open(machine, state);
            if let Some(next) = machine.blocked(state, now.as_micros(), span) {
                *state = next;
            }
        });
    }

    #[inline]
    pub(crate) fn wait(&self, state: &State, now: Timestamp, cost: u64) -> Wait {
        with_machine!(self, machine => wait(machine, state, now, cost))
    }

    #[inline]
    pub(crate) fn status(&self, state: &State, now: Timestamp) -> Status {
        with_machine!(self, machine => status(machine, state, now))
    }

    #[inline]
    pub(crate) fn commit(&self, state: &mut State, now: Timestamp, cost: u64) -> Timestamp {
        with_machine!(self, machine => commit(machine, state, now, cost))
    }

    /// Returns the largest cost of a [charge](crate::store::Operation::Charge) that can be counted exactly.
    #[must_use]
    pub fn largest_charge(&self) -> u64 {
        with_machine!(self, machine => machine.largest_charge())
    }

    /// Returns how many units fit if they are used until `within` microseconds after `now`.
    pub(crate) fn left_ahead(&self, state: &State, now: Timestamp, within: u64) -> u64 {
        with_machine!(self, machine => left_ahead(machine, state, now, within))
    }

    /// Records units of which some are used ahead: see [`Machine::commit_ahead`].
    pub(crate) fn commit_ahead(
        &self,
        state: &mut State,
        now: Timestamp,
        ahead: Ahead,
    ) -> Timestamp {
        let at = with_machine!(self, machine => {
            machine.commit_ahead(open(machine, state), now.as_micros(), ahead)
        });
        Timestamp::saturating_from_micros(at)
    }

    /// Returns for how many microseconds units can be used that were asked for `within`.
    pub(crate) fn lasts(&self, within: u64, verdict: &Verdict) -> u64 {
        let (at, reset_after) = (verdict.at.as_micros(), verdict.reset_after);
        with_machine!(self, machine => machine.lasts(within, at, reset_after))
    }

    /// Consumes `cost` if it fits, for a request with one check.
    // Always inlined: returning a verdict through memory costs as much as computing it.
    #[inline(always)]
    pub(crate) fn consume(
        &self,
        state: &mut State,
        now: Timestamp,
        cost: u64,
        shadow: bool,
    ) -> Verdict {
        with_machine!(self, machine => consume(machine, state, now, cost, shadow))
    }

    /// Returns what a call comes to, and changes nothing; if it is allowed, [`carry_out`](Self::carry_out) says it.
    #[inline(always)]
    pub(crate) fn assess(&self, state: &State, now: Timestamp, cost: u64) -> Outcome {
        with_machine!(self, machine => assess(machine, state, now, cost))
    }

    /// Records a call that is allowed by its [assessment](Self::assess).
    #[inline(always)]
    pub(crate) fn carry_out(
        &self,
        state: &mut State,
        now: Timestamp,
        cost: u64,
        assessed: Outcome,
    ) -> Outcome {
        with_machine!(self, machine => {
            machine.carry_out(open(machine, state), now.as_micros(), cost, assessed)
        })
    }

    /// Returns the status that an [`Outcome`] says.
    #[inline]
    pub(crate) fn status_of(&self, left: Left) -> Status {
        with_machine!(self, machine => machine.status_of(left))
    }

    /// Returns how many units have been used above the capacity, rounded up.
    pub(crate) fn owed(&self, state: &State, now: Timestamp) -> u64 {
        with_machine!(self, machine => owed(machine, state, now))
    }

    pub(crate) fn givable(&self, state: &State, now: Timestamp) -> u64 {
        with_machine!(self, machine => givable(machine, state, now))
    }

    pub(crate) fn give(&self, state: &mut State, now: Timestamp, amount: u64) {
        with_machine!(self, machine => machine.give(open(machine, state), now.as_micros(), amount));
    }

    pub(crate) fn refund(&self, state: &mut State, now: Timestamp, at: Timestamp, amount: u64) {
        with_machine!(self, machine => {
            machine.refund(open(machine, state), now.as_micros(), at.as_micros(), amount);
        });
    }

    /// Returns whether calls can be [reserved](crate::RateLimiter::reserve): admitted now, to start
    /// after a delay.
    #[must_use]
    pub fn can_reserve(&self) -> bool {
        self.longest_delay().is_some()
    }

    /// Returns the longest delay of a reservation in microseconds, or `None` if there are none.
    pub(crate) fn longest_delay(&self) -> Option<u64> {
        with_machine!(self, machine => machine.longest_delay())
    }

    /// Records a call that starts `delay_us` after `now`, and whose cost is not zero.
    pub(crate) fn reserve(
        &self,
        state: &mut State,
        now: Timestamp,
        delay_us: u64,
        cost: u64,
    ) -> Reserved {
        with_machine!(self, machine => {
            machine.reserve(open(machine, state), now.as_micros(), delay_us, cost)
        })
    }

    /// Gives back what a reservation of `amount` recorded, as far as that is possible.
    pub(crate) fn cancel(
        &self,
        state: &mut State,
        now: Timestamp,
        reserved: &Reserved,
        amount: u64,
    ) {
        with_machine!(self, machine => {
            machine.cancel(open(machine, state), now.as_micros(), reserved, amount);
        });
    }

    /// Returns the name, followed by the parameters that give a state its meaning.
    pub(crate) fn shape(&self) -> String {
        with_machine!(self, machine => machine.shape())
    }

    /// Reads what [`State::to_bytes`] wrote, or returns `None` if no such limit comes to such a state.
    pub(crate) fn read_state(&self, from: &mut Reader<'_>) -> Option<State> {
        with_machine!(self, machine => read_state(machine, from))
    }

    /// Returns the parameters of the script: see `Paired::parameters`.
    #[cfg(feature = "__twins")]
    pub(crate) fn parameters(&self) -> Words {
        with_machine!(self, machine => machine.parameters())
    }

    /// Returns the numbers that the script needs to cancel a reservation.
    #[cfg(feature = "__twins")]
    pub(crate) fn reserved(&self, reserved: &Reserved) -> [u64; 3] {
        with_machine!(self, machine => machine.reserved(reserved))
    }

    /// Decodes the state in a script's reply, or returns `None` if no script replies with such a
    /// state.
    #[cfg(feature = "__twins")]
    pub(crate) fn decode(&self, reply: &[u64], call: CallContext) -> Option<State> {
        with_machine!(self, machine => machine.decode(reply, call))
    }
}

#[inline]
fn wait<M: Machine>(machine: &M, state: &State, now: Timestamp, cost: u64) -> Wait {
    if cost > machine.capacity() {
        return Wait::NEVER;
    }
    match M::view(state) {
        Some(state) if cost > 0 => machine.wait(state, now.as_micros(), cost),
        _ => Wait::ZERO,
    }
}

#[inline]
fn status<M: Machine>(machine: &M, state: &State, now: Timestamp) -> Status {
    machine.status_of(left(machine, state, now))
}

#[inline]
fn left<M: Machine>(machine: &M, state: &State, now: Timestamp) -> Left {
    match M::view(state) {
        Some(state) => machine.left(state, now.as_micros()),
        None => machine.left(&M::State::default(), now.as_micros()),
    }
}

#[inline]
fn commit<M: Machine>(machine: &M, state: &mut State, now: Timestamp, cost: u64) -> Timestamp {
    if cost == 0 {
        return now;
    }
    let at = machine.commit(open(machine, state), now.as_micros(), cost);
    Timestamp::saturating_from_micros(at)
}

fn left_ahead<M: Machine>(machine: &M, state: &State, now: Timestamp, within: u64) -> u64 {
    let fresh = M::State::default();
    machine.left_ahead(M::view(state).unwrap_or(&fresh), now.as_micros(), within)
}

fn owed<M: Machine>(machine: &M, state: &State, now: Timestamp) -> u64 {
    M::view(state).map_or(0, |state| machine.owed(state, now.as_micros()))
}

fn givable<M: Machine>(machine: &M, state: &State, now: Timestamp) -> u64 {
    M::view(state).map_or(0, |state| machine.givable(state, now.as_micros()))
}

const fn counts_by_calendar<M: Machine>(_machine: &M) -> bool {
    M::BY_CALENDAR
}

fn blocked<M: Machine>(
    machine: &M,
    state: &State,
    now: Timestamp,
    span: BlockSpan,
) -> (Wait, bool) {
    let fresh = M::State::default();
    let (state, micros) = (M::view(state).unwrap_or(&fresh), now.as_micros());
    match machine.blocked(state, micros, span) {
        Some(next) => (machine.wait(&next, micros, 1), true),
        None => (machine.wait(state, micros, 1), false),
    }
}

#[inline(always)]
fn assess<M: Machine>(machine: &M, state: &State, now: Timestamp, cost: u64) -> Outcome {
    match M::view(state) {
        Some(state) if cost <= machine.capacity() => machine.assess(state, now.as_micros(), cost),
        _ => assess_other(machine, state, now, cost),
    }
}

/// Assesses a cost that never fits, or a first call.
#[cold]
#[inline(never)]
fn assess_other<M: Machine>(machine: &M, state: &State, now: Timestamp, cost: u64) -> Outcome {
    if cost <= machine.capacity() {
        return machine.assess(&M::State::default(), now.as_micros(), cost);
    }
    Outcome {
        wait: Wait::NEVER,
        at: now.as_micros(),
        left: left(machine, state, now),
    }
}

/// Decides a request with one check, without the overhead of several.
#[inline(always)]
fn consume<M: Machine>(
    machine: &M,
    state: &mut State,
    now: Timestamp,
    cost: u64,
    shadow: bool,
) -> Verdict {
    let micros = now.as_micros();
    let outcome = if cost <= machine.capacity() {
        machine.consume(open(machine, state), micros, cost)
    } else {
        // Such a cost never fits, so nothing is stored, unless denied calls count.
        let at = if machine.counts_denied() {
            machine.commit(open(machine, state), micros, cost)
        } else {
            micros
        };
        Outcome {
            wait: Wait::NEVER,
            at,
            left: left(machine, state, now),
        }
    };
    let status = machine.status_of(outcome.left);
    Verdict {
        allowed: outcome.wait.is_zero(),
        capacity: machine.capacity(),
        remaining: status.remaining,
        owes: false,
        wait: outcome.wait,
        starts_later: false,
        reset_after: status.reset_after,
        consumed: if outcome.wait.is_zero() { cost } else { 0 },
        at: Timestamp::saturating_from_micros(outcome.at),
        shadow,
    }
}

fn read_state<M: Machine>(machine: &M, from: &mut Reader<'_>) -> Option<State> {
    if from.0.is_empty() {
        return Some(State::default());
    }
    let head = from.take(7)?.iter();
    let head = head.fold(0, |head, byte| head << 8 | u64::from(*byte));
    if head >> 53 != M::KIND {
        return None;
    }
    machine.read_state(head & MAX_EXACT, from).map(M::keep)
}

/// Opens the state; the machine is passed only so that callers need not name its type.
#[inline(always)]
fn open<'a, M: Machine>(_machine: &M, state: &'a mut State) -> &'a mut M::State {
    M::open(state)
}

#[cfg(test)]
mod tests;
