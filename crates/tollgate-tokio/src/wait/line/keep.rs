//! What happens to starts that nobody uses: they are given back, and fewer are reserved.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{AHEAD, Line, Start};

/// How long a line is kept for that, after the last start that nobody used.
const MEMORY: Duration = Duration::from_secs(10);
/// The least that a line reserves ahead: longer than lines let each other go first.
const LEAST_AHEAD: Duration = Duration::from_millis(10);
/// How much further ahead a line reserves after each start that is used, and after each denial,
/// because others reserve further ahead. It halves that after each start that is not used.
///
/// A small step keeps lines that are often empty from outbidding each other: a start that is due
/// after its callers have left is lost, because others have reserved later ones. With no step at
/// all, a line that loses none would get all.
const STEP: Duration = Duration::from_micros(200);

/// What the task that keeps a line does next.
pub(in crate::wait) enum Kept {
    /// It gives these back, and then says so by [`Line::gave_back`].
    GiveBack(Vec<Start>),
    Sleep(Instant),
    Done,
}

impl Line {
    /// A start was used, or others had reserved all starts so far ahead.
    pub(super) fn reserve_further_ahead(&mut self) {
        self.ahead = (self.ahead + STEP).min(AHEAD);
    }

    /// Returns the least that this line reserves ahead: a start that is reserved less far ahead than
    /// the way takes is late.
    pub(super) fn least_ahead(&self) -> Duration {
        LEAST_AHEAD.max(self.way).min(AHEAD)
    }

    /// Returns whether a task must be started that keeps this line: nobody uses what it has. Wakes
    /// it if there is one.
    pub(in crate::wait) fn wants_keeper(&mut self) -> bool {
        if !self.has_spare {
            return false;
        }
        if self.is_kept {
            self.keeper.notify_one();
        }
        !mem::replace(&mut self.is_kept, true)
    }

    /// Returns what wakes that task.
    pub(in crate::wait) fn keeper(&self) -> Arc<Notify> {
        Arc::clone(&self.keeper)
    }

    /// Returns what the task does next that keeps this line.
    pub(in crate::wait) fn keep(&mut self, now: Instant) -> Kept {
        let spare = self.starts.take_spare(Some(now));
        if !spare.is_empty() {
            let delays = spare
                .iter()
                .filter_map(|start| start.verdicts.delay().duration());
            if let Some(delay) = delays.filter(|delay| !delay.is_zero()).min() {
                self.ahead = (self.ahead.min(delay) / 2).max(self.least_ahead());
                self.remembered = now + MEMORY;
            }
            self.is_giving_back = true;
            return Kept::GiveBack(spare);
        }
        self.has_spare = false;
        if let Some(at) = self.starts.first_spare() {
            return Kept::Sleep(at);
        }
        self.is_kept = false;
        Kept::Done
    }

    /// Returns until when the line is to be kept although nobody is in it.
    pub(in crate::wait) fn remembered(&self) -> Instant {
        self.remembered
    }

    /// What nobody used was given back.
    pub(in crate::wait) fn gave_back(&mut self) {
        self.is_giving_back = false;
        for number in mem::take(&mut self.after_giving_back) {
            self.wake(Some(number));
        }
        self.wake_first();
    }

    /// The runtime has ended that would remove the line.
    pub(in crate::wait) fn forget(&mut self, now: Instant) {
        self.remembered = now;
    }

    /// The task has ended with its runtime: what it would have given back stays consumed.
    pub(in crate::wait) fn lost_keeper(&mut self, now: Instant) {
        self.forget(now);
        drop(self.starts.take_spare(None));
        self.has_spare = false;
        self.is_kept = false;
        self.gave_back();
    }
}
