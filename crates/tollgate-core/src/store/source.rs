//! `Source`: where an answer came from.

/// Where a [`Decision`](crate::Decision) came from: the store, or a layer around it that answered
/// in its place.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The store decided.
    #[default]
    Store,
    /// A cache remembered what the store had decided, some [time](crate::Decision::age) ago.
    Cache,
    /// A layer admitted the call by units that the store had counted ahead, some
    /// [time](crate::Decision::age) ago.
    Prefetched,
    /// The store failed, and something else decided.
    Fallback,
}
