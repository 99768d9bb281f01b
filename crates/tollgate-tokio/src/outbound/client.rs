//! `Outbound`: calls to another service that stay under its limits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::{ErrorKind, Key, Limit, LimitError, RateLimiter, Store, StoreError};

// It begins both, and they lead back to it.
use super::builder::OutboundBuilder;
use super::call::OutboundCall;
use super::stricter::counts;

/// Keeps the calls of a fleet under the limits of somebody else's service.
///
/// The limits are the service's. Every call first [waits](Self::call) until they admit it. All
/// processes that use the same store, limits and key share them. Clones are cheap and share
/// everything, also the counts of [`stats`](Self::stats).
///
/// # Margin
///
/// The service counts calls when they arrive, the store when it admits them. If some calls take up
/// to `J` longer than others between these two, they can arrive closer together than they were
/// admitted. With a [margin](OutboundBuilder::margin) of `J`, the limits are stricter than the
/// service's, so that they hold on arrival:
///
/// | limit | becomes |
/// |---|---|
/// | `N` per window `T`: sliding log, sliding buckets, sliding counter | `N` per `T + J` |
/// | GCRA of `N` per `T` with burst `B` | a burst of `B - ceil(J * N / T)` |
/// | the same, if that burst would be less than 1 | `N` per `T + J * N` with a burst of 1 |
/// | fixed window | an error, unless it has [a margin of zero](OutboundBuilder::margin_of) |
///
/// A sliding counter is approximate, with a margin or without.
///
/// # Pauses
///
/// When the service asks for a pause, [`penalize`](Self::penalize) denies all calls for the key, of
/// all processes. For that, a [`Block`](tollgate_core::Block) called `FIRST-paused` is
/// added to the limits, where `FIRST` is the name of the first limit. To choose its name and times,
/// add one yourself, such as `paused=block:5s,doublings=4`.
///
/// # Background calls
///
/// If `R` is [kept for urgent calls](OutboundBuilder::keep_for_urgent), [background](OutboundCall::background) calls
/// also keep to a second limit of `N - R` per window, for GCRA with a burst of `B - R`, or 1; so the
/// rest is left to urgent ones.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_memory::MemoryStore;
/// use tollgate_tokio::Outbound;
/// use tollgate_tokio::wait::WaitError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The service allows 100 calls a second. Some take 30 ms longer than others to get there.
/// let outbound = Outbound::builder(MemoryStore::new(), ["api=sliding-log:100/1s"])
///     .margin(Duration::from_millis(30))
///     .build()?;
/// assert_eq!(outbound.stricter_limits()[0].to_string(), "api=sliding-log:100/1030ms");
///
/// outbound.call("api.example.com").wait_up_to(Duration::from_secs(5)).await?;
/// // Send the request. The answer is 429, with `Retry-After: 60`.
/// outbound.penalize("api.example.com", Duration::from_secs(60)).await?;
///
/// let refused = outbound.call("api.example.com").wait_up_to(Duration::from_secs(5)).await;
/// match refused {
///     Err(WaitError::TooLong(refused)) => assert_eq!(refused.limit().name(), "api-paused"),
///     other => panic!("{other:?} instead of a refusal"),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Outbound<S> {
    pub(super) shared: Arc<Shared<S>>,
}

pub(super) struct Shared<S> {
    /// The service's limits, and the block.
    pub(super) limits: Vec<Limit>,
    /// The stricter limits, in the same order.
    pub(super) urgent: RateLimiter<Arc<S>>,
    /// The same, and the limits of background calls after them.
    pub(super) background: RateLimiter<Arc<S>>,
    pub(super) margin: Duration,
    pub(super) permit_age: Option<Duration>,
    pub(super) admitted: AtomicU64,
    pub(super) stale: AtomicU64,
}

/// How many calls an [`Outbound`] and its clones have handled.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct OutboundStats {
    /// The calls that got a permit.
    pub admitted: u64,
    /// The permits that were too old when they came, and were given back: see
    /// [`permit_age`](OutboundBuilder::permit_age).
    pub stale: u64,
}

impl<S> Outbound<S> {
    /// Returns a builder for calls to a service with these `limits`, each a [`Limit`] or its text,
    /// or a reference to one. They are counted on `store`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// let limits = ["second=sliding-log:10/1s", "day=sliding-buckets:5000/1d,buckets=24"];
    /// let outbound = Outbound::builder(MemoryStore::new(), limits).build()?;
    /// assert_eq!(outbound.limits()[2].name(), "second-paused");
    /// # Ok::<(), tollgate_tokio::outbound::OutboundError>(())
    /// ```
    pub fn builder<L>(store: S, limits: impl IntoIterator<Item = L>) -> OutboundBuilder<S>
    where
        L: TryInto<Limit>,
        LimitError: From<L::Error>,
    {
        let limits: Result<Vec<Limit>, L::Error> =
            limits.into_iter().map(TryInto::try_into).collect();
        OutboundBuilder::new(store, limits.map_err(LimitError::from))
    }

