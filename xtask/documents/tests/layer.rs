//! The layer of `docs/writing-a-layer.md`, which keeps every promise.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_conformance::{Harness, conformance};
use tollgate_core::store::{Checks, Request, Source, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError};

/// Asks `first`, and `second` while that is unavailable.
struct Standby<S, T> {
    first: S,
    second: T,
    /// Tells the receipts of `second` from those of `first`.
    mark: u64,
}

impl<S: Store, T: Store> Standby<S, T> {
    async fn ask_second(&self, request: Request<'_>) -> Result<Verdicts, StoreError> {
        let receipt = request.receipt().map(|receipt| receipt.marked(self.mark));
        let request = match &receipt {
            Some(receipt) => request.with_receipt(receipt),
            None => request,
        };
        let verdicts = self.second.decide(request).await?;
        Ok(verdicts.marked(self.mark).with_source(Source::Fallback))
    }
}

#[async_trait]
impl<S: Store, T: Store> Store for Standby<S, T> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        if request.receipt().is_some() {
            // A store refuses the receipt of another one, and changes nothing.
            return match self.ask_second(request.clone()).await {
                Ok(verdicts) => Ok(verdicts),
                Err(_) => self.first.decide(request).await,
            };
        }
        if !request.operation().decides_a_call() {
            return self.first.decide(request).await;
        }
        match self.first.decide(request.clone()).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => self.ask_second(request).await,
            answer => answer,
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.second.reset(checks.clone()).await?;
        self.first.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.first.supports(request)
    }
}

struct MyHarness;

impl Harness for MyHarness {
    async fn store(&self) -> Arc<dyn Store> {
        let store = tollgate_memory::MemoryStore::new;
        Arc::new(Standby {
            first: store(),
            second: store(),
            mark: 0x9e37_79b9_7f4a_7c15,
        })
    }
}

conformance!(MyHarness, in one test);

#[tokio::test]
async fn receipt_goes_back_to_the_store_that_counted() {
    use tollgate_memory::{MemoryStore, RateLimiter};
    use tollgate_mock::{Fault, FaultyStore};
    let fails = [Fault::Fail(ErrorKind::Unavailable)];
    let store = Standby {
        first: FaultyStore::new(MemoryStore::new(), fails),
        second: MemoryStore::new(),
        mark: 4711,
    };
    let left = async || {
        let of = async |store: &dyn Store| {
            let limiter = RateLimiter::new(store, ["api=sliding-log:10/1h"]).unwrap();
            limiter.peek("alice").await.unwrap().remaining()
        };
        (of(&store.first).await, of(&store.second).await)
    };
    let limiter = RateLimiter::new(&store, ["api=sliding-log:10/1h"]).unwrap();
    let by_second = limiter.check("alice").cost(4).await.unwrap();
    assert_eq!(by_second.source(), Source::Fallback);
    let by_first = limiter.check("alice").cost(3).await.unwrap();
    assert_eq!(left().await, (7, 6));
    let receipt = by_second.into_receipt().unwrap();
    limiter.refund("alice", receipt).await.unwrap();
    assert_eq!(left().await, (7, 10));
    let receipt = by_first.into_receipt().unwrap();
    limiter.refund("alice", receipt).await.unwrap();
    assert_eq!(left().await, (10, 10));
}

/// The page shows lines of this file.
#[test]
fn page_shows_the_layer_that_is_tested() {
    let page = include_str!("../../../docs/writing-a-layer.md");
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let (code, _) = block.split_once("```").unwrap();
        assert!(include_str!("layer.rs").contains(code), "{code}");
    }
}
