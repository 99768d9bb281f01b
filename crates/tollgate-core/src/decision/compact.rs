//! `Compact`: the verdicts of a decision, in as few bytes as hold them.

use std::time::Duration;

use crate::limit::Limit;
use crate::one_or_many::OneOrMany;
use crate::store::{Consumed, Fingerprint, Receipt, Source, Verdicts};
use crate::time::{Timestamp, Wait};
use crate::verdict::Verdict;

/// The most limits whose verdicts are held without an allocation.
const FEW: usize = 4;

/// What the limits of a limiter said.
///
/// A decision is moved by `?` and by `match`. With four verdicts in it, as a store returns them, that
/// takes as long as deciding.
pub(super) enum Compact {
    /// Of one limit.
    One(One),
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
    /// Returns the `verdicts` on `limits`, which are as many.
    pub(super) fn of(limits: &[Limit], verdicts: Verdicts) -> Self {
        match Self::short(limits, &verdicts) {
            Some(short) if short.is_allowed() == verdicts.is_allowed() => short,
            _ => Self::Any(Box::new(verdicts)),
        }
    }

    /// Returns the `verdicts` on `limits` without an allocation, or `None` if that is not possible.
    fn short(limits: &[Limit], verdicts: &Verdicts) -> Option<Self> {
        let &Verdicts {
            fingerprint,
            source,
            age_us,
            ..
        } = verdicts;
        if verdicts.reserved.is_some() {
            return None;
        }
        let few = match &verdicts.verdicts {
            OneOrMany::One(verdict) => {
                return Some(Self::One(One {
                    verdict: *verdict,
                    fingerprint,
                    source,
                    age_us,
                }));
            }
            OneOrMany::Two(two) => Few::of(limits.first_chunk()?, fingerprint, two),
            OneOrMany::Three(three) => Few::of(limits.first_chunk()?, fingerprint, three),
            OneOrMany::Four(four) => Few::of(limits.first_chunk()?, fingerprint, four),
            OneOrMany::Many(_) => None,
        };
        few.map(|few| {
            Self::Few(Few {
                source,
                age_us,
                ..few
            })
        })
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

    /// Returns the `verdicts` on `limits`.
    #[inline(always)]
    pub(super) fn of_each<const N: usize>(
        limits: &[Limit; N],
        fingerprint: Fingerprint,
        verdicts: &[Verdict; N],
    ) -> Self {
        match Few::of(limits, fingerprint, verdicts) {
            Some(few) => Self::Few(few),
            None => Self::Any(other(fingerprint, verdicts)),
        }
    }

    #[inline]
    pub(super) fn is_allowed(&self) -> bool {
        match self {
            Self::One(one) => one.is_allowed(),
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

    /// Returns the verdict of the limit at `index`.
    pub(super) fn verdict(&self, index: usize, limit: &Limit) -> Verdict {
        match self {
            Self::One(one) => one.verdict,
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
            Self::One(one) => one.verdict.remaining,
            Self::Few(few) if few.shadows == 0 => few.remaining(),
            _ => self.with(limits, Verdicts::remaining),
        }
    }

    #[inline]
    pub(super) fn retry_after(&self, limits: &[Limit]) -> Wait {
        match self {
            Self::One(one) if one.is_allowed() => Wait::ZERO,
            Self::One(one) => one.verdict.retry_after(),
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
            Self::Few(few) if few.shadows == 0 => few.reset_after(),
            _ => self.with(limits, Verdicts::reset_after),
        }
    }

    #[inline]
    pub(super) fn consumed(&self, limits: &[Limit]) -> u64 {
        match self {
            Self::One(one) => one.verdict.consumed,
            Self::Few(few) if few.shadows == 0 => few.consumed(),
            _ => self.with(limits, Verdicts::consumed),
        }
    }

    pub(super) fn source(&self) -> Source {
        match self {
            Self::One(one) => one.source,
            Self::Few(few) => few.source,
            Self::Any(any) => any.source,
        }
    }

    pub(super) fn age(&self) -> Duration {
        let micros = match self {
            Self::One(one) => one.age_us,
            Self::Few(few) => few.age_us,
            Self::Any(any) => any.age_us,
        };
        Duration::from_micros(micros.into())
    }

    #[inline]
    pub(super) fn into_receipt(self, limits: &[Limit]) -> Option<Receipt> {
        match self {
            Self::One(one) => one.receipt(),
            Self::Few(few) => few.receipt(limits.len()),
            Self::Any(any) => any.into_receipt(),
        }
    }

    /// Returns the verdicts as a store returns them.
    pub(super) fn into_verdicts(self, limits: &[Limit]) -> Verdicts {
        match self {
            Self::One(one) => one.verdicts(),
            Self::Few(few) => few.verdicts(limits),
            Self::Any(any) => *any,
        }
    }

    /// Calls `see` with the verdicts as a store returns them.
    #[inline]
    pub(super) fn with<T>(&self, limits: &[Limit], see: impl FnOnce(&Verdicts) -> T) -> T {
        match self {
            Self::One(one) => see(&one.verdicts()),
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

impl Few {
    /// Returns the `verdicts`, at least two, or `None` if it cannot hold them.
    #[inline(always)]
    fn of<const N: usize>(
        limits: &[Limit; N],
        fingerprint: Fingerprint,
        verdicts: &[Verdict; N],
    ) -> Option<Self> {
        let at = verdicts[0].at;
        let passes = |of: &Verdict| of.allowed | of.shadow;
        let is_allowed = verdicts.iter().fold(true, |all, of| all & passes(of));
        let mut few = Self {
            each: [Brief::ZERO; FEW],
            fingerprint,
            at,
            allows: u8::MAX << N,
            shadows: 0,
            source: Source::Store,
            age_us: 0,
        };
        let mut differs = 0;
        for index in 0..N {
            let (limit, verdict) = (&limits[index], &verdicts[index]);
            let wait = verdict.wait.as_micros().unwrap_or(u64::MAX);
            let (amount, other) = if is_allowed & verdict.allowed {
                (verdict.consumed, wait)
            } else {
                (wait, verdict.consumed)
            };
            differs |= other
                | (verdict.capacity ^ limit.capacity())
                | (verdict.at.as_micros() ^ at.as_micros())
                | u64::from(verdict.starts_later);
            few.allows |= u8::from(verdict.allowed) << index;
            few.shadows |= u8::from(verdict.shadow) << index;
            few.each[index] = Brief {
                remaining: verdict.remaining,
                reset_after: verdict.reset_after,
                amount,
            };
        }
        for index in N..FEW {
            few.each[index] = few.each[N - 1];
        }
        (differs == 0).then_some(few)
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

    /// Returns the verdict of the limit at `index`.
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

/// Returns `verdicts` that cannot be held in fewer bytes.
#[cold]
fn other(fingerprint: Fingerprint, verdicts: &[Verdict]) -> Box<Verdicts> {
    Box::new(Verdicts::new(fingerprint, verdicts.iter().copied()))
}
