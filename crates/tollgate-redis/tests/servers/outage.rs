//! A server that goes away and comes back: calls fail at once meanwhile, and none is counted twice.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store, StoreError};
use tollgate_redis::{Options, RedisStore};
use tollgate_scenarios::{crowd, lost};
use tollgate_testkit::{Cluster, Flavor, SentinelGroup, Server};

/// The longest that a call may take to fail at once, on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(3);

fn options() -> Options {
    Options::default().with_deadline(DEADLINE)
}

fn limiter<S: Store>(store: S) -> RateLimiter<S> {
    let limit = Limit::new("all", FixedWindow::anchored(Quota::per_hour(1_000)));
    RateLimiter::new(store, [limit.unwrap()]).unwrap()
}

/// Calls until a call succeeds, and returns how many calls failed, each of them at once.
async fn until_answered(limiter: &RateLimiter<impl Store>) -> usize {
    let started = Instant::now();
    let mut failed = 0;
    loop {
        let called = Instant::now();
        match limiter.check("key").await {
            Ok(_) => return failed,
            Err(error) => {
                assert!(
                    called.elapsed() < AT_ONCE,
                    "{:?}: {error}",
                    called.elapsed()
                );
                failed += 1;
            }
        }
        assert!(started.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_fails_at_once_and_connects_again() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await;
    let limiter = limiter(store.unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());

    server.kill();
    // Until the client notices the lost connection, a call may have been sent.
    let killed = Instant::now();
    while limiter.check("key").await.unwrap_err().kind() == ErrorKind::Unknown {
        assert!(
            killed.elapsed() < Duration::from_secs(10),
            "it is not noticed"
        );
    }
    for _ in 0..10 {
        let called = Instant::now();
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(
            error.is_retryable() && called.elapsed() < AT_ONCE,
            "{error}"
        );
    }

    server.restart();
    assert!(until_answered(&limiter).await <= 10);
    assert!(limiter.check("key").await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_those_in_flight_are_known_not_to_be_sent() {
    let server = Server::start(Flavor::System);
    // Less than the time after which the connection is lost.
    let options = Options::default().with_deadline(Duration::from_secs(4));
    let options = options.with_batches(false);
    let builder = RedisStore::builder().options(options);
    let store = Arc::new(builder.connect(server.url()).await.unwrap());
    crowd::finds_places_or_is_not_sent(store, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_hung_server_ends_at_the_deadline() {
    let server = Server::start(Flavor::System);
    let options = options().with_deadline(Duration::from_millis(200));
    let store = RedisStore::builder()
        .options(options)
        .connect(server.url())
        .await;
    let limiter = limiter(store.unwrap());
    assert_eq!(limiter.check("key").await.unwrap().remaining(), 999);

    server.pause();
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let error = limiter.peek("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.resume();
    // The server still executes the call that timed out, once.
    until_answered(&limiter).await;
    assert_eq!(limiter.peek("key").await.unwrap().remaining(), 997);
}

/// The server executes the call, and the connection is cut before its reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_lost_reply_is_not_sent_again() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await;
    let limiter = limiter(store.unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());

    lost::is_not_asked_for_again(limiter, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_to_a_new_primary() {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let store = RedisStore::builder()
        .options(options())
        .connect_sentinel(urls, name)
        .await;
    let limiter = limiter(store.unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());

    let old = group.primary();
    old.kill();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let new = tokio::task::block_in_place(|| group.wait_for_failover(old));
    until_answered(&limiter).await;
    assert_ne!(new.port(), old.port());
    assert!(new.command(&["DBSIZE"]).integer() >= Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_away_from_a_primary_that_becomes_a_replica() {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let store = RedisStore::builder()
        .options(options())
        .connect_sentinel(urls, name)
        .await;
    let limiter = limiter(store.unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());

    tokio::task::block_in_place(|| group.failover());
    until_answered(&limiter).await;
    assert!(limiter.check("key").await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_away_from_a_primary_that_hangs() {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let options = options().with_deadline(Duration::from_millis(200));
    let store = RedisStore::builder()
        .options(options)
        .connect_sentinel(urls, name)
        .await;
    let limiter = limiter(store.unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());

    let old = group.primary();
    old.pause();
    until_answered(&limiter).await;
    assert_ne!(group.primary().port(), old.port());
    old.resume();
    assert!(limiter.check("key").await.unwrap().is_allowed());
}

fn several_threads() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap()
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Connects in a runtime, and calls a primary that hangs and is no longer trusted. Then drops the
/// runtime with the call, or the call outside of the runtime.
fn leave_a_call(group: &SentinelGroup, runtime: Runtime, is_dropped_outside: bool) {
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let primary = group.primary();
    let (over, is_over) = mpsc::channel();
    let (connected, is_connected) = mpsc::channel();
    let (paused, is_paused) = mpsc::channel::<()>();
    // If the thread hangs, it is left behind.
    thread::spawn(move || {
        let options = Options::default().with_deadline(Duration::from_secs(60));
        let store = runtime.block_on(
            RedisStore::builder()
                .options(options)
                .connect_sentinel(urls, name),
        );
        let limiter = Arc::new(limiter(store.unwrap()));
        runtime.block_on(async {
            assert!(limiter.check("key").await.unwrap().is_allowed());
            tokio::time::sleep(Duration::from_millis(1_200)).await;
        });
        connected.send(()).unwrap();
        is_paused.recv().unwrap();

        let mut call = Box::pin({
            let limiter = Arc::clone(&limiter);
            async move { limiter.check("key").await.is_ok() }
        });
        let in_flight = Duration::from_millis(200);
        if is_dropped_outside {
            let answer =
                runtime.block_on(async { tokio::time::timeout(in_flight, &mut call).await });
            assert!(answer.is_err(), "the primary does not hang");
            drop(call);
        } else {
            let call = runtime.spawn(call);
            runtime.block_on(async { tokio::time::sleep(in_flight).await });
            assert!(!call.is_finished(), "the primary does not hang");
            drop(runtime);
        }
        over.send(()).unwrap();
    });
    let patience = Duration::from_secs(20);
    is_connected.recv_timeout(patience).unwrap();
    primary.pause();
    paused.send(()).unwrap();
    let outcome = is_over.recv_timeout(patience);
    primary.resume();
    outcome.unwrap();
}

#[test]
fn a_call_to_sentinels_ends_with_its_runtime_or_outside_of_it() {
    // There must be no failover during the test.
    let group = SentinelGroup::options(Flavor::System).down_after(Duration::from_secs(60));
    let group = group.start();
    for is_dropped_outside in [false, true] {
        leave_a_call(&group, several_threads(), is_dropped_outside);
        leave_a_call(&group, one_thread(), is_dropped_outside);
    }
}

#[test]
fn sentinels_are_asked_again_after_the_end_of_a_runtime() {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let first = several_threads();
    let store = first.block_on(
        RedisStore::builder()
            .options(options())
            .connect_sentinel(urls, name),
    );
    let limiter = limiter(store.unwrap());
    let old = group.primary();
    first.block_on(async {
        assert!(limiter.check("key").await.unwrap().is_allowed());
        old.kill();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let error = limiter.check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
    drop(first);

    group.wait_for_failover(old);
    several_threads().block_on(async {
        until_answered(&limiter).await;
        assert!(limiter.check("key").await.unwrap().is_allowed());
    });
}

async fn check(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    limiter.check("key").await.map(drop)
}

/// Connects in a runtime that then ends, and calls in new ones. Returns the errors of the calls.
fn errors_on_later_runtimes<S: Store>(connect: impl AsyncFnOnce() -> S) -> Vec<StoreError> {
    let first = several_threads();
    let limiter = limiter(first.block_on(connect()));
    first.block_on(check(&limiter)).unwrap();
    drop(first);
    let mut errors = Vec::new();
    for next in [several_threads, one_thread, several_threads] {
        let runtime = next();
        let begun = Instant::now();
        runtime.block_on(async {
            while let Err(error) = check(&limiter).await {
                errors.push(error);
                assert!(begun.elapsed() < Duration::from_secs(10), "{errors:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }
    errors
}

#[test]
fn a_store_connects_on_the_runtime_of_its_next_call() {
    let server = Server::start(Flavor::System);
    for options in [options(), options().with_batches_only()] {
        let builder = RedisStore::builder().options(options);
        let connect = async || builder.connect(server.url()).await.unwrap();
        let errors = errors_on_later_runtimes(connect);
        assert!(errors.is_empty(), "{errors:?}");
    }
    let limiter = several_threads()
        .block_on(async { limiter(RedisStore::connect(server.url()).await.unwrap()) });
    let left = several_threads().block_on(async { limiter.peek("key").await });
    assert_eq!(left.unwrap().remaining(), 1_000 - 8);
}

#[test]
fn a_primary_is_looked_for_on_the_runtime_of_the_next_call() {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let builder = RedisStore::builder().options(options());
    let connect = async || builder.connect_sentinel(urls, name).await.unwrap();
    for error in errors_on_later_runtimes(connect) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
}

#[test]
fn a_cluster_store_says_that_its_runtime_has_ended() {
    let cluster = Cluster::masters_only(Flavor::System, 3);
    let first = several_threads();
    let builder = RedisStore::builder().options(options());
    let store = first.block_on(builder.connect_cluster(cluster.urls()));
    let limiter = limiter(store.unwrap());
    first.block_on(check(&limiter)).unwrap();
    drop(first);
    let runtime = several_threads();
    for _ in 0..3 {
        let error = runtime.block_on(check(&limiter)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(error.to_string().contains("runtime"), "{error}");
    }
}
