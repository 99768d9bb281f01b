//! What a service says about its limits, for all processes: less is left, or calls must pause.

use std::time::Duration;

#[cfg(doc)]
use tollgate_core::ErrorKind;
use tollgate_core::store::{Check, Request};
use tollgate_core::{Key, Store, StoreError, Wait};

use super::client::Outbound;

impl<S: Store> Outbound<S> {
    /// Lowers what remains for `key` to what the service reports: `remaining` units until
    /// `reset_after` has passed.
    ///
    /// This can only lower what the limits admit, for all processes: what is missing to `remaining`
    /// counts as consumed now. If nothing remains, and `reset_after` says how long, the key is also
    /// paused for that time and the margin.
    ///
    /// If there are several limits, this is about the one with the shortest window that is at least
    /// `reset_after` long, or with the shortest of all if that is unknown. If you know which limit
    /// the service describes, use [`observe_limit`](Self::observe_limit).
    ///
    /// An answer that is late describes a window that may be over. Such a report makes calls slower
    /// than they need be, for a window at most, and never faster. Calls of other processes that are
    /// on their way to the service may not be counted in `remaining`, but the store has counted
    /// them.
    ///
    /// # Errors
    ///
    /// Awaiting returns the store's errors. After an error, report again: once or twice makes no
    /// difference.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbound = Outbound::builder(MemoryStore::new(), ["api=sliding-log:100/1m"]).build()?;
    /// outbound.observe("api.example.com", 3, None).await?;
    /// let permit = outbound.call("api.example.com").await?;
    /// assert_eq!(permit.remaining(), 2);
    /// // More than that is not believed.
    /// outbound.observe("api.example.com", 50, None).await?;
    /// assert_eq!(outbound.call("api.example.com").await?.remaining(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        remaining: u64,
        reset_after: Option<Duration>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        // There always is one.
        let described = Ok(self.described_by(reset_after).unwrap_or_default());
        self.lower(key.into(), described, remaining, reset_after)
    }

    /// Does the same as [`observe`](Self::observe), for the limit called `name`.
    ///
    /// # Errors
    ///
    /// Awaiting returns the store's errors, and [`ErrorKind::Malformed`] if there is no such limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = ["second=sliding-log:10/1s", "hour=sliding-log:500/1h"];
    /// let outbound = Outbound::builder(MemoryStore::new(), limits).build()?;
    /// outbound.observe_limit("api.example.com", "hour", 40, None).await?;
    /// let permit = outbound.call("api.example.com").await?;
    /// assert_eq!(permit.verdicts().as_slice()[0].remaining(), 9);
    /// assert_eq!(permit.verdicts().as_slice()[1].remaining(), 39);
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe_limit<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        name: &str,
        remaining: u64,
        reset_after: Option<Duration>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.lower(key.into(), self.index_of(name), remaining, reset_after)
    }

    /// Denies all calls for `key`, of all processes, for `wait` and the margin.
    ///
    /// Returns how long the key is paused now: a pause never ends earlier than an earlier one said.
    /// Calls that wait go on waiting if they may wait that long, and are refused otherwise. Calls
    /// that have their permit already are not called back.
    ///
    /// # Errors
    ///
    /// Awaiting returns the store's errors. After an error, call this again: once or twice makes no
    /// difference.
    ///
    /// # Examples
    ///
    /// See the [type](Self).
    pub fn penalize<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
        wait: Duration,
    ) -> impl Future<Output = Result<Wait, StoreError>> + Send {
        let pause = wait.saturating_add(self.shared.margin);
        self.shared.urgent.block(key).lasting(pause).into_future()
    }

    /// Pauses `key` like [`penalize`](Self::penalize), when the service does not say for how long:
    /// as long as the block for pauses lasts.
    ///
    /// That is 1 second by default. A pause that begins soon after the last one lasts twice as long,
    /// up to 64 seconds; see [`Block`](tollgate_core::Block).
    ///
    /// # Errors
    ///
    /// Awaiting returns the store's errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbound = Outbound::builder(MemoryStore::new(), ["api=gcra:10/1s"]).build()?;
    /// let pause = outbound.back_off("api.example.com").await?;
    /// assert_eq!(pause.as_secs_ceil(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn back_off<'a>(
        &'a self,
        key: impl Into<Key<'a>>,
    ) -> impl Future<Output = Result<Wait, StoreError>> + Send {
        self.shared.urgent.block(key).into_future()
    }

    /// Lowers what is left of the limit with this index.
    async fn lower(
        &self,
        key: Key<'_>,
        index: Result<usize, StoreError>,
        remaining: u64,
        reset_after: Option<Duration>,
    ) -> Result<(), StoreError> {
        let limit = &self.stricter_limits()[index?];
        if let (0, Some(wait)) = (remaining, reset_after) {
            // First what stops all calls at once.
            let _ = self.penalize(key, wait).await?;
        }
        let request = Request::lower(Check::new(limit, key, remaining));
        let _ = self.shared.urgent.store().decide(request).await?;
        Ok(())
    }
}
