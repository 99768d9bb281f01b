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
    /// A layer decided by itself without asking the store, such as a kill switch that denies every call.
    Layer,
}

impl Source {
    /// Returns whether an allowed call's [`remaining`](crate::Decision::remaining) and
    /// [`reset_after`](crate::Decision::reset_after) tell what is left: not if it was
    /// [`Prefetched`](Self::Prefetched). Then `remaining` is what this process has in hand, and any amount
    /// more may be left, so nothing follows from it about how much is used, or how long others wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::store::Source;
    ///
    /// assert!(Source::Store.tells_what_is_left());
    /// assert!(!Source::Prefetched.tells_what_is_left());
    /// ```
    #[must_use]
    pub fn tells_what_is_left(self) -> bool {
        !matches!(self, Self::Prefetched)
    }
}
