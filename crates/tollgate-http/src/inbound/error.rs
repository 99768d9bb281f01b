//! `LayerError`: why a layer could never do what it is set up to do.

use tollgate_core::LimitError;

/// The error of a layer that could never do what it is set up to do.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct LayerError(pub(super) Reason);

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Reason {
    #[error("two plans are called {0:?}: give each a name of its own")]
    DuplicatePlan(Box<str>),
    #[error(
        "no limit of the layer is called {0:?}, so there is nothing to hide: correct the name, or add \
         the limit before the fields"
    )]
    NothingToHide(Box<str>),
    #[error(transparent)]
    Limit(LimitError),
}

impl From<LimitError> for LayerError {
    fn from(error: LimitError) -> Self {
        Self(Reason::Limit(error))
    }
}
