//! `Outage`: logs once that the store fails, and once that it decides again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use super::warning::Warning;

/// An outage has ended when the store decides and has not failed for so long: while one node of a
/// cluster is down, requests fail and succeed in turn.
const QUIET: Duration = Duration::from_secs(10);
/// A store that fails again and again is logged so often.
const PAUSE: Duration = Duration::from_secs(60);

/// Whether the store fails, and what has been logged about that.
#[derive(Debug, Default)]
pub(super) struct Outage {
    is_on: AtomicBool,
    history: Mutex<History>,
}

#[derive(Debug, Default)]
struct History {
    /// When the store failed last.
    failed: Option<Instant>,
    logged: Vec<Logged>,
}

/// A kind of error that has been logged.
#[derive(Debug)]
struct Logged {
    kind: ErrorKind,
    at: Instant,
    /// Whether the outage goes on.
    is_on: bool,
}

impl Outage {
    /// Logs a failure, unless its kind has been logged in this outage or less than a minute ago.
    #[cold]
    pub(super) fn failed(&self, error: &StoreError, does: &str) {
        let kind = error.kind();
        let now = Instant::now();
        {
            let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.failed = Some(now);
            self.is_on.store(true, Ordering::Relaxed);
            let logged = history.logged.iter_mut().find(|logged| logged.kind == kind);
            match logged {
                Some(logged) if logged.is_on || now - logged.at < PAUSE => return,
                Some(logged) => (logged.at, logged.is_on) = (now, true),
                None => history.logged.push(Logged {
                    kind,
                    at: now,
                    is_on: true,
                }),
            }
        }
        Warning::StoreFailed.log(format_args!(
            "while the store fails, requests are {does}: {error}"
        ));
    }

    /// Logs the end of an outage. Costs one load while there is none.
    pub(super) fn decided(&self) {
        if self.is_on.load(Ordering::Relaxed) {
            self.end();
        }
    }

    #[cold]
    fn end(&self) {
        // Whoever holds the lock sees to it.
        let Ok(mut history) = self.history.try_lock() else {
            return;
        };
        if history
            .failed
            .is_some_and(|failed| failed.elapsed() < QUIET)
        {
            return;
        }
        self.is_on.store(false, Ordering::Relaxed);
        let mut was_logged = false;
        for logged in &mut history.logged {
            was_logged |= logged.is_on;
            logged.is_on = false;
        }
        drop(history);
        if was_logged {
            tracing::info!(
                name: "tollgate.inbound",
                warning = Warning::StoreFailed.name(),
                "the store decides requests again"
            );
        }
    }
}
