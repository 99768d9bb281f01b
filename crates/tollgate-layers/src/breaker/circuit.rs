//! `Circuit`: decides whether a call may reach the store, by how the calls before it ended.

use std::time::Duration;

use tollgate_core::Timestamp;

/// So many failures in a row, or [`FAILED`] of the last 16 calls, and the store is left alone.
const IN_A_ROW: u16 = 0b111;
const FAILED: u32 = 8;
/// So many successes of single callers in a row, and everybody may call again.
const SUCCESSES: u32 = 3;
/// How much longer a call may take for each that was pending before it: a server decides ten
/// thousand calls a second, or more.
const EACH_BEFORE: Duration = Duration::from_micros(100);

/// What is known of a store, by the calls to it.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) slow_after: Duration,
    pub(super) retry_every: Duration,
    phase: Phase,
    /// How the last calls ended, the latest in the lowest bit: 1 for a failure.
    ended: u16,
    /// Calls that have not ended.
    pending: u32,
    /// When the first call was sent that no answer has come since.
    unanswered_since: Option<Timestamp>,
    /// Counts the changes of phase: what was sent before one says nothing after it.
    era: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Closed,
    /// Nobody calls, until this instant.
    Open(Timestamp),
    /// One caller calls, since this instant; so many before it succeeded.
    Probing(u32, Timestamp),
    /// Nobody calls, and the next one may.
    Ready(u32),
}

/// A call that may reach the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sent {
    at: Timestamp,
    era: u64,
    /// How many calls were pending.
    before: u32,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    Answered,
    Failed,
    /// It was refused before it reached the store.
    Unasked,
    /// Its caller went away.
    Dropped,
}

impl Circuit {
    pub(super) fn new(slow_after: Duration, retry_every: Duration) -> Self {
        Self {
            slow_after,
            retry_every,
            phase: Phase::Closed,
            ended: 0,
            pending: 0,
            unanswered_since: None,
            era: 0,
        }
    }

    /// Returns whether the store is left alone.
    pub(super) fn is_open(&self) -> bool {
        self.phase != Phase::Closed
    }

    /// Lets a call reach the store, or returns `None`.
    pub(super) fn send(&mut self, now: Timestamp) -> Option<Sent> {
        let mut before = 0;
        match self.phase {
            Phase::Closed => {
                let since = *self.unanswered_since.get_or_insert(now);
                if self.pending > 0 && now.saturating_duration_since(since) > self.slow_after {
                    self.open(now);
                    return None;
                }
                before = self.pending;
                self.pending += 1;
            }
            Phase::Open(until) if now < until => return None,
            Phase::Open(_) => self.enter(Phase::Probing(0, now)),
            Phase::Ready(successes) => self.enter(Phase::Probing(successes, now)),
            // A caller that neither waits nor goes away does not keep the others out.
            Phase::Probing(_, since) if now.saturating_duration_since(since) > self.patience() => {
                self.enter(Phase::Probing(0, now));
            }
            Phase::Probing(..) => return None,
        }
        Some(Sent {
            at: now,
            era: self.era,
            before,
        })
    }

    /// Records how a call ended.
    pub(super) fn end(&mut self, sent: Sent, end: End, now: Timestamp) {
        if sent.era != self.era {
            return;
        }
        // Calls wait for those before them, also if the server is fast.
        let allowed = self.slow_after.saturating_add(EACH_BEFORE * sent.before);
        let is_slow = now.saturating_duration_since(sent.at) > allowed;
        let failed = end == End::Failed || is_slow;
        match self.phase {
            Phase::Closed => {
                self.pending -= 1;
                if self.pending == 0 {
                    self.unanswered_since = None;
                } else if matches!(end, End::Answered | End::Failed) {
                    self.unanswered_since = Some(now);
                }
                if end == End::Unasked || end == End::Dropped && !is_slow {
                    return;
                }
                self.ended = self.ended << 1 | u16::from(failed);
                if self.ended & IN_A_ROW == IN_A_ROW || self.ended.count_ones() >= FAILED {
                    self.open(now);
                }
            }
            Phase::Probing(successes, _) if end == End::Unasked => {
                self.enter(Phase::Ready(successes));
            }
            Phase::Probing(..) if failed || end == End::Dropped => self.open(now),
            Phase::Probing(successes, _) if successes + 1 < SUCCESSES => {
                self.enter(Phase::Ready(successes + 1));
            }
            Phase::Probing(..) => {
                self.enter(Phase::Closed);
                self.ended = 0;
                self.pending = 0;
                self.unanswered_since = None;
            }
            Phase::Open(_) | Phase::Ready(_) => {}
        }
    }

    /// Returns how long a single caller may try before another does.
    fn patience(&self) -> Duration {
        self.slow_after.saturating_add(self.retry_every)
    }

    fn open(&mut self, now: Timestamp) {
        self.enter(Phase::Open(now.saturating_add(self.retry_every)));
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.era += 1;
    }
}
