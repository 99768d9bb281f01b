//! Clients that a program brings, and connections that end with their store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tollgate_core::{
    ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store, StoreError, Timestamp,
};
use tollgate_fred::fred::prelude::{Builder, ClientLike, Config, ReconnectPolicy};
use tollgate_fred::{FredStore, FredStoreBuilder};
use tollgate_testkit::{Flavor, Proxy, Server};
use tollgate_wire::Options;

/// All calls are decided at one instant, so that no window ends during a test.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn limiter<S: Store>(store: S) -> RateLimiter<S> {
    let limit = Limit::new("calls", FixedWindow::aligned(Quota::per_hour(100)));
    RateLimiter::new(store, limit).expect("one limit")
}

async fn call<S: Store>(limiter: &RateLimiter<S>) -> Result<u64, StoreError> {
    let decision = limiter.check("alice").at(NOW).await?;
    Ok(decision.remaining())
}

fn options(deadline: Duration) -> Options {
    Options::default().with_deadline(deadline)
}

/// Calls until a call succeeds, for at most ten seconds.
async fn call_until_it_works<S: Store>(limiter: &RateLimiter<S>) -> u64 {
    let begun = Instant::now();
    loop {
        match call(limiter).await {
            Ok(remaining) => return remaining,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(10), "{error:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Through a client of the caller's own, whose queue of commands is short. On one thread, all calls
/// are made before the client takes one out of its queue.
#[tokio::test]
async fn a_full_queue_is_not_taken_for_a_lost_connection() {
    let server = Server::start(Flavor::System);
    let options = options(Duration::from_secs(2)).with_batches(false);
    let mut builder = FredStoreBuilder::from(options.clone())
        .client_builder(server.url())
        .unwrap();
    builder.with_connection_config(|connection| connection.max_command_buffer_len = 8);
    let client = builder.build().unwrap();
    client.init().await.unwrap();
    let limiter = Arc::new(limiter(
        FredStoreBuilder::from(options).over(client).unwrap(),
    ));
    call(&limiter).await.unwrap();
    server.pause();
    let calls = (0..2_000).map(|_| call(&limiter));
    let outcomes = futures_util::future::join_all(calls).await;
    server.resume();
    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    let is_refused = |error: &&StoreError| error.kind() == ErrorKind::Unavailable;
    let refused: Vec<_> = errors.iter().filter(is_refused).collect();
    assert!(!refused.is_empty(), "no call is refused");
    for error in refused {
        let text = error.to_string();
        assert!(text.starts_with("too many calls are in flight"), "{text}");
    }
}

#[tokio::test]
async fn a_call_with_a_lost_reply_is_not_sent_again() {
    let server = Server::start(Flavor::System);
    let proxy = Proxy::start(server.address());
    // By itself, fred would try three times.
    let config = Config::from_url(&proxy.url()).unwrap();
    let client = Builder::from_config(config)
        .set_policy(ReconnectPolicy::new_constant(0, 10))
        .build()
        .unwrap();
    client.init().await.unwrap();
    assert_eq!(client.connection_config().max_command_attempts, 3);
    let options = options(Duration::from_secs(5));
    let limiter = limiter(
        FredStoreBuilder::from(options)
            .over(client.clone())
            .unwrap(),
    );
    assert_eq!(call(&limiter).await.unwrap(), 99);

    proxy.cut_after_next("EVALSHA");
    let error = call(&limiter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}");
    assert!(!error.is_retryable());

    assert_eq!(call_until_it_works(&limiter).await, 97, "counted once");
    client.quit().await.unwrap();
}

/// Returns how many connections the server has.
fn clients(server: &Server) -> usize {
    let reply = server.command(&["CLIENT", "LIST"]);
    reply.text().unwrap().lines().count()
}

#[tokio::test]
async fn connections_close_with_the_store() {
    let server = Server::start(Flavor::System);
    let clients = || clients(&server);
    let alone = clients();
    let store = FredStore::builder().connect_pool(&server.url(), 3).await;
    assert!(clients() >= alone + 3);
    drop(store);
    let begun = Instant::now();
    while clients() > alone {
        assert!(begun.elapsed() < Duration::from_secs(5), "{}", clients());
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn connections_close_when_connecting_is_cancelled() {
    let server = Server::start(Flavor::System);
    let clients = || clients(&server);
    let alone = clients();
    server.pause();
    let (url, options) = (server.url(), Options::default());
    let connecting = FredStoreBuilder::from(options).connect(&url);
    let outcome = timeout(Duration::from_millis(300), connecting).await;
    assert!(outcome.is_err(), "a server that stands still has answered");
    server.resume();
    // Long enough for fred to connect again, if it tried.
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(clients(), alone);
}
