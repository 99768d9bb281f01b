//! The contract of a state machine.

use super::State;
use crate::quota::Quota;
use crate::time::Wait;

/// What a machine remembers for one key.
pub(crate) trait Remembered: Default {
    /// Returns the bytes that it has allocated beside itself.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// How the machines of the list find their states; the list implements it.
pub(crate) trait Listed: Sized {
    /// What is remembered for one key; the default remembers nothing.
    type State: Remembered;

    /// Returns the state in `state`, or `None` if there is none of this machine.
    fn view(state: &State) -> Option<&Self::State>;

    /// Returns the state in `state`, putting a fresh one there if there is none of this machine.
    fn open(state: &mut State) -> &mut Self::State;

    /// Returns the state that is `kept`.
    #[cfg(feature = "wire")]
    fn keep(kept: Self::State) -> State;
}

/// What a state leaves to consume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Status {
    /// The largest cost that would be admitted.
    pub(crate) remaining: u64,
    /// The least wait after which the state equals a fresh one.
    pub(crate) reset_after: Wait,
}

/// What a call about one limit alone comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) wait: Wait,
    pub(crate) allowed: bool,
    pub(crate) at: u64,
    pub(crate) status: Status,
}

/// A pure state machine: the meaning of one algorithm.
///
/// Machines take the clock's reading as it is. Each clamps it to the last instant that its state
/// has seen, so a clock that steps back never admits more, and adds the step to the waits, which
/// are relative to the reading.
pub(crate) trait Machine: Copy + Listed {
    /// What the algorithm is called in texts and in the names of keys.
    const NAME: &'static str;

    /// Returns the quota.
    fn quota(&self) -> Quota;

    /// Returns the parameters that the meaning of a state depends on, after the name.
    ///
    /// States are kept apart by it: under another window the counters of a window algorithm start
    /// afresh, while a log and a bucket carry theirs over.
    fn shape(&self) -> String {
        Self::NAME.to_owned()
    }

    /// Returns the largest cost that can ever be admitted.
    #[inline]
    fn capacity(&self) -> u64 {
        self.quota().amount()
    }

    /// Returns the least wait after which a call of `cost` is admitted; zero admits it now.
    fn wait(&self, state: &Self::State, now: u64, cost: u64) -> Wait;

    /// Returns what `state` leaves to consume.
    fn status(&self, state: &Self::State, now: u64) -> Status;

    /// Records a call of `cost`, which [`wait`](Self::wait) admitted or whose denial counts, and
    /// returns the instant it is recorded at. A `cost` of zero changes nothing.
    fn commit(&self, state: &mut Self::State, now: u64, cost: u64) -> u64;

    /// Gives back `amount` recorded at `at`, as far as it is still counted.
    fn refund(&self, state: &mut Self::State, now: u64, at: u64, amount: u64);

    /// Returns whether denied calls are recorded too.
    fn counts_denied(&self) -> bool {
        false
    }

    /// Consumes `cost`, from 1 to the capacity, in one step: waits, records and looks.
    ///
    /// A machine that would compute the same thing in each of the three may do it once.
    #[inline(always)]
    fn consume(&self, state: &mut Self::State, now: u64, cost: u64) -> Outcome {
        let mut wait = self.wait(state, now, cost);
        let allowed = wait.is_zero();
        let mut at = now;
        if allowed {
            at = self.commit(state, now, cost);
        } else if self.counts_denied() {
            at = self.commit(state, now, cost);
            // The attempt that was just counted is one more to wait for.
            wait = self.wait(state, now, cost);
        }
        Outcome {
            wait,
            allowed,
            at,
            status: self.status(state, now),
        }
    }
}
