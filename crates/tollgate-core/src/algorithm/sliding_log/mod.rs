//! `SlidingLog`: remembers when each unit of the last window was consumed.

use std::fmt;

use super::{Ahead, Machine, Outcome, Remembered, Status};
use crate::bytes::{Reader, Writer};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::{LONGEST_AHEAD_US, MAX_EXACT, Wait};

/// The most units that one log remembers, so that no store holds or scans more for one key.
const MOST: u64 = 100_000;

/// How many bits hold a running total, of which only differences matter.
const TOTAL_BITS: u32 = MOST.ilog2() + 1;
const TOTAL: u64 = (1 << TOTAL_BITS) - 1;

/// How many instants the other bits of a word tell apart: those of some four years.
const INSTANTS: u64 = 1 << (64 - TOTAL_BITS);

/// Added to the head, if entries are of two words.
const WIDE: u32 = 1 << 31;

/// Remembers when each unit of the last window was consumed: exact.
///
/// No half-open span of length `T` ever holds more than `N` admitted units. Calls at one instant
/// share an entry, so a log holds at most `N` entries: of 8 bytes, or of 16 if `T` is longer than four years.
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
///
/// With many keys, they are in no cache. So both ends are found without reading anything else of them.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Empty at first. Then the last instant at which something was recorded, even if that has been given back; the
    /// running total before the first entry; and a ring of entries.
    ///
    /// An entry is a word: the lower bits of its instant, and those of its running total. Once a limit counts longer
    /// than these tell instants apart, it is two words.
    words: Box<[u64]>,
    /// Where the first entry is in the ring.
    head: u32,
    /// How many entries there are.
    len: u32,
}

/// A [`State`] to read.
#[derive(Clone, Copy)]
struct Log<'w> {
    latest: u64,
    before: u64,
    ring: &'w [u64],
    head: usize,
    len: u32,
    /// By how many bits the index of an entry is shifted to that of its words.
    width: u32,
}

/// What was consumed at one instant, or is used ahead until then.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: u64,
    /// How many units the entries have up to this one.
    total: u64,
}

/// What counts at an instant.
struct View {
    at: u64,
    /// How many entries have left the window, and how many units.
    left: u32,
    gone: u64,
    used: u64,
    /// The instant of the newest entry, or zero.
    newest: u64,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.log();
        let entries: Vec<_> = log.entries().collect();
        let mut shown = f.debug_struct("State");
        shown
            .field("entries", &entries)
            .field("latest", &log.latest)
            .finish()
    }
}

