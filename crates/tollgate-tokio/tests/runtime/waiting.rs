//! A call that waits is admitted in its turn, costs one store call, and gives back what it does not
//! use.

use std::error::Error;
use std::future::ready;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::FusedStream;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::{Instant, advance, sleep};
use tollgate_core::store::{Checks, Operation, Request, Verdicts};
use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError, SyncStore};
use tollgate_memory::MemoryStore;
use tollgate_mock::MockStore;
use tollgate_tokio::WaitUpTo;
use tollgate_tokio::pace::Pace;
use tollgate_tokio::wait::{Admitted, TooLong, WaitError};

use crate::clock::TokioClock;
use crate::{arrives, paused};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// Tokio's timers are this exact.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// A store that counts its calls, takes time to answer, and loses replies.
pub(crate) struct Remote {
    pub(crate) store: Arc<MemoryStore>,
    calls: AtomicUsize,
    pub(crate) delay_ms: AtomicU64,
    loses: AtomicUsize,
}

impl Remote {
    pub(crate) fn new() -> Arc<Self> {
        let store = MemoryStore::builder().clock(TokioClock::new()).build();
        Self::to(Arc::new(store))
    }

    pub(crate) fn to(store: Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Self {
            store,
            calls: AtomicUsize::new(0),
            delay_ms: AtomicU64::new(0),
            loses: AtomicUsize::new(0),
        })
    }

    /// The next replies are lost.
    pub(crate) fn lose_replies(&self, count: usize) {
        self.loses.store(count, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Waits for half of the time that a call takes.
    async fn travel(&self) {
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            sleep(Duration::from_millis(delay) / 2).await;
        } else {
            yield_now().await;
        }
    }
}

#[async_trait]
impl Store for Remote {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        if !matches!(request.operation(), Operation::Refund(_)) {
            self.calls.fetch_add(1, Ordering::SeqCst);
        }
        self.travel().await;
        let answer = self.store.decide_now(&request);
        self.travel().await;
        arrives(answer, &self.loses)
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

pub(crate) type Limiter = RateLimiter<Arc<Remote>>;

pub(crate) fn limiter(limits: &[&str]) -> (Arc<Remote>, Limiter) {
    let store = Remote::new();
    let limiter = RateLimiter::new(Arc::clone(&store), limits.iter().copied());
    (store, limiter.unwrap())
}

/// Starts calls for "alice" in this order. Each tells its number and when it was admitted.
async fn start(
    limiter: &Limiter,
    costs: impl IntoIterator<Item = u64>,
) -> JoinSet<(usize, Duration)> {
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for (number, cost) in costs.into_iter().enumerate() {
        let limiter = limiter.clone();
        calls.spawn(async move {
            let admitted = wait(&limiter, cost, 100 * MINUTE).await;
            assert!(admitted.unwrap().decision().is_allowed());
            (number, started.elapsed())
        });
        yield_now().await;
    }
    calls
}

pub(crate) async fn finish(mut calls: JoinSet<(usize, Duration)>) -> Vec<(usize, Duration)> {
    let mut admitted = Vec::new();
    while let Some(call) = calls.join_next().await {
        admitted.push(call.unwrap());
    }
    admitted
}

/// Waits with a call for "alice" of this cost.
async fn wait(limiter: &Limiter, cost: u64, longest: Duration) -> Result<Admitted<'_>, WaitError> {
    let call = limiter.check("alice").cost(cost);
    call.wait_up_to(longest).await
}

/// Does so in a task, with a call of 1.
pub(crate) fn spawn_check<S>(
    limiter: &RateLimiter<S>,
    longest: Duration,
) -> JoinHandle<Result<(), WaitError>>
where
    S: Store + 'static,
{
    let limiter = limiter.clone();
    tokio::spawn(async move { limiter.check("alice").wait_up_to(longest).await.map(drop) })
}

