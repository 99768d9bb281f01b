//! `MemoryStore`: a sharded, bounded store within one process.

mod builder;
mod room;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::{fmt, future};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tollgate_core::store::{
    BoxFuture, Check, Checks, Fingerprint, Limits, Operation, Request, State, Verdict, Verdicts,
};
use tollgate_core::{
    Decision, Key, Store, StoreError, SyncStore, Timestamp, inside, lease, schedule,
};

use crate::clock::{Source, Timeline};
use crate::probe::{KeyHasher, Probe, shard_bits};
use crate::shard::Shard;
use crate::tables::{Answers, Tables};

use builder::DEFAULT_MAX_KEYS;
pub use builder::MemoryStoreBuilder;

/// How often to try to make room, since another thread may take what was freed.
pub(crate) const LOOKS_FOR_ROOM: usize = 3;

/// A store in this process that holds a bounded number of keys.
///
/// The store is sharded by key: calls for different keys rarely contend, and calls wait only for
/// short locks. A `.run()` call on up to four limits allocates nothing if its keys are already stored and
/// their logs have grown to full size.
///
/// A state expires once it no longer affects any decision. Each insertion of a new key drops a few
/// states that expired at least a second ago; there is no background thread and no pause.
///
/// # When it is full
///
/// The store never drops a state that has not expired: that would give its key a fresh limit for
/// free. A call for a *new* key in a full store checks up to 512 hash table buckets for expired
/// states to drop, and as many for schedules and for leases that are over. If it finds none, it
/// fails with [`ErrorKind::Full`](tollgate_core::ErrorKind::Full) and consumes nothing. Calls for stored keys still work, and so do
/// denials and peeks for new keys, which store nothing. Calls with a new [id](tollgate_core::CallId)
/// fail, whatever they would be answered, because the answer could not be kept.
///
/// # Memory
///
/// A key takes a bounded number of bytes, whatever its length. Keys of up to 16 bytes are stored as
/// they are; longer keys, and keys with a [rest](tollgate_core::Key::with_rest), are stored as a
/// keyed 128-bit hash. The store therefore takes at most
/// [`max_keys`](MemoryStoreBuilder::max_keys) times the bytes below, and a few hundred bytes per
/// shard:
///
/// | algorithm | bytes per key |
/// |---|---|
/// | fixed window, sliding counter, GCRA, block | 300 |
/// | sliding buckets of `k` buckets | 300 + 48 + 8 (`k` + 1) |
/// | sliding log of an amount `N` | 300 + 16 + 8 max(`N`, 4); 16 instead of 8 if its window is longer than four years |
/// | schedule of `E` events with ids of `L` bytes | 300 + 64 max(`E`, 4) + `E` `L` |
/// | `E` leases with ids of `L` bytes | 300 + 80 max(`E`, 2) + `E` `L` |
/// | answer to a call with an [id](tollgate_core::CallId), under `n` limits | 300 + 256, and 64 `n` more if `n` is above 4 |
/// | the same, to a reservation that starts later | 168 more, and 40 `n` more if `n` is above 4 |
///
/// The 300 bytes are the hash table's share: 65 per bucket, and while keys come and go, a table
/// that has just grown can be less than a quarter full. In a store that only fills up, the share is
/// at most 160. A log grows to its bound only for keys that use up their amount.
///
/// A key under several limits counts once for each. Two to four limits that are called together share a
/// row, which stores the key once: a bucket takes 105 bytes for two limits, and 185 for three or four.
///
/// `E` is the largest number of events that the key has held since it was last empty. The quotas and
/// the horizon of a [`Schedule`](tollgate_core::schedule::Schedule) bound it, by at most
/// [`MAX_EVENTS`](tollgate_core::schedule::MAX_EVENTS), which is 100,000, and an id has at most 200 bytes: a
/// key takes up to 27 MB. With the quotas `1/1m`, `5/1h` and `10/1d` it holds up to 3,700 events in a
/// year, which take 350 KB with ids of 32 bytes.
///
/// For leases, `E` is the largest number that the key has held at once. The amount of a
/// [`ConcurrencyLimiter`](tollgate_core::lease::ConcurrencyLimiter) bounds it, which is at most
/// [`MAX_LEASES`](tollgate_core::lease::MAX_LEASES), which is 1,000: a key takes up to 280 KB. Once
/// its leases are released, a key expires as soon as the clock is past their tokens: at once, unless
/// many were acquired in one microsecond, or the clock stepped back.
/// [`bytes`](Self::bytes) returns what is in use.
///
/// # Chosen keys
///
/// The hash table is seeded with the system's random numbers, for each process and store. Without
/// these secrets, callers who choose keys, or even names of limits, cannot make them collide to
/// slow calls down, and cannot find two long keys with the same stored hash. The table's hash is
/// foldhash, which is fast rather than cryptographic: it does not withstand callers who time single
/// calls so precisely that they learn the secrets.
///
/// # Time
///
/// Requests are decided at the time of the store's [`Clock`](crate::Clock), or at [`Request::at`]; the two are
/// counted separately. States from [`Request::at`] expire by the callers' instants: only
/// [`sweep_at`](Self::sweep_at), or a later such request that needs room, drops them. All callers
/// of one store must therefore take their instants from the same clock.
///
/// # Examples
///
/// ```
/// use tollgate_memory::{Limit, MemoryStore, Quota, RateLimiter, SlidingLog};
///
/// let limit = Limit::new("login", SlidingLog::new(Quota::per_minute(5))?)?;
/// let limiter = RateLimiter::new(MemoryStore::new(), [limit])?;
/// let decision = limiter.check("203.0.113.7").run()?;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    /// First the shards for the store's clock, then as many for callers' instants.
    shards: Box<[Padded]>,
    /// One less than the number of shards per timeline, which is a power of two.
    shard_mask: usize,
    pub(crate) hasher: KeyHasher,
    pub(crate) clock: Source,
    pub(crate) schedules: Tables<schedule::State>,
    pub(crate) leases: Tables<lease::State>,
    pub(crate) answers: Answers,
    max_keys: usize,
    /// The number of keys that are stored or about to be.
    held: AtomicUsize,
    /// The next shard in which to make room.
    hand: AtomicUsize,
}

