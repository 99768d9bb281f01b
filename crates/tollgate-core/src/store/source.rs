//! `Source`: where an answer came from.

use std::time::Duration;

/// Where a [`Decision`](crate::Decision) came from: the store, or a layer around it that answered
/// in its place.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::store::Source;
///
/// assert_eq!(Source::Store.age(), Duration::ZERO);
/// assert_eq!(Source::default(), Source::Store);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The store decided.
    #[default]
    Store,
    /// A cache remembered what the store had decided.
    Cache {
        /// How long before this answer the store was asked.
        age: Duration,
    },
    /// The store failed, and something else decided.
    Fallback,
}

impl Source {
    /// Returns how old the knowledge behind the answer is.
    #[must_use]
    pub fn age(self) -> Duration {
        match self {
            Self::Cache { age } => age,
            Self::Store | Self::Fallback => Duration::ZERO,
        }
    }
}

/// A source without its age: smaller, since verdicts are moved often.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SourceKind {
    Store,
    Cache,
    Fallback,
}
