//! `Gcra`: an exact token bucket with a burst.

use super::{Ahead, Left, Machine, Outcome, Remembered, Reserved, Status};
use crate::bytes::{Reader, Writer};
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
    /// The `p` that the debt is counted in, zero before the first call; with [`LATER`] added, if it says when
    /// the latest start is.
    pub(crate) unit: u64,
    /// With [`LATER`], how long after `at` the latest start is, in microseconds: 32 bits of it, and above the
    /// 53 bits of the others 10 bits in `unit` and 11 in `debt`.
    pub(crate) ahead: u32,
}

/// What is before the zeros of most units: windows divided by usual amounts.
const USUAL: [u64; 15] = [1, 2, 3, 4, 5, 6, 9, 12, 15, 18, 25, 36, 72, 432, 864];

/// Added to a [`State`]'s unit, if a reserved call starts after `at`, or units that were granted ahead may
/// still be used then.
const LATER: u64 = 1 << 63;

impl State {
    /// Returns a state with the latest start, which counts only if it is after `at` and there is a debt.
    #[inline(always)]
    fn new(debt: u64, at: u64, unit: u64, starts: u64) -> Self {
        if starts > at && debt > 0 {
            return Self::with_start(debt, at, unit, starts - at);
        }
        Self {
            debt,
            at,
            unit,
            ahead: 0,
        }
    }

    #[cold]
    fn with_start(debt: u64, at: u64, unit: u64, ahead: u64) -> Self {
        Self {
            debt: debt | ahead >> 42 << 53,
            at,
            unit: unit | LATER | (ahead >> 32 & 0x3ff) << 53,
            ahead: (ahead & 0xffff_ffff) as u32,
        }
    }

    /// Returns the latest instant at which a reserved call starts, or units may be used that were granted
    /// ahead; zero if that is not after `at`, when `debt` is left, or if none is left.
    #[inline(always)]
    fn starts(&self, debt: u64, at: u64) -> u64 {
        if self.unit & LATER == 0 || debt == 0 {
            0
        } else {
            self.starts_after(at)
        }
    }

