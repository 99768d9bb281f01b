//! `Circuit`: decides whether a call may reach the store, by how the calls before it ended.

use std::time::Duration;

use tollgate_core::Timestamp;

/// So many failures in a row, or [`FAILED`] of the last 16 calls, and the store is left alone.
const IN_A_ROW: u16 = 0b111;
const FAILED: u32 = 8;
/// So many successful tries in a row, and everybody may call again.
const SUCCESSES: u32 = 3;
/// How many callers may try at a time, if enough others before them went away without an answer.
const MOST_TRIES: u32 = 1_024;
/// How much longer a call may take for each that was pending before it: a server decides ten
/// thousand calls a second, or more.
const EACH_BEFORE: Duration = Duration::from_micros(100);
/// How often a call that waits is looked at before it is slow.
const LOOKS: u32 = 8;

/// What is known of a store, by the calls to it.
///
/// What is measured is the store, not its callers, nor the runtime that runs them. A caller that goes
/// away before its call is slow says nothing. And a call that waits is looked at by a timer of its
/// runtime: if the timer is late, the runtime has stalled, and no more than two intervals count.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) slow_after: Duration,
    pub(super) retry_every: Duration,
    phase: Phase,
    /// How the last calls ended, the latest in the lowest bit: 1 for a failure.
    ended: u16,
    /// Calls that have not ended.
    pending: u32,
    /// Counts the answers.
    answers: u64,
    /// Calls that wait and have been slow since the last answer to anybody.
    silent: u32,
    /// Counts the changes of phase: what was sent before one says nothing after it.
    era: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Closed,
    /// Nobody calls, until this instant.
    Open(Timestamp),
    /// Few call at a time, to try.
    Trying(Tries),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Tries {
    succeeded: u32,
    pending: u32,
    /// How many may be pending.
    most: u32,
    /// When the last one was sent.
    last: Timestamp,
}

/// A call that may reach the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sent {
    era: u64,
    /// How many calls were pending.
    before: u32,
    /// How long it had waited when it was last looked at, and when that was.
    waited: Duration,
    looked_at: Timestamp,
    /// The most that counts from one look to the next, once a timer looks.
    most_at_once: Option<Duration>,
    /// The answers that it knows of, and how long it has waited since the last.
    answers: u64,
    unanswered: Duration,
}

impl Sent {
    /// Returns whether nobody has looked at the call for longer than a timer that runs ever leaves it.
    fn is_late(&self, now: Timestamp) -> bool {
        let passed = now.saturating_duration_since(self.looked_at);
        self.most_at_once.is_some_and(|most| passed > most)
    }