impl Remembered for State {
    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words)
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

    /// Returns what counts at `now`, or at the last instant recorded if that is later.
    #[inline(always)]
    fn view(&self, log: &Log<'_>, now: u64) -> View {
        let at = now.max(log.latest);
        let expired = self.expired(at);
        let left = expired.map_or(0, |expired| log.first(|entry| entry.at > expired));
        let gone = log.last_of(left).total;
        let newest = log.last_of(log.len);
        View {
            at,
            left,
            gone,
            used: newest.total - gone,
            newest: newest.at,
        }
    }

    #[inline(always)]
    fn wait_in(&self, log: &Log<'_>, view: &View, now: u64, cost: u64) -> Wait {
        let amount = self.quota.amount();
        if view.used + cost <= amount {
            return Wait::ZERO;
        }
        // The call fits once all units up to this running total have left.
        let needed = view.gone + (view.used + cost - amount);
        let last_needed = log.first(|entry| entry.total >= needed);
        let leaves = log.get(last_needed).at + self.quota.window_us();
        Wait::from_micros(leaves - now)
    }

    #[inline(always)]
    fn status_in(&self, view: &View, now: u64) -> Status {
        let reset_us = (view.used > 0).then(|| view.newest + self.quota.window_us() - now);
        Status {
            remaining: self.quota.amount().saturating_sub(view.used),
            reset_after: Wait::from_micros(reset_us.unwrap_or(0)),
        }
    }

    /// Records units, after which `view` is what counts.
    #[inline(always)]
    fn record(&self, state: &mut State, view: &mut View, ahead: Ahead) {
        let amount = self.quota.amount();
        // Not before units that are used ahead, so that entries stay in order.
        let at = view.newest.max((view.at + ahead.within).min(MAX_EXACT));
        // An attempt too large to be admitted counts as the full amount.
        let units = ahead.units.min(amount);
        // Only the newest units affect decisions, so older ones are forgotten: denied calls cannot
        // make the log grow without bound. But as many are kept as a limit of a larger amount has counted.
        let total = (view.used + units).min(amount.max(view.used));
        let forgotten = view.gone + view.used + units - total;
        let mut log = state.log();
        if forgotten > view.gone {
            view.left = log.first(|entry| entry.total > forgotten);
        }
        // A quota of zero counts nothing, so nothing keeps later calls from their own instant.
        let adds = amount > 0 && (view.left == log.len || view.newest < at);
        let len = log.len - view.left + u32::from(adds);
        let is_wide = self.quota.window_us() + u64::from(LONGEST_AHEAD_US) > INSTANTS;
        if (len as usize) << log.width > log.ring.len()
            || is_wide && log.width == 0
            || state.words.is_empty()
        {
            // Room doubles, but never past the amount.
            let most = u32::try_from(amount).unwrap_or(u32::MAX);
            let room = (2 * log.len)
                .max(4)
                .min(most)
                .max(log.len + u32::from(adds));
            *state = State::of(view.at, room as usize, is_wide, log.entries());
            log = state.log();
        }
        let (head, before) = (log.place(view.left), log.before + forgotten);
        state.head = state.head & WIDE | u32::try_from(head).unwrap_or_default();
        state.len = len;
        (state.words[0], state.words[1]) = (view.at, before);
        if amount > 0 {
            state.set(len - 1, Entry { at, total });
        }
        (view.left, view.gone, view.used, view.newest) = (0, 0, total, at);
    }
}

impl State {
    /// Returns a state with these entries, which has room for `room` of them.
    #[cold]
    #[inline(never)]
    fn of(latest: u64, room: usize, is_wide: bool, entries: impl Iterator<Item = Entry>) -> Self {
        let width = u32::from(is_wide);
        let mut state = Self {
            words: vec![0; 2 + (room << width)].into(),
            head: width * WIDE,
            len: 0,
        };
        state.words[0] = latest;
        for entry in entries {
            state.len += 1;
            state.set(state.len - 1, entry);
        }
        state
    }

    #[inline(always)]
    fn log(&self) -> Log<'_> {
        let (latest, before, ring) = match &*self.words {
            [latest, before, ring @ ..] => (*latest, *before, ring),
            _ => (0, 0, &[][..]),
        };
        Log {
            latest,
            before,
            ring,
            head: (self.head & !WIDE) as usize,
            len: self.len,
            width: self.head / WIDE,
        }
    }

    #[inline(always)]
    fn set(&mut self, index: u32, entry: Entry) {
        let log = self.log();
        let (place, before, width) = (2 + log.place(index), log.before, log.width);
        let total = (before + entry.total) & TOTAL;
        if width == 0 {
            self.words[place] = entry.at << TOTAL_BITS | total;
        } else {
            self.words[place] = entry.at;
            self.words[place + 1] = total;
        }
    }
}

impl Log<'_> {
    /// Returns where the words of an entry are in the ring.
    #[inline(always)]
    fn place(&self, index: u32) -> usize {
        let place = self.head + ((index as usize) << self.width);
        place.checked_sub(self.ring.len()).unwrap_or(place)
    }

    #[inline(always)]
    fn get(&self, index: u32) -> Entry {
        let place = self.place(index);
        let word = self.ring[place];
        let (at, total) = if self.width == 0 {
            let end = self.latest + u64::from(LONGEST_AHEAD_US);
            // The last instant up to there that has these bits.
            (end - end.wrapping_sub(word >> TOTAL_BITS) % INSTANTS, word)
        } else {
            (word, self.ring[place + 1])
        };
        let total = total.wrapping_sub(self.before) & TOTAL;
        Entry { at, total }
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.len).map(|index| self.get(index))
    }

    /// Returns the last of the first `count` entries, whose total is that of all of them.
    #[inline(always)]
    fn last_of(&self, count: u32) -> Entry {
        let last = count.checked_sub(1).map(|last| self.get(last));
        last.unwrap_or_default()
    }

    /// Returns how many entries are before the first one for which `holds` is true, as it is for all later ones.
    ///
    /// Mostly a few of the oldest have left, or must leave: so it looks at these first, in growing steps, rather
    /// than into the middle of a long list that no cache holds.
    #[inline(always)]
    fn first(&self, holds: impl Fn(Entry) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let probe = (low + low / 2).min(low.midpoint(high));
            if holds(self.get(probe)) {
                high = probe;
            } else {
                low = probe + 1;
            }
        }
        low
    }
}

