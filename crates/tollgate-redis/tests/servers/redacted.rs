//! No error and no `Debug` output shows the key of a call.

use std::error::Error;

use tollgate_core::store::{Check, Request};
use tollgate_core::{Store, StoreError};
use tollgate_redis::connection::{self, ServerConnection};
use tollgate_redis::redis::aio::MultiplexedConnection;
use tollgate_redis::redis::{self, RedisError, TlsCertificates};
use tollgate_redis::{PlainStore, RedisStore};
use tollgate_scenarios::redacted as shared;
use tollgate_testkit::{Flavor, Server};

use shared::options;

async fn multiplexed(url: String) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    let config = connection::multiplexed();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

async fn plain(url: String) -> PlainStore<MultiplexedConnection> {
    PlainStore::new(multiplexed(url).await, options(), &[]).unwrap()
}

async fn try_connect(url: String) -> Result<RedisStore<ServerConnection>, StoreError> {
    RedisStore::builder().options(options()).connect(url).await
}

async fn connect(url: String) -> RedisStore<ServerConnection> {
    try_connect(url).await.unwrap()
}

#[tokio::test]
async fn refusals_hide_the_key() {
    shared::refusals_hide_the_key(Flavor::chosen(), connect).await;
}

#[tokio::test]
async fn refusals_of_a_transaction_hide_the_key() {
    shared::refusals_hide_the_key(Flavor::chosen_since_7(), plain).await;
}

#[tokio::test]
async fn unknown_commands_hide_the_key() {
    shared::unknown_commands_hide_the_key(Flavor::chosen(), connect).await;
}

#[tokio::test]
async fn unknown_commands_of_a_transaction_hide_the_key() {
    shared::unknown_commands_hide_the_key(Flavor::chosen_since_7(), plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_hides_the_key() {
    shared::a_cluster_hides_the_key(async |cluster| {
        let builder = RedisStore::builder().options(options());
        builder.connect_cluster(cluster.urls()).await.unwrap()
    })
    .await;
}

/// A connection to one node follows no redirections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirections_and_crossed_slots_hide_the_key() {
    let connect = async |url| RedisStore::with_options(multiplexed(url).await, options());
    shared::redirections_and_crossed_slots_hide_the_key(connect, "MOVED").await;
}

#[tokio::test]
async fn an_unknown_greeting_hides_the_password() {
    shared::an_unknown_greeting_hides_the_password("HELLO", try_connect).await;
}

#[tokio::test]
async fn errors_without_a_key_keep_the_clients_text() {
    let server = Server::start(Flavor::System);
    let store = connect(server.url()).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let limit = shared::limit();
    let request = Request::consume(Check::new(&limit, shared::key(), 1));
    let error = store.decide(request).await.unwrap_err();
    let source = error.source().unwrap().downcast_ref::<RedisError>();
    assert_eq!(source.unwrap().code(), Some("OOM"));
}

#[test]
fn a_builder_hides_its_certificates() {
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(b"secret".to_vec()),
    };
    let builder = RedisStore::builder().certificates(certificates);
    let shown = format!("{builder:?}");
    assert!(
        shown.contains("certificates: Some(Certificates { .. })"),
        "{shown}"
    );
}
