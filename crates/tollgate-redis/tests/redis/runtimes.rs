//! Runtimes that end while a store lives on, and with calls under way.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store, StoreError};
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_testkit::{Cluster, Flavor, SentinelGroup, Server};
use tollgate_wire::Options;

fn options() -> Options {
    Options::default().with_deadline(Duration::from_secs(3))
}

fn limiter<S: Store>(store: S) -> RateLimiter<S> {
    let limit = Limit::new("all", FixedWindow::anchored(Quota::per_hour(1_000)));
    RateLimiter::new(store, [limit.unwrap()]).unwrap()
}

async fn check(limiter: &RateLimiter<impl Store>) -> Result<(), StoreError> {
    limiter.check("key").await.map(drop)
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
        let store = runtime.block_on(RedisStoreBuilder::from(options).connect_sentinel(urls, name));
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
    let store = first.block_on(RedisStoreBuilder::from(options()).connect_sentinel(urls, name));
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
        let begun = Instant::now();
        while let Err(error) = check(&limiter).await {
            assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
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
        let builder = RedisStoreBuilder::from(options);
        let connect = async || builder.connect(server.url()).await.unwrap();
        let errors = errors_on_later_runtimes(connect);
        assert!(errors.is_empty(), "{errors:?}");
    }
    let limiter = several_threads()
        .block_on(async { limiter(RedisStore::connect(server.url()).await.unwrap()) });
    let left = several_threads().block_on(async { limiter.peek("key").await });
    assert_eq!(left.unwrap().remaining(), 1_000 - 8);
}

/// Neither tasks nor timers of such a runtime run.
#[test]
fn calls_in_batches_end_at_their_deadline_on_a_runtime_that_nobody_drives() {
    let server = Server::start(Flavor::System);
    let driven = several_threads();
    let options = Options::default().with_batches_only();
    let builder = RedisStoreBuilder::from(options.with_deadline(Duration::from_millis(100)));
    let store = driven.block_on(builder.connect(server.url()));
    let limiter = limiter(store.unwrap());
    let (ended, has_ended) = mpsc::channel();
    // If the thread hangs, it is left behind.
    thread::spawn(move || {
        let outcome = one_thread().handle().block_on(check(&limiter));
        ended.send(outcome).unwrap();
    });
    let outcome = has_ended.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_cluster_store_says_that_its_runtime_has_ended() {
    let cluster = Cluster::masters_only(Flavor::System, 3);
    let first = several_threads();
    let builder = RedisStoreBuilder::from(options());
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
