//! `Gcra`: an exact token bucket with a burst.

use super::{Machine, Outcome, Remembered, Reserved, Status};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::{MAX_EXACT, Wait};

/// Spaces calls at the quota's rate after a burst; equivalent to a token bucket.
///
/// Admits at most `burst` units at once, and refills at exactly `N` per `T`: the rate is kept as
/// two integers, so it is never rounded. Any half-open span of length `W` admits at most
/// `burst + ceil(W * N / T) - 1`. With a burst of one, calls are at least `T / N` apart.
///
/// # Examples
///
/// ```
/// use tollgate_core::Gcra;
/// use tollgate_core::store::{State, Check, Request};
/// use tollgate_core::{Limit, Quota, Timestamp};
///
/// // Ten a minute, at most three at once: one token every six seconds.
/// let limit = Limit::new("mail", Gcra::with_burst(Quota::per_minute(10), 3)?)?;
/// let mut state = State::default();
/// let now = Timestamp::UNIX_EPOCH;
/// let burst = Request::consume(Check::new(&limit, "alice", 3)).decide_on(&mut state, now);
/// assert!(burst.is_allowed());
/// let one_more = Request::consume(Check::new(&limit, "alice", 1)).decide_on(&mut state, now);
/// assert_eq!(one_more.retry_after().as_micros(), Some(6_000_000));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gcra {
    quota: Quota,
    burst: u64,
    /// `n`: units leaked per microsecond, `N / gcd(N, T)`; at least 1.
    leak: u64,
    /// `p`: units per token, `T / gcd(N, T)`.
    unit: u64,
    /// `K = burst * p`, at most [`MAX_EXACT`].
    full: u64,
}

/// The debt at the instant `at`, in units of `1 / p` token.
// Packed, so that the states of all algorithms stay at 32 bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(Rust, packed(4))]
pub(crate) struct State {
    pub(crate) debt: u64,
    pub(crate) at: u64,
    /// The `p` that the debt is counted in, zero before the first call; with [`MARK`] added, if some
    /// reserved call may not have started yet, although the debt is at most `K`, and with [`AHEAD`].
    pub(crate) unit: u64,
    /// With [`AHEAD`], how long after `at` the last unit may be used that was granted ahead, in
    /// microseconds.
    pub(crate) ahead: u32,
}

/// Added to a [`State`]'s unit. Any unit is below 2^53.
const MARK: u64 = 1 << 63;
/// Added to a [`State`]'s unit, if units that were granted ahead may still be used.
const AHEAD: u64 = 1 << 62;

impl State {
    /// Returns the marks and what is left of `ahead`, with a debt of `debt` at `at`. They count only
    /// until the debt is gone.
    #[inline(always)]
    fn marks(&self, debt: u64, at: u64) -> (u64, u32) {
        if debt == 0 || self.unit & (MARK | AHEAD) == 0 {
            (0, 0)
        } else {
            self.marks_left(at)
        }
    }

    #[cold]
    fn marks_left(&self, at: u64) -> (u64, u32) {
        let passed = u32::try_from(at - self.at).unwrap_or(u32::MAX);
        let ahead = self.ahead.saturating_sub(passed);
        let marks = self.unit & MARK;
        (if ahead > 0 { marks | AHEAD } else { marks }, ahead)
    }
}

impl Remembered for State {}

impl Gcra {
    /// Returns GCRA for `quota`, with a burst of the quota's amount.
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when `N * T / gcd(N, T)` exceeds [`MAX_EXACT`]: choose an amount
    /// that has larger divisors in common with the window, as the error suggests, or a smaller burst.
    pub fn new(quota: Quota) -> Result<Self, LimitError> {
        Self::with_burst(quota, quota.amount())
    }

    /// Returns a bucket that admits at most `burst` units at once.
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when `burst * T / gcd(N, T)` exceeds [`MAX_EXACT`];
    /// [`Amount`](crate::LimitErrorKind::Amount) when the quota is zero and the burst is not.
    pub fn with_burst(quota: Quota, burst: u64) -> Result<Self, LimitError> {
        if quota.amount() == 0 && burst > 0 {
            return Err(LimitError(Problem::NeverRefills { burst }));
        }
        let common = gcd(quota.amount(), quota.window_us());
        let unit = quota.window_us() / common;
        match burst.checked_mul(unit) {
            Some(full) if full <= MAX_EXACT => Ok(Self {
                quota,
                burst,
                // A quota of zero admits nothing, so any leak will do; 1 avoids a division by zero.
                leak: (quota.amount() / common).max(1),
                unit,
                full,
            }),
            _ => Err(LimitError(Problem::BurstNotExact {
                amount: quota.amount(),
                burst,
                most: MAX_EXACT / unit,
                near: near(quota, burst),
            })),
        }
    }

