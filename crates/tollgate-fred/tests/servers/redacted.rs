//! No error and no `Debug` output shows the key of a call.

use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Store};
use tollgate_fred::FredStore;
use tollgate_scenarios::redacted as shared;
use tollgate_testkit::{Cluster, Flavor, Server};

use shared::{
    hides_keys, hides_keys_of_unknown_commands, is_redacted, key, limit, options, without_commands,
};

#[tokio::test]
async fn refusals_hide_the_key() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = FredStore::builder()
            .options(options())
            .connect(&server.url())
            .await;
        hides_keys(&server, &store.unwrap()).await;
    }
}

#[tokio::test]
async fn unknown_commands_hide_the_key() {
    for flavor in Flavor::chosen() {
        let known = Server::start(flavor);
        let server = Server::options(flavor).args(without_commands()).start();
        let store = FredStore::builder()
            .options(options())
            .connect(&server.url())
            .await
            .unwrap();
        let other = FredStore::builder()
            .options(options())
            .connect(&known.url())
            .await
            .unwrap();
        hides_keys_of_unknown_commands(&store, &other).await;
    }
}

#[tokio::test]
async fn a_cluster_hides_the_key() {
    let cluster = Cluster::options(Flavor::System)
        .masters(2)
        .replicas(0)
        .args(without_commands())
        .start();
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let store = FredStore::builder()
        .options(options())
        .connect(&url)
        .await
        .unwrap();
    let limit = limit();
    let check = Check::new(&limit, key(), 1);
    let error = store.decide(Request::consume(check)).await.unwrap_err();
    is_redacted(&error, "unknown command");
    is_redacted(
        &store.reset([check].into()).await.unwrap_err(),
        "unknown command",
    );
}

#[tokio::test]
async fn redirections_hide_the_key() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let limit = limit();
    let request = Request::consume(Check::new(&limit, key(), 1));
    let mut moved = 0;
    for node in cluster.nodes() {
        // A client of one node follows no redirections.
        let store = FredStore::builder()
            .options(options())
            .connect(&node.url())
            .await
            .unwrap();
        if let Err(error) = store.decide(request.clone()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            is_redacted(&error, "");
            moved += 1;
        }
    }
    assert_eq!(moved, 1);
}

/// A server that does not know `AUTH` repeats it in its error, with the password.
#[tokio::test]
async fn an_unknown_greeting_hides_the_password() {
    let rename = ["--rename-command", "AUTH", "SESAME"];
    let server = Server::options(Flavor::System).args(rename).start();
    let url = server.url().replace("//", "//carol4711:dave0815@");
    let error = FredStore::builder()
        .options(options())
        .connect(&url)
        .await
        .unwrap_err();
    is_redacted(&error, "");
}
