//! A store that counts how often it is asked, a clock that jumps, and the most within a window.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{Store, StoreError, Timestamp};
use tollgate_memory::{Clock, MemoryStore};

pub(crate) struct Counted<S> {
    store: S,
    calls: AtomicUsize,
}

impl<S> Counted<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            store,
            calls: AtomicUsize::new(0),
        }
    }

    /// Returns the number of requests so far.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl<S: Store> Store for Counted<S> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let _ = self.calls.fetch_add(1, Ordering::Relaxed);
        self.store.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

/// The clock of Tokio, which jumps to the next timer when everybody waits.
#[derive(Clone, Copy)]
pub(crate) struct Jumping(Instant);

impl Jumping {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn memory(self) -> MemoryStore {
        MemoryStore::builder().clock(self).build()
    }
}

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        let start = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
        start.saturating_add(self.0.elapsed())
    }
}

/// Runs in Tokio's time, which jumps.
pub(crate) fn in_jumps<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

/// Returns the most of these instants that any window of this length holds.
pub(crate) fn most_within(mut instants: Vec<Timestamp>, window: Duration) -> usize {
    instants.sort_unstable();
    let (mut first, mut most) = (0, 0);
    for (last, at) in instants.iter().enumerate() {
        while at.saturating_duration_since(instants[first]) >= window {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}
