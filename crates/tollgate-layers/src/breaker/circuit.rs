//! `Circuit`: decides whether a call may reach the store, by how the calls before it ended.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::store::{Delays, Lateness};

/// So many failures in a row, or [`FAILED`] of the last 16 calls, and the store is left alone.
const IN_A_ROW: u16 = 0b111;
const FAILED: u32 = 8;
/// So many successful tries in a row, and everybody may call again.
const SUCCESSES: u32 = 3;
/// How much longer a call may take for each that was pending before it: a server decides ten
/// thousand calls a second, or more.
const EACH_BEFORE: Duration = Duration::from_micros(100);
/// A task whose try should have ended more than this time ago has ended with its runtime, or stands still with it.
const OVERDUE: Duration = Duration::from_secs(1);

/// What is known of a store, by the calls to it.
///
/// What is measured is the store, not its callers, nor the runtime that runs them. A call may take longer
/// by the [`Lateness`] of the program, and what takes too long all the same only makes the store suspect, as
/// do callers who all go away: a try, whose caller stays, then shows whether it answers.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) slow_after: Duration,
    pub(super) retry_every: Duration,
    phase: Phase,
    /// How the last calls ended, the latest in the lowest bit: 1 for a failure.
    ended: u16,
    /// Calls that have not ended.
    pending: u32,
    /// When the store last answered, at the earliest: its caller was still waiting then.
    alive_at: Timestamp,
    /// When the first call since the last answer was sent.
    unanswered_since: Option<Timestamp>,
    /// Whether answers take too long, or do not come.
    is_suspect: bool,
    /// Counts the changes of phase: what was sent before one says nothing after it.
    era: u64,
    /// Counts the tasks that try: each replaces the one before.
    tasks: u64,
    /// Until when the last task, or a caller that tries, is waited for.
    tries_until: Timestamp,
    /// How late the timers of all calls are.
    delays: Delays,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Closed,
    /// Nobody calls but those who try, one at a time, from this instant on.
    Open {
        until: Timestamp,
        succeeded: u32,
    },
}

/// A call that may reach the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    era: u64,
    is_try: bool,
    at: Timestamp,
    /// How long it may take if the program is never late.
    allowed: Duration,
    /// From when on it waits for an answer to anybody.
    quiet_since: Timestamp,
    /// When the timer that looks at it is due, if there is one.
    timer: Option<Timestamp>,
    lateness: Lateness,
}

impl Sent {
    /// Returns whether the call takes too long.
    fn is_slow(&self, now: Timestamp) -> bool {
        now.saturating_duration_since(self.at) > self.lateness.extend(self.allowed)
    }
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

/// What a task that tries does next.
#[derive(Debug)]
pub(super) enum Next {
    Wait(Duration),
    Try(Sent),
    /// There is nothing to try, or another task does.
    Nothing,
}

impl Circuit {
    pub(super) fn new(slow_after: Duration, retry_every: Duration) -> Self {
        Self {
            slow_after,
            retry_every,
            phase: Phase::Closed,
            ended: 0,
            pending: 0,
            alive_at: Timestamp::UNIX_EPOCH,
            unanswered_since: None,
            is_suspect: false,
            era: 0,
            tasks: 0,
            tries_until: Timestamp::UNIX_EPOCH,
            delays: Delays::default(),
        }
    }

    /// Returns whether the store is left alone.
    pub(super) fn is_open(&self) -> bool {
        self.phase != Phase::Closed
    }

    /// Lets a call reach the store, or returns `None`.
    pub(super) fn send(&mut self, now: Timestamp) -> Option<Sent> {
        if self.is_open() {
            return None;
        }
        let before = self.pending;
        self.pending += 1;
        let _ = self.unanswered_since.get_or_insert(now);
        Some(self.sent(now, EACH_BEFORE * before, false))
    }

    fn sent(&self, at: Timestamp, longer: Duration, is_try: bool) -> Sent {
        Sent {
            era: self.era,
            is_try,
            at,
            allowed: self.slow_after.saturating_add(longer),
            quiet_since: at,
            timer: None,
            lateness: Lateness::begun(since_epoch(at)),
        }
    }

    /// Returns when somebody should try, if that is not for every caller to do.
    fn due(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Open { until, .. } => Some(until),
            Phase::Closed if self.is_suspect => Some(Timestamp::UNIX_EPOCH),
            Phase::Closed => Some(self.unanswered_since?.saturating_add(self.slow_after)),
        }
    }