    /// Returns the largest cost that is admitted at once.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns the debt left, and as of when: `now`, or the state's instant if that is later.
    #[inline(always)]
    fn leaked(&self, state: &State, now: u64) -> (u64, u64) {
        let at = now.max(state.at);
        let debt = if state.unit == self.unit {
            state.debt
        } else {
            self.converted(state)
        };
        (
            debt.saturating_sub((at - state.at).saturating_mul(self.leak)),
            at,
        )
    }

    /// Returns the debt of a state that has a mark or another quota's unit: the same number of
    /// tokens in this quota's units, rounded up.
    #[cold]
    fn converted(&self, state: &State) -> u64 {
        let unit = (state.unit & !(MARK | AHEAD)).max(1);
        if unit == self.unit {
            return state.debt;
        }
        let product = u128::from(state.debt) * u128::from(self.unit);
        let debt = product.div_ceil(u128::from(unit));
        u64::try_from(debt).map_or(MAX_EXACT, |debt| debt.min(MAX_EXACT))
    }

    /// Converts `units` to tokens, rounded down.
    #[inline(always)]
    fn tokens(&self, units: u64) -> u64 {
        if units < self.unit {
            // An exhausted bucket needs no division.
            0
        } else if self.unit == 1 {
            units
        } else {
            units / self.unit
        }
    }

    /// Returns how many microseconds `units` take to leak, rounded up.
    #[inline(always)]
    fn drain_us(&self, units: u64) -> u64 {
        // Most amounts divide their window: the leak is then 1.
        if self.leak == 1 {
            units
        } else {
            units.div_ceil(self.leak)
        }
    }
}

impl Gcra {
    /// Returns whether some reserved call may not have started yet.
    fn has_pending(&self, state: &State, debt: u64) -> bool {
        debt > self.full || (debt > 0 && state.unit & MARK != 0)
    }

    /// Returns the state with a smaller `debt` at `now`, and with this mark.
    fn given_back(&self, state: &State, now: u64, debt: u64, mark: u64) -> State {
        let (marks, ahead) = state.marks(debt, now);
        let mark = if debt > 0 { mark } else { 0 };
        State {
            debt,
            at: now,
            unit: self.unit | mark | marks & AHEAD,
            ahead,
        }
    }

    /// Returns the status for `debt`, with the clock `back` microseconds behind the state's
    /// instant.
    #[inline(always)]
    fn status_of(&self, debt: u64, back: u64) -> Status {
        let reset_us = if debt > 0 {
            self.drain_us(debt) + back
        } else {
            0
        };
        Status {
            remaining: self.tokens(self.full.saturating_sub(debt)),
            reset_after: Wait::from_micros(reset_us),
        }
    }
}

impl Machine for Gcra {
    const NAME: &'static str = "gcra";

    fn quota(&self) -> Quota {
        self.quota
    }

    fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        Self::with_burst(self.quota.with_amount(amount)?, self.burst)
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.burst
    }

    #[inline]
    fn wait(&self, state: &State, now: u64, cost: u64) -> Wait {
        let (debt, at) = self.leaked(state, now);
        // The caller has checked that the cost is at most the burst, so this cannot overflow.
        let room = self.full - cost * self.unit;
        if debt <= room {
            return Wait::ZERO;
        }
        Wait::from_micros(self.drain_us(debt - room) + (at - now))
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        let (debt, at) = self.leaked(state, now);
        self.status_of(debt, at - now)
    }

    #[inline]
    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        self.commit_ahead(state, now, (0, cost), cost)
    }

    /// The units are due from the end of their use: what leaks until then is not there for them.
    fn left_ahead(&self, state: &State, now: u64, within: u64) -> u64 {
        let (debt, _) = self.leaked(state, now);
        let due = debt.max(within.saturating_mul(self.leak));
        self.tokens(self.full.saturating_sub(due))
    }

    fn commit_ahead(
        &self,
        state: &mut State,
        now: u64,
        (within, _): (u64, u64),
        units: u64,
    ) -> u64 {
        let (debt, at) = self.leaked(state, now);
        let (marks, ahead) = state.marks(debt, at);
        let starts = (at + within).min(MAX_EXACT);
        let ahead = ahead.max(u32::try_from(starts - at).unwrap_or(u32::MAX));
        let due = debt.max(within.saturating_mul(self.leak));
        *state = State {
            debt: due
                .saturating_add(units.saturating_mul(self.unit))
                .min(MAX_EXACT),
            at,
            unit: self.unit | marks | if ahead > 0 { AHEAD } else { 0 },
            ahead,
        };
        starts
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        let (debt, now) = self.leaked(state, now);
        if self.has_pending(state, debt) {
            // The calls that start later were delayed just enough to leave room for this one.
            return;
        }
        // What has leaked since the call is free already, so it is not given back again. What was granted
        // ahead is due from the end of its use, so what leaks until then is no longer there. No call adds
        // more than the largest debt, not even one under another quota.
        let (_, ahead) = state.marks(debt, now);
        let starts = now.saturating_add(ahead.into());
        let leaked = starts.saturating_sub(at).saturating_mul(self.leak);
        let charge = amount.saturating_mul(self.unit).min(MAX_EXACT);
        let returned = charge.saturating_sub(leaked);
        if debt == 0 || returned == 0 {
            // Nothing is given back, so the clock is not recorded either.
            return;
        }
        *state = self.given_back(state, now, debt.saturating_sub(returned), 0);
    }

    /// With a longer delay, the debt could exceed [`MAX_EXACT`]: it is at most `K` when the call
    /// starts, and leaks until then.
    #[inline]
    fn longest_delay(&self) -> Option<u64> {
        Some((MAX_EXACT - self.full) / self.leak)
    }

    fn reserve(&self, state: &mut State, now: u64, delay: u64, cost: u64) -> Reserved {
        let (debt, at) = self.leaked(state, now);
        // If the clock stepped back, the call may not start before the state's instant.
        let lead = delay.saturating_sub(at - now);
        let (marks, ahead) = state.marks(debt, at);
        let reserved = Reserved {
            start: (at + lead).min(MAX_EXACT),
            at,
            before: debt,
            unit: self.unit,
            marked: marks & MARK != 0,
        };
        // The debt of the call is due from its start: what other limits make it wait adds nothing.
        let debt = debt.max(lead * self.leak) + cost * self.unit;
        // Until a call starts, the debt must exceed K, or there must be a mark.
        let is_visible = lead == 0 || debt - (lead - 1) * self.leak > self.full;
        *state = State {
            debt,
            at,
            unit: self.unit | marks | if is_visible { 0 } else { MARK },
            ahead,
        };
        reserved
    }

    fn cancel(&self, state: &mut State, now: u64, reserved: &Reserved, amount: u64) {
        let (debt, now) = self.leaked(state, now);
        if now >= reserved.start {
            self.refund(state, now, reserved.start, amount);
            return;
        }
        // Until the call starts, it can be given back only if it is the last: if the debt is what
        // the reservation left, less what has leaked since.
        if reserved.unit != self.unit || now < reserved.at {
            return;
        }
        let leaks = |until: u64| (until - reserved.at).saturating_mul(self.leak);
        // As the call has not started yet, no more has leaked than until its start.
        let (leaked, lead) = (leaks(now), leaks(reserved.start));
        let after = reserved
            .before
            .max(lead)
            .saturating_add(amount.saturating_mul(self.unit));
        if after > MAX_EXACT || after - leaked != debt {
            return;
        }
        let mark = if reserved.marked { MARK } else { 0 };
        *state = self.given_back(state, now, reserved.before.saturating_sub(leaked), mark);
    }

    /// Does the same as the three steps, but computes the leaked debt once.
    #[inline(always)]
    fn consume(&self, state: &mut State, now: u64, cost: u64) -> Outcome {
        let (debt, at) = self.leaked(state, now);
        let charge = cost * self.unit;
        let room = self.full - charge;
        let allowed = debt <= room;
        let (wait, debt) = if allowed {
            let (marks, ahead) = state.marks(debt, at);
            let (unit, debt) = (self.unit | marks, debt + charge);
            *state = State {
                debt,
                at,
                unit,
                ahead,
            };
            (Wait::ZERO, debt)
        } else {
            let wait = self.drain_us(debt - room) + (at - now);
            (Wait::from_micros(wait), debt)
        };
        Outcome {
            wait,
            allowed,
            at: if allowed { at } else { now },
            status: self.status_of(debt, at - now),
        }
    }
}

/// How many numbers [`near`] tries.
const TRIED: u64 = 100_000;

/// Returns the smallest divisor of the window whose multiples, up to the amount of `quota`, are
/// amounts for which `burst` (or the amount itself, if that is the burst) can be counted exactly.
///
/// `None` if there is none among the numbers that are tried.
fn near(quota: Quota, burst: u64) -> Option<u64> {
    // With a divisor `g` in common, a token has at most `T / g` units.
    let least = u128::from(burst) * u128::from(quota.window_us());
    let least = u64::try_from(least.div_ceil(u128::from(MAX_EXACT))).ok()?;
    let last = quota.amount().min(least.saturating_add(TRIED));
    (least..=last).find(|&divisor| quota.window_us().is_multiple_of(divisor))
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
mod text;
#[cfg(feature = "__twins")]
mod twin;
