//! `SystemClock`: the clock of a store, unless another one is set.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tollgate_core::store::Request;
use tollgate_core::{Clock, Timestamp};

use crate::counter::{Counter, TimeStampCounter, nanos_since};

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

/// The clock that a state's instants come from.
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
