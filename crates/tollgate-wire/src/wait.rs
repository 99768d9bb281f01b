//! `Wait`: until when a call waits for its reply, in a program that may be late itself.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tollgate_core::store::{Delays, Lateness};

/// The delays of this process, by the time since this instant.
static DELAYS: LazyLock<(Instant, Mutex<Delays>)> =
    LazyLock::new(|| (Instant::now(), Mutex::default()));

/// A caller that is polled sooner than this after it was woken is in time, as a timer is.
const SHORTEST_TURN: Duration = Duration::from_millis(2);

/// A wait for a reply: it lasts longer than its limit if the process is late.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    begun: Instant,
    lateness: Lateness,
}

impl Wait {
    /// Returns a wait that began at this instant.
    #[must_use]
    pub fn since(begun: Instant) -> Self {
        Self {
            begun,
            lateness: Lateness::begun(begun.saturating_duration_since(DELAYS.0)),
        }
    }

    /// Returns when it began.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns the time until the next timer, or zero if a reply has taken longer than `limit`.
    #[must_use]
    pub fn timer(&self, limit: Duration, now: Instant) -> Duration {
        let waited = now.saturating_duration_since(self.begun);
        let left = self.lateness.extend(limit).saturating_sub(waited);
        left.min(Lateness::between(limit))
    }

    /// Records when a timer was noticed that was `due` before.
    pub fn note(&mut self, due: Instant, noticed: Instant) {
        let (origin, delays) = &*DELAYS;
        let [due, noticed] = [due, noticed].map(|at| at.saturating_duration_since(*origin));
        let mut delays = delays.lock().unwrap_or_else(PoisonError::into_inner);
        self.lateness.note(&mut delays, due, noticed);
    }

    /// Records that a caller was `polled` some time after it was `woken`, if that is longer than usual.
    pub(super) fn note_turn(woken: Instant, polled: Instant) {
        if polled > woken + SHORTEST_TURN {
            Self::since(woken).note(woken, polled);
        }
    }

    /// Returns how much longer a reply may take, because the process was late.
    pub(super) fn extension(&self) -> Duration {
        self.lateness.extend(Duration::ZERO)
    }

    /// Returns whether a deadline has passed, unless whoever asks is late to do so.
    pub(super) fn is_over(&mut self, deadline: Instant, now: Instant) -> bool {
        self.note(deadline + self.extension(), now);
        deadline + self.extension() <= now
    }

    /// Returns the longest delay of this process during the wait.
    #[must_use]
    pub fn longest_delay(&self) -> Duration {
        self.lateness.longest()
    }
}
