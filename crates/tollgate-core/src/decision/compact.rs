//! `Compact`: the verdicts of a decision, in as few bytes as hold them.

use std::time::Duration;

use crate::algorithm::{Left, Outcome, States, Status};
use crate::limit::Limit;
use crate::one_or_many::OneOrMany;
use crate::store::{Consumed, Fingerprint, Receipt, Source, Verdicts};
use crate::time::{Timestamp, Wait};
use crate::verdict::Verdict;

/// The most limits whose verdicts are held without an allocation.
const FEW: usize = 4;
const SLOTS: [usize; FEW] = [0, 1, 2, 3];

/// What the limits of a limiter said.
///
/// A decision is moved by `?` and by `match`. With four verdicts in it, as a store returns them, that
/// takes as long as deciding.
pub(super) enum Compact {
    /// Of one limit.
    One(One),
    /// Of two to four limits, all of which have consumed a cost.
    Allowed(Allowed),
    /// Of two to four limits.
    Few(Few),
    /// Of more limits, and whatever the others cannot hold, such as a reservation that starts later.
    Any(Box<Verdicts>),
}

/// The verdict of one limit.
#[derive(Clone, Copy)]
pub(super) struct One {
    verdict: Verdict,
    fingerprint: Fingerprint,
    source: Source,
    age_us: u32,
}

/// What two to [`FEW`] limits have left after they have consumed a cost at an instant.
///
/// Most callers ask only whether a call is allowed, so the limits' algorithms tell what is left once
/// somebody asks.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    /// Those that are missing are equal to the last.
    left: [Left; FEW],
    fingerprint: Fingerprint,
    at: Timestamp,
    cost: u64,
}

/// The verdicts of two to [`FEW`] limits, without what they have in common, and without what the
/// limits say.
#[derive(Clone, Copy)]
pub(super) struct Few {
    /// Those that are missing are equal to the last.
    each: [Brief; FEW],
    fingerprint: Fingerprint,
    at: Timestamp,
    /// One bit for each limit that allows the call, and for each that is missing.
    allows: u8,
    /// One bit for each limit in shadow.
    shadows: u8,
    /// One bit for each limit that has a debt in the place of what remains.
    owes: u8,
    source: Source,
    age_us: u32,
}

/// The part of a verdict that differs between the limits of a decision.
#[derive(Clone, Copy)]
struct Brief {
    remaining: u64,
    reset_after: Wait,
    /// If both the decision and the limit allow the call, what was consumed; otherwise, nothing was,
    /// and this is the wait in microseconds.
    amount: u64,
}

impl Brief {
    /// One to be overwritten.
    const ZERO: Self = Self {
        remaining: 0,
        reset_after: Wait::ZERO,
        amount: 0,
    };
}

impl Compact {
    /// Returns the `verdicts` on `limits`, which are as many, without an allocation, or `None` if that is not possible.
    #[inline(always)]
    pub(super) fn short(limits: &[Limit], verdicts: &Verdicts) -> Option<Self> {
        if verdicts.reserved.is_some() {
            return None;
        }
        let short = match *verdicts.verdicts {
            [verdict] => Self::One(One {
                verdict,
                fingerprint: verdicts.fingerprint,
                source: verdicts.source,
                age_us: verdicts.age_us,
            }),
            _ => Self::Few(Few::of(limits, verdicts)?),
        };
        (short.is_allowed() == verdicts.is_allowed()).then_some(short)
    }

    /// Returns the `verdict` of the only limit.
    #[inline(always)]
    pub(super) fn of_one(fingerprint: Fingerprint, verdict: Verdict) -> Self {
        Self::One(One {
            verdict,
            fingerprint,
            source: Source::Store,
            age_us: 0,
        })
    }

