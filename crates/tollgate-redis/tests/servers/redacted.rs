//! No error and no `Debug` output shows the key of a call.

use std::error::Error;

use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Key, Store};
use tollgate_redis::redis::aio::MultiplexedConnection;
use tollgate_redis::redis::{self, RedisError, TlsCertificates};
use tollgate_redis::{PlainStore, RedisStore, connection};
use tollgate_scenarios::redacted as shared;
use tollgate_testkit::{Cluster, Flavor, Server};

use shared::{
    hides_keys, hides_keys_of_unknown_commands, is_redacted, key, limit, options, without_commands,
};

async fn multiplexed(url: String) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    let config = connection::multiplexed();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

async fn plain(server: &Server) -> PlainStore<MultiplexedConnection> {
    PlainStore::new(multiplexed(server.url()).await, options(), &[]).unwrap()
}

#[tokio::test]
async fn refusals_hide_the_key() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = RedisStore::builder()
            .options(options())
            .connect(server.url())
            .await;
        hides_keys(&server, &store.unwrap()).await;
    }
}

#[tokio::test]
async fn refusals_of_a_transaction_hide_the_key() {
    for flavor in Flavor::chosen_since_7() {
        let server = Server::start(flavor);
        hides_keys(&server, &plain(&server).await).await;
    }
}

#[tokio::test]
async fn unknown_commands_hide_the_key() {
    for flavor in Flavor::chosen() {
        let known = Server::start(flavor);
        let server = Server::options(flavor).args(without_commands()).start();
        let connect = |server: &Server| {
            RedisStore::builder()
                .options(options())
                .connect(server.url())
        };
        let (store, other) = (connect(&server).await, connect(&known).await);
        hides_keys_of_unknown_commands(&store.unwrap(), &other.unwrap()).await;
    }
}

#[tokio::test]
async fn unknown_commands_of_a_transaction_hide_the_key() {
    for flavor in Flavor::chosen_since_7() {
        let known = Server::start(flavor);
        let server = Server::options(flavor).args(without_commands()).start();
        let (store, other) = (plain(&server).await, plain(&known).await);
        hides_keys_of_unknown_commands(&store, &other).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_hides_the_key() {
    let cluster = Cluster::options(Flavor::System)
        .masters(2)
        .replicas(0)
        .args(without_commands())
        .start();
    let store = RedisStore::builder()
        .options(options())
        .connect_cluster(cluster.urls())
        .await;
    let limit = limit();
    let check = Check::new(&limit, key(), 1);
    let store = store.unwrap();
    let error = store.decide(Request::consume(check)).await.unwrap_err();
    is_redacted(&error, "unknown command");
    is_redacted(
        &store.reset([check].into()).await.unwrap_err(),
        "unknown command",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirections_and_crossed_slots_hide_the_key() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let limit = limit();
    let check = Check::new(&limit, key(), 1);
    let other = Check::new(&limit, Key::from("erin").with_rest("/"), 1);
    let mut moved = 0;
    for node in cluster.nodes() {
        // A connection to one node follows no redirections.
        let store = RedisStore::with_options(multiplexed(node.url()).await, options());
        if let Err(error) = store.decide(Request::consume(check)).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            is_redacted(&error, "MOVED");
            moved += 1;
        }
        let crossed = Request::consume(check).and(other);
        let error = store.decide(crossed).await.unwrap_err();
        is_redacted(&error, "CROSSSLOT");
    }
    assert_eq!(moved, 1);
}

/// A server that does not know `HELLO` repeats it in its error, with the password.
#[tokio::test]
async fn an_unknown_greeting_hides_the_password() {
    let rename = ["--rename-command", "HELLO", "HOWDY"];
    let server = Server::options(Flavor::System).args(rename).start();
    let url = server.url().replace("//", "//carol4711:dave0815@");
    let error = RedisStore::builder()
        .options(options())
        .connect(url)
        .await
        .unwrap_err();
    is_redacted(&error, "");
}

#[tokio::test]
async fn errors_without_a_key_keep_the_clients_text() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await
        .unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let limit = limit();
    let request = Request::consume(Check::new(&limit, key(), 1));
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
