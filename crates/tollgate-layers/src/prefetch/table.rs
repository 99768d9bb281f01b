//! `Table`: the keys that are called often.

use std::hash::{BuildHasher, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::RandomState;
use tollgate_core::Timestamp;
use tollgate_core::store::Check;

use super::changes::Changes;
use super::hot::Hot;
use crate::sync::{AtomicU64, FEW, Mutex, Ordering, lock};

/// How many keys are known at most: those that come later are not prefetched.
const KEYS: u64 = 4_096;
const ROWS: usize = if FEW { 1 } else { 1_024 };
/// How many keys are counted before they are known, at a time: of those that share a place, one after another.
const PLACES: usize = if FEW { 1 } else { 8_192 };
/// From how many calls on, within the time for which units are asked, a key is known.
const OFTEN: u64 = 4;

/// In the word of a place: a key of it is known.
const KNOWN: u64 = 0x80;
/// In the word of a place: its calls.
const CALLS: u64 = 0x7F;

/// Keys beside the hashes of their limits and keys, by which they have their rows. Of those with one hash, the
/// first is known.
type Row = Vec<(u64, Arc<Hot>)>;

pub(super) struct Table {
    within: Duration,
    /// The same time, at least one microsecond.
    period_us: u64,
    pub(super) changes: Changes,
    rows: Box<[Mutex<Row>]>,
    /// How many keys are known.
    known: AtomicU64,
    hasher: RandomState,
    /// A key of each place, and how often it was called in a period: in 32 bits the number of the period, in 24
    /// a part of the key's hash, in 8 the calls, and whether any key of the place is known.
    places: Box<[AtomicU64]>,
}

impl Table {
    /// Returns a table of keys that are called often within this time.
    pub(super) fn new(within: Duration) -> Self {
        Self {
            within,
            period_us: u64::try_from(within.as_micros()).unwrap_or(u64::MAX).max(1),
            changes: Changes::default(),
            rows: (0..ROWS).map(|_| Mutex::default()).collect(),
            known: AtomicU64::new(0),
            hasher: RandomState::default(),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Finds what is known of the limits and keys of `checks`, for which a call has this `cost`, under the lock of
    /// its row; returns `None` if they are called less often.
    ///
    /// Most keys are called seldom: of these, only the word of their place is read and written.
    pub(super) fn find(
        &self,
        checks: &[Check<'_>],
        cost: u64,
        now: Timestamp,
    ) -> Option<impl Deref<Target = Arc<Hot>>> {
        let hash = self.hash(checks);
        let is_known = self.place(hash).load(Ordering::Relaxed) & KNOWN != 0;
        if !is_known && !self.is_often(hash, now) {
            return None;
        }
        let mut row = self.row(hash);
        let at = row.iter().position(|(of, _)| *of == hash);
        // Another key of its place may be known.
        if at.is_none() && (is_known && !self.is_often(hash, now) || !self.has_room()) {
            return None;
        }
        let at = at.unwrap_or_else(|| {
            let demand = (OFTEN - 1).saturating_mul(cost);
            let places = self.changes.places(checks);
            let hot = Hot::new(checks, places, demand, now, self.within);
            row.push((hash, Arc::new(hot)));
            row.len() - 1
        });
        if !is_known {
            self.note_known(hash);
        }
        row[at].1.is_of(checks).then_some(Found(row, at))
    }

    /// Returns whether one more key may be known, and counts it.
    fn has_room(&self) -> bool {
        let one_more = |known| (known < KEYS).then_some(known + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.known.fetch_update(set, fetch, one_more).is_ok()
    }

    /// Returns what is known of the limits and keys of `checks`.
    pub(super) fn known(&self, checks: &[Check<'_>]) -> Option<Arc<Hot>> {
        let hash = self.hash(checks);
        let row = self.row(hash);
        let (_, hot) = row.iter().find(|(of, _)| *of == hash)?;
        hot.is_of(checks).then(|| Arc::clone(hot))
    }

    fn row(&self, hash: u64) -> impl DerefMut<Target = Row> {
        lock(&self.rows[index(hash, ROWS)])
    }

    fn hash(&self, checks: &[Check<'_>]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for check in checks {
            let key = check.key();
            hasher.write(check.limit().identity().as_bytes());
            hasher.write(&key.partition());
            hasher.write(key.rest());
        }
        hasher.finish()
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.places[index(hash >> 32, PLACES)]
    }

    fn note_known(&self, hash: u64) {
        self.place(hash).fetch_or(KNOWN, Ordering::Relaxed);
    }

    /// Counts a call, and returns whether its key has been called often in this period.
    fn is_often(&self, hash: u64, now: Timestamp) -> bool {
        let period = now.as_micros() / self.period_us;
        let own = period << 32 | (hash & 0xFFFF_FF00);
        let place = self.place(hash);
        let word = place.load(Ordering::Relaxed);
        let (known, calls) = (word & KNOWN, word & CALLS);
        let before = if word & !0xFF == own {
            calls
        } else if word >> 32 == period & 0xFFFF_FFFF && calls < OFTEN {
            // Another key keeps its place in this period, until it is known.
            return false;
        } else {
            0
        };
        let calls = (before + 1).min(OFTEN);
        let counted = own | known | calls;
        if counted != word {
            // Of calls at one time, one may be counted for both.
            let _ = place.compare_exchange(word, counted, Ordering::Relaxed, Ordering::Relaxed);
        }
        calls == OFTEN
    }

    /// Forgets what was not called for twice this time and has nothing in hand.
    pub(super) fn forget_quiet(&self, now: Timestamp) {
        let mut forgets = false;
        for row in &self.rows {
            lock(row).retain(|(hash, hot)| {
                // One that a call has found is about to be used.
                let stays = Arc::strong_count(hot) > 1
                    || !hot.with(|hand| hand.is_quiet(now, self.within * 2));
                if !stays {
                    self.known.fetch_sub(1, Ordering::Relaxed);
                    self.place(*hash).fetch_and(!KNOWN, Ordering::Relaxed);
                    forgets = true;
                }
                stays
            });
        }
        // Those that stay may share a place with one that does not.
        for row in self.rows.iter().filter(|_| forgets) {
            lock(row)
                .iter()
                .for_each(|(hash, _)| self.note_known(*hash));
        }
    }

    pub(super) fn which(&self, is_it: impl Fn(&Hot) -> bool) -> Vec<Arc<Hot>> {
        let mut all = Vec::new();
        for row in &self.rows {
            let row = lock(row);
            let hots = row.iter().map(|(_, hot)| hot);
            all.extend(hots.filter(|hot| is_it(hot)).cloned());
        }
        all
    }

    /// Returns within which time units in hand are used, at least, or `None` if there is no key.
    pub(super) fn shortest(&self) -> Option<Duration> {
        let is_short = |hot: &Hot| hot.within < self.within && hot.with(|hand| hand.is_live());
        let of = |(_, hot): &(u64, Arc<Hot>)| match is_short(hot) {
            true => hot.within,
            false => self.within,
        };
        let of = |row: &Mutex<Row>| lock(row).iter().map(of).min();
        self.rows.iter().filter_map(of).min()
    }
}

/// A key, and its row, which is locked.
struct Found<R>(R, usize);

impl<R: Deref<Target = Row>> Deref for Found<R> {
    type Target = Arc<Hot>;

    #[inline]
    fn deref(&self) -> &Arc<Hot> {
        &self.0[self.1].1
    }
}

fn index(hash: u64, of: usize) -> usize {
    usize::try_from(hash).unwrap_or_default() % of
}
