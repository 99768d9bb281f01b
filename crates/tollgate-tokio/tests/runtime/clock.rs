//! `TokioClock`: a store's clock that follows Tokio's.

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_memory::Clock;

/// A clock that follows Tokio's, which tests pause and advance.
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating_from_micros(1_800_000_000_000_000).saturating_add(self.0.elapsed())
    }
}