    /// See [`inside::consume_few`](crate::inside::consume_few).
    #[inline(always)]
    pub(super) fn consume_few<const N: usize>(
        limits: &[Limit; N],
        fingerprint: Fingerprint,
        cost: u64,
        states: &mut impl States,
        now: Timestamp,
    ) -> Option<Self> {
        if cost == 0 || !limits.iter().all(Limit::is_plain) {
            return None;
        }
        let call = (now, cost);
        // No loops, so that all of it is in registers: a processor waits if it reads sixteen bytes that
        // it has just written as twice eight.
        let a = assess(limits, 0, states, call);
        let b = assess(limits, 1, states, call);
        let c = assess(limits, 2, states, call);
        let d = assess(limits, 3, states, call);
        if a.wait.0 | b.wait.0 | c.wait.0 | d.wait.0 != 0 {
            let first = say(limits, 0, states, now, a);
            let second = say(limits, 1, states, now, b);
            let third = if N > 2 {
                say(limits, 2, states, now, c)
            } else {
                second
            };
            let fourth = if N > 3 {
                say(limits, 3, states, now, d)
            } else {
                third
            };
            let allows = [a, b, c, d].map(|of| u8::from(of.wait.is_zero()));
            let [a, b, c, d] = allows;
            return Some(Self::Few(Few {
                each: [first, second, third, fourth],
                fingerprint,
                at: now,
                allows: u8::MAX << FEW | a | b << 1 | c << 2 | d << 3,
                shadows: 0,
                owes: 0,
                source: Source::Store,
                age_us: 0,
            }));
        }
        let a = carry_out(limits, 0, states, call, a);
        let b = carry_out(limits, 1, states, call, b);
        let c = if N > 2 {
            carry_out(limits, 2, states, call, c)
        } else {
            b
        };
        let d = if N > 3 {
            carry_out(limits, 3, states, call, d)
        } else {
            c
        };
        if (a.at != b.at) | (a.at != c.at) | (a.at != d.at) {
            let ats = [a.at, b.at, c.at, d.at].map(Timestamp::saturating_from_micros);
            let counted = counted_at(limits, fingerprint, cost, states, now, ats);
            return Some(Self::Any(counted));
        }
        Some(Self::Allowed(Allowed {
            left: [a.left, b.left, c.left, d.left],
            fingerprint,
            at: Timestamp::saturating_from_micros(a.at),
            cost,
        }))
    }

    #[inline]
    pub(super) fn is_allowed(&self) -> bool {
        match self {
            Self::One(one) => one.is_allowed(),
            Self::Allowed(_) => true,
            Self::Few(few) => few.is_allowed(),
            Self::Any(any) => any.is_allowed(),
        }
    }

    /// Returns the index and the verdict of the binding limit.
    #[inline]
    pub(super) fn binding(&self, limits: &[Limit]) -> (usize, Verdict) {
        match self {
            Self::One(one) => (0, one.verdict),
            _ => self.with(limits, |all| {
                let index = all.binding();
                (index, all.as_slice()[index])
            }),
        }
    }

    pub(super) fn verdict(&self, index: usize, limit: &Limit) -> Verdict {
        match self {
            Self::One(one) => one.verdict,
            Self::Allowed(all) => all.verdict(index, limit),
            Self::Few(few) => few.verdict(index, limit),
            Self::Any(any) => any.as_slice()[index],
        }
    }

    #[inline]
    pub(super) fn capacity(&self, limits: &[Limit]) -> u64 {
        match self {
            Self::One(one) => one.verdict.capacity,
            _ => self.with(limits, Verdicts::capacity),
        }
    }

    #[inline]
    pub(super) fn remaining(&self, limits: &[Limit]) -> u64 {
        match self {
            Self::One(one) => one.verdict.remaining(),
            Self::Allowed(all) => all.remaining(limits),
            Self::Few(few) if few.shadows | few.owes == 0 => few.remaining(),
            _ => self.with(limits, Verdicts::remaining),
        }
    }

