//! `Machine`: the trait of the state machines that define the algorithms.

use super::{BlockSpan, Remembered, State};
use crate::bytes::{Reader, Writer};
use crate::cover::Period;
use crate::error::LimitError;
use crate::quota::Quota;
use crate::time::{MAX_EXACT, Timestamp, Wait};

/// Finds a machine's own state in a [`State`]; implemented by `algorithms!`.
pub(crate) trait Listed: Sized {
    /// The state for one key; the default is a fresh one.
    type State: Remembered;

    /// Returns this machine's state in `state`, or `None` if `state` is vacant or another
    /// machine's.
    fn view(state: &State) -> Option<&Self::State>;

    /// Returns this machine's state in `state`, after putting a fresh one there if `state` is
    /// vacant or another machine's.
    fn open(state: &mut State) -> &mut Self::State;

    /// Wraps `kept` in a [`State`].
    fn keep(kept: Self::State) -> State;
}

/// How much of a limit is left, and how long until all of it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Status {
    /// The largest cost that would be admitted.
    pub(crate) remaining: u64,
    /// The shortest wait after which the state equals a fresh one.
    pub(crate) reset_after: Wait,
}

/// What a machine makes a [`Status`] of. That may take divisions, and most callers read only whether a
/// call is allowed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Left(pub(crate) u64, pub(crate) u64);

impl From<Status> for Left {
    #[inline]
    fn from(status: Status) -> Self {
        Self(status.remaining, status.reset_after.0)
    }
}

impl From<Left> for Status {
    #[inline]
    fn from(Left(remaining, reset_us): Left) -> Self {
        Self {
            remaining,
            reset_after: Wait(reset_us),
        }
    }
}

/// The outcome of a call that checks one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Zero if the call is allowed.
    pub(crate) wait: Wait,
    pub(crate) at: u64,
    pub(crate) left: Left,
}

/// A reservation as one limit recorded it: when the call starts, and the state before it.
///
/// Cancelling the latest reservation restores that state.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Reserved {
    /// The instant at which the call starts.
    pub(crate) start: u64,
    /// The instant at which the reservation was recorded.
    pub(crate) at: u64,
    /// What was counted at `at`, before the reservation.
    pub(crate) before: u64,
    /// The unit in which `before` is counted; zero if nothing was recorded.
    pub(crate) unit: u64,
    /// The latest start in the state before, if an earlier call had not started yet.
    pub(crate) starts: u64,
}

/// Units of which a call uses some now, and others are used until [`lasts`](Machine::lasts) says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) units: u64,
    /// How many of them are used now.
    pub(crate) own: u64,
    /// For how many microseconds they were asked.
    pub(crate) within: u64,
}

impl Ahead {
    /// Returns units that are all used after this delay.
    pub(crate) const fn after(within: u64, units: u64) -> Self {
        Self {
            units,
            own: units,
            within,
        }
    }
}

/// What a call brings for periods `@local`, or from `day=local`: the name of its zone, or the day.
#[cfg(feature = "calendar")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Brought<'c> {
    Zone(&'c str),
    Day(u8),
}

/// A pure state machine that defines one algorithm.
///
/// `now` is the clock's reading, which may have stepped back. A machine never decides before the
/// last instant recorded in the state, so such a clock never admits more. Waits are relative to the
/// reading, so the machine adds the step to them.
pub(crate) trait Machine: Copy + Listed {
    /// The algorithm's name in the text of limits and in keys on a server.
    const NAME: &'static str;

    /// The kind of its states as bytes, from 0 to 6; it never changes.
    const KIND: u64;

    /// Whether it counts by a calendar, and so has [periods](Self::periods).
    const BY_CALENDAR: bool = false;

    /// Writes all of `state` but an instant, which it returns.
    fn write_state(state: &Self::State, to: &mut Writer) -> u64;

