//! `SlidingCounter`: estimates the calls of the last window from two counters.

use super::{Machine, Remembered, Status};
use crate::bytes::{Reader, Writer};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::{MAX_EXACT, Wait};

/// The window is divided into at least this many steps, if it must be divided at all.
const LEAST_STEPS: u64 = 1_000;

/// Estimates the calls of the last window from two counters: **approximate**.
///
/// The previous window's count is weighted by how much of it the sliding window still covers, and
/// the result is rounded up. The estimate assumes that calls were spread evenly. If they were not,
/// a half-open span of length `T` may admit up to `2N - 1` units (and one of `W <= T` at most
/// `N + N * W / T`), and calls may be denied that an exact count would admit. Choose
/// [`SlidingLog`](crate::SlidingLog) or
/// [`SlidingBuckets`](crate::SlidingBuckets) if `N` must never be exceeded.
///
/// # Examples
///
/// ```
/// use tollgate_core::SlidingCounter;
/// use tollgate_core::store::{State, Check, Request};
/// use tollgate_core::{Limit, Quota, Timestamp};
///
/// let limit = Limit::new("search", SlidingCounter::new(Quota::per_minute(10))?)?;
/// let mut state = State::default();
/// let first = Timestamp::UNIX_EPOCH;
/// Request::consume(Check::new(&limit, "alice", 10)).decide_on(&mut state, first);
/// // Halfway through the next minute, half of those ten still count.
/// let later = Timestamp::from_micros(90_000_000)?;
/// let decision = Request::peek(Check::new(&limit, "alice", 0)).decide_on(&mut state, later);
/// assert_eq!(decision.remaining(), 5);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlidingCounter {
    quota: Quota,
    /// Microseconds per step; 1 unless `N * T` would exceed [`MAX_EXACT`].
    step: u64,
    /// Steps per window, rounded up; `N * steps` is at most [`MAX_EXACT`].
    steps: u64,
}

/// The counts of the window that starts at `start` and of the one before it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) start: u64,
    pub(crate) current: u64,
    pub(crate) previous: u64,
}

/// The counts as of an instant.
struct View {
    start: u64,
    current: u64,
    previous: u64,
    /// Microseconds into the window.
    into: u64,
}

impl Remembered for State {}

impl SlidingCounter {
    /// Returns a sliding counter for `quota`.
    ///
    /// If `N * T` in microseconds exceeds [`MAX_EXACT`], the window is divided into coarser steps,
    /// rounded so that no more is admitted than the formula allows.
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when the window would have to be divided into fewer than
    /// 1,000 steps: choose a smaller amount.
    pub fn new(quota: Quota) -> Result<Self, LimitError> {
        let window_us = quota.window_us();
        let most_steps = MAX_EXACT / quota.amount().max(1);
        if most_steps < LEAST_STEPS.min(window_us) {
            return Err(LimitError(Problem::AmountTooLarge {
                amount: quota.amount(),
                most: MAX_EXACT / LEAST_STEPS,
            }));
        }
        let step = window_us.div_ceil(most_steps);
        Ok(Self {
            quota,
            step,
            steps: window_us.div_ceil(step),
        })
    }

    #[inline]
    fn as_of(&self, state: &State, now: u64) -> View {
        let window_us = self.quota.window_us();
        let (current, previous) = (state.current, state.previous);
        if current == 0 && previous == 0 {
            let now = now.max(state.start);
            let into = now % window_us;
            return View {
                start: now - into,
                current,
                previous,
                into,
            };
        }
        // If the clock stepped back out of the window, decide at the window's start.
        let since = now.saturating_sub(state.start);
        if since < window_us {
            return View {
                start: state.start,
                current,
                previous,
                into: since,
            };
        }
        let into = since % window_us;
        View {
            start: state.start + since - into,
            current: 0,
            previous: if since - into == window_us {
                current
            } else {
                0
            },
            into,
        }
    }

    /// Returns what the previous window still counts, rounded up.
    #[inline]
    fn weight(&self, view: &View) -> u64 {
        if view.previous == 0 {
            return 0;
        }
        let left = self.steps - self.steps_into(view.into);
        (self.bounded(view.previous) * left).div_ceil(self.steps)
    }

