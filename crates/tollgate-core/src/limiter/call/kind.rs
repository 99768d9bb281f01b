//! What kind a call is, which says what can be set.

/// Marks the [`Call`](super::Call) that [`RateLimiter::check`](crate::RateLimiter::check) returns, and
/// that may wait: with the crate
/// `tollgate-tokio`, `wait_up_to` makes it wait until it is admitted.
///
/// A check at a caller's [instant](super::Call::at), or with an [id](super::Call::id), is a
/// [`Consume`]: it is decided once.
#[derive(Debug)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Check {}

/// Marks a [`Call`](super::Call) that consumes, and is decided once: a [check](crate::RateLimiter::check) at a caller's
/// instant or with an id, a [reservation](crate::RateLimiter::reserve), or a
/// [take](crate::RateLimiter::take_up_to).
#[derive(Debug)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Consume {}

/// Marks the [`Call`](super::Call) that [`RateLimiter::peek`](crate::RateLimiter::peek) returns: it
/// consumes nothing, and so has no [id](super::Call::id).
#[derive(Debug)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Peek {}

/// Marks the [`Call`](super::Call) that [`RateLimiter::reserve`](crate::RateLimiter::reserve) returns, which
/// still needs its longest delay: [`within`](super::Call::within) sets it.
#[derive(Debug)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Reserve {}

/// A kind of call that can be made: [`Check`], [`Consume`] or [`Peek`].
#[doc(hidden)]
pub trait Kind: sealed::Sealed {
    /// The kind of a call that is decided once, and does not wait.
    type Once: Kind;
}

impl Kind for Check {
    type Once = Consume;
}

impl Kind for Consume {
    type Once = Self;
}

impl Kind for Peek {
    type Once = Self;
}

/// A kind of call that consumes, and so may have an [id](super::Call::id).
#[doc(hidden)]
pub trait Consumes: Kind {}

impl Consumes for Check {}
impl Consumes for Consume {}

mod sealed {
    #[expect(unnameable_types, reason = "so that no other crate implements `Kind`")]
    pub trait Sealed {}

    impl Sealed for super::Check {}
    impl Sealed for super::Consume {}
    impl Sealed for super::Peek {}
}
