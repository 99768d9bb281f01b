//! Servers, clusters and Sentinels that require passwords: stores log in, or report the refusal.

use std::time::{Duration, Instant};

use tollgate_core::{ErrorKind, RateLimiter, Store};
use tollgate_redis::connection::{self, SentinelConnection};
use tollgate_redis::redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use tollgate_redis::redis::{ConnectionAddr, ProtocolVersion};
use tollgate_redis::{PlainStore, RedisStore};
use tollgate_scenarios::secured as shared;
use tollgate_testkit::{Cluster, Flavor, SentinelGroup, Server};

use shared::{
    ASKED, REFUSED, decides, follows_a_failover, is_misconfigured, let_in, limiter, options,
};

const FORBIDDEN: &str = "the server's user may not run a command that connecting needs";
const NO_DATABASE: &str = "the server refuses the number of the database";

#[tokio::test]
async fn a_server_is_given_its_password() {
    let server = Server::options(Flavor::System).password("secret").start();
    let connect = |credentials: &str| {
        let url = format!("redis://{credentials}{}", server.address());
        RedisStore::builder().options(options()).connect(url)
    };
    let_in(&server, &[]);
    decides(connect(":secret@").await).await;
    decides(connect("limiter:secret@").await).await;
    is_misconfigured(connect("").await, ASKED);
    is_misconfigured(connect(":wrong@").await, REFUSED);
    is_misconfigured(connect("limiter:wrong@").await, REFUSED);
    is_misconfigured(connect("nobody:secret@").await, REFUSED);
    let other_database = format!("redis://:secret@{}/99", server.address());
    is_misconfigured(
        RedisStore::builder()
            .options(options())
            .connect(other_database)
            .await,
        NO_DATABASE,
    );
}

#[tokio::test]
async fn a_call_after_a_password_change_counts_nothing() {
    let server = Server::options(Flavor::System).password("secret").start();
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await;
    let limiter = limiter(store.unwrap());
    assert_eq!(limiter.check("alice").await.unwrap().remaining(), 8);

    let mut control = server.connection();
    let change = ["CONFIG", "SET", "requirepass", "other"];
    assert_eq!(control.command(&change).unwrap().text(), Some("OK"));
    // A connection that has logged in stays logged in.
    assert_eq!(limiter.check("alice").await.unwrap().remaining(), 7);
    let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    control.command(&kill).unwrap();
    let begun = Instant::now();
    loop {
        match limiter.check("alice").await.unwrap_err() {
            error if error.kind() == ErrorKind::Misconfigured => {
                assert!(error.to_string().contains(REFUSED), "{error}");
                break;
            }
            // The error of the lost connection.
            error => assert!(begun.elapsed() < Duration::from_secs(3), "{error}"),
        }
    }
    let change = ["CONFIG", "SET", "requirepass", "secret"];
    assert_eq!(control.command(&change).unwrap().text(), Some("OK"));
    assert_eq!(until_let_in(&limiter).await, 6);
}