/// Aligned to cache lines of its own, so that neighbouring locks do not share one.
#[derive(Default)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl MemoryStore {
    /// Returns a store of at most one million keys, on a [`SystemClock`](crate::SystemClock).
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder, to set the bound on keys and the clock.
    #[must_use]
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder {
            max_keys: DEFAULT_MAX_KEYS,
            clock: None,
        }
    }

    /// Returns the most keys that the store holds.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// Returns the number of keys held, including expired ones that have not been dropped yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns whether the store holds no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes used by keys and their states. Visits every key.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (0..self.shards.len())
            .map(|shard| self.lock(shard).bytes())
            .sum::<usize>()
            + self.schedules.bytes()
            + self.leases.bytes()
            + self.answers.tables.bytes()
    }

    #[inline]
    pub(crate) fn now(&self, request: &Request<'_>) -> Timestamp {
        self.time(request.caller_time())
    }

    /// Returns the caller's instant, or the time by the store's clock.
    #[inline]
    pub(crate) fn time(&self, caller: Option<Timestamp>) -> Timestamp {
        match caller {
            Some(now) => now,
            None => self.clock.now(),
        }
    }

    /// Like [`Self::now`], but a clock reading may be a few nanoseconds old.
    #[inline]
    pub(crate) fn early_now(&self, request: &Request<'_>) -> Timestamp {
        match request.caller_time() {
            Some(now) => now,
            None => self.clock.early_now(),
        }
    }

    #[inline(always)]
    pub(crate) fn probe<'r, 'k>(&self, check: &'r Check<'k>) -> Probe<'r, 'k> {
        Probe::new(check, &self.hasher)
    }

    #[inline]
    pub(crate) fn shard_of(&self, key_hash: u64, timeline: Timeline) -> usize {
        let shard = shard_bits(key_hash) & self.shard_mask;
        match timeline {
            Timeline::Caller => shard + self.shard_mask + 1,
            Timeline::Store => shard,
        }
    }

    #[inline]
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock()
    }

    /// Consumes from one limit.
    // Builds no `Request`: writing it to memory and reading it back takes a tenth of a call.
    #[inline(always)]
    pub(crate) fn consume_one(
        &self,
        check: Check<'_>,
    ) -> Result<(Fingerprint, Verdict), StoreError> {
        let probe = self.probe(&check);
        let fingerprint = probe.fingerprint(Timeline::Store);
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.clock.early_now();
        let mut shard = self.lock(self.shard_of(probe.key_hash, Timeline::Store));
        let slot = shard.find_alone(&probe).filter(|_| check.cost() > 0);
        let Some(slot) = slot else {
            // Taken apart and put together again. If this returned the other function's result
            // directly, the compiler would keep both results in memory and copy them, which takes
            // a quarter of a call.
            let (fingerprint, verdict) = self.consume_elsewhere(check, shard)?;
            return Ok((fingerprint, verdict));
        };
        let verdict = slot.consume(&check, now);
        drop(shard);
        // The result is written after the lock is released.
        Ok((fingerprint, verdict))
    }

    /// Decides a request with one check.
    fn decide_one(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verdicts, StoreError> {
        let probe = self.probe(check);
        let timeline = Timeline::of(request);
        let fingerprint = probe.fingerprint(timeline);
        request.validate(|_| fingerprint)?;
        // Reading before locking is fine: a stored state remembers the instant of its last change.
        let now = self.early_now(request);
        let mut shard = self.lock(self.shard_of(probe.key_hash, timeline));
        let Some(slot) = shard.find_mut(&probe) else {
            drop(shard);
            return self.decide_new(request, &probe, timeline);
        };
        Ok(slot.decide(request, fingerprint, now))
    }

    /// Consumes from a state beside others, from one that was not stored a moment ago, or nothing.
    ///
    /// Takes a copy, and looks the key up again: what a call passes on by reference is written to
    /// memory first, also when it does not come here.
    #[cold]
    fn consume_elsewhere(
        &self,
        check: Check<'_>,
        mut shard: MutexGuard<'_, Shard>,
    ) -> Result<(Fingerprint, Verdict), StoreError> {
        let probe = self.probe(&check);
        let now = self.clock.early_now();
        if let Some(slot) = shard.find_mut(&probe).filter(|_| check.cost() > 0) {
            let verdict = slot.consume(&check, now);
            return Ok((probe.fingerprint(Timeline::Store), verdict));
        }
        drop(shard);
        let request = Request::consume(check);
        // A limit that lacks its time zone admits nothing, so its keys are never stored.
        request.validate_checks()?;
        self.decide_new(&request, &probe, Timeline::Store)?
            .into_one()
    }

    /// Decides a request for a key that was not stored a moment ago.
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
            let mut shard = self.lock(self.shard_of(probe.key_hash, timeline));
            // Read with the lock held. Another thread may just have dropped this key's expired
            // state; an earlier reading might fall into the window that is now forgotten.
            let now = self.now(request);
            if let Some(slot) = shard.find_mut(probe) {
                return Ok(slot.decide(request, fingerprint, now));
            }
            let evaluation = request.evaluate(State::FRESH, now);
            let mut state = State::default();
            if !evaluation.writes_to(0) {
                return Ok(evaluation.apply(fingerprint, &mut state));
            }
            if self.reserve(1) {
                let decision = evaluation.apply(fingerprint, &mut state);
                shard.insert(probe, &[], state, &self.hasher);
                self.sweep_some(&mut shard, now, timeline);
                return Ok(decision);
            }
            drop(shard);
            // If there was no room, another call may have used the last of it to insert this key:
            // look once more.
            if !has_room {
                break;
            }
            has_room = self.make_room(1, now, timeline);
        }
        Err(self.full())
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
        if request.has_id() {
            return self.decide_once(request);
        }
        match (request.checks(), request.operation(), request.caller_time()) {
            ([check], Operation::Consume, None) => {
                let (fingerprint, verdict) = self.consume_one(*check)?;
                Ok(Verdicts::of_one(fingerprint, verdict))
            }
            ([check], ..) => self.decide_one(request, check),
            _ => self.decide_several(request),
        }
    }

    #[inline(always)]
    fn consume_now<'l>(
        &self,
        limits: &'l Limits,
        key: Key<'_>,
        cost: u64,
    ) -> Result<Decision<'l>, StoreError> {
        let [limit] = &**limits else {
            let decision = self.consume_several(limits, key, cost)?;
            return Ok(inside::remade(decision));
        };
        let (fingerprint, verdict) = self.consume_one(Check::new(limit, key, cost))?;
        Ok(inside::decision(limits, fingerprint, verdict))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        for check in checks {
            let probe = self.probe(check);
            for timeline in [Timeline::Caller, Timeline::Store] {
                let shard = self.shard_of(probe.key_hash, timeline);
                let removed = self.lock(shard).remove(&probe, &self.hasher);
                self.release(usize::from(removed));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    // The future holds the request once: that of an `async fn` holds its arguments and its variables.
    fn decide<'a: 'f, 'f>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'f, Result<Verdicts, StoreError>> {
        Box::pin(future::poll_fn(move |_| {
            Poll::Ready(self.decide_now(&request))
        }))
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.reset_now(&checks)
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        let (_, request) = request.split_id()?;
        request.validate_operation()
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        Some(self)
    }
}
