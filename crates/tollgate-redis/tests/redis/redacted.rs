//! No error and no `Debug` output of redis-rs shows the key of a call.

use std::error::Error;

use tollgate_core::Store;
use tollgate_core::store::{Check, Request};
use tollgate_redis::redis::aio::MultiplexedConnection;
use tollgate_redis::redis::{RedisError, TlsCertificates};
use tollgate_redis::{PlainStore, RedisStore, RedisStoreBuilder};
use tollgate_scenarios::redacted as shared;
use tollgate_scenarios::secured::options;
use tollgate_testkit::{Flavor, Server};

use crate::client::multiplexed;

async fn plain(url: String) -> PlainStore<MultiplexedConnection> {
    RedisStoreBuilder::from(options())
        .plain(multiplexed(url).await, &[])
        .unwrap()
}

#[tokio::test]
async fn refusals_of_a_transaction_hide_the_key() {
    shared::refusals_of_servers_hide_the_key(Flavor::chosen_since_7(), plain).await;
}

#[tokio::test]
async fn unknown_commands_of_a_transaction_hide_the_key() {
    shared::unknown_commands_of_servers_hide_the_key(Flavor::chosen_since_7(), plain).await;
}

#[tokio::test]
async fn errors_without_a_key_keep_the_clients_text() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::connect(server.url()).await.unwrap();
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
    let said = "certificates: Some(Certificates { .. })";
    assert!(shown.contains(said), "{shown}");
}
