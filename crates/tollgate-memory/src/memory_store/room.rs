//! What makes room: expired states are dropped, and the number of keys is counted.

use std::sync::atomic::Ordering;

use tollgate_core::{ErrorKind, StoreError, Timestamp};

use super::MemoryStore;
use crate::clock::Timeline;
use crate::shard::Shard;

/// How many hash table buckets each insertion checks for expired states. More than one, so that the
/// sweep outpaces the table's growth.
const PLACES_PER_INSERTION: usize = 4;

/// How long a state must have been expired before an insertion drops it. Dropping and reinserting
/// the state of a key that is called now and then costs several times as much as finding it.
const GRACE_US: u64 = 1_000_000;

/// The most buckets to check when making room for one new key.
const PLACES_PER_NEW_KEY: usize = 512;

impl MemoryStore {
    /// Drops all expired states kept by the store's own clock, and returns how many there were.
    ///
    /// New keys drop expired states as they come; call this on a store that gets no new keys.
    pub fn sweep(&self) -> usize {
        let tables = self.sweep_tables(Timeline::Store, self.clock.now());
        tables + self.sweep_shards(0..=self.shard_mask, || self.clock.now())
    }

    /// Drops all states kept by callers' instants that have expired at `now`, and returns how many
    /// there were.
    pub fn sweep_at(&self, now: Timestamp) -> usize {
        let tables = self.sweep_tables(Timeline::Caller, now);
        tables + self.sweep_shards(self.shard_mask + 1..=2 * self.shard_mask + 1, || now)
    }

    /// Drops all states, whichever clock they are kept by, and returns how many there were. All
    /// keys start afresh.
    ///
    /// Use it to remove states written while a clock was far ahead, which deny until time catches
    /// up.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_memory::{Gcra, Limit, MemoryStore, Quota, RateLimiter, Timestamp};
    ///
    /// let limit = Limit::new("login", Gcra::new(Quota::per_minute(1))?)?;
    /// let limiter = RateLimiter::new(MemoryStore::new(), [limit])?;
    /// let now = Timestamp::from_micros(1_780_000_000_000_000)?;
    /// let wrong = now.saturating_add(Duration::from_secs(3_600));
    /// limiter.check("alice").at(wrong).run()?;
    /// assert!(limiter.check("alice").at(now).run()?.is_denied());
    /// assert_eq!(limiter.store().clear(), 1);
    /// assert!(limiter.check("alice").at(now).run()?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) -> usize {
        let shards = 0..self.shards.len();
        let dropped: usize = shards.map(|shard| self.lock(shard).clear()).sum();
        let dropped =
            dropped + self.schedules.clear() + self.leases.clear() + self.answers.tables.clear();
        self.release(dropped);
        dropped
    }

    fn sweep_tables(&self, timeline: Timeline, now: Timestamp) -> usize {
        let dropped = self.schedules.sweep(timeline, now)
            + self.leases.sweep(timeline, now)
            + self.answers.tables.sweep(timeline, now);
        self.release(dropped);
        dropped
    }

    fn sweep_shards(
        &self,
        shards: impl Iterator<Item = usize>,
        now: impl Fn() -> Timestamp,
    ) -> usize {
        let dropped = shards
            .map(|shard| self.lock(shard).sweep(usize::MAX, now(), &self.hasher))
            .sum();
        self.release(dropped);
        dropped
    }

    /// After an insertion into `shard`, drops some states that expired long ago.
    pub(crate) fn sweep_some(&self, shard: &mut Shard, now: Timestamp, timeline: Timeline) {
        if timeline == Timeline::Store {
            let long_ago = now.as_micros().saturating_sub(GRACE_US);
            let long_ago = Timestamp::saturating_from_micros(long_ago);
            self.release(shard.sweep(PLACES_PER_INSERTION, long_ago, &self.hasher));
        }
    }

    /// Reserves room for `keys` more keys, or returns false if there is none.
    pub(crate) fn reserve(&self, keys: usize) -> bool {
        let add = |held: usize| Some(held + keys).filter(|&held| held <= self.max_keys);
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    #[inline]
    pub(crate) fn release(&self, keys: usize) {
        if keys > 0 {
            self.held.fetch_sub(keys, Ordering::Relaxed);
        }
    }

    /// Drops expired states until there is room for `keys`, and returns whether there is.
    ///
    /// Must be called without holding a lock.
    pub(crate) fn make_room(&self, keys: usize, now: Timestamp, timeline: Timeline) -> bool {
        let mut places = PLACES_PER_NEW_KEY;
        for _ in 0..self.shards.len() {
            let next = self.hand.fetch_add(1, Ordering::Relaxed) % self.shards.len();
            // States kept by callers' instants can only be judged by such an instant.
            let now = match (next > self.shard_mask, timeline) {
                (true, Timeline::Store) => continue,
                (false, Timeline::Caller) => self.clock.now(),
                _ => now,
            };
            let mut shard = self.lock(next);
            // A table has at least one bucket, so the loop ends.
            let looked_at = places.min(shard.buckets());
            self.release(shard.sweep(places, now, &self.hasher));
            places -= looked_at;
            if self.len() + keys <= self.max_keys {
                return true;
            }
            if places == 0 {
                break;
            }
        }
        // States kept by callers' instants can only be judged by such an instant.
        let known = |of| match (of, timeline) {
            (Timeline::Caller, Timeline::Store) => None,
            (Timeline::Store, Timeline::Caller) => Some(self.clock.now()),
            _ => Some(now),
        };
        let schedules = self.schedules.make_room(PLACES_PER_NEW_KEY, known);
        let leases = self.leases.make_room(PLACES_PER_NEW_KEY, known);
        let answers = self.answers.tables.make_room(PLACES_PER_NEW_KEY, known);
        self.release(schedules + leases + answers);
        self.len() + keys <= self.max_keys
    }

    pub(crate) fn full(&self) -> StoreError {
        let message = format!(
            "no room for a new key: {} of at most {} keys are held; raise max_keys, or limit by a coarser key",
            self.len(),
            self.max_keys
        );
        StoreError::new(ErrorKind::Full, message)
    }
}
