//! `State`: what a limit remembers for one key.

use super::Kind;

/// What a limit remembers for one key. A fresh one remembers nothing.
///
/// # Examples
///
/// ```
/// use tollgate_core::Gcra;
/// use tollgate_core::store::{State, Check, Request};
/// use tollgate_core::{Limit, Quota, Timestamp};
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
pub struct State(pub(super) Kind);

impl State {
    /// A fresh state, to borrow for a key that has none.
    pub const FRESH: &'static Self = &Self(Kind::Vacant);

    /// Returns whether nothing was ever recorded here.
    pub(crate) fn is_vacant(&self) -> bool {
        matches!(self.0, Kind::Vacant)
    }

    /// Returns the bytes that this state has allocated on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// The state that a machine keeps for one key.
pub(crate) trait Remembered: Default {
    /// Returns the bytes that this state has allocated on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Large states are boxed, so that a table of states stays dense.
impl<T: Remembered> Remembered for Box<T> {
    fn heap_bytes(&self) -> usize {
        size_of::<T>() + (**self).heap_bytes()
    }
}

/// The states that a request is decided on, one for each check.
pub trait States {
    /// Returns the state of the check at `index`.
    fn state(&self, index: usize) -> &State;

    /// Returns the state of the check at `index`, for changing it.
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
