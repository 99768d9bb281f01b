//! `Sweepers`: at most one task that gives back goes on at a time, wherever it runs.

use std::sync::PoisonError;
use std::time::Duration;

use tollgate_core::Timestamp;

use super::table::Table;
use crate::sync::Mutex;

/// The last task that was started.
pub(super) struct Sweepers(Mutex<Last>);

struct Last {
    number: u64,
    /// Until when it needs no other: it may end with its runtime, or stand still with it.
    until: Timestamp,
    /// Within which time the keys that it looks after use units, at least.
    within: Duration,
}

impl Default for Sweepers {
    fn default() -> Self {
        Self(Mutex::new(Last {
            number: 0,
            until: Timestamp::UNIX_EPOCH,
            within: Duration::ZERO,
        }))
    }
}

impl Sweepers {
    fn with<T>(&self, change: impl FnOnce(&mut Last) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of the task to be started for a key that uses units `within` this time, if there is
    /// none that has gone on lately, or looks often enough.
    pub(super) fn start(
        &self,
        now: Timestamp,
        patience: Duration,
        within: Duration,
    ) -> Option<u64> {
        self.with(|last| {
            if now < last.until && within >= last.within {
                return None;
            }
            last.number += 1;
            (last.until, last.within) = (now.saturating_add(patience), within);
            Some(last.number)
        })
    }

    /// Returns within which time units are used that the task with this number goes on to look after, at
    /// least, or `None` after another one was started, or if nothing is left to look after. A call that looks
    /// into this later starts another; one that did earlier has its key in the table.
    pub(super) fn goes_on(
        &self,
        own: u64,
        table: &Table,
        now: Timestamp,
        patience: Duration,
    ) -> Option<Duration> {
        self.with(|last| {
            if own != last.number {
                return None;
            }
            let shortest = table.shortest();
            (last.until, last.within) = match shortest {
                Some(within) => (now.saturating_add(patience), within),
                None => (Timestamp::UNIX_EPOCH, Duration::ZERO),
            };
            shortest
        })
    }

    /// Notes that the task with this number has ended.
    pub(super) fn end(&self, own: u64) {
        self.with(|last| {
            if own == last.number {
                last.until = Timestamp::UNIX_EPOCH;
            }
        });
    }
}
