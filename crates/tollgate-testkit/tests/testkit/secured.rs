//! Servers, clusters and sentinel groups that accept only TLS, or require passwords.

use std::panic::catch_unwind;

use tollgate_testkit::{Authority, Cluster, Connection, Flavor, Reply, SentinelGroup, Server};

fn says_pong(server: &Server) {
    assert_eq!(server.command(&["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn a_server_with_tls_takes_nothing_else() {
    let authority = Authority::new();
    let server = Server::options(Flavor::System).tls(&authority).start();
    says_pong(&server);
    assert_eq!(server.url(), format!("rediss://{}", server.address()));
    // A client without TLS gets no valid Redis reply.
    let mut plain = Connection::open(&server.address()).unwrap();
    assert!(plain.command(&["PING"]).is_err());
    server.restart();
    says_pong(&server);
}

#[test]
fn starting_redis_6_2_with_tls_names_the_missing_support() {
    let start = || {
        let authority = Authority::new();
        Server::options(Flavor::Redis62).tls(&authority).start()
    };
    let message = catch_unwind(start).unwrap_err().downcast::<String>();
    let message = message.unwrap();
    assert!(message.contains("built without TLS"), "{message}");
    assert!(message.contains("tls-port"), "{message}");
}

#[test]
fn a_server_asks_for_its_password() {
    let server = Server::options(Flavor::System).password("secret").start();
    says_pong(&server);
    let found = server.url();
    assert_eq!(found, format!("redis://:secret@{}", server.address()));
    let mut nobody = Connection::open(&server.address()).unwrap();
    let refused = nobody.command(&["PING"]).unwrap();
    assert!(refused.error().unwrap().starts_with("NOAUTH "));
    let wrong = Connection::open(&format!("wrong@{}", server.address()));
    let error = wrong.unwrap_err().to_string();
    assert!(error.starts_with("WRONGPASS "), "{error}");
}

#[test]
fn a_cluster_is_secured_and_moves_its_slots() {
    let authority = Authority::new();
    let options = Cluster::options(Flavor::System).masters(2).replicas(1);
    let cluster = options.tls(&authority).password("secret").start();
    assert!(cluster.urls()[0].starts_with("rediss://:secret@"));
    let slot = Cluster::slot_of("key");
    let from = cluster.master_of(slot);
    let mut masters = cluster.nodes()[..2].iter();
    let to = masters.find(|node| node.port() != from.port()).unwrap();
    assert_eq!(from.command(&["SET", "key", "value"]).text(), Some("OK"));
    cluster.migrate_slot(slot, to);
    assert_eq!(to.command(&["GET", "key"]).text(), Some("value"));

    let replica = cluster.replica_of(to);
    cluster.failover(replica);
    assert_eq!(replica.command(&["GET", "key"]).text(), Some("value"));
}

#[test]
fn a_sentinel_group_is_secured_and_fails_over() {
    let authority = Authority::new();
    let options = SentinelGroup::options(Flavor::System).tls(&authority);
    let group = options.password("secret").sentinel_password("word").start();
    assert!(group.sentinel_urls()[0].starts_with("rediss://:word@"));
    assert!(group.primary().url().starts_with("rediss://:secret@"));
    let old = group.primary();
    old.command(&["SET", "key", "value"]);
    old.kill();
    let new = group.wait_for_failover(old);
    assert!(new.is_running() && new.port() != old.port());
}
