//! `SlidingLog`: remembers when each unit of the last window was consumed.

use std::collections::VecDeque;

use super::{Ahead, Machine, Remembered, Status};
use crate::bytes::{Reader, Writer};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::{LONGEST_AHEAD_US, MAX_EXACT, Wait};

/// The most units that one log remembers, so that no store holds or scans more for one key.
const MOST: u64 = 100_000;

/// Remembers when each unit of the last window was consumed: exact.
///
/// No half-open span of length `T` ever holds more than `N` admitted units. Calls at one instant
/// share an entry, so a log holds at most `N` entries of 16 bytes.
///
/// # Examples
///
/// ```
/// use tollgate_core::SlidingLog;
/// use tollgate_core::store::{State, Check, Request};
/// use tollgate_core::{Limit, Quota, Timestamp};
///
/// let limit = Limit::new("reset-password", SlidingLog::new(Quota::per_minute(2))?)?;
/// let mut state = State::default();
/// for second in [0, 45] {
///     let now = Timestamp::from_micros(second * 1_000_000)?;
///     let decision = Request::consume(Check::new(&limit, "alice", 1)).decide_on(&mut state, now);
///     assert!(decision.is_allowed());
/// }
/// let now = Timestamp::from_micros(50_000_000)?;
/// let decision = Request::consume(Check::new(&limit, "alice", 1)).decide_on(&mut state, now);
/// // The first call leaves the window ten seconds from now.
/// assert_eq!(decision.retry_after().as_micros(), Some(10_000_000));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlidingLog {
    quota: Quota,
    count_denied: bool,
}

/// Entries in order of time, with running totals, so that any sum is one subtraction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    entries: VecDeque<Entry>,
    /// The running total before the first entry.
    before: u64,
    /// The last instant at which something was recorded, even if that has been given back. Entries are
    /// later if they are used ahead.
    latest: u64,
}

/// What was consumed at one instant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entry {
    at: u64,
    /// The running total after this entry.
    total: u64,
}

impl Remembered for State {
    fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

impl SlidingLog {
    /// Returns a sliding log for `quota`.
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when the quota's amount exceeds 100,000: use
    /// [`SlidingBuckets`](crate::SlidingBuckets), which is as strict.
    pub const fn new(quota: Quota) -> Result<Self, LimitError> {
        if quota.amount() > MOST {
            return Err(LimitError(Problem::AmountTooLarge {
                amount: quota.amount(),
                most: MOST,
            }));
        }
        Ok(Self {
            quota,
            count_denied: false,
        })
    }

    /// Makes denied calls count too: a caller must stay away for a whole window to be admitted in
    /// full again. Only the newest `N` units are remembered, however many attempts there are: under a
    /// quota of zero, none.
    #[must_use]
    pub const fn count_denied(mut self) -> Self {
        self.count_denied = true;
        self
    }

    /// Returns the latest instant that has left the window at `at`, if any has.
    fn expired(&self, at: u64) -> Option<u64> {
        at.checked_sub(self.quota.window_us())
    }
}

impl State {
    /// Returns `now`, or the last instant recorded if that is later.
    fn clamp(&self, now: u64) -> u64 {
        now.max(self.latest)
    }

    /// Returns the running total of what was recorded up to `expired`.
    fn total_until(&self, expired: Option<u64>) -> u64 {
        let left = expired.map_or(0, |expired| self.first(|entry| entry.at > expired));
        left.checked_sub(1)
            .map_or(self.before, |last| self.entries[last].total)
    }

    /// Returns how many entries are before the first one for which `holds` is true, as it is for all later ones.
    ///
    /// Mostly a few of the oldest have left, or must leave: so it looks at these first, in growing steps, rather
    /// than into the middle of a long list that no cache holds.
    #[inline]
    fn first(&self, holds: impl Fn(&Entry) -> bool) -> usize {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let probe = (low + low / 2).min(low.midpoint(high));
            if holds(&self.entries[probe]) {
                high = probe;
            } else {
                low = probe + 1;
            }
        }
        low
    }

    fn total(&self) -> u64 {
        self.entries.back().map_or(self.before, |last| last.total)
    }

    /// Forgets the units up to the running total `before`, which never decreases.
    fn forget_until(&mut self, before: u64) {
        while self
            .entries
            .front()
            .is_some_and(|first| first.total <= before)
        {
            self.entries.pop_front();
        }
        self.before = before;
    }

    /// Returns the instant at which a call at `at` is recorded: not before those of units that are used
    /// ahead, so that entries stay in order.
    fn place(&self, at: u64) -> u64 {
        self.entries.back().map_or(at, |last| last.at.max(at))
    }

