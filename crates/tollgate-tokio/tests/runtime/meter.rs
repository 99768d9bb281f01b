//! A metered stream settles once, at what passed, however it ends.

use std::error::Error;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::FusedStream;
use futures_util::{Stream, StreamExt, stream};
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::store::{Checks, Operation, Request, Verdicts};
use tollgate_core::{ErrorKind, RateLimiter, Receipt, Store, StoreError, SyncStore};
use tollgate_memory::MemoryStore;
use tollgate_tokio::meter::{Meter, Metered};

use crate::arrives;
use crate::clock::TokioClock;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const ESTIMATE: u64 = 100;

/// A store that takes a second to settle, records at which costs it settled, and fails.
pub(crate) struct Ledger {
    store: MemoryStore,
    settled: Mutex<Vec<u64>>,
    /// How many settlements are refused before anything is changed.
    refuses: AtomicUsize,
    /// How many replies are lost.
    loses: AtomicUsize,
}

#[async_trait]
impl Store for Ledger {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        if !matches!(request.operation(), Operation::Settle(_)) {
            return self.store.decide_now(&request);
        }
        sleep(SECOND).await;
        let one_less = |left: usize| left.checked_sub(1);
        let refused = self
            .refuses
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if refused.is_ok() {
            return Err(StoreError::new(ErrorKind::Unavailable, "refused"));
        }
        let cost = request.checks()[0].cost();
        self.settled.lock().unwrap().push(cost);
        arrives(self.store.decide_now(&request), &self.loses)
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

pub(crate) type Limiter = RateLimiter<Arc<Ledger>>;

fn limiter() -> Limiter {
    limiter_of(&["bytes=sliding-log:1000/1h"])
}

pub(crate) fn limiter_of(limits: &[&str]) -> Limiter {
    let store = Ledger {
        store: MemoryStore::builder().clock(TokioClock::new()).build(),
        settled: Mutex::default(),
        refuses: AtomicUsize::new(0),
        loses: AtomicUsize::new(0),
    };
    RateLimiter::new(Arc::new(store), limits.iter().copied()).unwrap()
}

pub(crate) async fn estimated(limiter: &Limiter) -> Receipt {
    let decision = limiter.check("alice").cost(ESTIMATE).await.unwrap();
    decision.into_receipt().unwrap()
}

/// Returns the costs that were settled, once all settlements in the background had time to end.
pub(crate) async fn settled(limiter: &Limiter) -> Vec<u64> {
    sleep(5 * SECOND).await;
    limiter.store().settled.lock().unwrap().clone()
}

pub(crate) async fn remaining(limiter: &Limiter) -> u64 {
    limiter.peek("alice").await.unwrap().remaining()
}

type Chunk = Result<Vec<u8>, &'static str>;

/// Returns a stream of chunks of these sizes, or of errors.
fn chunks(
    sizes: impl IntoIterator<Item = Result<usize, &'static str>>,
) -> stream::Iter<std::vec::IntoIter<Chunk>> {
    let chunks = sizes.into_iter().map(|size| size.map(|size| vec![0; size]));
    stream::iter(chunks.collect::<Vec<_>>())
}

async fn metered(
    limiter: &Limiter,
    sizes: impl IntoIterator<Item = Result<usize, &'static str>>,
) -> Metered<stream::Iter<std::vec::IntoIter<Chunk>>, Arc<Ledger>> {
    let receipt = estimated(limiter).await;
    chunks(sizes).metered(limiter, "alice", receipt)
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_is_settled_at_its_size() {
    let limiter = limiter();
    let mut body = metered(&limiter, [Ok(7), Ok(0), Ok(5)]).await;
    assert_eq!(body.size_hint(), (3, Some(3)));
    assert!(!body.is_terminated());
    let (mut sizes, started) = (Vec::new(), Instant::now());
    while let Some(chunk) = body.next().await {
        sizes.push(chunk.unwrap().len());
    }
    assert_eq!((sizes, body.cost()), (vec![7, 0, 5], 12));
    // Its end does not wait for the settlement.
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(body.is_terminated() && body.next().await.is_none());
    assert_eq!(body.size_hint(), (0, Some(0)));
    // The stream still exists: its end was enough.
    assert_eq!(settled(&limiter).await, [12]);
    assert_eq!(remaining(&limiter).await, 988);
    drop(body);
    assert_eq!(settled(&limiter).await, [12]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_would_go_on_after_its_end_is_not_polled_again() {
    let limiter = limiter();
    let receipt = estimated(&limiter).await;
    let mut polls = 0_u64;
    let endless = stream::poll_fn(|_| {
        polls += 1;
        Poll::Ready((polls != 2).then_some(7))
    });
    let mut body = endless.metered_by(&limiter, "alice", receipt, |&size, used| used.add(size));
    assert_eq!(body.next().await, Some(7));
    assert_eq!(body.size_hint(), (0, None));
    for _ in 0..2 {
        assert_eq!(body.next().await, None);
        assert_eq!(body.size_hint(), (0, Some(0)));
    }
    assert_eq!(body.finish().await.unwrap().cost(), 7);
    assert_eq!(polls, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_gone_before_its_settlement_is_done() {
    let limiter = limiter();
    let receipt = estimated(&limiter).await;
    let connection = Arc::new(());
    let held = Arc::clone(&connection);
    let body = stream::iter([7]).map(move |size| (Arc::clone(&held), size));
    let body = body.metered_by(&limiter, "alice", receipt, |&(_, size), used| {
        used.add(size)
    });
    assert_eq!(Arc::strong_count(&connection), 2);
    let mut finishing = Box::pin(body.finish());
    assert!(timeout(SECOND / 2, &mut finishing).await.is_err());
    assert_eq!(Arc::strong_count(&connection), 1);
    assert_eq!(finishing.await.unwrap().cost(), 0);
}

#[tokio::test(start_paused = true)]
async fn errors_pass_through_and_count_as_nothing() {
    let limiter = limiter();
    let mut body = metered(&limiter, [Ok(7), Err("reset"), Ok(5), Err("gone")]).await;
    assert_eq!(body.next().await.unwrap().unwrap().len(), 7);
    assert_eq!(body.next().await.unwrap(), Err("reset"));
    assert_eq!(settled(&limiter).await, [0; 0]);
    assert_eq!(body.next().await.unwrap().unwrap().len(), 5);
    assert_eq!(body.next().await.unwrap(), Err("gone"));
    // As most readers of a body do after an error.
    drop(body);
    assert_eq!(settled(&limiter).await, [12]);
}

#[tokio::test(start_paused = true)]
async fn started_units_count_in_full() {
    const KIB: NonZeroU64 = NonZeroU64::new(1_024).unwrap();
    for (sizes, cost) in [
        (&[0][..], 0),
        (&[1], 1),
        (&[1_024], 1),
        (&[1_025], 2),
        // The sum is rounded, not each chunk.
        (&[1, 1, 1], 1),
        (&[1_024, 1, 1_023], 2),
        (&[1_024, 1_024, 1], 3),
    ] {
        let limiter = limiter();
        let sizes = sizes.iter().map(|&size| Ok(size));
        let mut body = metered(&limiter, sizes).await.per(KIB);
        while body.next().await.is_some() {}
        let settled = body.finish().await.unwrap();
        assert_eq!((settled.cost(), settled.remaining()), (cost, 1_000 - cost));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_can_be_finished_before_and_after_its_end() {
    let limiter = limiter();
    let mut body = metered(&limiter, [Ok(7), Ok(9)]).await;
    assert!(body.next().await.is_some());
    let early = body.finish().await.unwrap();
    assert_eq!((early.cost(), early.remaining()), (7, 993));

    let mut body = metered(&limiter, [Ok(7), Ok(9)]).await;
    while body.next().await.is_some() {}
    sleep(5 * SECOND).await;
    let late = body.finish().await.unwrap();
    assert_eq!((late.cost(), late.remaining()), (16, 977));
    assert_eq!(settled(&limiter).await, [7, 16]);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_goes_on_if_nobody_waits_for_it_any_more() {
    let limiter = limiter();
    let body = metered(&limiter, [Ok(7)]).await;
    assert!(timeout(SECOND / 2, body.finish()).await.is_err());
    assert_eq!(settled(&limiter).await, [0]);

    // Nor is anything settled twice if it is dropped before it was polled.
    let body = metered(&limiter, [Ok(7)]).await;
    drop(body.finish());
    assert_eq!(settled(&limiter).await, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_failed_returns_the_receipt_if_nothing_was_changed() {
    let limiter = limiter();
    limiter.store().refuses.store(1, Ordering::SeqCst);
    let mut body = metered(&limiter, [Ok(7)]).await;
    while body.next().await.is_some() {}
    let refused = body.finish().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unavailable);
    assert_eq!((refused.cost(), &*refused.to_string()), (7, "refused"));
    assert_eq!(remaining(&limiter).await, 900);
    let (cost, receipt) = (refused.cost(), refused.into_receipt().unwrap());
    let left = limiter.settle("alice", receipt, cost).await.unwrap();
    assert_eq!(left.remaining(), 993);

    limiter.store().loses.store(1, Ordering::SeqCst);
    let lost = metered(&limiter, [Ok(7)]).await.finish().await.unwrap_err();
    assert_eq!(lost.error().kind(), ErrorKind::Unknown);
    assert_eq!(lost.source().unwrap().to_string(), "closed");
    assert!(lost.into_receipt().is_none());

    // Nobody learns of it in the background.
    limiter.store().refuses.store(1, Ordering::SeqCst);
    drop(metered(&limiter, [Ok(7)]).await);
    assert_eq!(settled(&limiter).await, [7, 0]);
    assert_eq!(remaining(&limiter).await, 893);
}

#[test]
fn a_runtime_that_ends_leaves_the_settlement_unknown() {
    let first = Builder::new_current_thread().enable_time().build().unwrap();
    let (limiter, body) = first.block_on(async {
        let limiter = limiter();
        let body = metered(&limiter, [Ok(7)]).await;
        yield_now().await;
        (limiter, body)
    });
    drop(first);
    let second = Builder::new_current_thread().enable_time().build().unwrap();
    let error = second.block_on(body.finish()).unwrap_err();
    assert_eq!(error.error().kind(), ErrorKind::Unknown);
    assert!(error.to_string().contains("the runtime ended"), "{error}");
    assert_eq!(StoreError::from(error).kind(), ErrorKind::Unknown);
    assert_eq!(*limiter.store().settled.lock().unwrap(), [0; 0]);
}
