//! `SlidingBuckets`: counts the last window in a ring of buckets, strictly.

use super::{Machine, Remembered, Status};
use crate::bytes::{Reader, Writer};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::{MAX_EXACT, Wait};

/// The most buckets a window is divided into, so that no store scans more for one decision.
const MOST_BUCKETS: u64 = 127;

/// Divides the window into `k` buckets and counts calls in the last `k + 1`: strict, in bounded
/// memory.
///
/// A bucket is `D = T / k` long, rounded up. Counting one more bucket than the window has means
/// that no half-open span of length `T` ever holds more than `N` admitted units. In exchange, a
/// call counts for `k * D` to `(k + 1) * D`, which is `T` to `T + D` if `k` divides `T`. So the
/// sustained rate lies between `N / ((k + 1) * D)` and `N / T`.
///
/// # Examples
///
/// ```
/// use tollgate_core::SlidingBuckets;
/// use tollgate_core::store::{State, Check, Request};
/// use tollgate_core::{Limit, Quota, Timestamp};
///
/// let limit = Limit::new("export", SlidingBuckets::new(Quota::per_hour(20), 12)?)?;
/// let mut state = State::default();
/// let now = Timestamp::UNIX_EPOCH;
/// Request::consume(Check::new(&limit, "alice", 20)).decide_on(&mut state, now);
/// let decision = Request::consume(Check::new(&limit, "alice", 1)).decide_on(&mut state, now);
/// // An hour, and the five minutes of the bucket it was counted in.
/// assert_eq!(decision.retry_after().as_micros(), Some(65 * 60 * 1_000_000));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlidingBuckets {
    quota: Quota,
    buckets: u64,
    /// `D`: microseconds per bucket.
    bucket_us: u64,
}

/// A ring of `k + 1` counts; the count of bucket `j` is at `j % (k + 1)`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    /// The newest bucket in which a call was counted.
    head: u64,
    /// The sum of all counts.
    total: u64,
    /// `D` of the limit that wrote this state.
    bucket_us: u64,
    /// Empty until something is counted.
    counts: Vec<u64>,
}

impl Remembered for State {
    fn heap_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }
}

impl SlidingBuckets {
    /// Returns sliding buckets for `quota`, whose window is divided into `buckets`.
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when `buckets` is not 1 to 127.
    pub const fn new(quota: Quota, buckets: u64) -> Result<Self, LimitError> {
        if buckets == 0 || buckets > MOST_BUCKETS {
            return Err(LimitError(Problem::BadBuckets { buckets }));
        }
        Ok(Self {
            quota,
            buckets,
            bucket_us: quota.window_us().div_ceil(buckets),
        })
    }

    /// Returns how many buckets the window is divided into.
    #[must_use]
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Returns `state`, or a fresh one if its buckets have another length or number.
    ///
    /// Stores keep such states apart; in one that does not, the limit starts afresh, as with any
    /// new window.
    #[inline]
    fn own<'s>(&self, state: &'s State) -> &'s State {
        static FRESH: State = State {
            head: 0,
            total: 0,
            bucket_us: 0,
            counts: Vec::new(),
        };
        let own =
            state.bucket_us == self.bucket_us && state.counts.len() == self.slot(self.buckets) + 1;
        if own { state } else { &FRESH }
    }

    /// Returns the bucket of `now`, or the head if that is later.
    #[inline]
    fn bucket(&self, state: &State, now: u64) -> u64 {
        (now / self.bucket_us).max(state.head)
    }

    /// Returns how many buckets have left the ring between its head and `bucket`.
    #[inline]
    fn passed(&self, state: &State, bucket: u64) -> u64 {
        (bucket - state.head).min(self.buckets + 1)
    }

    /// Returns what is counted in the `k + 1` buckets up to `bucket`.
    #[inline]
    fn used(&self, state: &State, bucket: u64) -> u64 {
        let passed = self.passed(state, bucket);
        if passed == 0 {
            return state.total;
        }
        let gone: u64 = (1..=passed)
            .map(|offset| state.counts.get(self.slot(state.head + offset)).copied())
            .map(Option::unwrap_or_default)
            .sum();
        state.total - gone
    }

    #[inline]
    fn slot(&self, bucket: u64) -> usize {
        // At most 127.
        usize::try_from(bucket % (self.buckets + 1)).unwrap_or_default()
    }

    /// Returns the buckets that count at `bucket` and are not empty, oldest first, with their
    /// counts.
    fn live(&self, state: &State, bucket: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let oldest = bucket.saturating_sub(self.buckets);
        // An empty ring has no buckets.
        let newest = if state.counts.is_empty() {
            None
        } else {
            Some(state.head)
        };
        newest
            .into_iter()
            .flat_map(move |newest| oldest..=newest)
            .map(|j| (j, state.counts[self.slot(j)]))
            .filter(|&(_, count)| count > 0)
    }

    /// Returns the instant at which bucket `j` stops counting.
    #[inline]
    fn leaves_at(&self, j: u64) -> u64 {
        (j + self.buckets + 1) * self.bucket_us
    }

    /// Moves the ring's head to `bucket`, dropping what has left.
    #[inline]
    fn advance(&self, state: &mut State, bucket: u64) {
        if self.own(state).counts.is_empty() {
            *state = State {
                head: bucket,
                total: 0,
                bucket_us: self.bucket_us,
                counts: vec![0; self.slot(self.buckets) + 1],
            };
            return;
        }
        for offset in 1..=self.passed(state, bucket) {
            let slot = self.slot(state.head + offset);
            state.total -= std::mem::take(&mut state.counts[slot]);
        }
        state.head = bucket;
    }
}