    /// Counts the time since the last look, and returns it.
    fn wait(&mut self, now: Timestamp) -> Duration {
        let passed = now.saturating_duration_since(self.looked_at);
        let counted = self.most_at_once.map_or(passed, |most| passed.min(most));
        self.looked_at = now;
        self.waited = self.waited.saturating_add(counted);
        counted
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

impl Circuit {
    pub(super) fn new(slow_after: Duration, retry_every: Duration) -> Self {
        Self {
            slow_after,
            retry_every,
            phase: Phase::Closed,
            ended: 0,
            pending: 0,
            answers: 0,
            silent: 0,
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
        if self.phase == Phase::Closed {
            if self.silent > 0 {
                self.open(now);
                return None;
            }
            before = self.pending;
            self.pending += 1;
        } else {
            self.try_again(now)?;
        }
        Some(Sent {
            era: self.era,
            before,
            waited: Duration::ZERO,
            looked_at: now,
            most_at_once: None,
            answers: self.answers,
            unanswered: Duration::ZERO,
        })
    }

    /// Lets a call try a store that is left alone, or returns `None`.
    fn try_again(&mut self, now: Timestamp) -> Option<()> {
        let mut tries = match self.phase {
            Phase::Trying(tries) if tries.pending < tries.most => tries,
            Phase::Open(until) if now < until => return None,
            // A caller that neither waits nor goes away keeps the others out for so long only.
            Phase::Trying(Tries { last, .. })
                if now.saturating_duration_since(last) <= self.patience() =>
            {
                return None;
            }
            _ => {
                self.era += 1;
                Tries {
                    succeeded: 0,
                    pending: 0,
                    most: 1,
                    last: now,
                }
            }
        };
        tries.pending += 1;
        tries.last = now;
        self.phase = Phase::Trying(tries);
        Some(())
    }

    /// Returns how long a call may take. Calls wait for those before them, also if the server is fast.
    fn allowed(&self, sent: &Sent) -> Duration {
        self.slow_after.saturating_add(EACH_BEFORE * sent.before)
    }

    /// Returns how long after a look at a call that waits a timer looks at it again.
    pub(super) fn interval(&self, sent: &Sent) -> Duration {
        // Timers of Tokio are accurate to a millisecond.
        (self.allowed(sent) / LOOKS).max(Duration::from_millis(1))
    }

    /// Returns whether a call has waited too long since the last answer to anybody, as far as it was looked
    /// at.
    fn is_silent(&self, sent: &Sent) -> bool {
        sent.answers == self.answers && sent.unanswered > self.slow_after
    }

    /// Records that a call still waits, at first when it begins to, and then at each
    /// [interval](Self::interval).
    pub(super) fn still_waits(&mut self, sent: &mut Sent, now: Timestamp) {
        let counted = sent.wait(now);
        sent.most_at_once = Some(self.interval(sent).saturating_mul(2));
        if sent.era != self.era {
            return;
        }
        match self.phase {
            Phase::Closed if sent.answers != self.answers => {
                sent.answers = self.answers;
                sent.unanswered = Duration::ZERO;
            }
            Phase::Closed => {
                let was_silent = self.is_silent(sent);
                sent.unanswered = sent.unanswered.saturating_add(counted);
                self.silent += u32::from(!was_silent && self.is_silent(sent));
            }
            Phase::Trying(_) if sent.waited > self.slow_after => self.open(now),
            Phase::Trying(_) | Phase::Open(_) => {}
        }
    }

    /// Records how a call ended.
    pub(super) fn end(&mut self, mut sent: Sent, end: End, now: Timestamp) {
        if sent.era != self.era {
            return;
        }
        let is_late = sent.is_late(now);
        let _ = sent.wait(now);
        let is_slow = sent.waited > self.allowed(&sent);
        let was_silent = self.is_silent(&sent);
        let says_nothing = end == End::Unasked || end == End::Dropped && !is_slow;
        let failed = end == End::Failed || is_slow;
        match &mut self.phase {
            Phase::Closed => {
                self.pending -= 1;
                // An answer whose caller did not look may be from before the others began to wait.
                if matches!(end, End::Answered | End::Failed) && !is_late {
                    self.answers += 1;
                    self.silent = 0;
                } else {
                    self.silent -= u32::from(was_silent);
                }
                if says_nothing {
                    return;
                }
                self.ended = self.ended << 1 | u16::from(failed);
                if self.ended & IN_A_ROW == IN_A_ROW || self.ended.count_ones() >= FAILED {
                    self.open(now);
                }
            }
            Phase::Trying(tries) if says_nothing => {
                tries.pending -= 1;
                // Callers who go away cannot take the turns of all others, however many they are.
                if end == End::Dropped {
                    tries.most = MOST_TRIES.min(tries.most * 2);
                }
            }
            Phase::Trying(_) if failed => self.open(now),
            Phase::Trying(tries) => {
                tries.pending -= 1;
                tries.succeeded += 1;
                if tries.succeeded == SUCCESSES {
                    self.close();
                }
            }
            Phase::Open(_) => {}
        }
    }

    /// Returns how long a single caller may try before another does.
    fn patience(&self) -> Duration {
        self.slow_after.saturating_add(self.retry_every)
    }

    fn open(&mut self, now: Timestamp) {
        self.phase = Phase::Open(now.saturating_add(self.retry_every));
        self.era += 1;
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.era += 1;
        self.ended = 0;
        self.pending = 0;
        self.silent = 0;
    }
}
