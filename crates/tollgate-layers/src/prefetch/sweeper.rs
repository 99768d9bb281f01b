//! `Sweepers`: at most one task that gives back goes on at a time, wherever it runs.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_core::Timestamp;

use super::table::Table;
use crate::sync::Mutex;

/// The last task that was started, and who tells it that it is to look sooner.
pub(super) struct Sweepers(Mutex<Last>, Arc<Notify>);

struct Last {
    number: u64,
    /// Until when it needs no other: it may end with its runtime, or stand still with it.
    until: Timestamp,
    /// Within which time the keys that it looks after use units, at least.
    within: Duration,
}

impl Default for Sweepers {
    fn default() -> Self {
        let none = Last {
            number: 0,
            until: Timestamp::UNIX_EPOCH,
            within: Duration::MAX,
        };
        Self(Mutex::new(none), Arc::default())
    }
}

impl Sweepers {
    fn with<T>(&self, change: impl FnOnce(&mut Last) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of the task to be started for a key that uses units `within` this time, if there is
    /// none that has gone on lately. One that has is told to look often enough.
    pub(super) fn start(
        &self,
        now: Timestamp,
        patience: Duration,
        within: Duration,
    ) -> Option<u64> {
        self.with(|last| {
            if now < last.until {
                if within < last.within {
                    last.within = within;
                    self.1.notify_one();
                }
                return None;
            }
            last.number += 1;
            (last.until, last.within) = (now.saturating_add(patience), within);
            Some(last.number)
        })
    }

    /// Returns who tells the task that it is to look sooner.
    pub(super) fn sooner(&self) -> Arc<Notify> {
        Arc::clone(&self.1)
    }

    /// Returns within which time the keys that it looks after use units, at least.
    pub(super) fn within(&self) -> Duration {
        self.with(|last| last.within)
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
                None => (Timestamp::UNIX_EPOCH, Duration::MAX),
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