impl Machine for SlidingBuckets {
    const NAME: &'static str = "sliding-buckets";
    const KIND: u64 = 2;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        let mut counts = state.counts.clone();
        if let Some(last) = (counts.len() as u64).checked_sub(1) {
            // The newest, and then those before it.
            counts.reverse();
            counts.rotate_left(usize::try_from(last - state.head % (last + 1)).unwrap_or_default());
        }
        to.numbers(&counts);
        state.head * state.bucket_us
    }

    fn read_state(&self, at: u64, from: &mut Reader<'_>) -> Option<State> {
        let mut state = State::default();
        self.advance(&mut state, at / self.bucket_us);
        // None is before the epoch.
        for ago in 0..=state.head.min(self.buckets) {
            let count = from.exact()?;
            state.counts[self.slot(state.head - ago)] = count;
            state.total += count;
        }
        (state.total <= MAX_EXACT).then_some(state)
    }

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        Self::new(self.quota.with_amount(amount)?, self.buckets)
    }

    fn shape(&self) -> String {
        format!(
            "sliding-buckets-{}-{}",
            self.quota.window_us(),
            self.buckets
        )
    }

    #[inline]
    fn wait(&self, state: &State, now: u64, cost: u64) -> Wait {
        let state = self.own(state);
        let bucket = self.bucket(state, now);
        let used = self.used(state, bucket);
        let amount = self.quota.amount();
        if used + cost <= amount {
            return Wait::ZERO;
        }
        // The call fits once this many units have left, oldest bucket first.
        let mut needed = used + cost - amount;
        for (j, count) in self.live(state, bucket) {
            if count >= needed {
                return Wait::from_micros(self.leaves_at(j) - now);
            }
            needed -= count;
        }
        // Not reached: the live buckets add up to `used`, and the cost is at most the amount.
        Wait::from_micros(self.leaves_at(bucket) - now)
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        let state = self.own(state);
        let bucket = self.bucket(state, now);
        let newest = self.live(state, bucket).next_back();
        let reset_us = newest.map_or(0, |(j, _)| self.leaves_at(j) - now);
        Status {
            remaining: self.quota.amount().saturating_sub(self.used(state, bucket)),
            reset_after: Wait::from_micros(reset_us),
        }
    }

    fn owed(&self, state: &State, now: u64) -> u64 {
        let state = self.own(state);
        let used = self.used(state, self.bucket(state, now));
        used.saturating_sub(self.quota.amount())
    }

    #[inline]
    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        let bucket = self.bucket(self.own(state), now);
        self.advance(state, bucket);
        let cost = cost.min(MAX_EXACT - state.total);
        state.counts[self.slot(bucket)] += cost;
        state.total += cost;
        now.max(bucket * self.bucket_us)
    }

    /// Until the bucket ends: then they would have to be counted in the next.
    fn lasts(&self, within: u64, at: u64, _reset_after: Wait) -> u64 {
        within.min(self.bucket_us - at % self.bucket_us)
    }

    fn givable(&self, state: &State, now: u64) -> u64 {
        let state = self.own(state);
        self.used(state, self.bucket(state, now))
    }

    fn give(&self, state: &mut State, _now: u64, mut amount: u64) {
        state.total -= amount;
        let mut bucket = state.head;
        while amount > 0 {
            let count = &mut state.counts[self.slot(bucket)];
            let returned = amount.min(*count);
            *count -= returned;
            amount -= returned;
            bucket = bucket.saturating_sub(1);
        }
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        let j = at / self.bucket_us;
        if self.own(state).counts.is_empty()
            || j > state.head
            || j + self.buckets < self.bucket(state, now)
        {
            return;
        }
        // Only a recorded call moves the head.
        if let Some(count) = state.counts.get_mut(self.slot(j)) {
            let returned = amount.min(*count);
            *count -= returned;
            state.total -= returned;
        }
    }
}

#[cfg(test)]
mod tests;
mod text;
#[cfg(feature = "__twins")]
mod twin;