    #[inline]
    pub(super) fn retry_after(&self, limits: &[Limit]) -> Wait {
        match self {
            Self::One(one) if one.is_allowed() => Wait::ZERO,
            Self::One(one) => one.verdict.retry_after(),
            Self::Allowed(_) => Wait::ZERO,
            Self::Few(few) if few.shadows == 0 => few.retry_after(),
            _ => self.with(limits, Verdicts::retry_after),
        }
    }

    pub(super) fn delay(&self, limits: &[Limit]) -> Wait {
        self.with(limits, Verdicts::delay)
    }

    #[inline]
    pub(super) fn reset_after(&self, limits: &[Limit]) -> Wait {
        match self {
            Self::One(one) => one.verdict.reset_after,
            Self::Allowed(all) => all.reset_after(limits),
            Self::Few(few) if few.shadows == 0 => few.reset_after(),
            _ => self.with(limits, Verdicts::reset_after),
        }
    }

    #[inline]
    pub(super) fn consumed(&self, limits: &[Limit]) -> u64 {
        match self {
            Self::One(one) => one.verdict.consumed,
            Self::Allowed(all) => all.cost,
            Self::Few(few) if few.shadows == 0 => few.consumed(),
            _ => self.with(limits, Verdicts::consumed),
        }
    }

    pub(super) fn source(&self) -> Source {
        match self {
            Self::One(one) => one.source,
            Self::Allowed(_) => Source::Store,
            Self::Few(few) => few.source,
            Self::Any(any) => any.source,
        }
    }

    pub(super) fn age(&self) -> Duration {
        let micros = match self {
            Self::One(one) => one.age_us,
            Self::Allowed(_) => 0,
            Self::Few(few) => few.age_us,
            Self::Any(any) => any.age_us,
        };
        Duration::from_micros(micros.into())
    }

    #[inline]
    pub(super) fn into_receipt(self, limits: &[Limit]) -> Option<Receipt> {
        match self {
            Self::One(one) => one.receipt(),
            Self::Allowed(all) => all.receipt(limits.len()),
            Self::Few(few) => few.receipt(limits.len()),
            Self::Any(any) => any.into_receipt(),
        }
    }

    /// Returns the verdicts as a store returns them.
    pub(super) fn into_verdicts(self, limits: &[Limit]) -> Verdicts {
        match self {
            Self::One(one) => one.verdicts(),
            Self::Allowed(all) => all.verdicts(limits),
            Self::Few(few) => few.verdicts(limits),
            Self::Any(any) => *any,
        }
    }

    /// Calls `see` with the verdicts as a store returns them.
    #[inline]
    pub(super) fn with<T>(&self, limits: &[Limit], see: impl FnOnce(&Verdicts) -> T) -> T {
        match self {
            Self::One(one) => see(&one.verdicts()),
            Self::Allowed(all) => see(&all.verdicts(limits)),
            Self::Few(few) => see(&few.verdicts(limits)),
            Self::Any(any) => see(any),
        }
    }
}

impl One {
    /// Returns the verdict as a store returns it.
    fn verdicts(self) -> Verdicts {
        Verdicts {
            source: self.source,
            age_us: self.age_us,
            ..Verdicts::of_one(self.fingerprint, self.verdict)
        }
    }

    #[inline]
    fn is_allowed(&self) -> bool {
        self.verdict.allowed | self.verdict.shadow
    }

    #[inline]
    fn receipt(self) -> Option<Receipt> {
        let Verdict { consumed, at, .. } = self.verdict;
        (consumed > 0).then(|| Receipt::of_one(self.fingerprint, Consumed::new(consumed, at)))
    }
}

impl Allowed {
    #[inline]
    fn statuses(&self, limits: &[Limit]) -> impl Iterator<Item = Status> {
        let each = self.left.iter().zip(limits);
        each.map(|(left, limit)| limit.algorithm().status_of(*left))
    }

