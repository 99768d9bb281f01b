//! `Turns`: lets the lines of several processes take turns.

use std::time::Duration;

/// The longest time that a line asks later than it could, if others want the key, too: some ticks
/// of Tokio's timers, which tick at other instants in other processes.
const LONGEST: Duration = Duration::from_millis(8);
/// For how many more waits a line expects others to be faster after they were. Without any, it lets them
/// go first once in this number of waits: a line that always takes everything would not notice them.
const EXPECTED: u32 = 16;
/// Among how many lines a limit is meant to be shared equally: with more or fewer, a line that gets
/// less than others still asks before them more often.
const RIVALS: u32 = 8;

/// How long a line lets the lines of other processes go first.
///
/// If all asked at the same instants, the fastest would always win. So each time that others were
/// faster, a line is owed its share of the limit, and the more it is owed, the earlier it asks. A
/// line that does not know of others lets them go first now and then.
pub(super) struct Turns {
    /// How many units this line has got too few when it shared the limit with others.
    owed: u64,
    /// How many times it has waited since others were faster.
    waits: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            owed: 0,
            // So that it soon finds out whether there are others.
            waits: 2 * EXPECTED - 4,
        }
    }
}

impl Turns {
    /// Takes note that the line got `cost` units.
    pub(super) fn took(&mut self, cost: u64) {
        self.owed = self.owed.saturating_sub(cost);
    }

    /// Returns how much later than after `wait` the line asks, at a limit of this capacity.
    ///
    /// All values of `random` are equally likely.
    pub(super) fn delay(
        &mut self,
        wait: Duration,
        capacity: u64,
        others_were_faster: bool,
        random: u64,
    ) -> Duration {
        if wait.is_zero() {
            return Duration::ZERO;
        }
        if others_were_faster {
            self.waits = 0;
            let share = capacity.div_ceil(u64::from(RIVALS));
            self.owed = self.owed.saturating_add(share).min(capacity);
        } else {
            self.waits = self.waits.wrapping_add(1);
        }
        let most = (wait / 4).min(LONGEST);
        match self.waits {
            0..EXPECTED => {}
            waits if waits % EXPECTED == 0 => return most,
            _ => return Duration::ZERO,
        }
        // The more the line is owed, the fewer steps it waits, and a random part of a step.
        let step = most / (RIVALS + 1);
        let owed = u128::from(self.owed) * u128::from(RIVALS) / u128::from(capacity.max(1));
        let steps = RIVALS.saturating_sub(u32::try_from(owed).unwrap_or(RIVALS));
        step * steps + part(step, random)
    }
}

/// Returns the part of `most`, which is short, that `random` is of all numbers.
fn part(most: Duration, random: u64) -> Duration {
    let nanos = (most.as_nanos() * u128::from(random)) >> u64::BITS;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

#[cfg(test)]
mod tests;