impl Machine for SlidingLog {
    const NAME: &'static str = "sliding-log";
    const KIND: u64 = 4;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        let log = state.log();
        to.numbers(&[log.len.into()]);
        let (mut at, mut total) = (log.latest, 0);
        for entry in log.entries() {
            to.difference(at, entry.at);
            to.number(entry.total - total);
            (at, total) = (entry.at, entry.total);
        }
        log.latest
    }

    fn read_state(&self, latest: u64, from: &mut Reader<'_>) -> Option<State> {
        let (mut entries, mut at, mut total) = (Vec::new(), latest, 0);
        for index in 0..from.number(0..=MOST)? {
            let before = at;
            at = from.difference(before)?;
            total += from.number(1..=MOST)?;
            if index > 0 && at <= before {
                return None;
            }
            entries.push(Entry { at, total });
        }
        let is_near = at <= latest + u64::from(LONGEST_AHEAD_US);
        (is_near && total <= MOST)
            .then(|| State::of(latest, entries.len(), true, entries.into_iter()))
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
        let log = state.log();
        self.wait_in(&log, &self.view(&log, now), now, cost)
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        self.status_in(&self.view(&state.log(), now), now)
    }

    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        self.commit_ahead(state, now, Ahead::after(0, cost))
    }

    /// Records the units at the end of their use: so they count for a whole window after it.
    fn commit_ahead(&self, state: &mut State, now: u64, ahead: Ahead) -> u64 {
        let mut view = self.view(&state.log(), now);
        self.record(state, &mut view, ahead);
        view.newest
    }

    #[inline]
    fn consume(&self, state: &mut State, now: u64, cost: u64) -> Outcome {
        let mut view = self.view(&state.log(), now);
        let allowed = view.used + cost <= self.quota.amount();
        let (mut at, mut wait) = (now, Wait::ZERO);
        if allowed || self.counts_denied() {
            self.record(state, &mut view, Ahead::after(0, cost));
            at = view.newest;
        }
        if !allowed {
            // The attempt makes it longer, if it was counted.
            wait = self.wait_in(&state.log(), &view, now, cost);
        }
        Outcome {
            wait,
            at,
            left: self.status_in(&view, now).into(),
        }
    }

    fn givable(&self, state: &State, now: u64) -> u64 {
        self.view(&state.log(), now).used
    }

    fn give(&self, state: &mut State, _now: u64, amount: u64) {
        let log = state.log();
        let kept = log.last_of(log.len).total - amount;
        // The entry that reaches what is kept may reach beyond it.
        let last = log.first(|entry| entry.total >= kept);
        let Entry { at, .. } = log.get(last);
        state.len = 0;
        if kept > 0 {
            state.len = last + 1;
            state.set(last, Entry { at, total: kept });
        }
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        let log = state.log();
        let expired = self.expired(now.max(log.latest));
        let index = log.first(|entry| entry.at >= at);
        let is_gone = expired.is_some_and(|expired| at <= expired);
        if is_gone || index == log.len || log.get(index).at != at {
            return;
        }
        let held = log.get(index).total - log.last_of(index).total;
        let returned = amount.min(held);
        let removed = u32::from(returned == held);
        for later in index + removed..state.len {
            let Entry { at, total } = state.log().get(later);
            let total = total - returned;
            state.set(later - removed, Entry { at, total });
        }
        state.len -= removed;
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
