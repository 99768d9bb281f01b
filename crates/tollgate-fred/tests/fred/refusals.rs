//! What servers say to a command that they do not run, and what the store sends then.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::ErrorKind;
use tollgate_fred::fred::interfaces::ClientLike;
use tollgate_fred::fred::prelude::Client;
use tollgate_fred::fred::types::config::Blocking;
use tollgate_fred::operate::Operate;
use tollgate_fred::{FredStore, FredStoreBuilder};
use tollgate_scenarios::refusals as shared;
use tollgate_testkit::{Answer, FakeServer};
use tollgate_wire::Options;

use shared::{DONE, limiter, replies};

const DEADLINE: Duration = Duration::from_secs(2);

fn url(server: &FakeServer, scheme: &str) -> String {
    format!("{scheme}://127.0.0.1:{}", server.port())
}

async fn connect(url: &str) -> FredStore {
    let builder = FredStore::builder().deadline(DEADLINE);
    builder.connect(url).await.unwrap()
}

/// Connects a client of the program's own, which tries commands again, and does not let them share
/// a connection with one that blocks it.
pub(crate) async fn brought(url: &str, deadline: Duration) -> (FredStore, Client) {
    let options = Options::default().with_deadline(deadline);
    let mut builder = FredStoreBuilder::from(options.clone())
        .client_builder(url)
        .unwrap();
    builder.with_connection_config(|connection| connection.max_command_attempts = 3);
    builder.with_config(|config| config.blocking = Blocking::Error);
    let client = builder.build().unwrap();
    client.init().await.unwrap();
    let store = FredStoreBuilder::from(options)
        .over(client.clone())
        .unwrap();
    (store, client)
}

#[tokio::test]
async fn a_single_server_is_asked_once() {
    let server = FakeServer::start(replies(&["-TRYAGAIN later\r\n".into(), DONE.into()]));
    let limiter = limiter(connect(&server.url()).await);
    let error = limiter.reset("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(server.count("UNLINK"), 1);
}

#[tokio::test]
async fn a_key_that_stays_on_its_way_is_given_up_after_half_the_deadline() {
    let node = FakeServer::start_node(&[], replies(&["-TRYAGAIN later\r\n".into()]));
    let limiter = limiter(connect(&url(&node, "redis-cluster")).await);
    let begun = Instant::now();
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let took = begun.elapsed();
    let holds = took > DEADLINE * 2 / 5 && took < DEADLINE * 9 / 10;
    assert!(holds, "{took:?}");
    // The pauses grow to 32 ms.
    let sent = node.count("EVALSHA");
    assert!((6..=40).contains(&sent), "{sent}");
}

#[tokio::test]
async fn a_command_is_written_once_whatever_the_client_does() {
    let replies = || replies(&[Answer::ReplyAndClose(String::new()), DONE.into()]);
    let server = FakeServer::start(replies());
    let node = FakeServer::start_node(&[], replies());
    for (server, scheme) in [(&server, "redis"), (&node, "redis-cluster")] {
        let (store, _client) = brought(&url(server, scheme), DEADLINE).await;
        let error = limiter(store).check("key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown, "{scheme}: {error}");
        assert_eq!(server.count("EVALSHA"), 1, "{scheme}");
    }
}

#[tokio::test]
async fn calls_do_not_wait_for_each_other() {
    let server = FakeServer::start(replies(&[Answer::Nothing]));
    let node = FakeServer::start_node(&[], replies(&[Answer::Nothing]));
    for (server, scheme) in [(&server, "redis"), (&node, "redis-cluster")] {
        let (store, _client) = brought(&url(server, scheme), 5 * DEADLINE).await;
        let limiter = limiter(store);
        let later = async {
            received(server, 1).await;
            limiter.check("b").await
        };
        tokio::select! {
            outcome = limiter.check("a").into_future() => panic!("{scheme}: {outcome:?}"),
            outcome = later => panic!("{scheme}: {outcome:?}"),
            () = received(server, 2) => {}
        }
    }
}

/// Waits until a server has received `calls` calls.
async fn received(server: &FakeServer, calls: usize) {
    while server.count("EVALSHA") < calls {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn calls_do_not_wait_for_an_operator() {
    let hangs = Arc::new(AtomicBool::new(false));
    let server = FakeServer::start({
        let hangs = Arc::clone(&hangs);
        move |_| match hangs.load(Ordering::SeqCst) {
            true => Answer::Nothing,
            false => "+OK\r\n".into(),
        }
    });
    let (store, _client) = brought(&server.url(), 5 * DEADLINE).await;
    let limiter = limiter(store);
    hangs.store(true, Ordering::SeqCst);
    let greeted = server.commands().len();
    let call = async {
        while server.commands().len() == greeted {
            sleep(Duration::from_millis(1)).await;
        }
        limiter.check("key").await
    };
    tokio::select! {
        diagnosis = limiter.store().diagnose() => panic!("{diagnosis:?}"),
        outcome = call => panic!("{outcome:?}"),
        () = received(&server, 1) => {}
    }
}
