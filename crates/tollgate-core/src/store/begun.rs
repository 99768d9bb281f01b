//! `Begun`: a decision that was made at once, or has to be waited for.

use std::fmt;
use std::future::ready;

use super::{BoxFuture, Verdicts};
use crate::error::StoreError;

/// What [`Store::begin`](crate::Store::begin) returns.
#[expect(
    clippy::exhaustive_enums,
    clippy::large_enum_variant,
    reason = "layers match on it, and a box would be an allocation for each call"
)]
#[must_use = "a decision limits nothing unless the program reads it"]
pub enum Begun<'f> {
    /// It is decided.
    Decided(Verdicts),
    /// This future decides it.
    Waits(BoxFuture<'f, Result<Verdicts, StoreError>>),
}

/// An error is what its future returns.
impl From<Result<Verdicts, StoreError>> for Begun<'_> {
    fn from(decided: Result<Verdicts, StoreError>) -> Self {
        match decided {
            Ok(verdicts) => Self::Decided(verdicts),
            Err(error) => Self::Waits(Box::pin(ready(Err(error)))),
        }
    }
}

impl<'f> IntoFuture for Begun<'f> {
    type Output = Result<Verdicts, StoreError>;
    type IntoFuture = BoxFuture<'f, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        match self {
            Self::Decided(verdicts) => Box::pin(ready(Ok(verdicts))),
            Self::Waits(call) => call,
        }
    }
}

impl fmt::Debug for Begun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided(verdicts) => f.debug_tuple("Decided").field(verdicts).finish(),
            Self::Waits(_) => f.write_str("Waits"),
        }
    }
}
