//! `State`: what a limit remembers for one key.

use super::Kind;
use crate::bytes::Writer;

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

    /// Returns this state as bytes, for a store that keeps it elsewhere. Equal states give equal bytes; a fresh
    /// one gives none, and need not be kept.
    ///
    /// # Format
    ///
    /// Seven bytes, the highest first, hold the kind in three bits and an instant in 53. The kind 7 is for
    /// other things and later versions. Numbers in LEB128 follow, but for zeros at the end; `±` is twice a
    /// difference, less one if it is negative.
    ///
    /// | kind | algorithm | instant | numbers |
    /// |---|---|---|---|
    /// | 0 | fixed window | its start | units, and those of them at the start |
    /// | 1 | GCRA | when the debt was counted | see below |
    /// | 2 | sliding buckets | start of the newest that counted | units of each bucket, newest first |
    /// | 3 | sliding counter | start of the window | units of this window, and of the one before |
    /// | 4 | sliding log | latest call | entries; of each, `±` from the one before or the latest call, and units |
    /// | 5 | block | when it was set | for how long; `±` from that to the last usual length |
    /// | 6 | calendar window | start of the period | units; the length of the period |
    ///
    /// GCRA writes the unit of the debt in a byte: its lower half is the number of zeros at the end, its upper
    /// half a place, from 1 on, in 1, 2, 3, 4, 5, 6, 9, 12, 15, 18, 25, 36, 72, 432, 864; or 0, and the rest of
    /// the number follows. If a start is yet to come, 0 follows, and how much later it is. At the end is the
    /// debt, the highest byte first.
    ///
    /// There is no checksum: it would be as long as the rest, databases have their own, and what no limit
    /// comes to is refused.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::store::{Check, Request, State};
    /// use tollgate_core::{Limit, Timestamp};
    ///
    /// let limit: Limit = "api=gcra:10/1m".parse()?;
    /// let (mut row, now) = (Vec::new(), Timestamp::from_micros(1_800_000_000_000_000)?);
    /// for remaining in [9, 8, 7] {
    ///     let mut state = State::from_bytes(&limit, &row)?;
    ///     let decided = Request::consume(Check::new(&limit, "k", 1)).decide_on(&mut state, now);
    ///     row = state.to_bytes();
    ///     assert!(decided.remaining() == remaining && row.len() <= 12);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(vec![0; 7]);
        let (kind, instant) = self.0.write(&mut to);
        if instant == 0 && to.0.len() == 7 {
            return Vec::new();
        }
        to.0[..7].copy_from_slice(&(kind << 53 | instant).to_be_bytes()[1..]);
        to.0
    }

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
