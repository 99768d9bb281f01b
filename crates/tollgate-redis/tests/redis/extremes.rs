//! Options set before a store connects, and the longest and shortest durations.

use std::thread;
use std::time::Duration;

use tollgate_redis::redis::aio::ConnectionLike;
use tollgate_redis::{RedisStore, RedisStoreBuilder, TimeSource};
use tollgate_scenarios::secured::is_misconfigured;
use tollgate_testkit::{FakeServer, Flavor, Server};
use tollgate_wire::Options;

/// A deadline bounds calls. It may well be shorter than the greeting of a new connection takes.
#[tokio::test]
async fn a_cluster_may_greet_later_than_the_deadline() {
    let node = FakeServer::start(|words| {
        thread::sleep(Duration::from_millis(20));
        match &*words[0] {
            "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
            _ => "+OK\r\n".into(),
        }
    });
    let builder = RedisStore::builder().deadline(Duration::from_millis(1));
    builder.connect_cluster([node.url()]).await.unwrap();
}

#[tokio::test]
async fn the_store_has_the_options_it_was_given() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::connect(server.url()).await.unwrap();
    assert_eq!(*store.options(), Options::new());
    let all = RedisStore::builder()
        .hashed_long_keys([1; 16])
        .caller_slack(Duration::from_secs(1))
        .time_source(TimeSource::Caller)
        .deadline(Duration::from_secs(2))
        .batches(true)
        .prefix("shop");
    let store = all.connect(server.url()).await.unwrap();
    let options = Options::new()
        .with_hashed_long_keys([1; 16])
        .with_caller_slack(Duration::from_secs(1))
        .with_time_source(TimeSource::Caller)
        .with_deadline(Duration::from_secs(2))
        .with_batches(true)
        .with_prefix("shop")
        .unwrap();
    assert_eq!(*store.options(), options);
    let more = RedisStoreBuilder::from(options.clone()).hashed_keys([2; 16]);
    let store = more.connect(server.url()).await.unwrap();
    assert_eq!(*store.options(), options.with_hashed_keys([2; 16]));
}

#[tokio::test]
async fn a_wrong_option_is_an_error_when_the_store_connects() {
    // Nothing listens at this address. The prefix is reported first, and later settings do not hide
    // it.
    let wrong = || RedisStore::builder().prefix("a b").deadline(Duration::ZERO);
    let url = "redis://127.0.0.1:1";
    let hint = "\"a b\"";
    is_misconfigured(wrong().connect(url), hint).await;
    is_misconfigured(wrong().connect_cluster([url]), hint).await;
    is_misconfigured(wrong().connect_sentinel([url], "primary"), hint).await;
    let never = RedisStore::builder().deadline(Duration::ZERO);
    is_misconfigured(never.connect(url), "deadline is zero").await;
}

#[tokio::test]
async fn an_error_shows_how_to_write_an_address() {
    for address in ["127.0.0.1:6379", "http://127.0.0.1", "redis://"] {
        is_misconfigured(RedisStore::connect(address), "redis://user").await;
    }
}

#[tokio::test]
async fn a_store_shows_its_options_and_not_its_password() {
    let server = FakeServer::start(|_| "+OK\r\n".into());
    let url = format!("redis://:secret@127.0.0.1:{}/3", server.port());
    let builder = RedisStore::builder().prefix("shop");
    let store = builder.connect(url).await.unwrap();
    assert_eq!(store.connection().get_db(), 3);
    let shown = format!("{store:?} {:?}", store.connection());
    let holds = shown.contains("RedisStore") && shown.contains("shop");
    assert!(holds, "{shown}");
    assert!(shown.contains("ServerConnection"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}
