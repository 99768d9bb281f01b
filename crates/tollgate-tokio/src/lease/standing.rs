//! `Standing`: whether a lease is held.

use tokio::time::Instant;

/// Whether the lease is held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    /// Until this instant.
    Held(Instant),
    Lost,
}

impl Standing {
    /// Returns whether the lease is certainly held, now.
    ///
    /// Reads the clock, so call it while the standing is borrowed: then everybody agrees on whether
    /// a renewal came in time.
    pub(super) fn is_held(self) -> bool {
        match self {
            Self::Held(deadline) => Instant::now() < deadline,
            Self::Lost => false,
        }
    }
}
