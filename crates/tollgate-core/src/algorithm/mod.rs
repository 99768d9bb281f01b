//! The algorithms: what each limit remembers, and when it allows a call.
//!
//! Each algorithm is a folder that is complete in itself: its specification (`README.md`), its
//! pure state machine (`mod.rs`) and its tests (`tests.rs`). A machine is integers only, reads no
//! clock, and answers a call in two phases, so that several can be decided all-or-nothing:
//! it says how long the call would have to wait, and only then is the call recorded.

mod fixed_window;
mod gcra;
mod sliding_buckets;
mod sliding_counter;
mod sliding_log;
mod text;

pub use fixed_window::FixedWindow;
#[cfg(feature = "wire")]
pub(crate) use fixed_window::{Plan, Told};
pub use gcra::Gcra;
pub use sliding_buckets::SlidingBuckets;
pub use sliding_counter::SlidingCounter;
pub use sliding_log::SlidingLog;

use crate::decision::Verdict;
use crate::quota::Quota;
use crate::time::{Timestamp, Wait};

/// How a quota is counted.
///
/// Written and read as `ALGORITHM:N/WINDOW[,option=value...]`, such as `gcra:10/1m,burst=3`.
///
/// # Examples
///
/// ```
/// use tollgate_core::Quota;
/// use tollgate_core::algorithm::{Algorithm, Gcra};
///
/// let read: Algorithm = "gcra:10/1m,burst=3".parse()?;
/// assert_eq!(read, Gcra::with_burst(Quota::per_minute(10), 3)?.into());
/// assert_eq!(read.to_string(), "gcra:10/1m,burst=3");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Counts calls in windows that follow each other.
    FixedWindow(FixedWindow),
    /// Spaces calls at the quota's rate after a burst: an exact token bucket.
    Gcra(Gcra),
    /// Counts calls in the last `k + 1` of the window's `k` buckets.
    SlidingBuckets(SlidingBuckets),
    /// Estimates the calls of the last window from two counters.
    SlidingCounter(SlidingCounter),
    /// Remembers when each unit of the last window was consumed.
    SlidingLog(SlidingLog),
}

/// What a limit remembers for one key. A fresh one remembers nothing.
///
/// # Examples
///
/// ```
/// use tollgate_core::algorithm::{Gcra, State};
/// use tollgate_core::{Check, Limit, Quota, Request, Timestamp};
///
/// let limit = Limit::new("api", Gcra::new(Quota::per_second(1))?)?;
/// let mut states = [State::default()];
/// let now = Timestamp::from_micros(1_000_000)?;
/// Request::consume(Check::new(&limit, "k", 1)).decide_on(&mut states, now);
/// assert!(!states[0].is_fresh(&limit, now));
/// assert!(states[0].is_fresh(&limit, Timestamp::from_micros(2_000_000)?));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct State(Kind);

/// Large or rare machines' states are boxed, so that a table of states stays dense.
#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Vacant,
    FixedWindow(fixed_window::State),
    Gcra(gcra::State),
    SlidingBuckets(Box<sliding_buckets::State>),
    SlidingCounter(sliding_counter::State),
    SlidingLog(Box<sliding_log::State>),
}

impl State {
    /// A state that remembers nothing, to borrow where there is none.
    pub const FRESH: &'static Self = &Self(Kind::Vacant);

    /// Returns whether this state, at `now`, remembers nothing that `limit` would count.
    ///
    /// Such a state may be dropped: with a clock that does not step back, no answer changes.
    #[must_use]
    pub fn is_fresh(&self, limit: &crate::Limit, now: Timestamp) -> bool {
        limit.algorithm().status(self, now).reset_after.is_zero()
    }

    /// Returns whether nothing was ever recorded here.
    pub(crate) fn is_vacant(&self) -> bool {
        matches!(self.0, Kind::Vacant)
    }