pub(crate) fn too_long<T>(result: Result<T, WaitError>) -> TooLong {
    match result {
        Err(WaitError::TooLong(refused)) => refused,
        Err(error) => panic!("{error} instead of a refusal"),
        Ok(_) => panic!("admitted"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_would_wait_too_long_is_refused_at_once_and_consumes_nothing() {
    for limit in [
        "gcra:2/1s",
        "sliding-log:2/1s",
        "fixed-window:2/1s,anchored",
    ] {
        let (store, limiter) = limiter(&[&format!("mail={limit}")]);
        let at_once = start(&limiter, [1, 1]).await;
        assert_eq!(finish(at_once).await.len(), 2);
        let refused = too_long(limiter.check("alice").wait_up_to(SECOND / 10).await);
        assert_eq!(refused.limit().name(), "mail");
        let wait = if limit.starts_with("gcra") {
            SECOND / 2
        } else {
            SECOND
        };
        assert_eq!(refused.wait().duration(), Some(wait), "{limit}");
        let found = refused.excess().duration();
        assert_eq!(found, Some(wait - SECOND / 10), "{limit}");
        assert_eq!(
            refused.to_string(),
            format!("limit `mail`: would wait {wait:?}, but may wait 100ms")
        );

        // Those in line are counted in, and a refusal makes no call.
        let waiting = start(&limiter, [1, 2, 1]).await;
        let before = store.calls();
        let started = Instant::now();
        let refused = too_long(limiter.check("alice").wait_up_to(2 * SECOND).await);
        let wait = match limit {
            "gcra:2/1s" => 5 * SECOND / 2,
            _ => 3 * SECOND,
        };
        assert_eq!(refused.wait().duration(), Some(wait), "{limit}");
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(store.calls() == before || limit.starts_with("gcra"));
        // It is admitted then; timers are late by up to a tick for each call in the line.
        let last = limiter.check("alice");
        let last = last.wait_up_to(wait + 4 * TICK).await.unwrap();
        assert_eq!(last.decision().consumed(), 1);
        let elapsed = started.elapsed();
        assert!(elapsed < wait + 5 * TICK, "{limit}: {elapsed:?}");
        assert_eq!(finish(waiting).await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_in_line_until_its_deadline_is_refused_then() {
    let (store, limiter) = limiter(&["l=sliding-log:1/1s"]);
    let first = start(&limiter, [1, 1, 1]).await;
    // Another process takes the next three.
    let other = RateLimiter::new(Arc::clone(&store), limiter.limits()).unwrap();
    let waits = too_long(limiter.check("alice").wait_up_to(SECOND).await);
    assert_eq!(waits.wait().duration(), Some(3 * SECOND));
    let started = Instant::now();
    let call = spawn_check(&limiter, SECOND * 7 / 2);
    for _ in 0..3 {
        // Just before the others wake.
        while !other.check("alice").await.unwrap().is_allowed() {
            advance(TICK / 2).await;
        }
    }
    let refused = too_long(call.await.unwrap());
    let holds = refused.wait().duration().unwrap() > SECOND * 7 / 2;
    assert!(holds, "{refused}");
    let elapsed = started.elapsed();
    assert!(elapsed <= SECOND * 7 / 2 + 2 * TICK, "{elapsed:?}");
    assert_eq!(finish(first).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_cost_above_the_capacity_is_refused_for_ever() {
    for limit in ["gcra:2/1s", "sliding-log:2/1s"] {
        let (_, limiter) = limiter(&[&format!("mail={limit}")]);
        // It does not hold up others, and is refused at once behind them.
        for ahead in [0, 3] {
            let _waiting = start(&limiter, vec![2; ahead]).await;
            let started = Instant::now();
            let refused = too_long(wait(&limiter, 3, Duration::MAX).await);
            wait(&limiter, 0, Duration::ZERO).await.unwrap();
            assert_eq!(started.elapsed(), Duration::ZERO);
            assert!(refused.wait().is_never() && refused.excess().is_never());
            assert_eq!(
                refused.to_string(),
                "limit `mail`: never allowed, because the cost exceeds the capacity of 2"
            );
        }
    }
}

/// Timers tick once in a millisecond, and a call that is admitted now does not wait for that.
#[tokio::test(start_paused = true)]
async fn a_call_that_need_not_wait_starts_at_once() {
    for limit in ["gcra:2/1s", "sliding-log:2/1s"] {
        let (_, limiter) = limiter(&[&format!("l={limit}")]);
        advance(TICK / 2).await;
        let started = Instant::now();
        limiter.check("alice").wait_up_to(SECOND).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_call_leaves_nothing_to_do_in_the_background() {
    for limit in ["gcra:1/1s", "sliding-log:1/1s"] {
        let (_, limiter) = limiter(&[&format!("l={limit}")]);
        for longest in [SECOND, 2 * SECOND, Duration::ZERO] {
            let admitted = limiter.check("alice").wait_up_to(longest).await;
            assert_eq!(admitted.is_ok(), !longest.is_zero(), "{limit}");
            let tasks = Handle::current().metrics().num_alive_tasks();
            assert_eq!(tasks, 0, "{limit}");
        }
    }
}

#[test]
fn a_runtime_that_ends_before_its_calls_are_answered_holds_up_no_others() {
    let ending = paused();
    let (store, limiter) = ending.block_on(async {
        let (store, limiter) = limiter(&["l=sliding-log:1/1s"]);
        store.delay_ms.store(10_000, Ordering::SeqCst);
        let _calls = start(&limiter, [1]).await;
        sleep(SECOND).await;
        (store, limiter)
    });
    assert_eq!(store.calls(), 1);
    drop(ending);
    store.delay_ms.store(0, Ordering::SeqCst);
    paused().block_on(async {
        let started = Instant::now();
        limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
    });
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_consumes_nothing() {
    for limit in ["gcra:2/1s", "sliding-log:2/1s"] {
        let (store, limiter) = limiter(&[&format!("l={limit}")]);
        let remaining = async || limiter.peek("alice").await.unwrap().remaining();

        // Before it was polled, and on its way to the store.
        drop(limiter.check("alice").wait_up_to(MINUTE).into_future());
        assert_eq!(store.calls(), 0);
        store.delay_ms.store(100, Ordering::SeqCst);
        for travelled in [Duration::ZERO, 60 * TICK] {
            let call = limiter.check("alice").wait_up_to(MINUTE).into_future();
            let gone = tokio::time::timeout(travelled, call).await;
            assert!(gone.is_err(), "{limit}: {gone:?}");
            sleep(SECOND / 4).await;
            assert_eq!(remaining().await, 2, "{limit}");
        }
        store.delay_ms.store(0, Ordering::SeqCst);

        // While it waits: it gives its place to the next.
        let _ = finish(start(&limiter, [2]).await).await;
        let call = wait(&limiter, 2, MINUTE);
        let gone = tokio::time::timeout(10 * TICK, call).await;
        assert!(gone.is_err(), "{limit}: {gone:?}");
        sleep(10 * TICK).await;
        let started = Instant::now();
        limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
        let elapsed = started.elapsed();
        assert!(elapsed <= SECOND + TICK, "{limit}: {elapsed:?}");
        sleep(2 * SECOND).await;
        assert_eq!(remaining().await, 2, "{limit}");
    }
}

/// A line ends with the answer to its last call, and the next one begins before that call has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn lines_that_end_and_begin_lose_no_call() {
    let (_, limiter) = limiter(&["l=fixed-window:1000000000/1m"]);
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            for _ in 0..5_000 {
                let call = limiter.check("alice").wait_up_to(MINUTE).into_future();
                let done = tokio::time::timeout(20 * SECOND, call).await;
                done.expect("there is room for all of them").unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

/// Returns how many calls each of eight lines gets in ten seconds, if 20 calls wait in each at any
/// time.
async fn shares(limit: &str) -> Vec<usize> {
    let shared = Remote::new();
    let until = Instant::now() + 10 * SECOND;
    let mut callers = JoinSet::new();
    for line in 0..8 {
        let store = Remote::to(Arc::clone(&shared.store));
        // The first line is nearer to the store than the others.
        let delay = if line == 0 { 2 } else { 6 };
        store.delay_ms.store(delay, Ordering::SeqCst);
        // Limiters that are not clones of each other have lines of their own, as in processes.
        let limiter = RateLimiter::new(Arc::clone(&store), [limit]).unwrap();
        for _ in 0..20 {
            let limiter = limiter.clone();
            callers.spawn(async move {
                let mut admitted = 0;
                while Instant::now() < until {
                    limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
                    admitted += 1;
                }
                (line, admitted)
            });
        }
    }
    let mut shares = vec![0; 8];
    while let Some(caller) = callers.join_next().await {
        let (line, admitted): (usize, usize) = caller.unwrap();
        shares[line] += admitted;
    }
    shares
}

#[tokio::test(start_paused = true)]
async fn lines_of_several_processes_take_turns() {
    for limit in [
        "l=fixed-window:20/100ms",
        "l=fixed-window:20/100ms,anchored",
        "l=sliding-log:20/100ms",
    ] {
        let shares = shares(limit).await;
        let sum: usize = shares.iter().sum();
        let squares: usize = shares.iter().map(|share| share * share).sum();
        // Jain's index, in thousandths.
        let index = 1_000 * sum * sum / (shares.len() * squares);
        assert!(index >= 930, "{limit}: {index}, {shares:?}");
        assert!(sum >= 1_800, "{limit}: {sum} in all");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_without_time_are_asked_about_side_by_side() {
    let (store, limiter) = limiter(&["l=fixed-window:100/1m"]);
    store.delay_ms.store(10, Ordering::SeqCst);
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let limiter = limiter.clone();
        calls.spawn(async move { wait(&limiter, 1, Duration::ZERO).await.is_ok() });
    }
    assert!(calls.join_all().await.into_iter().all(|admitted| admitted));
    assert_eq!(store.calls(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_asks_again_when_something_is_given_back() {
    for by in ["refund", "settlement", "reset"] {
        let (_, limiter) = limiter(&["a=sliding-log:1/1m"]);
        let first = limiter.check("alice").await.unwrap();
        let receipt = first.into_receipt().unwrap();
        let begun = Instant::now();
        let waiting = spawn_check(&limiter, 2 * MINUTE);
        sleep(SECOND).await;
        match by {
            "refund" => drop(limiter.refund("alice", receipt).await.unwrap()),
            "settlement" => drop(limiter.settle("alice", receipt, 0).await.unwrap()),
            _ => limiter.reset("alice").await.unwrap(),
        }
        waiting.await.unwrap().unwrap();
        assert!(begun.elapsed() < 2 * SECOND, "{by}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_unknown_once() {
    for limit in ["gcra:1/1s", "sliding-log:1/1s"] {
        let (store, limiter) = limiter(&[&format!("l={limit}")]);
        store.lose_replies(1);
        let lost = limiter.check("alice").wait_up_to(MINUTE).await;
        match lost {
            Err(WaitError::Store(error)) => assert_eq!(error.kind(), ErrorKind::Unknown),
            other => panic!("{other:?} instead of an error"),
        }
        assert_eq!(store.calls(), 1);
        // It was counted: the next waits for it.
        let started = Instant::now();
        limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
        let elapsed = started.elapsed();
        assert!(elapsed >= SECOND, "{limit}: {elapsed:?}");

        // In a line, it is one caller's.
        store.lose_replies(1);
        let mut calls = JoinSet::new();
        for _ in 0..5 {
            let limiter = limiter.clone();
            calls.spawn(async move { limiter.check("alice").wait_up_to(MINUTE).await.is_err() });
        }
        let mut unknown = 0;
        while let Some(call) = calls.join_next().await {
            unknown += usize::from(call.unwrap());
        }
        assert_eq!(unknown, 1, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_yields_items_as_they_are_admitted() {
    let (store, limiter) = limiter(&["l=gcra:1/1s,burst=1"]);
    let mut items = stream::iter(0..5).pace(&limiter, "alice");
    assert_eq!(items.size_hint(), (5, Some(5)));
    let started = Instant::now();
    for number in 0..5_u32 {
        assert_eq!(items.next().await.unwrap().unwrap(), number);
        let late = started.elapsed() - SECOND * number;
        assert!(late <= TICK, "{late:?}");
    }
    assert!(items.next().await.is_none());
    assert_eq!(store.calls(), 5);

    // An item that is refused comes back.
    let items = stream::iter(["mail"; 2]).pace(&limiter, "alice");
    let mut items = items.wait_up_to(SECOND / 2);
    let refused = items.next().await.unwrap().unwrap_err();
    assert!(matches!(refused.error(), WaitError::TooLong(_)));
    assert_eq!(refused.into_item(), "mail");
    sleep(SECOND).await;
    assert_eq!(items.next().await.unwrap().unwrap(), "mail");
    assert!(items.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_check_failed_comes_back_with_the_error() {
    let (store, limiter) = limiter(&["l=gcra:1/1s"]);
    store.lose_replies(1);
    let mut items = stream::iter(["mail"]).pace(&limiter, "alice");
    let failed = items.next().await.unwrap().unwrap_err();
    assert_eq!(failed.to_string(), "lost");
    assert_eq!(failed.source().unwrap().to_string(), "closed");
    match failed.error() {
        WaitError::Store(error) => assert_eq!(error.kind(), ErrorKind::Unknown),
        other => panic!("{other:?} instead of the store's error"),
    }
    assert_eq!(failed.into_item(), "mail");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_waits_is_still_to_come() {
    let (_, limiter) = limiter(&["l=gcra:1/1s,burst=1"]);
    limiter.check("alice").wait_up_to(SECOND).await.unwrap();

    // The stream has ended with the item that waits.
    let mut items = stream::once(ready("mail")).pace(&limiter, "alice");
    assert!(!items.is_terminated());
    assert!(items.next().now_or_never().is_none());
    assert!(!items.is_terminated());
    assert_eq!(items.size_hint(), (1, Some(1)));
    assert_eq!(items.next().await.unwrap().unwrap(), "mail");
    assert!(items.is_terminated());
    assert_eq!(items.size_hint(), (0, Some(0)));

    // As many as a `usize` can tell come after it.
    let most = iter::once(0).chain(0..usize::MAX);
    let mut items = stream::iter(most).pace(&limiter, "alice");
    assert_eq!(items.size_hint(), (usize::MAX, None));
    assert!(items.next().now_or_never().is_none());
    assert_eq!(items.size_hint(), (usize::MAX, None));
}

/// A mock sees what a real store would.
#[tokio::test(start_paused = true)]
async fn a_mock_is_asked_for_a_reservation_or_a_check() {
    let mut mock = MockStore::new();
    let half = SECOND / 2;
    mock.expect_reserve("mail", "alice").times(1).delay_by(half);
    mock.expect_check("login", "alice").times(1).deny_for(half);
    mock.expect_check("login", "alice").times(1).allow();
    let mock = Arc::new(mock);
    let [mail, login] = ["mail=gcra:1/1s", "login=sliding-log:1/1s"]
        .map(|limit| RateLimiter::new(Arc::clone(&mock), [limit]).unwrap());
    for limiter in [mail, login] {
        let started = Instant::now();
        limiter.check("alice").wait_up_to(SECOND).await.unwrap();
        assert!(started.elapsed() >= half && started.elapsed() <= half + 2 * TICK);
    }
}

/// As `select!` does in a loop: whoever is not polled keeps its place.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_holds_up_the_line_until_it_is_dropped() {
    let (_, limiter) = limiter(&["l=sliding-log:1/1s"]);
    limiter.check("alice").wait_up_to(SECOND).await.unwrap();
    let mut idle = Box::pin(limiter.check("alice").wait_up_to(MINUTE).into_future());
    assert!(tokio::time::timeout(10 * TICK, &mut idle).await.is_err());
    let waiting = spawn_check(&limiter, MINUTE);
    sleep(10 * SECOND).await;
    assert!(!waiting.is_finished());
    drop(idle);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_limit_in_shadow() {
    for shadow in ["next=gcra:1/1h,shadow", "next=sliding-log:1/1h,shadow"] {
        let (_, alone) = limiter(&["api=gcra:20/1s,burst=1"]);
        let (_, beside) = limiter(&["api=gcra:20/1s,burst=1", shadow]);
        let alone = finish(start(&alone, [1; 10]).await).await;
        let beside = finish(start(&beside, [1; 10]).await).await;
        let last = |calls: &[(usize, Duration)]| calls.last().unwrap().1;
        // Of several limits, the line asks now and then a little later than it could.
        let late = Duration::from_millis(50);
        assert!(last(&beside) <= last(&alone) + late, "{beside:?}");
    }
}
