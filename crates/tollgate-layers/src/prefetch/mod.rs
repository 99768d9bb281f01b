//! `Prefetch`: admits calls by units that were asked for ahead.

mod changes;
mod driver;
mod hand;
mod hot;
#[cfg(all(test, feature = "__shuttle"))]
mod shuttle;
mod sweeper;
mod table;
#[cfg(test)]
mod tests;
mod units;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Begun, Checks, Prefetch as Ahead, Request, Verdicts};
use tollgate_core::{Clock, Store, StoreError};

use driver::Driver;

use crate::forward::{decide_by_begin, forward};

/// Wraps a store, and admits most calls of busy keys without asking it: the store counts units ahead, of
/// all limits of the call together, and this process uses them within a short time.
///
/// The bound of each limit holds exactly, also beside processes that do not prefetch, whenever the units
/// are used, but for three events that are stated below: see
/// [`Operation::Prefetch`](tollgate_core::store::Operation::Prefetch). Each process asks for
/// what it has used lately, and for at most a quarter of what is left, so that the last units are asked for
/// one by one, and no process hoards them. Units that are not used are given back when their time is over.
///
/// A key is prefetched while it is called more than a few times within that time; others cost one lookup
/// more. One call of a key asks for units; those that come meanwhile wait for it, but no longer than twice
/// as long as the last answer took, and then have the store decide them. What the store denies is admitted by
/// units that have come into hand meanwhile. A call that costs more than what is in hand is the store's, as is
/// each call with an [id](tollgate_core::CallId), at a caller's instant, with keys of more than 256 bytes, with
/// more than eight limits or one that counts denied calls, or with different costs for them.
///
/// A decision's [`source`](tollgate_core::Decision::source) says whether it came from here, and its
/// [`age`](tollgate_core::Decision::age) how long ago the store was asked. It says as
/// [`remaining`](tollgate_core::Decision::remaining) what this process has in hand: at least that much is
/// left.
///
/// What it costs: GCRA has less of its burst by what leaks within that time; a sliding log at
/// most a twentieth of its quota, since its units are used within a twentieth of its window; a block, a
/// reset, a lowered or another limit takes effect in other processes within that time. A step forward of the
/// store's clock, and states that the store loses or another process resets, let through at most the units in
/// hand at that moment, once; a raised rate of GCRA, what it is raised by within that time. A process that
/// ends by itself calls [`give_back`](Self::give_back) before; what one that is killed had in hand is lost.
///
/// It needs a runtime of Tokio with timers. The one on which a call asks for units runs the task that gives
/// back, for calls on all runtimes; if it ends, or is not driven for some time, the next one that asks does.
/// Without a runtime, no call asks for units; and from the first call on that runs on one without timers,
/// which Tokio tells by a panic that is caught, none does; with `panic = "abort"` it ends the process. After
/// a `fork`, both processes would use the same units: make a new value.
///
/// Nothing is asked for ahead while that is not worth it: if an answer takes more than a quarter of the time
/// that the units last, or if there was none.
///
/// Up to 4,096 keys are prefetched at a time, each in 1.3 kB, or in up to 6 kB with eight limits and long keys;
/// calls of further keys ask the store.
///
/// With the feature `metrics`, it counts `tollgate_prefetched_units_total`, by the label `outcome`:
/// `granted`, `used`, `given_back`, and `lost`, which could not be given back, belonged to a key that was
/// reset, or were in hand when this value was dropped.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::store::Source;
/// use tollgate_layers::Prefetch;
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::new();
/// let store = Prefetch::new(redis, Duration::from_millis(200));
/// let limiter = RateLimiter::new(store, ["api=gcra:10000/1s"])?;
/// let mut asked = 0;
/// for _ in 0..1_000 {
///     let decision = limiter.check("alice").await?;
///     assert!(decision.is_allowed());
///     asked += usize::from(decision.source() == Source::Store);
/// }
/// assert!(asked < 100, "{asked}");
/// # Ok(())
/// # }
/// ```
pub struct Prefetch<S> {
    store: Arc<S>,
    /// `None` if no units are asked for.
    driver: Option<Arc<Driver<S>>>,
}

impl<S> Prefetch<S> {
    /// Wraps `store`, and uses units `within` this time after it asked for them, at most an hour; 200 ms is
    /// a good choice. Zero asks for none.
    #[must_use]
    pub fn new(store: S, within: Duration) -> Self {
        let (store, within) = (Arc::new(store), Ahead::new(1, within).within());
        let driver = || Arc::new(Driver::new(Arc::clone(&store), within, None));
        Self {
            driver: (!within.is_zero()).then(driver),
            store,
        }
    }

    /// Sets the clock by which units end, for tests. What is in hand by then is lost.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.driver = self.driver.map(|driver| {
            let store = Arc::clone(&self.store);
            Arc::new(Driver::new(store, driver.within, Some(Arc::new(clock))))
        });
        self
    }
}

impl<S: Store + 'static> Prefetch<S> {
    /// Gives back all units in hand, before a process ends; what the store does not take back within ten
    /// seconds is lost.
    ///
    /// Waits for units that are on their way back, too. If the caller goes away, they still arrive, as long as
    /// the runtime goes on. The calls that come afterwards ask for units again.
    pub async fn give_back(&self) {
        if let Some(driver) = &self.driver {
            driver.give_back().await;
        }
    }
}

#[async_trait]
impl<S: Store + 'static> Store for Prefetch<S> {
    decide_by_begin!();

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        match &self.driver {
            Some(driver) => driver.begin(request),
            None => self.store.begin(request),
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        match &self.driver {
            Some(driver) => driver.reset(checks).await,
            None => self.store.reset(checks).await,
        }
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

forward!(Prefetch<S>, store);

impl<S: fmt::Debug> fmt::Debug for Prefetch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = self.driver.as_ref().map(|driver| driver.within);
        f.debug_struct("Prefetch")
            .field("store", &self.store)
            .field("within", &within.unwrap_or_default())
            .finish_non_exhaustive()
    }
}