    /// Returns the bytes this state has allocated beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Kind::SlidingBuckets(state) => size_of_val(&**state) + state.heap_bytes(),
            Kind::SlidingLog(state) => size_of_val(&**state) + state.heap_bytes(),
            Kind::Vacant | Kind::FixedWindow(_) | Kind::Gcra(_) | Kind::SlidingCounter(_) => 0,
        }
    }
}

/// The states that a request is decided on, one for each check.
pub trait States {
    /// Returns the state of the check at `index`.
    fn state(&self, index: usize) -> &State;

    /// Returns the state of the check at `index`, to be changed.
    fn state_mut(&mut self, index: usize) -> &mut State;
}

impl States for [State] {
    fn state(&self, index: usize) -> &State {
        &self[index]
    }

    fn state_mut(&mut self, index: usize) -> &mut State {
        &mut self[index]
    }
}

impl<const N: usize> States for [State; N] {
    fn state(&self, index: usize) -> &State {
        &self[index]
    }

    fn state_mut(&mut self, index: usize) -> &mut State {
        &mut self[index]
    }
}

/// One state, for requests with one check.
impl States for State {
    #[inline]
    fn state(&self, _index: usize) -> &State {
        self
    }

    #[inline]
    fn state_mut(&mut self, _index: usize) -> &mut State {
        self
    }
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
pub(crate) trait Machine: Copy {
    /// What is remembered for one key; the default remembers nothing.
    type State: Default;

    /// Returns the state in `state`, or `None` if there is none of this machine.
    fn view(state: &State) -> Option<&Self::State>;

    /// Returns the state in `state`, putting a fresh one there if there is none of this machine.
    fn open(state: &mut State) -> &mut Self::State;

    /// Returns the quota.
    fn quota(&self) -> Quota;

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

