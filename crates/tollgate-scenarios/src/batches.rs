//! Calls that are sent together while their callers come and go.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::task::{JoinSet, block_in_place};
use tokio::time::timeout;
use tollgate_core::{RateLimiter, Store};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::Options;

use crate::client::Client;
use crate::faults::executed;

/// Whoever gives up does so after less than this.
const PATIENCE_US: u64 = 600;
const CALLS: u64 = 20_000;
const CALLERS: u64 = 64;
const KEYS: u64 = 5;
/// How many callers call at once.
const AT_ONCE: u64 = 512;
/// How many storms there are at most until each fate has befallen a call.
const STORMS: u64 = 10;

fn options() -> Options {
    Options::new().with_deadline(Duration::from_secs(10))
}

/// Checks that calls which are made at once need fewer scripts if the options say so, and that no
/// other option is lost by that.
pub async fn calls_at_once_share_scripts_only_if_that_is_asked_for(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let options = options().with_prefix("own").unwrap();
    let together = options.clone().with_batches(true);
    for (options, shares) in [
        (options, false),
        (together.clone(), true),
        (together.with_batches(false), false),
    ] {
        server.command(&["FLUSHALL"]);
        let store = client.server(&server.url(), options).await.unwrap();
        let limiter = RateLimiter::new(store, ["l=fixed-window:300/1000d"]).unwrap();
        // The script is known afterwards, and so are all connections.
        assert!(limiter.check("bob").await.unwrap().is_allowed());
        let before = executed(&server);
        let mut callers = JoinSet::new();
        for _ in 0..AT_ONCE {
            let limiter = limiter.clone();
            callers.spawn(async move { limiter.check("alice").await.unwrap().is_allowed() });
        }
        let allowed = callers.join_all().await;
        assert_eq!(allowed.iter().filter(|allowed| **allowed).count(), 300);
        let scripts = executed(&server) - before;
        if shares {
            assert!(scripts < AT_ONCE / 2, "{scripts}");
        } else {
            assert_eq!(scripts, AT_ONCE);
        }
        let keys = server.command(&["KEYS", "own:*"]);
        let holds = matches!(&keys, Reply::Array(keys) if keys.len() == 2);
        assert!(holds, "{keys:?}");
    }
}

/// Returns how many calls for the keys of a storm are admitted and waited for, how many are denied, and
/// how many callers gave up.
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
                let key = format!("key-{number}-{}", random % KEYS);
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

/// Checks that what a dropped call consumed is counted or not, and nothing else is.
pub async fn callers_that_give_up_are_counted_or_not_and_change_nothing_for_others(
    client: &dyn Client,
) {
    let server = Server::start(Flavor::System);
    for (number, options) in [options().with_batches(true), options().with_batches_only()]
        .into_iter()
        .enumerate()
    {
        let prefix = format!("storm-{number}");
        let store = client
            .server(&server.url(), options.with_prefix(&prefix).unwrap())
            .await
            .unwrap();
        let limits = ["each=gcra:1000000/1d", "log=sliding-log:2500/1d"];
        let limiter = RateLimiter::new(store, limits).unwrap();
        let mut counts = [0; 3];
        let mut storms = 7..7;
        // On a busy machine, most callers of a storm may give up.
        while counts.contains(&0) {
            assert!(storms.end <= 7 + STORMS, "{counts:?}");
            for (count, more) in counts.iter_mut().zip(storm(&limiter, storms.end).await) {
                *count += more;
            }
            storms.end += 1;
        }
        let [admitted, _, gone] = counts;
        // A last call comes after all that are on their way.
        let mut counted = 0;
        let keys =
            storms.flat_map(|number| (0..KEYS).map(move |key| format!("key-{number}-{key}")));
        for key in keys {
            let peek = limiter.peek(&key).await.unwrap();
            let left = peek.verdict("log").unwrap().remaining();
            counted += 2_500 - left;
            let each = peek.verdict("each").unwrap().remaining();
            // All or nothing, but for what has leaked since.
            assert!(1_000_000 - each <= 2_500 - left, "{each} {left}");
        }
        let holds = (admitted..=admitted + gone).contains(&counted);
        assert!(holds, "{counted} counted, {admitted} admitted, {gone} gone");
    }
}

/// Checks that calls of a runtime whose tasks do not run delay no call of another.
pub async fn a_runtime_that_stands_still_holds_up_nobody(client: &dyn Client) {
    block_in_place(|| stand_still(client));
}

fn stand_still(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let [still, busy] = [(); 2].map(|()| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap()
    });
    let options = Options::new().with_deadline(Duration::from_millis(200));
    let options = options.with_batches_only();
    let store = busy.block_on(client.server(&server.url(), options));
    let store = store.unwrap();
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

/// Checks that a task which goes on for long after it made a call delays no call of another.
pub async fn a_task_that_blocks_its_thread_holds_up_no_other(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let store = client
        .server(&server.url(), Options::new().with_batches_only())
        .await
        .unwrap();
    let limiter = RateLimiter::new(store, ["l=gcra:1000/1h"]).unwrap();
    assert!(limiter.check("alice").await.unwrap().is_allowed());
    let (is_blocked, blocks) = tokio::sync::oneshot::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let blocking = limiter.clone();
    let blocking = tokio::spawn(async move {
        loop {
            let mut call = pin!(blocking.check("alice").into_future());
            // It starts a task to send the call, and goes on for long.
            let waits = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
            // On a busy machine, the answer may be there already.
            if waits.await {
                is_blocked.send(()).unwrap();
                let _ = ended.recv_timeout(Duration::from_secs(20));
                return call.await.map(|decision| decision.is_allowed());
            }
        }
    });
    blocks.await.unwrap();
    // The other thread sends all calls meanwhile, in time.
    let decision = limiter.check("bob").await.unwrap();
    assert!(decision.is_allowed() && !blocking.is_finished());
    drop(end);
    assert!(blocking.await.unwrap().unwrap());
}