    /// Returns the number of a task to start, if none tries although one should: the store is left alone or
    /// suspect, or calls were sent for longer than one may take and none was answered.
    pub(super) fn needs_task(&mut self, now: Timestamp) -> Option<u64> {
        let due = self.due()?;
        if now <= self.tries_until || !self.is_open() && now <= due {
            return None;
        }
        self.tries_until = self.overdue(now.max(due));
        self.tasks += 1;
        Some(self.tasks)
    }

    /// Returns what the task of this number does next.
    pub(super) fn next_try(&mut self, task: u64, now: Timestamp) -> Next {
        let Some(due) = self.due().filter(|_| task == self.tasks) else {
            return Next::Nothing;
        };
        let wait = due.saturating_duration_since(now);
        self.tries_until = self.overdue(now.max(due));
        if wait.is_zero() {
            Next::Try(self.sent(now, Duration::ZERO, true))
        } else if self.is_open() {
            Next::Wait(wait)
        } else {
            self.tries_until = now;
            Next::Nothing
        }
    }

    /// Returns until when a try is waited for that begins at this instant.
    fn overdue(&self, begins: Timestamp) -> Timestamp {
        let lasts = self.slow_after.saturating_add(OVERDUE);
        begins.saturating_add(lasts)
    }

    /// Lets a call try a store that is left alone if no task can, or returns `None`.
    pub(super) fn try_alone(&mut self, now: Timestamp) -> Option<Sent> {
        if self.due()? > now || now < self.tries_until {
            return None;
        }
        self.tries_until = self.overdue(now);
        Some(self.sent(now, Duration::ZERO, true))
    }

    /// Records that a timer looks at a call that waits, first when it begins to, and then when the timer is
    /// noticed. Returns how long after that it should fire again; `None` once it need not.
    pub(super) fn still_waits(&mut self, sent: &mut Sent, now: Timestamp) -> Option<Duration> {
        self.note(sent, now);
        sent.timer = None;
        if sent.era != self.era {
            return None;
        }
        sent.quiet_since = sent.quiet_since.max(self.alive_at);
        let allowed = sent.lateness.extend(sent.allowed);
        let quiet = now.saturating_duration_since(sent.quiet_since);
        if quiet > allowed {
            self.is_suspect = true;
            return None;
        }
        // Longer than it may take.
        let left = (allowed - quiet).saturating_add(Duration::from_micros(1));
        let left = left.min(Lateness::between(sent.allowed));
        sent.timer = Some(now.saturating_add(left));
        Some(left)
    }

    /// Notes how late the timer is that looks at a call.
    fn note(&mut self, sent: &mut Sent, now: Timestamp) {
        if let Some(due) = sent.timer {
            let (due, now) = (since_epoch(due), since_epoch(now));
            sent.lateness.note(&mut self.delays, due, now);
        }
    }

    /// Records how a call ended.
    pub(super) fn end(&mut self, mut sent: Sent, end: End, now: Timestamp) {
        if sent.era != self.era {
            return;
        }
        self.note(&mut sent, now);
        let is_slow = sent.is_slow(now);
        let says_nothing = end == End::Unasked || end == End::Dropped && !is_slow;
        let failed = end == End::Failed || is_slow;
        if end == End::Answered {
            self.alive_at = self.alive_at.max(sent.quiet_since);
            self.unanswered_since = None;
        }
        if sent.is_try {
            self.tries_until = now;
        } else {
            self.pending -= 1;
        }
        match &mut self.phase {
            _ if says_nothing => {}
            Phase::Closed if sent.is_try => {
                if failed {
                    self.open(now);
                } else {
                    self.is_suspect = false;
                    self.ended = 0;
                }
            }
            Phase::Closed => {
                self.ended = self.ended << 1 | u16::from(failed);
                let many = self.ended & IN_A_ROW == IN_A_ROW || self.ended.count_ones() >= FAILED;
                if many && end == End::Failed {
                    self.open(now);
                }
                self.is_suspect |= many;
            }
            Phase::Open { .. } if failed => self.open(now),
            Phase::Open { succeeded, .. } => {
                *succeeded += 1;
                if *succeeded == SUCCESSES {
                    self.close();
                }
            }
        }
    }

    fn open(&mut self, now: Timestamp) {
        self.phase = Phase::Open {
            until: now.saturating_add(self.retry_every),
            succeeded: 0,
        };
        self.era += 1;
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.era += 1;
        self.ended = 0;
        self.pending = 0;
        self.unanswered_since = None;
        self.is_suspect = false;
    }
}

fn since_epoch(instant: Timestamp) -> Duration {
    instant.saturating_duration_since(Timestamp::UNIX_EPOCH)
}
