//! The clock of a layer, unless a test sets another one.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tollgate_core::{Clock, Timestamp};

/// Starts at the system's time, and runs as [`Instant`] does.
struct Running {
    origin: Instant,
    began: Timestamp,
}

/// Returns a clock that starts now, and never steps back.
pub(crate) fn running() -> Arc<dyn Clock> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Arc::new(Running {
        origin: Instant::now(),
        began: Timestamp::UNIX_EPOCH.saturating_add(since_epoch.unwrap_or_default()),
    })
}

impl Clock for Running {
    fn now(&self) -> Timestamp {
        self.began.saturating_add(self.origin.elapsed())
    }
}