    /// Reads the state with this instant, or returns `None` if no limit of this shape comes to it.
    fn read_state(&self, instant: u64, from: &mut Reader<'_>) -> Option<Self::State>;

    fn quota(&self) -> Quota;

    /// Returns a time that no window exceeds, in microseconds: the quota's window, unless the lengths of
    /// windows vary.
    fn longest_window_us(&self) -> u64 {
        self.quota().window_us()
    }

    /// Returns the periods around the instant `around`, if it counts by a calendar: see
    /// [`Calendar::around`](crate::calendar::Calendar::around).
    fn periods(&self, _around: Timestamp) -> Option<Vec<Period>> {
        None
    }

    /// Returns whether it counts in the time zone of the call: then it admits nothing before it has
    /// [it](Self::bring).
    fn needs_zone(&self) -> bool {
        false
    }

    /// Returns whether its months begin on the day of the call: then it admits nothing before it has
    /// [it](Self::bring).
    fn needs_day(&self) -> bool {
        false
    }

    /// Returns the same machine with what a call brings, if it needs that.
    ///
    /// # Errors
    ///
    /// If there is no such zone or day.
    #[cfg(feature = "calendar")]
    fn bring(&self, _: Brought<'_>) -> Result<Self, LimitError> {
        Ok(*self)
    }

    /// Returns the same machine with another amount, and otherwise as it is: a bucket keeps its burst.
    ///
    /// # Errors
    ///
    /// If that cannot be counted exactly.
    fn with_amount(&self, amount: u64) -> Result<Self, LimitError>;

    /// Returns the name, followed by the parameters that give a state its meaning.
    ///
    /// States of different shapes are kept apart: with a new window, algorithms that count per
    /// window or bucket start afresh, while a sliding log and GCRA keep their states.
    fn shape(&self) -> String {
        Self::NAME.to_owned()
    }

    /// Returns the largest cost that can ever be admitted.
    #[inline]
    fn capacity(&self) -> u64 {
        self.quota().amount()
    }

    /// Returns the shortest wait after which a call of `cost` is admitted; zero if that is now.
    fn wait(&self, state: &Self::State, now: u64, cost: u64) -> Wait;

    /// Returns how much is left at `now`, and how long until all of it is.
    fn status(&self, state: &Self::State, now: u64) -> Status;

    /// Returns what [`status_of`](Self::status_of) makes the status of.
    #[inline]
    fn left(&self, state: &Self::State, now: u64) -> Left {
        self.status(state, now).into()
    }

    /// Returns the status that [`left`](Self::left) or an [`Outcome`] says.
    #[inline(always)]
    fn status_of(&self, left: Left) -> Status {
        left.into()
    }

    /// Returns how many units have been used above the capacity, rounded up.
    fn owed(&self, _state: &Self::State, _now: u64) -> u64 {
        0
    }

    /// Records a call that [`wait`](Self::wait) admitted, or one that counts although it does not
    /// fit, and returns the instant at which it is recorded. `cost` is not zero, and may exceed the
    /// capacity.
    fn commit(&self, state: &mut Self::State, now: u64, cost: u64) -> u64;

    /// Returns the largest cost that is counted exactly although it does not fit.
    fn largest_charge(&self) -> u64 {
        MAX_EXACT
    }

    /// Returns how many units fit if they are used until `within` microseconds after `now`.
    #[inline]
    fn left_ahead(&self, state: &Self::State, now: u64, _within: u64) -> u64 {
        self.status(state, now).remaining
    }

    /// Records units that fit by [`left_ahead`](Self::left_ahead). Returns the instant at which they are
    /// recorded.
    fn commit_ahead(&self, state: &mut Self::State, now: u64, ahead: Ahead) -> u64 {
        self.commit(state, now, ahead.units)
    }

    /// Returns for how many microseconds units can be used that were asked for `within`: they were recorded
    /// at `at`, and `reset_after` is that of the state afterwards.
    #[inline]
    fn lasts(&self, within: u64, _at: u64, _reset_after: Wait) -> u64 {
        within
    }

    /// Returns how many of the newest units can be given back without a receipt; a part of one counts as one.
    fn givable(&self, _state: &Self::State, _now: u64) -> u64 {
        0
    }

    /// Gives back the newest `amount` units, at least one and at most [`givable`](Self::givable).
    fn give(&self, _state: &mut Self::State, _now: u64, _amount: u64) {}

    /// Gives back up to `amount` of what was recorded at `at` and still counts.
    fn refund(&self, state: &mut Self::State, now: u64, at: u64, amount: u64);

    /// Returns the longest delay of a reservation, in microseconds, or `None` if the algorithm has
    /// no reservations.
    #[inline]
    fn longest_delay(&self) -> Option<u64> {
        None
    }

    /// Records a call that starts `delay` after `now`: at least what [`wait`](Self::wait) returned,
    /// at most [`longest_delay`](Self::longest_delay). Neither `delay` nor `cost` is zero.
    ///
    /// Called only if there is a longest delay.
    fn reserve(&self, _state: &mut Self::State, _now: u64, _delay: u64, _cost: u64) -> Reserved {
        Default::default()
    }

    /// Gives back what a reservation of `amount` recorded, if it still counts and no call that is
    /// kept depends on it. Called only if there is a longest delay.
    fn cancel(&self, _state: &mut Self::State, _now: u64, _reserved: &Reserved, _amount: u64) {}

    /// Returns whether calls are counted: if not, they change no state.
    #[inline]
    fn counts(&self) -> bool {
        true
    }

    /// Returns whether a key can be blocked.
    fn can_block(&self) -> bool {
        false
    }

    /// Returns the state after the key is blocked at `now`, or `None` if nothing changes.
    fn blocked(&self, _state: &Self::State, _now: u64, _span: BlockSpan) -> Option<Self::State> {
        None
    }

    /// Returns whether denied calls are recorded too.
    fn counts_denied(&self) -> bool {
        false
    }

    /// Returns what a call of `cost`, from 1 to the capacity, comes to. If it is allowed,
    /// [`carry_out`](Self::carry_out) says at which instant and what is left.
    #[inline(always)]
    fn assess(&self, state: &Self::State, now: u64, cost: u64) -> Outcome {
        let wait = self.wait(state, now, cost);
        let left = if wait.is_zero() {
            Left::default()
        } else {
            self.left(state, now)
        };
        Outcome {
            wait,
            at: now,
            left,
        }
    }

    /// Records a call that is allowed by its [assessment](Self::assess), and returns what it comes to.
    #[inline(always)]
    fn carry_out(
        &self,
        state: &mut Self::State,
        now: u64,
        cost: u64,
        _assessed: Outcome,
    ) -> Outcome {
        let at = self.commit(state, now, cost);
        Outcome {
            wait: Wait::ZERO,
            at,
            left: self.left(state, now),
        }
    }

    /// Consumes `cost`, from 1 to the capacity, in one step.
    ///
    /// A machine may override this to compute only once what both steps have in common.
    #[inline(always)]
    fn consume(&self, state: &mut Self::State, now: u64, cost: u64) -> Outcome {
        let assessed = self.assess(state, now, cost);
        if assessed.wait.is_zero() {
            return self.carry_out(state, now, cost, assessed);
        }
        if self.counts_denied() {
            let at = self.commit(state, now, cost);
            return Outcome {
                // The attempt that was just counted makes the wait longer.
                wait: self.wait(state, now, cost),
                at,
                left: self.left(state, now),
            };
        }
        assessed
    }
}
