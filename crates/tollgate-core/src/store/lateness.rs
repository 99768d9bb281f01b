//! `Lateness`: how late a program is, so that its own delays are not taken for a store's.

use std::time::Duration;

/// A timer that is this late is as accurate as timers are.
const ACCURACY: Duration = Duration::from_millis(2);
/// How many turns of a run queue an answer may need after the one that was seen: its request is written, its
/// reply is read, its caller is polled, and each of these waits in the queue of a thread, which may be longer
/// than the one that was seen. Measured with hundreds of busy tasks, answers took up to 4.6 turns.
const TURNS: u32 = 7;
/// A program that was late for longer than a few turns was stopped, and goes on.
const LONGEST_EXTENSION: Duration = Duration::from_secs(10);
/// How many timers are noted while an answer takes as long as it may.
const TIMERS: u32 = 8;
/// Of the delays in each 64 ms, only the longest is remembered, and only for a second.
const PERIOD: u128 = 64;
const PERIODS: usize = 16;

/// How late a program's timers were lately: what all who wait for answers in it know.
///
/// See [`Lateness`]. All times are since one instant.
#[derive(Clone, Debug, Default)]
pub struct Delays([Delay; PERIODS]);

#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    ended: Duration,
    length: Duration,
}

impl Delays {
    fn note(&mut self, delay: Delay) {
        let period = |delay: &Delay| usize::try_from(delay.ended.as_millis() / PERIOD).unwrap_or(0);
        let noted = &mut self.0[period(&delay) % PERIODS];
        if period(noted) != period(&delay) || noted.length < delay.length {
            *noted = delay;
        }
    }

    /// Returns the longest part of a delay that lies after `begun`.
    fn since(&self, begun: Duration) -> Duration {
        let parts = self.0.iter();
        let parts = parts.map(|delay| delay.length.min(delay.ended.saturating_sub(begun)));
        parts.max().unwrap_or_default()
    }
}

/// How late a program is while it waits for an answer: extends the time that the answer may take.
///
/// A task waits in its runtime's queue until others have had their turn, and a stopped process runs
/// nothing at all. So a timer that is noticed late says nothing about the store: its answer may have come
/// long ago, and needs some more turns to reach the caller. Whoever waits notes one timer after the other,
/// each set for the time [`between`](Self::between) them, and learns from the timers of all others,
/// since queues differ: its own is short, perhaps, while that of the connection is long.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::store::{Delays, Lateness};
///
/// let (mut delays, ms) = (Delays::default(), Duration::from_millis);
/// let mut lateness = Lateness::begun(ms(10_000));
/// // The timer fires in time: the deadline holds.
/// lateness.note(&mut delays, ms(10_500), ms(10_500));
/// assert_eq!(lateness.extend(ms(500)), ms(500));
/// // All threads were busy, and the timer is noticed 400 ms late: the answer may take that and seven times
/// // as long again.
/// lateness.note(&mut delays, ms(10_500), ms(10_900));
/// assert_eq!(lateness.extend(ms(500)), ms(3_700));
/// // Another call had waited for half of that delay.
/// let mut lateness = Lateness::begun(ms(10_700));
/// lateness.note(&mut delays, ms(10_950), ms(10_950));
/// assert_eq!(lateness.extend(ms(500)), ms(2_100));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lateness {
    begun: Duration,
    longest: Duration,
}

impl Lateness {
    /// Returns that of an answer which is waited for from this instant on.
    #[must_use]
    pub fn begun(begun: Duration) -> Self {
        Self {
            begun,
            longest: Duration::ZERO,
        }
    }

    /// Returns the time between timers while an answer is waited for that may take `limit`.
    #[must_use]
    pub fn between(limit: Duration) -> Duration {
        (limit / TIMERS).clamp(Duration::from_millis(1), Duration::from_secs(1))
    }

    /// Records when a timer was noticed that was `due` before, and learns what others have recorded in
    /// `delays`. Timers that are at most 2 ms late are in time.
    pub fn note(&mut self, delays: &mut Delays, due: Duration, noticed: Duration) {
        let length = noticed.saturating_sub(due);
        if length > ACCURACY {
            let ended = noticed;
            delays.note(Delay { ended, length });
        }
        self.longest = self.longest.max(delays.since(self.begun));
    }

    /// Returns the longest delay while the answer was waited for.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns how long the answer may take instead of `limit`: longer by the longest delay and seven times
    /// that, of which at most 10 s count.
    #[must_use]
    pub fn extend(&self, limit: Duration) -> Duration {
        let turns = self.longest.saturating_mul(TURNS).min(LONGEST_EXTENSION);
        limit.saturating_add(self.longest).saturating_add(turns)
    }
}
