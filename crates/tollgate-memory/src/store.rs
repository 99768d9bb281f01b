//! The store: shards, the bound on keys, and decisions about one key.

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tollgate_core::algorithm::State;
use tollgate_core::{
    Check, Checks, ErrorKind, Fingerprint, Operation, Request, Store, StoreError, SyncStore,
    Timestamp, Verdict, Verdicts, inside,
};

use crate::clock::{Clock, Source, SystemClock};
use crate::probe::{KeyHasher, Probe};
use crate::shard::Shard;

/// Keys held unless another number is asked for: 75 to 300 MB of them, without rings and logs.
const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// Shards for each processor: enough that two threads rarely meet, and that growing one is short.
const SHARDS_PER_PROCESSOR: usize = 32;

/// How many places each insertion looks at for stale states: more than one, so that a table is
/// swept faster than it can grow.
const PLACES_PER_INSERTION: usize = 4;

/// How long a state has been stale before an insertion drops it. A key that is called every now
/// and then is best left where it is: dropping and inserting it costs several times what finding
/// it does.
const GRACE_US: u64 = 1_000_000;

/// How many places are looked at, at most, for room for one new key.
const PLACES_PER_NEW_KEY: usize = 512;

/// How often room is looked for, since another thread may take what one has found.
pub(crate) const LOOKS_FOR_ROOM: usize = 3;

/// Decides in this process, and remembers at most a set number of keys.
///
/// Sharded: calls for different keys rarely wait for each other, and no call waits for anything
/// but a short lock. A call from code that does not wait allocates nothing for a key that is held,
/// for up to four limits, once a log has grown to its quota. States that have
/// remembered nothing for a second are dropped a few at a time, as new keys come; there is no
/// thread that does so, and no pause.
///
/// # When it is full
///
/// A state that remembers anything is never dropped: that would give its key a fresh limit for
/// free. A call for a *new* key first looks for states to drop, at up to 512 places; if there is
/// none among them it fails with [`ErrorKind::Full`], and consumes nothing. Calls for keys that
/// are held are decided as ever, and so are denials and peeks, which hold nothing.
///
/// # Memory
///
/// A key takes a bounded number of bytes, however long it is: up to 16 bytes are held as they are,
/// while a longer key, or one with a rest, is held as a keyed hash of 128 bits. So the store takes at
/// most [`max_keys`](Builder::max_keys) times these bytes, and a few hundred for each shard:
///
/// | algorithm | bytes a key |
/// |---|---|
/// | fixed window, sliding counter, GCRA | 300 |
/// | sliding buckets of `k` buckets | 300 + 48 + 8 (`k` + 1) |
/// | sliding log of an amount `N` | 300 + 48 + 16 max(`N`, 4) |
///
/// The 300 are the table's: 65 for each place, of which a table that has just grown fills less than
/// a quarter when keys come and go. It is at most 160 for a store that only fills up. A log grows to
/// its bound only for keys that use their amount up. [`bytes`](Self::bytes) tells what is in use.
///
/// # Chosen keys
///
/// What finds a key in the table depends on secrets that the system's random numbers gave this
/// process and this store. Callers who choose keys, or even names of limits, cannot choose such
/// that collide and make calls slow, nor two long keys that are held as the same hash: they would
/// have to know the secrets. The hash of the table is foldhash, which is fast rather than
/// cryptographic: it does not withstand callers who measure single calls so precisely that they
/// learn the secrets from them.
///
/// # Time
///
/// Requests are decided at the store's [`Clock`], or at [`Request::at`]; the two are counted apart.
/// States kept by callers' instants are dropped only by [`sweep_at`](Self::sweep_at), or when a
/// caller's request needs room, judged by its instant: so all callers' instants in one store must
/// be of one clock.
///
/// # Examples
///
/// ```
/// use tollgate_core::algorithm::SlidingLog;
/// use tollgate_core::{Limit, Quota, RateLimiter};
/// use tollgate_memory::MemoryStore;
///
/// let limit = Limit::new("login", SlidingLog::new(Quota::per_minute(5))?)?;
/// let limiter = RateLimiter::new(MemoryStore::new(), [limit])?;
/// let decision = limiter.check("203.0.113.7").run()?;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    /// First those of the store's timeline, then as many of callers'.
    shards: Box<[Padded]>,
    /// One less than the shards of one timeline, whose number is a power of two.
    shard_mask: usize,
    pub(crate) hasher: KeyHasher,
    clock: Source,
    max_keys: usize,
    /// How many keys are held, or are about to be.
    held: AtomicUsize,
    /// The shard to look at next for room.
    hand: AtomicUsize,
}

