//! Servers that refuse connections for a while: stores report it, and connect again.

use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_redis::RedisStoreBuilder;
use tollgate_scenarios::secured::{limiter, options, until_let_in};
use tollgate_testkit::{Flavor, Server};

#[tokio::test]
async fn a_store_reconnects_after_the_server_was_out_of_connections() {
    let server = Server::start(Flavor::System);
    let builder = RedisStoreBuilder::from(options());
    let store = builder.connect(server.url()).await;
    let limiter = limiter(store.unwrap());
    assert_eq!(limiter.check("alice").await.unwrap().remaining(), 8);
    let mut control = server.connection();
    let mut tell = |words: &[&str]| control.command(words).unwrap();
    tell(&["CONFIG", "SET", "maxclients", "1"]);
    tell(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..20 {
        let error = limiter.check("alice").await.unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Misconfigured, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tell(&["CONFIG", "SET", "maxclients", "100"]);
    assert_eq!(until_let_in(&limiter, "alice").await, 7);
}

#[tokio::test]
async fn a_refused_command_does_not_reconnect() {
    let server = Server::start(Flavor::System);
    let builder = RedisStoreBuilder::from(options());
    let store = builder.connect(server.url()).await;
    let store = store.unwrap();
    // redis-rs reports a refused transaction differently from a refused script.
    let plain = RedisStoreBuilder::from(options()).plain(store.connection().clone(), &[]);
    let (limiter, plain) = (limiter(store), limiter(plain.unwrap()));
    let _ = limiter.check("alice").await.unwrap();
    let _ = plain.check("alice").await.unwrap();
    let mut control = server.connection();
    let mut connections = |command: &[&str]| {
        control.command(command).unwrap();
        let stats = control.command(&["INFO", "stats"]).unwrap();
        let mut lines = stats.text().unwrap().lines();
        let line = lines.find(|line| line.starts_with("total_connections_received:"));
        line.unwrap().to_owned()
    };
    let before = connections(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(110)).await;
        limiter.check("alice").await.unwrap_err();
        plain.check("alice").await.unwrap_err();
    }
    let after = connections(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(after, before);
    assert_eq!(limiter.check("alice").await.unwrap().remaining(), 7);
    assert_eq!(plain.check("alice").await.unwrap().remaining(), 7);
}
