//! The clocks of a store: `SystemClock`, and `ManualClock` for tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::Timestamp;

use crate::counter::{Counter, TimeStampCounter, nanos_since};

/// A source of the current time for a [`MemoryStore`](crate::MemoryStore).
pub trait Clock: Send + Sync + 'static {
    /// Returns the current instant.
    ///
    /// The store calls this while it holds a lock, so it must not call the store.
    fn now(&self) -> Timestamp;
}

/// A clock that starts at the system's time and never steps back.
///
/// It runs as [`Instant`] does, so no reading on any thread is earlier than a previous one. It
/// ignores later adjustments of the system clock: within one process, even time matters more than
/// the right time of day. Aligned windows therefore drift from the wall clock as the machine's
/// timer does, and may fall behind it while the machine sleeps.
///
/// On x86-64 Linux that uses the processor's time stamp counter as its clock source, most readings
/// come from that counter, at a third of the cost of [`Instant::now`]. The clock compares the two
/// about every millisecond, so a reading is off by at most a microsecond. Elsewhere every reading
/// comes from [`Instant`].
#[derive(Clone)]
pub struct SystemClock {
    passed: Passed,
    origin_us: u64,
}

/// The source of the nanoseconds since the clock was made.
#[derive(Clone)]
enum Passed {
    Counter(Arc<Counter<TimeStampCounter>>),
    Since(Instant),
}

impl SystemClock {
    /// Returns a clock that starts at the system's time.
    ///
    /// A system clock set before 1970 or after 2255 counts as the nearest of those.
    #[must_use]
    pub fn new() -> Self {
        let origin = Instant::now();
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            passed: match TimeStampCounter::trusted(origin) {
                Some(counter) => Passed::Counter(Arc::new(Counter::new(counter))),
                None => Passed::Since(origin),
            },
            origin_us: Timestamp::UNIX_EPOCH
                .saturating_add(since_epoch)
                .as_micros(),
        }
    }

    /// Returns the current instant, but may read the clock before earlier instructions have
    /// finished.
    ///
    /// Cheaper than [`Clock::now`].
    #[inline(always)]
    fn early_now(&self) -> Timestamp {
        self.after(match &self.passed {
            Passed::Counter(counter) => counter.early_now(),
            Passed::Since(origin) => nanos_since(*origin),
        })
    }

    #[inline]
    fn after(&self, nanos: u64) -> Timestamp {
        Timestamp::saturating_from_micros(self.origin_us + nanos / 1_000)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        self.after(match &self.passed {
            Passed::Counter(counter) => counter.now(),
            Passed::Since(origin) => nanos_since(*origin),
        })
    }
}

impl fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SystemClock").field(&self.now()).finish()
    }
}

/// A clock for tests that moves only when you set or advance it. Clones share one time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_memory::{Gcra, Limit, ManualClock, MemoryStore, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limit = Limit::new("api", Gcra::new(Quota::per_second(1))?)?;
/// let limiter = RateLimiter::new(store, [limit])?;
/// assert!(limiter.check("alice").run()?.is_allowed());
/// assert!(limiter.check("alice").run()?.is_denied());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check("alice").run()?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Returns a clock set to a fixed instant in 2020.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Timestamp::saturating_from_micros(1_600_000_000_000_000))
    }

    /// Returns a clock set to `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_micros())))
    }

    /// Moves the clock to `now`, forwards or back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock forwards by `by`, truncated to microseconds.
    pub fn advance(&self, by: Duration) {
        let moved = |micros| {
            let now = Timestamp::saturating_from_micros(micros);
            Some(now.saturating_add(by).as_micros())
        };
        // The closure always returns `Some`, so this always stores.
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating_from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// The clock of a store; avoids a virtual call for [`SystemClock`].
pub(crate) enum Source {
    System(SystemClock),
    Other(Arc<dyn Clock>),
}

impl Source {
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System(clock) => clock.now(),
            Self::Other(clock) => clock.now(),
        }
    }

    /// Returns the current instant, or one from a few nanoseconds ago.
    #[inline]
    pub(crate) fn early_now(&self) -> Timestamp {
        match self {
            Self::System(clock) => clock.early_now(),
            Self::Other(clock) => clock.now(),
        }
    }
}
