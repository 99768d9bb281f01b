//! `Outage`: logs once that the store fails, and once that it decides again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use super::warning::Warning;

/// How long the store must not have failed for its outage to end: while one node of a cluster is
/// down, requests fail and succeed in turn.
const QUIET: Duration = Duration::from_secs(30);

/// Whether the store fails, and what has been logged about that.
#[derive(Debug, Default)]
pub(super) struct Outage {
    is_on: AtomicBool,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    last: Option<Instant>,
    /// The kinds of errors that have been logged in this outage.
    logged: Vec<ErrorKind>,
}

impl Outage {
    /// Logs a failure, unless its kind has been logged in this outage.
    #[cold]
    pub(super) fn failed(&self, error: &StoreError, does: &str) {
        {
            let failures = self.failures.lock();
            let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
            failures.last = Some(Instant::now());
            self.is_on.store(true, Ordering::Relaxed);
            if failures.logged.contains(&error.kind()) {
                return;
            }
            failures.logged.push(error.kind());
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
        // No request waits for another one that looks.
        let Ok(mut failures) = self.failures.try_lock() else {
            return;
        };
        let last = failures.last;
        if last.is_none_or(|last| last.elapsed() < QUIET) {
            return;
        }
        *failures = Failures::default();
        self.is_on.store(false, Ordering::Relaxed);
        drop(failures);
        tracing::info!(
            name: "tollgate.inbound",
            warning = Warning::StoreFailed.name(),
            "the store decides requests again, and has not failed for {QUIET:?}"
        );
    }
}
