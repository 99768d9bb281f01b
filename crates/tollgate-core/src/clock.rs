//! `Clock`: where stores and layers read the time, and `ManualClock` for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Timestamp;

/// A source of the current time, for a store in memory and for layers.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current instant.
    ///
    /// Stores call this while they hold a lock, so it must not call them.
    fn now(&self) -> Timestamp;
}

/// A clock for tests that moves only when you set or advance it. Clones share one time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{Clock, ManualClock, Timestamp};
///
/// let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
/// // A store made by `MemoryStore::builder().clock(clock.clone())` decides at this clock's time.
/// clock.clone().advance(Duration::from_secs(1));
/// assert_eq!(clock.now().as_micros(), 1_000_000);
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
