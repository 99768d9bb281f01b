//! Calls that are sent together while their callers come and go.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_core::{RateLimiter, Store};
use tollgate_redis::{Options, RedisStore};
use tollgate_testkit::{Flavor, Server};

/// Whoever gives up does so after less than this.
const PATIENCE_US: u64 = 600;
const CALLS: u64 = 20_000;
const CALLERS: u64 = 64;
const KEYS: u64 = 5;

fn options() -> Options {
    Options::default().with_deadline(Duration::from_secs(10))
}

/// Returns how many calls for a key are admitted and waited for, how many are denied, and how many
/// callers gave up.
async fn storm<S: Store + 'static>(limiter: &RateLimiter<S>, number: u64) -> [u64; 3] {
    let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (limiter, counts) = (limiter.clone(), Arc::clone(&counts));
        callers.spawn(async move {
            let mut random = (caller + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number;
            for _ in 0..CALLS / CALLERS {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let key = format!("key-{}", random % KEYS);
                let call = limiter.check(&key).cost(1 + random % 2).into_future();
                let patience = Duration::from_micros(random % PATIENCE_US);
                let place = match timeout(patience, call).await {
                    Ok(decision) if decision.as_ref().unwrap().is_allowed() => {
                        let cost = decision.unwrap().consumed();
                        counts[0].fetch_add(cost, Ordering::Relaxed);
                        continue;
                    }
                    Ok(_) => 1,
                    // What it may have consumed.
                    Err(_) => 2,
                };
                counts[place].fetch_add(1 + random % 2, Ordering::Relaxed);
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    counts.each_ref().map(|count| count.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_give_up_are_counted_or_not_and_change_nothing_for_others() {
    let server = Server::start(Flavor::System);
    for (number, options) in [options().with_batches(true), options().with_batches_only()]
        .into_iter()
        .enumerate()
    {
        let prefix = format!("storm-{number}");
        let store = RedisStore::builder()
            .options(options.with_prefix(&prefix).unwrap())
            .connect(server.url())
            .await
            .unwrap();
        let store = Arc::new(store);
        let limits = ["each=gcra:1000000/1d", "log=sliding-log:2500/1d"];
        let limiter = RateLimiter::new(Arc::clone(&store), limits).unwrap();
        let [admitted, denied, gone] = storm(&limiter, 7).await;
        assert!(
            denied > 0 && gone > 0 && admitted > 0,
            "{denied} {gone} {admitted}"
        );
        // A last call comes after all that are on their way.
        let mut counted = 0;
        for key in 0..KEYS {
            let key = format!("key-{key}");
            let peek = limiter.peek(&key).await.unwrap();
            let left = peek.verdict("log").unwrap().remaining();
            counted += 2_500 - left;
            let each = peek.verdict("each").unwrap().remaining();
            // All or nothing, but for what has leaked since.
            assert!(1_000_000 - each <= 2_500 - left, "{each} {left}");
        }
        assert!(
            (admitted..=admitted + gone).contains(&counted),
            "{counted} counted, {admitted} admitted, {gone} gone"
        );
    }
}

#[test]
fn a_runtime_that_stands_still_holds_up_nobody() {
    let server = Server::start(Flavor::System);
    let [still, busy] = [(); 2].map(|()| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap()
    });
    let options = Options::default()
        .with_deadline(Duration::from_millis(200))
        .with_batches_only();
    let builder = RedisStore::builder().options(options);
    let store = busy.block_on(builder.connect(server.url())).unwrap();
    let limiter = RateLimiter::new(store, ["l=gcra:100/1h"]).unwrap();
    // A call begins on the first runtime, which starts a task to take calls along; then nothing runs
    // there any more.
    still.block_on(async {
        let mut call = pin!(limiter.check("alice").into_future());
        poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    });
    // Calls that come later do not wait for that task.
    std::thread::sleep(Duration::from_millis(5));
    let decision = busy.block_on(limiter.check("bob").into_future());
    assert!(decision.unwrap().is_allowed());
    still.block_on(async {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    });
    let decision = busy.block_on(limiter.check("alice").into_future());
    assert_eq!(decision.unwrap().remaining(), 99);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_blocks_its_thread_holds_up_no_other() {
    let server = Server::start(Flavor::System);
    let options = Options::default().with_batches_only();
    let builder = RedisStore::builder().options(options);
    let store = builder.connect(server.url()).await.unwrap();
    let limiter = RateLimiter::new(store, ["l=gcra:1000/1h"]).unwrap();
    assert!(limiter.check("alice").await.unwrap().is_allowed());
    let (is_blocked, mut blocks) = tokio::sync::oneshot::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let blocking = limiter.clone();
    let blocking = tokio::spawn(async move {
        let mut call = pin!(blocking.check("alice").into_future());
        // It starts a task to send the call, and goes on for long.
        poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        is_blocked.send(()).unwrap();
        let _ = ended.recv_timeout(Duration::from_secs(20));
        call.await.map(|decision| decision.is_allowed())
    });
    while blocks.try_recv().is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The other thread sends all calls meanwhile, in time.
    let decision = limiter.check("bob").await.unwrap();
    assert!(decision.is_allowed() && !blocking.is_finished());
    drop(end);
    assert!(blocking.await.unwrap().unwrap());
}
