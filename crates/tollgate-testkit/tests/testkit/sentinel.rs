//! Sentinels know the primary, and promote a replica when the primary is down.

use tollgate_testkit::{Flavor, SentinelGroup, Server};

/// Returns the primary's address according to `sentinel`.
fn named_by(group: &SentinelGroup, sentinel: &Server) -> String {
    let words = ["SENTINEL", "get-master-addr-by-name", group.primary_name()];
    let reply = sentinel.command(&words);
    let [host, port] = reply.items() else {
        panic!("{reply:?}");
    };
    format!("{}:{}", host.text().unwrap(), port.text().unwrap())
}

/// Sets a key at the primary, and reads it from a replica.
#[track_caller]
fn serves(group: &SentinelGroup) {
    let primary = group.primary();
    for sentinel in group.sentinels() {
        assert_eq!(named_by(group, sentinel), primary.address());
    }
    // `WAIT` covers only the writes of its own connection.
    let mut connection = primary.connection();
    let set = connection.command(&["SET", "key", "value"]).unwrap();
    assert_eq!(set.text(), Some("OK"));
    let replicas = (group.servers().len() - 1).to_string();
    let words = ["WAIT", &replicas, "5000"];
    let followed = connection.command(&words).unwrap();
    assert_eq!(followed.integer(), replicas.parse().ok());
    let mut servers = group.servers().iter();
    let replica = servers
        .find(|server| server.port() != primary.port())
        .unwrap();
    let found = replica.command(&["GET", "key"]);
    assert_eq!(found.text(), Some("value"), "{found:?}");
    let refused = replica.command(&["SET", "key", "other"]);
    let said = "READONLY ";
    assert!(refused.error().unwrap().starts_with(said), "{refused:?}");
}

#[test]
fn redis_system_serves_and_fails_over() {
    let group = SentinelGroup::options(Flavor::System).replicas(2).start();
    assert_eq!(group.sentinel_addresses().len(), 3);
    assert_eq!(group.sentinel_urls().len(), 3);
    serves(&group);

    let old = group.primary();
    old.kill();
    let new = group.wait_for_failover(old);
    assert_eq!(new.command(&["GET", "key"]).text(), Some("value"));
    old.restart();
    group.wait();
    serves(&group);

    // A requested failover, after the restart of a sentinel that kept its state.
    group.sentinels()[0].restart();
    group.wait();
    let newer = group.failover();
    assert_ne!(newer.port(), new.port());
    assert_eq!(newer.command(&["GET", "key"]).text(), Some("value"));
}

#[test]
fn redis_6_2_serves() {
    serves(&SentinelGroup::start(Flavor::Redis62));
}

#[test]
fn valkey_9_1_serves() {
    serves(&SentinelGroup::start(Flavor::Valkey91));
}
