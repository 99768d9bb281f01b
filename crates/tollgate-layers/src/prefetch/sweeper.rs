//! `Sweeper`: at most one task that gives back goes on at a time, wherever it runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tollgate_core::Timestamp;

use super::table::Table;
use crate::sync::{Mutex, lock};

/// The last task that was started, and who tells it that it is to look sooner.
#[derive(Default)]
pub(super) struct Sweeper(Mutex<Last>, Arc<Notify>);

#[derive(Default)]
struct Last {
    number: u64,
    task: Option<AbortHandle>,
    /// Until when it needs no other: it may stand still with its runtime.
    until: Timestamp,
    /// Within which time the keys that it looks after use units, at least.
    within: Duration,
}

impl Sweeper {
    /// Returns the number of the task to be started for a key that uses units `within` this time, if there is
    /// none that has gone on lately. One that has is told to look often enough.
    pub(super) fn start(
        &self,
        now: Timestamp,
        patience: Duration,
        within: Duration,
    ) -> Option<u64> {
        let mut last = lock(&self.0);
        // It ends with its runtime.
        let has_ended = last.task.as_ref().is_some_and(AbortHandle::is_finished);
        if now < last.until && !has_ended {
            if within < last.within {
                last.within = within;
                self.1.notify_one();
            }
            return None;
        }
        last.number += 1;
        (last.task, last.until, last.within) = (None, now.saturating_add(patience), within);
        Some(last.number)
    }

    /// Notes the task with this number.
    pub(super) fn started(&self, own: u64, task: AbortHandle) {
        let mut last = lock(&self.0);
        if own == last.number {
            last.task = Some(task);
        }
    }

    /// Returns who tells the task that it is to look sooner.
    pub(super) fn sooner(&self) -> Arc<Notify> {
        Arc::clone(&self.1)
    }

    /// Returns within which time the keys that it looks after use units, at least.
    pub(super) fn within(&self) -> Duration {
        lock(&self.0).within
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
        let mut last = lock(&self.0);
        if own != last.number {
            return None;
        }
        let shortest = table.shortest();
        last.within = shortest.unwrap_or_default();
        last.until = shortest.map_or(Timestamp::UNIX_EPOCH, |_| now.saturating_add(patience));
        shortest
    }
}