/// An error from an earlier attempt to reconnect is not reported to a later call.
#[tokio::test]
async fn a_refusal_does_not_answer_a_later_call() {
    let server = Server::options(Flavor::System).password("secret").start();
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await;
    let limiter = limiter(store.unwrap());
    assert_eq!(limiter.check("alice").await.unwrap().remaining(), 8);
    let mut control = server.connection();
    let mut tell = |words: &[&str]| control.command(words).unwrap();
    for (is_called, remaining) in [(false, 7), (true, 6)] {
        tell(&["CONFIG", "SET", "requirepass", "other"]);
        tell(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        tokio::time::sleep(Duration::from_millis(300)).await;
        if is_called {
            let error = limiter.check("alice").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        }
        tell(&["CONFIG", "SET", "requirepass", "secret"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let decision = limiter.check("alice").await.unwrap();
        assert_eq!(decision.remaining(), remaining);
    }
}

/// Calls until a call succeeds, and returns what remains.
async fn until_let_in<S: Store>(limiter: &RateLimiter<S>) -> u64 {
    let begun = Instant::now();
    loop {
        match limiter.check("alice").await {
            Ok(decision) => return decision.remaining(),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(3), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_store_reconnects_after_the_server_was_out_of_connections() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await;
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
    assert_eq!(until_let_in(&limiter).await, 7);
}

#[tokio::test]
async fn a_refused_command_does_not_reconnect() {
    let server = Server::start(Flavor::System);
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await;
    let store = store.unwrap();
    // redis-rs reports a refused transaction differently from a refused script.
    let plain = PlainStore::new(store.connection().clone(), options(), &[]);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_given_its_password() {
    let options = Cluster::options(Flavor::System).masters(2).replicas(0);
    let cluster = options.password("secret").start();
    let connect = |credentials: &str| {
        let nodes = cluster.addresses().into_iter();
        let urls: Vec<String> = nodes
            .map(|node| format!("redis://{credentials}{node}"))
            .collect();
        RedisStore::builder()
            .options(self::options())
            .connect_cluster(urls)
    };
    for node in cluster.nodes() {
        let_in(node, &[]);
    }
    is_misconfigured(connect("limiter:secret@").await, FORBIDDEN);
    for node in cluster.nodes() {
        let_in(node, &["+cluster|slots"]);
    }
    decides(connect(":secret@").await).await;
    decides(connect("limiter:secret@").await).await;
    is_misconfigured(connect("").await, ASKED);
    is_misconfigured(connect(":wrong@").await, REFUSED);
    is_misconfigured(connect("limiter:wrong@").await, REFUSED);

    // The store opens another connection to a node that a slot is moving to.
    let limiter = limiter(connect("limiter:secret@").await.unwrap());
    let _ = limiter.check("old").await.unwrap();
    let slot = Cluster::slot_of("old");
    let from = cluster.master_of(slot).port();
    let mut nodes = cluster.nodes().iter();
    let to = nodes.find(|node| node.port() != from).unwrap();
    for node in cluster.nodes() {
        let_in(node, &["+asking"]);
    }
    let migration = cluster.begin_migration(slot, to);
    while migration.move_keys(1) > 0 {}
    assert_eq!(limiter.check("old").await.unwrap().remaining(), 7);
    migration.finish();
    assert_eq!(limiter.check("old").await.unwrap().remaining(), 6);
}

/// Returns a client for `group` with these passwords for its Sentinels and its servers.
fn client(
    group: &SentinelGroup,
    word: Option<&str>,
    secret: (Option<&str>, &str),
) -> SentinelClient {
    let sentinels = group.sentinels().iter();
    let sentinels =
        sentinels.map(|sentinel| ConnectionAddr::Tcp("127.0.0.1".to_owned(), sentinel.port()));
    let primary = SentinelServerType::Master;
    let builder = SentinelClientBuilder::new(sentinels, group.primary_name(), primary);
    let mut builder = builder
        .unwrap()
        .set_client_to_redis_password(secret.1)
        .set_client_to_redis_protocol(ProtocolVersion::RESP3)
        .set_client_to_redis_tcp_settings(connection::tcp());
    if let Some(user) = secret.0 {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(word) = word {
        builder = builder.set_client_to_sentinel_password(word);
    }
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_is_given_its_password() {
    let options = SentinelGroup::options(Flavor::System).password("secret");
    let group = options.start();
    for server in group.servers() {
        let_in(server, &["+role"]);
    }
    let connection = SentinelConnection::new(client(&group, None, (None, "secret"))).await;
    decides(Ok(RedisStore::new(connection.unwrap()))).await;
    let client = client(&group, None, (Some("limiter"), "secret"));
    let connection = SentinelConnection::new(client).await.unwrap();
    let limiter = limiter(RedisStore::with_options(connection, self::options()));
    let _ = limiter.check("alice").await.unwrap();

    follows_a_failover(&group, &limiter).await;

    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    is_misconfigured(
        RedisStore::builder()
            .options(self::options())
            .connect_sentinel(urls, name)
            .await,
        ASKED,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_are_given_their_password() {
    let options = SentinelGroup::options(Flavor::System).sentinel_password("word");
    let group = options.start();
    let connect = |credentials: &str| {
        let sentinels = group.sentinel_addresses().into_iter();
        let urls: Vec<String> = sentinels
            .map(|sentinel| format!("redis://{credentials}{sentinel}"))
            .collect();
        RedisStore::builder()
            .options(self::options())
            .connect_sentinel(urls, group.primary_name())
    };
    decides(connect(":word@").await).await;
    is_misconfigured(connect("").await, ASKED);
    is_misconfigured(connect(":wrong@").await, REFUSED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_are_given_different_passwords() {
    let options = SentinelGroup::options(Flavor::System).password("secret");
    let group = options.sentinel_password("word").start();
    let connect = |word, secret| SentinelConnection::new(client(&group, word, (None, secret)));
    let connection = connect(Some("word"), "secret").await;
    decides(Ok(RedisStore::new(connection.unwrap()))).await;
    for (word, secret) in [
        (None, "secret"),
        (Some("secret"), "word"),
        (Some("word"), "word"),
    ] {
        assert!(connect(word, secret).await.is_err(), "{word:?} {secret}");
    }
}