    /// Returns a count, which may be that of a larger amount, as a limit of this amount takes it.
    #[inline]
    fn bounded(&self, count: u64) -> u64 {
        count.min(self.quota.amount())
    }

    #[inline]
    fn steps_into(&self, into: u64) -> u64 {
        if self.step == 1 {
            into
        } else {
            into / self.step
        }
    }

    /// Returns how many microseconds into a window the count `previous` first weighs at most
    /// `room`.
    fn fits_at(&self, previous: u64, room: u64) -> u64 {
        let steps = self.steps - room * self.steps / self.bounded(previous);
        // The last step may be a short one.
        (steps * self.step).min(self.quota.window_us())
    }
}

impl Machine for SlidingCounter {
    const NAME: &'static str = "sliding-counter";
    const KIND: u64 = 3;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        to.numbers(&[state.current, state.previous]);
        state.start
    }

    fn read_state(&self, start: u64, from: &mut Reader<'_>) -> Option<State> {
        let window_us = self.quota.window_us();
        // The largest amount of such a window.
        let most = MAX_EXACT / LEAST_STEPS.min(window_us);
        let (current, previous) = (from.number(0..=most)?, from.number(0..=most)?);
        start.is_multiple_of(window_us).then_some(State {
            start,
            current,
            previous,
        })
    }

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        Self::new(self.quota.with_amount(amount)?)
    }

    fn shape(&self) -> String {
        format!("sliding-counter-{}", self.quota.window_us())
    }

    #[inline]
    fn wait(&self, state: &State, now: u64, cost: u64) -> Wait {
        let view = self.as_of(state, now);
        let amount = self.quota.amount();
        if view.current + self.weight(&view) + cost <= amount {
            return Wait::ZERO;
        }
        let admitted_at = if view.current + cost <= amount {
            let room = amount - cost - view.current;
            view.start + self.fits_at(view.previous, room)
        } else {
            view.start + self.quota.window_us() + self.fits_at(view.current, amount - cost)
        };
        Wait::from_micros(admitted_at - now)
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        let view = self.as_of(state, now);
        let windows = if view.current > 0 {
            2
        } else {
            u64::from(view.previous > 0)
        };
        let reset_us = if windows > 0 {
            view.start + windows * self.quota.window_us() - now
        } else {
            0
        };
        Status {
            remaining: self
                .quota
                .amount()
                .saturating_sub(view.current + self.weight(&view)),
            reset_after: Wait::from_micros(reset_us),
        }
    }

    fn owed(&self, state: &State, now: u64) -> u64 {
        let view = self.as_of(state, now);
        (view.current + self.weight(&view)).saturating_sub(self.quota.amount())
    }

    #[inline]
    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        let view = self.as_of(state, now);
        *state = State {
            start: view.start,
            // What a limit of a larger amount has counted stays counted for that one.
            current: self
                .bounded(view.current.saturating_add(cost))
                .max(view.current),
            previous: view.previous,
        };
        view.start + view.into
    }

    /// Until the window ends: then they would have to be counted in the next.
    fn lasts(&self, within: u64, at: u64, _reset_after: Wait) -> u64 {
        let window_us = self.quota.window_us();
        within.min(window_us - at % window_us)
    }

    fn givable(&self, state: &State, now: u64) -> u64 {
        let view = self.as_of(state, now);
        view.current + view.previous
    }

    fn give(&self, state: &mut State, now: u64, amount: u64) {
        let View {
            start,
            current,
            previous,
            ..
        } = self.as_of(state, now);
        *state = State {
            start,
            current: current.saturating_sub(amount),
            previous: previous - amount.saturating_sub(current),
        };
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        let view = self.as_of(state, now);
        let window_us = self.quota.window_us();
        let mut next = State {
            start: view.start,
            current: view.current,
            previous: view.previous,
        };
        let counter = if at >= view.start {
            &mut next.current
        } else if at + window_us >= view.start {
            &mut next.previous
        } else {
            return;
        };
        if *counter > 0 {
            *counter = counter.saturating_sub(amount);
            *state = next;
        }
    }
}

#[cfg(test)]
mod tests;
mod text;
#[cfg(feature = "__twins")]
mod twin;