    // Not inlined, and given a copy: a decision whose address is taken is not kept in registers.
    #[inline(never)]
    fn remaining(self, limits: &[Limit]) -> u64 {
        let remaining = self.statuses(limits).map(|status| status.remaining);
        remaining.min().unwrap_or(0)
    }

    #[inline(never)]
    fn reset_after(self, limits: &[Limit]) -> Wait {
        let resets = self.statuses(limits).map(|status| status.reset_after);
        resets.max().unwrap_or(Wait::ZERO)
    }

    fn receipt(self, count: usize) -> Option<Receipt> {
        let of = |_| Consumed::new(self.cost, self.at);
        Receipt::of_each(self.fingerprint, OneOrMany::from_fn(count, of))
    }

    fn verdict(&self, index: usize, limit: &Limit) -> Verdict {
        let status = limit.algorithm().status_of(self.left[index]);
        Verdict::allow(limit.capacity(), status.remaining)
            .with_reset_after(status.reset_after)
            .with_consumed(self.cost, self.at)
    }

    #[inline(never)]
    fn verdicts(self, limits: &[Limit]) -> Verdicts {
        let verdict = |index: usize| self.verdict(index, &limits[index]);
        Verdicts::of(self.fingerprint, OneOrMany::from_fn(limits.len(), verdict))
    }
}

impl Few {
    /// Returns the `verdicts` on `limits`, or `None` if it cannot hold them.
    fn of(limits: &[Limit], verdicts: &Verdicts) -> Option<Self> {
        let each = &*verdicts.verdicts;
        let count = each.len();
        if !(2..=FEW).contains(&count) {
            return None;
        }
        let at = each[0].at;
        let mut few = Self {
            each: [Brief::ZERO; FEW],
            fingerprint: verdicts.fingerprint,
            at,
            allows: u8::MAX << count,
            shadows: 0,
            owes: 0,
            source: verdicts.source,
            age_us: verdicts.age_us,
        };
        let is_allowed = each.iter().all(|of| of.allowed || of.shadow);
        for index in SLOTS {
            let (limit, verdict) = (&limits[index.min(count - 1)], &each[index.min(count - 1)]);
            let wait = verdict.wait.as_micros().unwrap_or(u64::MAX);
            let (amount, other) = if is_allowed && verdict.allowed {
                (verdict.consumed, wait)
            } else {
                (wait, verdict.consumed)
            };
            if other != 0
                || verdict.capacity != limit.capacity()
                || verdict.at != at
                || verdict.starts_later
            {
                return None;
            }
            few.allows |= u8::from(verdict.allowed) << index;
            few.shadows |= u8::from(verdict.shadow) << index;
            few.owes |= u8::from(verdict.owes) << index;
            few.each[index] = Brief {
                remaining: verdict.remaining,
                reset_after: verdict.reset_after,
                amount,
            };
        }
        Some(few)
    }

    #[inline]
    fn is_allowed(&self) -> bool {
        self.allows | self.shadows == u8::MAX
    }

    #[inline]
    fn remaining(&self) -> u64 {
        let [a, b, c, d] = self.each.map(|of| of.remaining);
        a.min(b).min(c.min(d))
    }

    #[inline]
    fn retry_after(&self) -> Wait {
        let [a, b, c, d] = self.each.map(|of| of.amount);
        let longest = a.max(b).max(c.max(d));
        Wait::from_micros(if self.is_allowed() { 0 } else { longest })
    }

    #[inline]
    fn reset_after(&self) -> Wait {
        let [a, b, c, d] = self.each.map(|of| of.reset_after);
        a.max(b).max(c.max(d))
    }

    #[inline]
    fn consumed(&self) -> u64 {
        let [a, b, c, d] = self.each.map(|of| of.amount);
        let least = a.min(b).min(c.min(d));
        if self.is_allowed() { least } else { 0 }
    }

    fn allows(&self, index: usize) -> bool {
        self.allows >> index & 1 == 1
    }

