//! `Block`: denies every call of a key until an instant, and counts none.

use super::{BlockSpan, Machine, Remembered, Status};
use crate::bytes::{Reader, Writer};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::{MAX_EXACT, Wait, micros_ceil};

/// Denies every call of a key while the key is [blocked](crate::RateLimiter::block), and counts
/// nothing.
///
/// For bans and lock-outs, and for services that ask all callers to wait. Combined with other
/// limits, a block denies the call before anything is consumed from them.
///
/// # Repeated blocks
///
/// A block lasts for a fixed time, unless its caller says how long. With
/// [`doubling`](Self::doubling), repeated blocks last longer: a block that begins less than the
/// longest time after the last one ended lasts twice as long as that one, up to the longest time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::Block;
/// use tollgate_core::store::{State, BlockSpan, Check, Request};
/// use tollgate_core::{Limit, Timestamp};
///
/// // One minute, then two, then four.
/// let limit = Limit::new("ban", Block::new(Duration::from_secs(60))?.doubling(2)?)?;
/// let check = Check::new(&limit, "mallory", 1);
/// let (mut state, mut now) = (State::default(), Timestamp::UNIX_EPOCH);
/// for minutes in [1, 2, 4, 4] {
///     Request::block(BlockSpan::Usual, check).decide_on(&mut state, now);
///     let denied = Request::consume(check).decide_on(&mut state, now);
///     assert_eq!(denied.retry_after().as_micros(), Some(minutes * 60_000_000));
///     now = now.saturating_add(Duration::from_secs(minutes * 60));
///     assert!(Request::consume(check).decide_on(&mut state, now).is_allowed());
/// }
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Block {
    /// The largest amount, per the time that a block usually lasts.
    quota: Quota,
    doublings: u64,
    /// The longest time that a block lasts by itself, in microseconds; at most [`MAX_EXACT`].
    longest: u64,
}

/// The last block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    /// The instant until which the key is blocked.
    pub(crate) ends: u64,
    /// The latest instant at which it was blocked.
    pub(crate) at: u64,
    /// How long the last block lasts whose caller did not say how long; zero if it is forgotten.
    pub(crate) length: u64,
}

impl Remembered for State {}

impl Block {
    /// Returns a block that lasts for `length`.
    ///
    /// # Errors
    ///
    /// [`Duration`](crate::LimitErrorKind::Duration) when `length` is zero, is not whole microseconds, or exceeds
    /// [`MAX_EXACT`] microseconds.
    pub fn new(length: std::time::Duration) -> Result<Self, LimitError> {
        Quota::new(MAX_EXACT, length).map(Self::of)
    }

    pub(super) fn of(quota: Quota) -> Self {
        Self {
            quota,
            doublings: 0,
            longest: quota.window_us(),
        }
    }

    /// Makes repeated blocks last twice as long, up to `doublings` times.
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when the longest block would exceed [`MAX_EXACT`]
    /// microseconds.
    pub fn doubling(self, doublings: u64) -> Result<Self, LimitError> {
        let most = (MAX_EXACT / self.quota.window_us()).ilog2();
        match u32::try_from(doublings) {
            Ok(times) if times <= most => Ok(Self {
                doublings,
                longest: self.quota.window_us() << times,
                ..self
            }),
            _ => Err(LimitError(Problem::AmountTooLarge {
                amount: doublings,
                most: most.into(),
            })),
        }
    }

    /// Returns how many times repeated blocks last twice as long.
    #[must_use]
    pub const fn doublings(&self) -> u64 {
        self.doublings
    }

    /// Returns how long after its end a block is remembered, in microseconds.
    fn memory(&self) -> u64 {
        if self.doublings > 0 { self.longest } else { 0 }
    }

    /// Returns when the state is forgotten.
    fn forgotten_at(&self, state: &State) -> u64 {
        let memory = if state.length > 0 { self.memory() } else { 0 };
        state.ends + memory
    }
}

impl Machine for Block {
    const NAME: &'static str = "block";
    const KIND: u64 = 5;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        let lasts = state.ends - state.at;
        to.numbers(&[lasts]);
        if lasts != state.length {
            to.difference(lasts, state.length);
        }
        state.at
    }

    fn read_state(&self, at: u64, from: &mut Reader<'_>) -> Option<State> {
        let lasts = from.number(1..=MAX_EXACT - at)?;
        let (ends, length) = (at + lasts, from.difference(lasts)?);
        (length <= ends).then_some(State { ends, at, length })
    }

    fn quota(&self) -> Quota {
        self.quota
    }

    fn with_amount(&self, _amount: u64) -> Result<Self, LimitError> {
        // It counts nothing.
        Ok(*self)
    }

    #[inline]
    fn wait(&self, state: &State, now: u64, _cost: u64) -> Wait {
        Wait::from_micros(state.ends.saturating_sub(now))
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        Status {
            remaining: if now < state.ends { 0 } else { MAX_EXACT },
            reset_after: Wait::from_micros(self.forgotten_at(state).saturating_sub(now)),
        }
    }

    fn commit(&self, _state: &mut State, now: u64, _cost: u64) -> u64 {
        now
    }

    fn refund(&self, _state: &mut State, _now: u64, _at: u64, _amount: u64) {}

    fn counts(&self) -> bool {
        false
    }

    fn can_block(&self) -> bool {
        true
    }

    fn blocked(&self, state: &State, now: u64, span: BlockSpan) -> Option<State> {
        let is_remembered = now < self.forgotten_at(state);
        let mut length = if is_remembered { state.length } else { 0 };
        let ends = match span {
            BlockSpan::Usual if now < state.ends => return None,
            BlockSpan::Usual => {
                length = match length {
                    0 => self.quota.window_us(),
                    last => last.saturating_mul(2).min(self.longest),
                };
                now + length
            }
            BlockSpan::Until(instant) => instant.as_micros(),
            BlockSpan::Lasting(time) => now.saturating_add(micros_ceil(time)),
        };
        let ends = ends.min(MAX_EXACT);
        (ends > now.max(state.ends)).then_some(State {
            ends,
            at: now.max(state.at),
            length,
        })
    }
}

#[cfg(test)]
mod tests;
mod text;
#[cfg(feature = "__twins")]
mod twin;