/// Whose clock states are kept by.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Timeline {
    Caller,
    Store,
}

impl Timeline {
    #[inline]
    pub(crate) fn of(request: &Request<'_>) -> Self {
        match request.caller_time() {
            Some(_) => Self::Caller,
            None => Self::Store,
        }
    }
}

/// On a cache line of its own, so that neighbours' locks do not slow each other.
#[derive(Default)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// Sets up a [`MemoryStore`].
///
/// # Examples
///
/// ```
/// use tollgate_memory::MemoryStore;
///
/// let store = MemoryStore::builder().max_keys(10_000).build();
/// assert_eq!(store.max_keys(), 10_000);
/// ```
#[derive(Debug)]
pub struct Builder {
    max_keys: usize,
    clock: Option<DebugClock>,
}

struct DebugClock(Arc<dyn Clock>);

impl fmt::Debug for DebugClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.0.now()).finish()
    }
}

impl Builder {
    /// Sets how many keys are held at most; a key of two limits counts twice. One million unless set.
    ///
    /// A key takes at most 300 bytes, and more for sliding buckets and logs: see
    /// [Memory](MemoryStore#memory).
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets the clock. A [`SystemClock`] unless set.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(DebugClock(Arc::new(clock)));
        self
    }

    /// Returns the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        let processors = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let shards = shards(processors.get(), self.max_keys);
        MemoryStore {
            shards: (0..2 * shards).map(|_| Padded::default()).collect(),
            shard_mask: shards - 1,
            hasher: KeyHasher::new(),
            clock: match self.clock {
                Some(DebugClock(clock)) => Source::Other(clock),
                None => Source::System(SystemClock::new()),
            },
            max_keys: self.max_keys,
            held: AtomicUsize::default(),
            hand: AtomicUsize::default(),
        }
    }
}

/// Returns how many shards a timeline has, a power of two.
fn shards(processors: usize, max_keys: usize) -> usize {
    // A small store has few shards, so that looking for room soon looks at all of it.
    (processors * SHARDS_PER_PROCESSOR)
        .min(max_keys / 8)
        .min(1 << 16)
        .next_power_of_two()
}