    /// Makes room for one more entry: doubles the capacity, but never past `most` entries.
    fn make_room(&mut self, most: u64) {
        let held = self.entries.len();
        if held < self.entries.capacity() {
            return;
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let wanted = (held * 2).max(4).min(most.max(held + 1));
        self.entries.reserve_exact(wanted - held);
    }
}

impl Machine for SlidingLog {
    const NAME: &'static str = "sliding-log";
    const KIND: u64 = 4;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        to.numbers(&[state.entries.len() as u64]);
        let (mut at, mut total) = (state.latest, state.before);
        for entry in &state.entries {
            to.difference(at, entry.at);
            to.number(entry.total - total);
            (at, total) = (entry.at, entry.total);
        }
        state.latest
    }

    fn read_state(&self, latest: u64, from: &mut Reader<'_>) -> Option<State> {
        let (mut entries, mut at, mut total) = (VecDeque::new(), latest, 0);
        for index in 0..from.number(0..=MOST)? {
            let before = at;
            at = from.difference(before)?;
            total += from.number(1..=MOST)?;
            if index > 0 && at <= before {
                return None;
            }
            entries.push_back(Entry { at, total });
        }
        let is_near = at <= latest + u64::from(LONGEST_AHEAD_US);
        (is_near && total <= MOST).then_some(State {
            entries,
            before: 0,
            latest,
        })
    }

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        Ok(Self {
            count_denied: self.count_denied,
            ..Self::new(self.quota.with_amount(amount)?)?
        })
    }

    #[inline]
    fn wait(&self, state: &State, now: u64, cost: u64) -> Wait {
        let at = state.clamp(now);
        let gone = state.total_until(self.expired(at));
        let used = state.total() - gone;
        let amount = self.quota.amount();
        if used + cost <= amount {
            return Wait::ZERO;
        }
        // The call fits once all units up to this running total have left.
        let needed = gone + (used + cost - amount);
        let last_needed = state.first(|entry| entry.total >= needed);
        let leaves = state.entries[last_needed].at + self.quota.window_us();
        Wait::from_micros(leaves - now)
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        let at = state.clamp(now);
        let used = state.total() - state.total_until(self.expired(at));
        let reset_us = match state.entries.back() {
            Some(last) if used > 0 => last.at + self.quota.window_us() - now,
            _ => 0,
        };
        Status {
            remaining: self.quota.amount().saturating_sub(used),
            reset_after: Wait::from_micros(reset_us),
        }
    }

    #[inline]
    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        self.commit_ahead(state, now, Ahead::after(0, cost))
    }

    /// Records the units at the end of their use: so they count for a whole window after it.
    #[inline]
    fn commit_ahead(&self, state: &mut State, now: u64, ahead: Ahead) -> u64 {
        let at = state.clamp(now);
        state.latest = at;
        let place = state.place((at + ahead.within).min(MAX_EXACT));
        let amount = self.quota.amount();
        let gone = state.total_until(self.expired(at));
        let used = state.total() - gone;
        // An attempt too large to be admitted counts as the full amount.
        let total = state.total() + ahead.units.min(amount);
        // Only the newest units affect decisions, so older ones are forgotten: denied calls cannot
        // make the log grow without bound. But as many are kept as a limit of a larger amount has counted.
        state.forget_until(total - (total - gone).min(amount.max(used)));
        match state.entries.back_mut() {
            Some(last) if last.at == place => last.total = total,
            // A quota of zero counts nothing, so nothing keeps later calls from their own instant.
            _ if amount == 0 => {}
            _ => {
                state.make_room(amount);
                state.entries.push_back(Entry { at: place, total });
            }
        }
        place
    }

    fn givable(&self, state: &State, now: u64) -> u64 {
        state.total() - state.total_until(self.expired(state.clamp(now)))
    }

    fn give(&self, state: &mut State, _now: u64, amount: u64) {
        let kept = state.total() - amount;
        let left = state.entries.partition_point(|entry| entry.total < kept);
        // The entry that reaches what is kept may reach beyond it.
        state.entries.truncate(left + 1);
        match state.entries.back_mut() {
            Some(last) if kept > state.before => last.total = kept,
            _ => state.entries.clear(),
        }
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        if self
            .expired(state.clamp(now))
            .is_some_and(|gone| at <= gone)
        {
            return;
        }
        let Ok(index) = state.entries.binary_search_by_key(&at, |entry| entry.at) else {
            return;
        };
        let earlier = match index.checked_sub(1) {
            Some(previous) => state.entries[previous].total,
            None => state.before,
        };
        let held = state.entries[index].total - earlier;
        let returned = amount.min(held);
        for entry in state.entries.range_mut(index..) {
            entry.total -= returned;
        }
        if returned == held {
            state.entries.remove(index);
        }
    }

    // Under a quota of zero, a denied call would add nothing.
    fn counts_denied(&self) -> bool {
        self.count_denied && self.quota.amount() > 0
    }
}

#[cfg(test)]
mod tests;
mod text;
#[cfg(feature = "__twins")]
mod twin;
