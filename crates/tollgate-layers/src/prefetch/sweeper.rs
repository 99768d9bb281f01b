//! `Sweepers`: at most one task that gives back goes on at a time, wherever it runs.

use std::sync::PoisonError;
use std::time::Duration;

use tollgate_core::Timestamp;

use super::table::Table;
use crate::sync::Mutex;

/// The last task that was started, and until when it needs no other: it may end with its runtime, or stand
/// still with it.
#[derive(Default)]
pub(super) struct Sweepers(Mutex<Option<(u64, Timestamp)>>);

impl Sweepers {
    fn with<T>(&self, change: impl FnOnce(&mut (u64, Timestamp)) -> T) -> T {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(last.get_or_insert((0, Timestamp::UNIX_EPOCH)))
    }

    /// Returns the number of the task to be started, if there is none that has gone on lately.
    pub(super) fn start(&self, now: Timestamp, patience: Duration) -> Option<u64> {
        self.with(|(number, until)| {
            let is_needed = now >= *until;
            if is_needed {
                (*number, *until) = (*number + 1, now.saturating_add(patience));
            }
            is_needed.then_some(*number)
        })
    }

    /// Returns whether the task with this number goes on: not after another one was started, nor if nothing
    /// is left to look after. A call that looks into this later starts another; one that did earlier has its
    /// key in the table.
    pub(super) fn goes_on(
        &self,
        own: u64,
        table: &Table,
        now: Timestamp,
        patience: Duration,
    ) -> bool {
        self.with(|(number, until)| {
            let goes_on = own == *number && !table.is_empty();
            if goes_on {
                *until = now.saturating_add(patience);
            } else if own == *number {
                *until = Timestamp::UNIX_EPOCH;
            }
            goes_on
        })
    }

    /// Notes that the task with this number has ended.
    pub(super) fn end(&self, own: u64) {
        self.with(|(number, until)| {
            if own == *number {
                *until = Timestamp::UNIX_EPOCH;
            }
        });
    }
}