impl MemoryStore {
    /// Returns a store of at most one million keys, by the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder, to set the number of keys and the clock.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            max_keys: DEFAULT_MAX_KEYS,
            clock: None,
        }
    }

    /// Returns how many keys are held at most.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// Returns how many keys are held, stale ones that have not been dropped yet included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns whether no key is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes held for keys and their states; looks at every key.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (0..self.shards.len())
            .map(|shard| self.lock(shard).bytes())
            .sum()
    }

    /// Drops every state of the store's own clock that remembers nothing any more, and returns how
    /// many there were. New keys do so by themselves; this is for a store that sees none.
    pub fn sweep(&self) -> usize {
        self.sweep_shards(0..=self.shard_mask, || self.clock.now())
    }

    /// Drops every state kept by callers' instants that remembers nothing any more at `now`, and
    /// returns how many there were.
    pub fn sweep_at(&self, now: Timestamp) -> usize {
        self.sweep_shards(self.shard_mask + 1..=2 * self.shard_mask + 1, || now)
    }

    /// Drops every state, of the store's own clock and of callers' instants, and returns how many
    /// there were: all keys start afresh.
    ///
    /// For states that were written while a clock was far ahead, which deny until time catches up.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::algorithm::Gcra;
    /// use tollgate_core::{Limit, Quota, RateLimiter, Timestamp};
    /// use tollgate_memory::MemoryStore;
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
        let dropped = shards.map(|shard| self.lock(shard).clear()).sum();
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

    #[inline]
    pub(crate) fn now(&self, request: &Request<'_>) -> Timestamp {
        match request.caller_time() {
            Some(now) => now,
            None => self.clock.now(),
        }
    }

    /// Returns the instant to decide at, or one that was current some nanoseconds ago.
    #[inline]
    pub(crate) fn early_now(&self, request: &Request<'_>) -> Timestamp {
        match request.caller_time() {
            Some(now) => now,
            None => self.clock.early_now(),
        }
    }

    #[inline]
    pub(crate) fn probe<'r, 'k>(&self, check: &'r Check<'k>) -> Probe<'r, 'k> {
        Probe::new(check, &self.hasher)
    }

    #[inline]
    pub(crate) fn shard_of(&self, probe: &Probe<'_, '_>, timeline: Timeline) -> usize {
        // The table takes its tag from the top bits and its place from the low ones.
        let bits = usize::try_from(probe.hash >> 32).unwrap_or_default();
        let shard = bits & self.shard_mask;
        match timeline {
            Timeline::Caller => shard + self.shard_mask + 1,
            Timeline::Store => shard,
        }
    }

    #[inline]
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock()
    }

    /// Decides a request about one limit.
    fn decide_one(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verdicts, StoreError> {
        let probe = self.probe(check);
        let timeline = Timeline::of(request);
        let fingerprint = probe.fingerprint(timeline);
        request.validate(|_| fingerprint)?;
        // Read before the lock is held: a state that is held knows if it was changed since.
        let now = self.early_now(request);
        let mut shard = self.lock(self.shard_of(&probe, timeline));
        let Some(entry) = shard.find_mut(&probe) else {
            drop(shard);
            return self.decide_new(request, &probe, timeline);
        };
        Ok(entry.decide(request, fingerprint, now))
    }

    /// Decides about a key that was not held a moment ago.
    #[cold]
    fn decide_new(
        &self,
        request: &Request<'_>,
        probe: &Probe<'_, '_>,
        timeline: Timeline,
    ) -> Result<Verdicts, StoreError> {
        let fingerprint = probe.fingerprint(timeline);
        let mut has_room = true;
        for _ in 0..LOOKS_FOR_ROOM {
            let mut shard = self.lock(self.shard_of(probe, timeline));
            // Read with the lock held: whoever dropped this key's state did so at an earlier
            // instant. A reading from before might fall into the window that was just forgotten.
            let now = self.now(request);
            if let Some(entry) = shard.find_mut(probe) {
                return Ok(entry.decide(request, fingerprint, now));
            }
            let evaluation = request.evaluate(inside::FRESH, now);
            let mut state = State::default();
            if !evaluation.writes_to(request, 0) {
                return Ok(evaluation.apply(request, fingerprint, &mut state, now));
            }
            if self.reserve(1) {
                let decision = evaluation.apply(request, fingerprint, &mut state, now);
                shard.insert(probe, state, &self.hasher);
                self.sweep_some(&mut shard, now, timeline);
                return Ok(decision);
            }
            drop(shard);
            // Where there is no room, another call may have taken the last place with this key.
            if !has_room {
                break;
            }
            has_room = self.make_room(1, now, timeline);
        }
        Err(self.full())
    }

    /// Drops some of the states that have long been stale, after an insertion into `shard`.
    pub(crate) fn sweep_some(&self, shard: &mut Shard, now: Timestamp, timeline: Timeline) {
        if timeline == Timeline::Store {
            let long_ago = now.as_micros().saturating_sub(GRACE_US);
            let long_ago = Timestamp::saturating_from_micros(long_ago);
            self.release(shard.sweep(PLACES_PER_INSERTION, long_ago, &self.hasher));
        }
    }

    /// Counts `keys` more as held, or returns false if that would be too many.
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

    /// Drops stale states until there is room for `keys`, and returns whether there is; called with
    /// no lock held.
    pub(crate) fn make_room(&self, keys: usize, now: Timestamp, timeline: Timeline) -> bool {
        let mut places = PLACES_PER_NEW_KEY;
        for _ in 0..self.shards.len() {
            let next = self.hand.fetch_add(1, Ordering::Relaxed) % self.shards.len();
            // What is kept by callers' instants is judged by one only when a caller gives one.
            let now = match (next > self.shard_mask, timeline) {
                (true, Timeline::Store) => continue,
                (false, Timeline::Caller) => self.clock.now(),
                _ => now,
            };
            let mut shard = self.lock(next);
            // A table has one place at least.
            let looked_at = places.min(shard.places());
            self.release(shard.sweep(places, now, &self.hasher));
            places -= looked_at;
            if self.len() + keys <= self.max_keys {
                return true;
            }
            if places == 0 {
                break;
            }
        }
        false
    }

    pub(crate) fn full(&self) -> StoreError {
        let message = format!(
            "no room was found for a new key beside {} of at most {}: raise max_keys, or limit by a \
             coarser key",
            self.len(),
            self.max_keys
        );
        StoreError::new(ErrorKind::Full, message)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.len())
            .field("max_keys", &self.max_keys)
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

impl SyncStore for MemoryStore {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        match (request.checks(), request.operation(), request.caller_time()) {
            ([check], Operation::Consume, None) => {
                let (fingerprint, verdict) = self.consume_now(*check)?;
                Ok(inside::verdicts(fingerprint, verdict))
            }
            ([check], ..) => self.decide_one(request, check),
            _ => self.decide_several(request),
        }
    }

    // Without a `Request`, which would be written to memory and read again: a tenth of a call.
    #[inline(always)]
    fn consume_now(&self, check: Check<'_>) -> Result<(Fingerprint, Verdict), StoreError> {
        let probe = self.probe(&check);
        let fingerprint = probe.fingerprint(Timeline::Store);
        // Read before the lock is held: a state that is held knows if it was changed since.
        let now = self.clock.early_now();
        let mut shard = self.lock(self.shard_of(&probe, Timeline::Store));
        let entry = shard.find_mut(&probe).filter(|_| check.cost() > 0);
        let Some(entry) = entry else {
            drop(shard);
            let request = Request::consume(check);
            return self
                .decide_new(&request, &probe, Timeline::Store)?
                .into_one();
        };
        let verdict = inside::consume(&check, &mut entry.state, now);
        if verdict.is_allowed() || check.limit().algorithm().counts_denied() {
            entry.adopt(check.limit());
        }
        drop(shard);
        // Written where the caller wants it, with the lock released.
        Ok((fingerprint, verdict))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        for check in checks {
            let probe = self.probe(check);
            for timeline in [Timeline::Caller, Timeline::Store] {
                let shard = self.shard_of(&probe, timeline);
                let removed = self.lock(shard).remove(&probe);
                self.release(usize::from(removed));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.decide_now(&request)
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.reset_now(&checks)
    }

    fn supports<'a>(&self, _request: &Request<'a>) -> bool {
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use tollgate_core::algorithm::FixedWindow;
    use tollgate_core::{Check, Limit, Quota};

    use super::{MemoryStore, Timeline, shards};

    #[test]
    fn shards_are_many_for_the_processors_and_few_for_the_keys() {
        for (processors, max_keys, expected) in [
            (1, 1_000_000, 32),
            (2, 1_000_000, 64),
            (3, 1_000_000, 128),
            (64, 1_000_000, 2_048),
            (1 << 20, usize::MAX, 1 << 16),
            (64, 1_000, 128),
            (64, 24, 4),
            (64, 23, 2),
            (64, 16, 2),
            (64, 15, 1),
            (64, 1, 1),
            (64, 0, 1),
        ] {
            let found = shards(processors, max_keys);
            assert_eq!(found, expected, "{processors} processors, {max_keys} keys");
        }
    }

    /// A table finds an entry by the lowest and the highest bits of its hash: if all entries of a
    /// shard had some of those in common, finding one would be slow.
    #[test]
    fn keys_are_spread_evenly_over_shards_and_within_each() {
        let store = MemoryStore::new();
        let limit = Limit::new("one", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
        let count = store.shard_mask + 1;
        let mut shards: BTreeMap<usize, BTreeSet<(u64, u64)>> = BTreeMap::new();
        for number in 0..count * 200 {
            let key = number.to_string();
            let check = Check::new(&limit, &key, 1);
            let probe = store.probe(&check);
            let shard = store.shard_of(&probe, Timeline::Store);
            assert!(shard < count);
            assert_eq!(store.shard_of(&probe, Timeline::Caller), shard + count);
            let searched = (probe.hash & 0xff, probe.hash >> 57);
            shards.entry(shard).or_default().insert(searched);
        }
        assert_eq!(shards.len(), count);
        for (shard, searched) in shards {
            // Of 200 random ones, more than a hundred differ.
            assert!(searched.len() > 100, "{} in shard {shard}", searched.len());
            let lowest: BTreeSet<u64> = searched.iter().map(|of| of.0).collect();
            assert!(
                lowest.len() > 64,
                "{} places in shard {shard}",
                lowest.len()
            );
        }
    }
}
