//! `FixedWindow`: counts calls in consecutive windows.

#[cfg(feature = "__twins")]
pub use plan::{CounterPlan, CounterReply};

use super::{Ahead, Machine, Remembered, Status};
use crate::bytes::{Reader, Writer};
use crate::error::LimitError;
use crate::quota::Quota;
use crate::time::{MAX_EXACT, Wait};

/// Counts calls in consecutive windows.
///
/// An aligned window starts at a multiple of `T` since the Unix epoch; an anchored window starts at
/// the first call that it counts. Because a half-open span of length `T` can touch two windows, it
/// admits at most `2N` units with aligned windows, and at most `2N - 1` with anchored ones.
///
/// # Examples
///
/// ```
/// use tollgate_core::FixedWindow;
/// use tollgate_core::store::{State, Check, Request};
/// use tollgate_core::{Limit, Quota, Timestamp};
///
/// let limit = Limit::new("hourly", FixedWindow::aligned(Quota::per_hour(20)))?;
/// let mut state = State::default();
/// // Ten minutes into an hour, fifty minutes are left of it.
/// let now = Timestamp::from_micros(600_000_000)?;
/// let decision = Request::consume(Check::new(&limit, "alice", 20)).decide_on(&mut state, now);
/// assert_eq!(decision.remaining(), 0);
/// assert_eq!(decision.reset_after().as_secs_ceil(), Some(50 * 60));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FixedWindow {
    quota: Quota,
    anchored: bool,
    count_denied: bool,
}

/// The last window in which a call was counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) start: u64,
    /// What was counted and not given back.
    pub(crate) kept: u64,
    /// How much of `kept` was counted at the instant `start`; read for anchored windows only.
    pub(crate) at_start: u64,
}

impl Remembered for State {}

impl FixedWindow {
    /// Returns fixed windows for `quota`, aligned to multiples of its window since the Unix epoch.
    #[must_use]
    pub const fn aligned(quota: Quota) -> Self {
        Self {
            quota,
            anchored: false,
            count_denied: false,
        }
    }

    /// Returns fixed windows for `quota` that each start at the first call they count.
    #[must_use]
    pub const fn anchored(quota: Quota) -> Self {
        Self {
            quota,
            anchored: true,
            count_denied: false,
        }
    }

    /// Makes denied calls count too: after a call that exceeds the quota, every call is denied
    /// until the window ends. A quota of zero denies every call anyway, and counts none.
    #[must_use]
    pub const fn count_denied(mut self) -> Self {
        self.count_denied = true;
        self
    }

    /// Returns whether windows start at the first call they count.
    #[must_use]
    pub const fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// Returns what is used in the current window, and when it ends; after the end, nothing is
    /// used.
    #[inline]
    fn used(&self, state: &State, now: u64) -> (u64, u64) {
        let end = state.start + self.quota.window_us();
        if now >= end || state.kept == 0 {
            return (0, end);
        }
        // If the first call of an anchored window was refunded, one unit stays used in its place:
        // otherwise a span could hold `N` units of this window and `N` of the next, one more than
        // the bound.
        let place = u64::from(self.anchored && state.at_start == 0);
        (state.kept + place, end)
    }

    /// Returns the start of the window that a call at `now` opens.
    #[inline]
    fn start(&self, now: u64) -> u64 {
        if self.anchored {
            now
        } else {
            now - now % self.quota.window_us()
        }
    }
}

impl Machine for FixedWindow {
    const NAME: &'static str = "fixed-window";
    const KIND: u64 = 0;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        // A receipt that is given back twice may leave more at the start than is kept. If nothing is, the next
        // call begins a window.
        let at_start = if state.kept > 0 { state.at_start } else { 0 };
        to.numbers(&[state.kept, at_start]);
        state.start
    }

    fn read_state(&self, start: u64, from: &mut Reader<'_>) -> Option<State> {
        let (kept, at_start) = (from.exact()?, from.exact()?);
        (self.start(start) == start).then_some(State {
            start,
            kept,
            at_start,
        })
    }

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        Ok(Self {
            quota: self.quota.with_amount(amount)?,
            ..*self
        })
    }

    fn shape(&self) -> String {
        let kind = if self.anchored { "anchored" } else { "aligned" };
        format!("fixed-window-{kind}-{}", self.quota.window_us())
    }

    #[inline]
    fn wait(&self, state: &State, now: u64, cost: u64) -> Wait {
        let (used, end) = self.used(state, now);
        if used + cost <= self.quota.amount() {
            return Wait::ZERO;
        }
        Wait::from_micros(end - now)
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        let (used, end) = self.used(state, now);
        Status {
            remaining: self.quota.amount().saturating_sub(used),
            reset_after: Wait::from_micros(if used > 0 { end - now } else { 0 }),
        }
    }

    fn owed(&self, state: &State, now: u64) -> u64 {
        self.used(state, now).0.saturating_sub(self.quota.amount())
    }

    #[inline]
    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        // If the clock stepped back out of the window, count at the window's start.
        let now = now.max(state.start);
        if self.used(state, now).0 == 0 {
            *state = State {
                start: self.start(now),
                kept: 0,
                at_start: 0,
            };
        }
        let add = |count: u64| count.saturating_add(cost).min(MAX_EXACT);
        // The place of a refunded first call stays used until the window ends: a new call does not
        // fill it.
        let keeps_place = state.kept > 0 && state.at_start == 0;
        state.kept = add(state.kept);
        if now == state.start && !keeps_place {
            state.at_start = add(state.at_start);
        }
        now
    }

    /// Of units that are used later, the window does not start with one.
    fn commit_ahead(&self, state: &mut State, now: u64, ahead: Ahead) -> u64 {
        let at = self.commit(state, now, ahead.own);
        state.kept = state
            .kept
            .saturating_add(ahead.units - ahead.own)
            .min(MAX_EXACT);
        at
    }

    fn lasts(&self, within: u64, _at: u64, reset_after: Wait) -> u64 {
        within.min(reset_after.as_micros().unwrap_or(0))
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        let (used, end) = self.used(state, now);
        if used == 0 || at < state.start || at >= end {
            return;
        }
        state.kept = state.kept.saturating_sub(amount);
        if at == state.start {
            state.at_start = state.at_start.saturating_sub(amount);
        }
    }

    fn givable(&self, state: &State, now: u64) -> u64 {
        let (used, _) = self.used(state, now);
        used.min(state.kept)
    }

    fn give(&self, state: &mut State, _now: u64, amount: u64) {
        state.kept -= amount;
        // The first call is the last to be given back.
        state.at_start = state.at_start.min(state.kept);
    }

    // Under a quota of zero, a denied call makes no difference: the next one is denied, too.
    fn counts_denied(&self) -> bool {
        self.count_denied && self.quota.amount() > 0
    }
}

#[cfg(feature = "__twins")]
mod plan;
mod text;
#[cfg(feature = "__twins")]
mod twin;