    /// Returns what was consumed from the limit at `index`, or `None` if a wait is in its place.
    fn consumed_from(&self, index: usize) -> Option<u64> {
        let consumes = self.allows(index) && self.is_allowed();
        consumes.then_some(self.each[index].amount)
    }

    /// Returns the receipt, if anything was consumed from one of `count` limits.
    fn receipt(self, count: usize) -> Option<Receipt> {
        let of = |index| Consumed::new(self.consumed_from(index).unwrap_or(0), self.at);
        let consumed = OneOrMany::from_fn(count, of);
        Receipt::of_each(self.fingerprint, consumed)
    }

    fn verdict(&self, index: usize, limit: &Limit) -> Verdict {
        let Brief {
            remaining,
            reset_after,
            amount,
        } = self.each[index];
        let consumed = self.consumed_from(index);
        Verdict {
            allowed: self.allows(index),
            capacity: limit.capacity(),
            remaining,
            owes: self.owes >> index & 1 == 1,
            wait: Wait::from_micros(if consumed.is_some() { 0 } else { amount }),
            starts_later: false,
            reset_after,
            consumed: consumed.unwrap_or(0),
            at: self.at,
            shadow: self.shadows >> index & 1 == 1,
        }
    }

    /// Returns the verdicts as a store returns them.
    #[inline(never)]
    fn verdicts(self, limits: &[Limit]) -> Verdicts {
        let verdict = |index: usize| self.verdict(index, &limits[index]);
        Verdicts {
            source: self.source,
            age_us: self.age_us,
            ..Verdicts::of(self.fingerprint, OneOrMany::from_fn(limits.len(), verdict))
        }
    }
}

/// Returns what a call comes to under the limit at `index`; if there is none, it is allowed.
#[inline(always)]
fn assess<const N: usize>(
    limits: &[Limit; N],
    index: usize,
    states: &impl States,
    (now, cost): (Timestamp, u64),
) -> Outcome {
    if index >= N {
        return Outcome {
            wait: Wait::ZERO,
            at: 0,
            left: Left(0, 0),
        };
    }
    let algorithm = limits[index].algorithm();
    algorithm.assess(states.state(index), now, cost)
}

/// Consumes from the limit at `index`, which allows the call.
#[inline(always)]
fn carry_out<const N: usize>(
    limits: &[Limit; N],
    index: usize,
    states: &mut impl States,
    (now, cost): (Timestamp, u64),
    assessed: Outcome,
) -> Outcome {
    let algorithm = limits[index].algorithm();
    algorithm.carry_out(states.state_mut(index), now, cost, assessed)
}

/// Returns what the limit at `index` says about a call that some limits do not allow.
#[inline(always)]
fn say<const N: usize>(
    limits: &[Limit; N],
    index: usize,
    states: &impl States,
    now: Timestamp,
    assessed: Outcome,
) -> Brief {
    let algorithm = limits[index].algorithm();
    let status = if assessed.wait.is_zero() {
        algorithm.status(states.state(index), now)
    } else {
        algorithm.status_of(assessed.left)
    };
    Brief {
        remaining: status.remaining,
        reset_after: status.reset_after,
        amount: assessed.wait.0,
    }
}

/// Returns the verdicts of a call that each of `limits` has counted at another instant.
#[cold]
#[inline(never)]
fn counted_at(
    limits: &[Limit],
    fingerprint: Fingerprint,
    cost: u64,
    states: &impl States,
    now: Timestamp,
    ats: [Timestamp; FEW],
) -> Box<Verdicts> {
    let verdicts = limits
        .iter()
        .zip(ats)
        .enumerate()
        .map(|(index, (limit, at))| {
            let status = limit.algorithm().status(states.state(index), now);
            Verdict::allow(limit.capacity(), status.remaining)
                .with_reset_after(status.reset_after)
                .with_consumed(cost, at)
        });
    Box::new(Verdicts::new(fingerprint, verdicts))
}
