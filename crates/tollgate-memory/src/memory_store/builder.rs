//! `MemoryStoreBuilder`: how many keys a store holds, and by which clock.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::{fmt, thread};

use tollgate_core::Clock;

use super::{MemoryStore, Padded};
use crate::clock::{Source, SystemClock};
use crate::probe::KeyHasher;
use crate::tables::{Answers, Tables};

/// The default bound on keys: 75 to 300 MB, without the counts of sliding buckets and sliding logs,
/// and without events of schedules and leases.
pub(super) const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// Shards per processor: enough that threads rarely contend and that growing one shard is short.
const SHARDS_PER_PROCESSOR: usize = 32;

/// A builder for a [`MemoryStore`].
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
pub struct MemoryStoreBuilder {
    pub(super) max_keys: usize,
    pub(super) clock: Option<DebugClock>,
}

pub(super) struct DebugClock(Arc<dyn Clock>);

impl fmt::Debug for DebugClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.0.now()).finish()
    }
}

impl MemoryStoreBuilder {
    /// Sets the most keys to hold; a key under two limits, schedules or leases counts twice. The
    /// default is one million.
    ///
    /// A key takes at most 300 bytes, and more for sliding buckets, logs, schedules and leases: see
    /// [Memory](MemoryStore#memory).
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets the clock. The default is a [`SystemClock`].
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(DebugClock(Arc::new(clock)));
        self
    }

    /// Builds the store.
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
            schedules: Tables::default(),
            leases: Tables::default(),
            answers: Answers::default(),
            max_keys: self.max_keys,
            held: AtomicUsize::default(),
            hand: AtomicUsize::default(),
        }
    }
}

/// Returns the number of shards per timeline, a power of two.
pub(super) fn shards(processors: usize, max_keys: usize) -> usize {
    // A small store has few shards, so that making room soon covers all of it.
    (processors * SHARDS_PER_PROCESSOR)
        .min(max_keys / 8)
        .min(1 << 16)
        .next_power_of_two()
}
