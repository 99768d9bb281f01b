//! What the store reports when servers are gone, hang, refuse, or lose a reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tollgate_core::{
    ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store, StoreError, Timestamp,
};
use tollgate_fred::fred::prelude::{Builder, ClientLike, Config, ReconnectPolicy};
use tollgate_fred::{FredStore, Options, connection};
use tollgate_scenarios::crowd;
use tollgate_testkit::{Flavor, Proxy, Reply, Server};

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

async fn connect(server: &Server, deadline: Duration) -> FredStore {
    let store = FredStore::builder()
        .options(options(deadline))
        .connect(&server.url())
        .await;
    store.expect("a server that answers")
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_those_in_flight_are_known_not_to_be_sent() {
    let server = Server::start(Flavor::System);
    let options = options(Duration::from_secs(4)).with_batches(false);
    let builder = FredStore::builder().options(options);
    let store = Arc::new(builder.connect(&server.url()).await.unwrap());
    crowd::finds_places_or_is_not_sent(store, &server).await;
}

/// Through a client of the caller's own, whose queue of commands is short. On one thread, all calls
/// are made before the client takes one out of its queue.
#[tokio::test]
async fn a_full_queue_is_not_taken_for_a_lost_connection() {
    let server = Server::start(Flavor::System);
    let options = options(Duration::from_secs(2)).with_batches(false);
    let mut builder = connection::builder(server.url(), &options).unwrap();
    builder.with_connection_config(|connection| connection.max_command_buffer_len = 8);
    let client = builder.build().unwrap();
    client.init().await.unwrap();
    let limiter = Arc::new(limiter(FredStore::with_options(client, options).unwrap()));
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
    let limiter = limiter(FredStore::with_options(client.clone(), options).unwrap());
    assert_eq!(call(&limiter).await.unwrap(), 99);

    proxy.cut_after_next("EVALSHA");
    let error = call(&limiter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}");
    assert!(!error.is_retryable());

    assert_eq!(call_until_it_works(&limiter).await, 97, "counted once");
    client.quit().await.unwrap();
}

#[tokio::test]
async fn a_stopped_server_fails_calls_at_once_until_it_is_back() {
    let server = Server::start(Flavor::System);
    let limiter = limiter(connect(&server, Duration::from_secs(5)).await);
    assert_eq!(call(&limiter).await.unwrap(), 99);

    server.kill();
    sleep(Duration::from_millis(200)).await;
    for _ in 0..10 {
        let begun = Instant::now();
        let error = call(&limiter).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.is_retryable());
        assert!(begun.elapsed() < Duration::from_millis(500), "{error:?}");
    }

    server.restart();
    assert_eq!(call_until_it_works(&limiter).await, 99);
}

#[tokio::test]
async fn a_call_to_a_hung_server_ends_at_the_deadline() {
    let server = Server::start(Flavor::System);
    let limiter = limiter(connect(&server, Duration::from_millis(200)).await);
    call_until_it_works(&limiter).await;

    server.pause();
    let begun = Instant::now();
    let error = call(&limiter).await.unwrap_err();
    let took = begun.elapsed();
    server.resume();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}");
    assert_eq!(
        error.to_string(),
        "no reply within 200ms: the call may have been counted, so do not send it again"
    );
    assert!(took >= Duration::from_millis(190), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    call_until_it_works(&limiter).await;
}

#[tokio::test]
async fn errors_quote_the_servers_refusal() {
    let server = Server::start(Flavor::System);
    let limiter = limiter(connect(&server, Duration::from_secs(5)).await);
    assert_eq!(call(&limiter).await.unwrap(), 99);

    let reply = server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(reply, Reply::Simple("OK".into()));
    let error = call(&limiter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("READONLY"), "{error}");

    server.command(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(call(&limiter).await.unwrap(), 98);
}

#[tokio::test]
async fn a_flushed_script_is_loaded_again() {
    let server = Server::start(Flavor::System);
    let limiter = limiter(connect(&server, Duration::from_secs(5)).await);
    for remaining in (90..100).rev() {
        assert_eq!(call(&limiter).await.unwrap(), remaining);
        server.command(&["SCRIPT", "FLUSH"]);
    }
}

#[tokio::test]
async fn connections_close_with_the_store() {
    let server = Server::start(Flavor::System);
    let clients = || {
        let reply = server.command(&["CLIENT", "LIST"]);
        reply.text().unwrap().lines().count()
    };
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
    let clients = || {
        let reply = server.command(&["CLIENT", "LIST"]);
        reply.text().unwrap().lines().count()
    };
    let alone = clients();
    server.pause();
    let (url, options) = (server.url(), Options::default());
    let connecting = FredStore::builder().options(options).connect(&url);
    let outcome = timeout(Duration::from_millis(300), connecting).await;
    assert!(outcome.is_err(), "a server that stands still has answered");
    server.resume();
    // Long enough for fred to connect again, if it tried.
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(clients(), alone);
}

#[tokio::test]
async fn failed_connections_have_their_error_kind() {
    let kind = |outcome: Result<FredStore, StoreError>| outcome.unwrap_err().kind();
    let server = Server::start(Flavor::System);
    let url = server.url();
    server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    let no_password = FredStore::connect(&url).await;
    assert_eq!(kind(no_password), ErrorKind::Misconfigured);
    let with_password = url.replace("//", "//:secret@");
    FredStore::connect(&with_password).await.unwrap();

    server.kill();
    let nobody = FredStore::connect(&with_password).await;
    assert_eq!(kind(nobody), ErrorKind::Unavailable);
    let no_url = FredStore::connect("here").await;
    assert_eq!(kind(no_url), ErrorKind::Misconfigured);
    let nothing = FredStore::builder().connect_pool(&url, 0).await;
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::Misconfigured);
}