    /// Returns the service's limits, as they were given, and the block for pauses.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.shared.limits
    }

    /// Returns the limits that calls are checked against: [`limits`](Self::limits) in the same
    /// order, made stricter by the margin.
    #[must_use]
    pub fn stricter_limits(&self) -> &[Limit] {
        self.shared.urgent.limits()
    }

    /// Returns the margin.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.shared.margin
    }

    /// Returns how many calls were handled so far, by this `Outbound` and its clones in this
    /// process.
    #[must_use]
    pub fn stats(&self) -> OutboundStats {
        OutboundStats {
            admitted: self.shared.admitted.load(Ordering::Relaxed),
            stale: self.shared.stale.load(Ordering::Relaxed),
        }
    }

    /// Returns those of the [`limits`](Self::limits) that count calls, each with its index there: all but
    /// blocks.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_tokio::Outbound;
    ///
    /// let outbound = Outbound::builder((), ["pause=block:5s", "api=gcra:10/1s"]).build()?;
    /// let counting: Vec<_> = outbound.counting().map(|(index, of)| (index, of.name())).collect();
    /// assert_eq!(counting, [(1, "api")]);
    /// # Ok::<(), tollgate_tokio::outbound::OutboundError>(())
    /// ```
    pub fn counting(&self) -> impl Iterator<Item = (usize, &Limit)> + Clone {
        let limits = self.limits().iter().enumerate();
        limits.filter(|(_, limit)| counts(limit))
    }

    /// Returns the index in [`limits`](Self::limits) of the limit that [`observe`](Self::observe)
    /// lowers for this `reset_after`. There always is one.
    #[must_use]
    pub fn described_by(&self, reset_after: Option<Duration>) -> Option<usize> {
        let least = reset_after.unwrap_or_default();
        let window = |limit: &Limit| limit.algorithm().longest_window();
        let shortest = self.counting().min_by_key(|(_, limit)| {
            let window = window(limit);
            // If all windows are shorter, it is about the longest.
            let is_short = window < least;
            (is_short, if is_short { least - window } else { window })
        });
        shortest.map(|(index, _)| index)
    }

    /// Returns the index of the limit called `name`, also among the stricter limits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if there is none, or it counts no calls.
    pub(super) fn index_of(&self, name: &str) -> Result<usize, StoreError> {
        let mut counting = self.counting();
        let named = counting.find(|(_, limit)| limit.name() == name);
        named.map(|(index, _)| index).ok_or_else(|| {
            let names: Vec<_> = self.counting().map(|(_, limit)| limit.name()).collect();
            let message = format!(
                "no limit `{name}` counts calls here: choose one of `{}`",
                names.join("`, `")
            );
            StoreError::new(ErrorKind::Malformed, message)
        })
    }

    /// Returns a call for `key`, which waits until the limits admit it.
    ///
    /// Send the request as soon as you have the permit: the margin does not include time that you
    /// let pass before that. A request that is sent again needs a permit of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_core::Store;
    /// # use tollgate_tokio::Outbound;
    /// # use tollgate_tokio::wait::WaitError;
    /// # async fn example(outbound: &Outbound<impl Store + 'static>) -> Result<(), WaitError> {
    /// let permit = outbound
    ///     .call("api.example.com")
    ///     .cost(2)
    ///     .background()
    ///     .wait_up_to(Duration::from_secs(30))
    ///     .await?;
    /// assert_eq!(permit.cost(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<'k>(&self, key: impl Into<Key<'k>>) -> OutboundCall<'k, S> {
        OutboundCall::new(self.clone(), key.into())
    }
}

impl<S: Store> Outbound<S> {
    /// Returns the error that every call fails with, if there is one, without asking the store: for
    /// when a program starts.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](tollgate_core::ErrorKind::Unsupported) or
    /// [`Malformed`](tollgate_core::ErrorKind::Malformed), with what to do instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_memory::MemoryStore;
    /// use tollgate_tokio::Outbound;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbound = Outbound::builder(MemoryStore::new(), ["api=gcra:100/1s"]).build()?;
    /// outbound.supported()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn supported(&self) -> Result<(), StoreError> {
        self.shared.background.check("any").supported()?;
        self.shared.urgent.block("any").supported()
    }
}

impl<S> Clone for Outbound<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Shows the limits and the margin; a store need not implement `Debug`.
impl<S> fmt::Debug for Outbound<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("limits", &self.limits())
            .field("margin", &self.shared.margin)
            .finish_non_exhaustive()
    }
}
