//! Clients that a program brings, and connections that end with their store.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tollgate_core::{ErrorKind, StoreError};
use tollgate_fred::fred::prelude::ClientLike;
use tollgate_fred::{FredStore, FredStoreBuilder};
use tollgate_scenarios::secured::limiter;
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

/// Through a client of the caller's own, whose queue of commands is short. On one thread, all calls
/// are made before the client takes one out of its queue.
#[tokio::test]
async fn a_full_queue_is_not_taken_for_a_lost_connection() {
    let server = Server::start(Flavor::System);
    let options = Options::default().with_deadline(Duration::from_secs(2));
    let options = options.with_batches(false);
    let mut builder = FredStoreBuilder::from(options.clone())
        .client_builder(server.url())
        .unwrap();
    builder.with_connection_config(|connection| connection.max_command_buffer_len = 8);
    let client = builder.build().unwrap();
    client.init().await.unwrap();
    let limiter = limiter(FredStoreBuilder::from(options).over(client).unwrap());
    let _ = limiter.check("alice").await.unwrap();
    server.pause();
    let calls = (0..2_000).map(|_| limiter.check("alice").into_future());
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
