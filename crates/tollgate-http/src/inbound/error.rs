//! `LayerError`: why a layer could never do what it is set up to do.

use std::error::Error;
use std::fmt;

use tollgate_core::LimitError;

/// The error of a layer that could never do what it is set up to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LayerError(Reason);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Reason {
    DuplicatePlan(Box<str>),
    NothingToHide(Box<str>),
    Limit(LimitError),
}

impl LayerError {
    pub(super) fn duplicate_plan(name: &str) -> Self {
        Self(Reason::DuplicatePlan(name.into()))
    }

    pub(super) fn nothing_to_hide(name: &str) -> Self {
        Self(Reason::NothingToHide(name.into()))
    }
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::DuplicatePlan(name) => {
                write!(
                    f,
                    "two plans are called {name:?}: give each a name of its own"
                )
            }
            Reason::NothingToHide(name) => write!(
                f,
                "no limit of the layer is called {name:?}, so there is nothing to hide: correct the \
                 name, or add the limit before the fields"
            ),
            Reason::Limit(error) => error.fmt(f),
        }
    }
}

impl Error for LayerError {}

impl From<LimitError> for LayerError {
    fn from(error: LimitError) -> Self {
        Self(Reason::Limit(error))
    }
}