    /// Decides a call of `cost`, from 1 to the capacity, in one step: waits, records and looks.
    ///
    /// A machine that would compute the same thing in each of the three may do it once.
    #[inline(always)]
    fn decide(&self, state: &mut Self::State, now: u64, cost: u64) -> Outcome {
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

/// Calls a generic function with the machine in an [`Algorithm`].
macro_rules! with_machine {
    ($algorithm:expr, $machine:ident => $body:expr) => {
        match $algorithm {
            Algorithm::FixedWindow($machine) => $body,
            Algorithm::Gcra($machine) => $body,
            Algorithm::SlidingBuckets($machine) => $body,
            Algorithm::SlidingCounter($machine) => $body,
            Algorithm::SlidingLog($machine) => $body,
        }
    };
}
#[cfg(feature = "wire")]
pub(crate) use with_machine;

impl Algorithm {
    /// Returns the quota that is counted.
    #[must_use]
    pub fn quota(&self) -> Quota {
        with_machine!(self, machine => machine.quota())
    }

    /// Returns the largest cost that can ever be allowed: the quota's amount, or a burst.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        with_machine!(self, machine => machine.capacity())
    }

    /// Returns whether denied calls are counted too.
    #[must_use]
    pub fn counts_denied(&self) -> bool {
        with_machine!(self, machine => machine.counts_denied())
    }

    #[inline]
    pub(crate) fn wait(&self, state: &State, now: Timestamp, cost: u64) -> Wait {
        with_machine!(self, machine => wait(machine, state, now, cost))
    }

    #[inline]
    pub(crate) fn status(&self, state: &State, now: Timestamp) -> Status {
        with_machine!(self, machine => status(machine, state, now))
    }

    #[inline]
    pub(crate) fn commit(&self, state: &mut State, now: Timestamp, cost: u64) -> Timestamp {
        with_machine!(self, machine => commit(machine, state, now, cost))
    }

    /// Decides a call about this limit alone, in one step.
    // Always inlined: a verdict that is returned through memory costs as much as reaching it.
    #[inline(always)]
    pub(crate) fn decide(&self, state: &mut State, now: Timestamp, cost: u64) -> Verdict {
        with_machine!(self, machine => decide(machine, state, now, cost))
    }

    pub(crate) fn refund(&self, state: &mut State, now: Timestamp, at: Timestamp, amount: u64) {
        with_machine!(self, machine => {
            machine.refund(open(machine, state), now.as_micros(), at.as_micros(), amount);
        });
    }

    /// Returns the parameters that the meaning of a state depends on.
    ///
    /// States are kept apart by it: under another window the counters of a window algorithm start
    /// afresh, while a log and a bucket carry theirs over.
    pub(crate) fn shape(&self) -> String {
        match self {
            Self::FixedWindow(machine) => machine.shape(),
            Self::Gcra(_) => "gcra".to_owned(),
            Self::SlidingBuckets(machine) => machine.shape(),
            Self::SlidingCounter(machine) => machine.shape(),
            Self::SlidingLog(_) => "sliding-log".to_owned(),
        }
    }
}

#[inline]
fn wait<M: Machine>(machine: &M, state: &State, now: Timestamp, cost: u64) -> Wait {
    if cost > machine.capacity() {
        return Wait::NEVER;
    }
    match M::view(state) {
        Some(state) if cost > 0 => machine.wait(state, now.as_micros(), cost),
        _ => Wait::ZERO,
    }
}

#[inline]
fn status<M: Machine>(machine: &M, state: &State, now: Timestamp) -> Status {
    match M::view(state) {
        Some(state) => machine.status(state, now.as_micros()),
        None => Status {
            remaining: machine.capacity(),
            reset_after: Wait::ZERO,
        },
    }
}

#[inline]
fn commit<M: Machine>(machine: &M, state: &mut State, now: Timestamp, cost: u64) -> Timestamp {
    if cost == 0 {
        return now;
    }
    let at = machine.commit(open(machine, state), now.as_micros(), cost);
    Timestamp::saturating_from_micros(at)
}

/// What a request with one check comes to, without the generality of several.
#[inline(always)]
fn decide<M: Machine>(machine: &M, state: &mut State, now: Timestamp, cost: u64) -> Verdict {
    let (capacity, micros) = (machine.capacity(), now.as_micros());
    let outcome = if cost > capacity {
        // What can never fit makes no state, unless the attempt counts.
        let at = if machine.counts_denied() {
            machine.commit(open(machine, state), micros, cost)
        } else {
            micros
        };
        Outcome {
            wait: Wait::NEVER,
            allowed: false,
            at,
            status: status(machine, state, now),
        }
    } else {
        machine.decide(open(machine, state), micros, cost)
    };
    Verdict {
        allowed: outcome.allowed,
        capacity,
        remaining: outcome.status.remaining,
        retry_after: outcome.wait,
        reset_after: outcome.status.reset_after,
        consumed: if outcome.allowed { cost } else { 0 },
        at: Timestamp::saturating_from_micros(outcome.at),
    }
}

/// Takes the machine so that its type need not be named.
#[inline(always)]
fn open<'a, M: Machine>(_machine: &M, state: &'a mut State) -> &'a mut M::State {
    M::open(state)
}

/// Implements how a machine finds its state in a [`State`], boxed or not.
macro_rules! state_of {
    ($variant:ident) => {
        #[inline(always)]
        fn view(state: &crate::algorithm::State) -> Option<&Self::State> {
            match &state.0 {
                crate::algorithm::Kind::$variant(state) => Some(state),
                _ => None,
            }
        }

        #[inline(always)]
        fn open(state: &mut crate::algorithm::State) -> &mut Self::State {
            if Self::view(state).is_none() {
                state.0 = crate::algorithm::Kind::$variant(Default::default());
            }
            match &mut state.0 {
                crate::algorithm::Kind::$variant(state) => state,
                _ => unreachable!("put there above"),
            }
        }
    };
}
use state_of;

macro_rules! algorithm_from {
    ($($machine:ident),*) => {$(
        impl From<$machine> for Algorithm {
            fn from(machine: $machine) -> Self {
                Self::$machine(machine)
            }
        }
    )*};
}
algorithm_from!(
    FixedWindow,
    Gcra,
    SlidingBuckets,
    SlidingCounter,
    SlidingLog
);

#[cfg(test)]
mod tests;
