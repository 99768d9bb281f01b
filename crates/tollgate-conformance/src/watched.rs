//! `Watched`: a harness wrapper that counts whether its stores decided any request of a promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use tollgate_core::store::{Begun, Checks, Request, Verdicts};
use tollgate_core::{Store, StoreError, SyncStore};

use crate::harness::{Harness, Stores};

/// Counts of a promise's decided requests and of its histories.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    is_kept: AtomicBool,
    decided: AtomicU64,
    ended: AtomicU64,
    moot: AtomicU64,
}

impl Tally {
    /// Counts a history, which either ended or turned out moot.
    pub(crate) fn history(&self, ended: bool) {
        let counter = if ended { &self.ended } else { &self.moot };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the histories so far tell nothing, by chance: the store was asked nothing, or
    /// it decided, and yet all of them turned out moot.
    pub(crate) fn tells_nothing(&self) -> bool {
        let [decided, moot] =
            [&self.decided, &self.moot].map(|count| count.load(Ordering::Relaxed));
        self.is_kept.load(Ordering::Relaxed) && !self.applies() && (decided > 0 || moot == 0)
    }

    /// Returns whether a request was decided, and not all histories were moot.
    fn applies(&self) -> bool {
        let [decided, ended, moot] =
            [&self.decided, &self.ended, &self.moot].map(|count| count.load(Ordering::Relaxed));
        decided > 0 && (ended > 0 || moot == 0)
    }
}

/// A harness that records whether its stores decided anything.
pub(crate) struct Watched {
    harness: Arc<Stores>,
    tally: Arc<Tally>,
}

impl Watched {
    /// Wraps `harness`, to record in `tally` what its stores decide.
    pub(crate) fn new(harness: Arc<Stores>, tally: Arc<Tally>) -> Self {
        tally.is_kept.store(true, Ordering::Relaxed);
        Self { harness, tally }
    }

    /// Prints a line if the stores support nothing that the promise needs.
    ///
    /// # Panics
    ///
    /// If [`Harness::applies`] says otherwise.
    #[expect(
        clippy::print_stdout,
        reason = "a promise that was not put to the test must not look as if it were"
    )]
    pub(crate) fn tell(&self, promise: &str) {
        let applies = self.tally.applies();
        let expected = self.harness.applies(promise).unwrap_or(applies);
        assert!(
            applies == expected,
            "{promise}: `Harness::applies` says {expected}, but that the store supports any of its requests is {applies}"
        );
        if !applies {
            println!("not supported: the store supports no request of {promise}");
        }
    }
}

impl Harness for Watched {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(WatchedStore {
            store: self.harness.store().await,
            tally: Arc::clone(&self.tally),
            calls: AtomicU64::new(0),
        })
    }
}

struct WatchedStore {
    store: Arc<dyn Store>,
    tally: Arc<Tally>,
    calls: AtomicU64,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for WatchedStore {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        // In turn, so that all promises put both to the test.
        let answer = match self.calls.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => self.store.begin(&request).await,
            _ => self.store.decide(request).await,
        };
        if answer.is_ok() {
            self.tally.decided.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        self.store.begin(request)
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        self.store.as_sync()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::Just;

    use super::*;
    use crate::plan::{Plan, Stop};

    #[tokio::test(flavor = "multi_thread")]
    async fn moot_histories_of_a_store_that_decides_are_followed_by_others() {
        let plan = Plan::new(Vec::new()).with_histories(1);
        let histories = AtomicU64::new(0);
        let tally = Arc::clone(plan.tally());
        tally.is_kept.store(true, Ordering::Relaxed);
        let run = |decides: u64| {
            plan.check(&Just(()), async |()| {
                let so_far = histories.fetch_add(1, Ordering::Relaxed) + 1;
                tally.decided.fetch_add(decides, Ordering::Relaxed);
                if so_far == 3 { Ok(()) } else { Err(Stop::Moot) }
            });
            histories.swap(0, Ordering::Relaxed)
        };
        // The store supports nothing that is asked.
        assert_eq!(run(0), 1);
        assert_eq!(run(1), 3);
        assert!(tally.applies());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn histories_that_ask_nothing_are_followed_by_others() {
        let plan = Plan::new(Vec::new()).with_histories(1);
        let histories = AtomicU64::new(0);
        let tally = Arc::clone(plan.tally());
        let run = |asks: u64| {
            plan.check(&Just(()), async |()| {
                let so_far = histories.fetch_add(1, Ordering::Relaxed) + 1;
                tally
                    .decided
                    .fetch_add(u64::from(so_far == asks), Ordering::Relaxed);
                Ok(())
            });
            histories.swap(0, Ordering::Relaxed)
        };
        // Nobody counts what is decided.
        assert_eq!(run(0), 1);
        tally.is_kept.store(true, Ordering::Relaxed);
        assert_eq!(run(3), 3);
        assert_eq!(run(0), 1);
    }
}