    #[cold]
    fn starts_after(&self, at: u64) -> u64 {
        let upper = self.debt >> 53 << 10 | self.unit >> 53 & 0x3ff;
        let starts = self.at + (upper << 32 | u64::from(self.ahead));
        if starts > at { starts } else { 0 }
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

    /// Returns the debt of a state that has a latest start or another quota's unit: the same number of
    /// tokens in this quota's units, rounded up.
    #[cold]
    fn converted(&self, state: &State) -> u64 {
        let (debt, unit) = (state.debt & MAX_EXACT, (state.unit & MAX_EXACT).max(1));
        if unit == self.unit {
            return debt;
        }
        let product = u128::from(debt) * u128::from(self.unit);
        let debt = product.div_ceil(u128::from(unit));
        u64::try_from(debt).map_or(MAX_EXACT, |debt| debt.min(MAX_EXACT))
    }

    /// Returns how much leaks until the latest start that is to come: what was due by then stays so.
    fn lead(&self, state: &State, debt: u64, at: u64) -> u64 {
        let starts = state.starts(debt, at).max(at);
        (starts - at).saturating_mul(self.leak)
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

impl Machine for Gcra {
    const NAME: &'static str = "gcra";
    const KIND: u64 = 1;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        let (debt, at, mut unit) = (state.debt & MAX_EXACT, state.at, state.unit & MAX_EXACT);
        if debt == 0 {
            return at;
        }
        let mut zeros = 0;
        while unit.is_multiple_of(10) {
            (unit, zeros) = (unit / 10, zeros + 1);
        }
        let place = (1..).zip(USUAL).find(|(_, usual)| *usual == unit);
        to.0.push(place.map_or(0, |(place, _)| place << 4) | zeros);
        if place.is_none() {
            to.number(unit);
        }
        let starts = state.starts(debt, at);
        if starts > 0 {
            to.numbers(&[0, starts - at]);
        }
        let debt = debt.to_be_bytes();
        to.0.extend(debt.iter().skip_while(|byte| **byte == 0));
        at
    }

    fn read_state(&self, at: u64, from: &mut Reader<'_>) -> Option<State> {
        let Some(&[code]) = from.take(1) else {
            return Some(State::new(0, at, self.unit, 0));
        };
        let unit = match usize::from(code >> 4).checked_sub(1) {
            Some(place) => USUAL[place],
            None => from.number(1..=MAX_EXACT)?,
        };
        let unit = unit.checked_mul(10_u64.pow(u32::from(code & 15)))?;
        let starts = match from.0.first() {
            Some(0) => at + from.number(0..=0)? + from.exact()?,
            _ => 0,
        };
        let mut debt = [0; 8];
        let bytes = std::mem::take(&mut from.0);
        debt[8_usize.checked_sub(bytes.len())?..].copy_from_slice(bytes);
        let debt = u64::from_be_bytes(debt);
        (unit.max(debt).max(starts) <= MAX_EXACT).then(|| State::new(debt, at, unit, starts))
    }

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
        self.status_of(self.left(state, now))
    }

    /// The debt, and how many microseconds the clock is behind the state's instant.
    #[inline(always)]
    fn left(&self, state: &State, now: u64) -> Left {
        let (debt, at) = self.leaked(state, now);
        Left(debt, at - now)
    }

    #[inline(always)]
    fn status_of(&self, Left(debt, back): Left) -> Status {
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

    fn owed(&self, state: &State, now: u64) -> u64 {
        let (debt, _) = self.leaked(state, now);
        debt.saturating_sub(self.full).div_ceil(self.unit)
    }

    #[inline]
    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        self.commit_ahead(state, now, Ahead::after(0, cost))
    }

    fn largest_charge(&self) -> u64 {
        MAX_EXACT / self.unit
    }

    /// The units are due from the end of their use: what leaks until then is not there for them.
    fn left_ahead(&self, state: &State, now: u64, within: u64) -> u64 {
        let (debt, _) = self.leaked(state, now);
        let due = debt.max(within.saturating_mul(self.leak));
        self.tokens(self.full.saturating_sub(due))
    }

    fn commit_ahead(&self, state: &mut State, now: u64, ahead: Ahead) -> u64 {
        let Ahead { units, within, .. } = ahead;
        let (debt, at) = self.leaked(state, now);
        let start = (at + within).min(MAX_EXACT);
        let due = debt.max(within.saturating_mul(self.leak));
        let due = due.saturating_add(units.saturating_mul(self.unit));
        let starts = state.starts(debt, at).max(start);
        *state = State::new(due.min(MAX_EXACT), at, self.unit, starts);
        start
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        let (debt, now) = self.leaked(state, now);
        // What has leaked since the call is free already, so it is not given back again. What is reserved, or
        // granted ahead, is due when it starts, so what leaks until then is no longer there. No call adds more
        // than the largest debt, not even one under another quota.
        let starts = state.starts(debt, now);
        let leaked = now.max(starts).saturating_sub(at).saturating_mul(self.leak);
        let charge = amount.saturating_mul(self.unit).min(MAX_EXACT);
        let returned = charge.saturating_sub(leaked);
        if debt == 0 || returned == 0 {
            // Nothing is given back, so the clock is not recorded either.
            return;
        }
        *state = State::new(debt.saturating_sub(returned), now, self.unit, starts);
    }

    fn givable(&self, state: &State, now: u64) -> u64 {
        let (debt, at) = self.leaked(state, now);
        debt.saturating_sub(self.lead(state, debt, at))
            .div_ceil(self.unit)
    }

    fn give(&self, state: &mut State, now: u64, amount: u64) {
        let (debt, at) = self.leaked(state, now);
        let left = debt.saturating_sub(amount.saturating_mul(self.unit));
        let left = left.max(self.lead(state, debt, at));
        *state = State::new(left, at, self.unit, state.starts(debt, at));
    }

    /// With a longer delay, the debt could exceed [`MAX_EXACT`]: it is at most `K` when the call
    /// starts, and leaks until then.
    #[inline]
    fn longest_delay(&self) -> Option<u64> {
        Some((MAX_EXACT - self.full) / self.leak)
    }

    fn reserve(&self, state: &mut State, now: u64, delay: u64, cost: u64) -> Reserved {
        let (before, at) = self.leaked(state, now);
        let starts = state.starts(before, at);
        // If the clock stepped back, the call may not start before the state's instant.
        let lead = delay.saturating_sub(at - now);
        // The debt of the call is due from its start: what other limits make it wait adds nothing.
        let start = self.commit_ahead(state, now, Ahead::after(lead, cost));
        Reserved {
            start,
            at,
            before,
            unit: self.unit,
            starts,
        }
    }

    fn cancel(&self, state: &mut State, now: u64, reserved: &Reserved, amount: u64) {
        let (debt, now) = self.leaked(state, now);
        if now >= reserved.start {
            self.refund(state, now, reserved.start, amount);
            return;
        }
        // Until the call starts, it can be given back only if it is the last: if the debt and the latest start
        // are what the reservation left, less what has leaked since.
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
        let starts = reserved.starts.max(reserved.start);
        if after > MAX_EXACT || after - leaked != debt || state.starts(debt, now) != starts {
            return;
        }
        let before = reserved.before.saturating_sub(leaked);
        *state = State::new(before, now, self.unit, reserved.starts);
    }

    #[inline(always)]
    fn assess(&self, state: &State, now: u64, cost: u64) -> Outcome {
        let (debt, at) = self.leaked(state, now);
        let charge = cost * self.unit;
        let room = self.full - charge;
        if debt <= room {
            return Outcome {
                wait: Wait::ZERO,
                at,
                left: Left(debt + charge, at - now),
            };
        }
        Outcome {
            wait: Wait::from_micros(self.drain_us(debt - room) + (at - now)),
            at: now,
            left: Left(debt, at - now),
        }
    }

    #[inline(always)]
    fn carry_out(&self, state: &mut State, _now: u64, cost: u64, assessed: Outcome) -> Outcome {
        let Left(debt, _) = assessed.left;
        let starts = state.starts(debt - cost * self.unit, assessed.at);
        *state = State::new(debt, assessed.at, self.unit, starts);
        assessed
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
