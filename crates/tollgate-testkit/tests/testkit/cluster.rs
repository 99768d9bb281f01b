//! A cluster serves, fails over, and moves its slots.

use std::time::{Duration, Instant};

use tollgate_testkit::{Cluster, Flavor, Reply, shared};

/// Sets keys at every master, and checks that another node redirects to it.
#[track_caller]
fn serves(cluster: &Cluster) {
    let mut masters = Vec::new();
    for index in 0..20 {
        let key = format!("key:{index}");
        let slot = Cluster::slot_of(&key);
        let master = cluster.master_of(slot);
        assert_eq!(master.command(&["SET", &key, "value"]).text(), Some("OK"));
        masters.push(master.port());
        let counted = master.command(&["CLUSTER", "KEYSLOT", &key]);
        assert_eq!(counted, Reply::Integer(slot.into()));
        let mut others = cluster.nodes().iter();
        let other = others.find(|node| node.port() != master.port()).unwrap();
        let moved = format!("MOVED {slot} {}", master.address());
        assert_eq!(other.command(&["GET", &key]), Reply::Error(moved));
    }
    masters.sort_unstable();
    masters.dedup();
    assert_eq!(masters.len(), 3);
}

#[test]
fn redis_system_serves_and_fails_over() {
    let cluster = Cluster::start(Flavor::System);
    assert_eq!(cluster.nodes().len(), 6);
    serves(&cluster);

    // A failover while the old master runs loses nothing.
    let slot = Cluster::slot_of("key:1");
    let old = cluster.master_of(slot);
    let new = cluster.replica_of(old);
    cluster.failover(new);
    assert_eq!(cluster.master_of(slot).port(), new.port());
    assert_eq!(new.command(&["GET", "key:1"]).text(), Some("value"));

    // A forced failover to the old master, which must be a replica first.
    cluster.wait();
    new.kill();
    cluster.failover(old);
    assert_eq!(cluster.master_of(slot).port(), old.port());

    // A restarted node becomes a replica by itself.
    new.restart();
    cluster.wait();
    assert_eq!(cluster.replica_of(old).port(), new.port());
}

#[test]
fn a_replica_takes_over_by_itself() {
    let options = Cluster::options(Flavor::System);
    let cluster = options.node_timeout(Duration::from_millis(500)).start();
    let master = cluster.master_of(0);
    let replica = cluster.replica_of(master);
    master.kill();
    let killed = Instant::now();
    while !is_master(replica.command(&["ROLE"])) {
        assert!(killed.elapsed() < Duration::from_secs(8), "it never does");
    }
    cluster.wait();
    assert_eq!(cluster.master_of(0).port(), replica.port());
}

fn is_master(role: Reply) -> bool {
    role.items()[0].text() == Some("master")
}

#[test]
fn a_slot_is_moved_step_by_step() {
    let cluster = Cluster::masters_only(Flavor::System, 3);
    let slot = Cluster::slot_of("{tag}");
    let from = cluster.master_of(slot);
    let mut others = cluster.nodes().iter();
    let to = others.find(|node| node.port() != from.port()).unwrap();
    for key in ["{tag}:1", "{tag}:2", "{tag}:3"] {
        from.command(&["SET", key, "value"]);
    }
    let migration = cluster.begin_migration(slot, to);
    assert_eq!(migration.from().port(), from.port());
    assert_eq!(migration.to().port(), to.port());
    assert_eq!(migration.move_keys(1), 1);
    let ask = format!("ASK {slot} {}", to.address());
    assert_eq!(from.command(&["GET", "{tag}:none"]), Reply::Error(ask));
    let both = from.command(&["MGET", "{tag}:1", "{tag}:2", "{tag}:3"]);
    assert!(both.error().unwrap().starts_with("TRYAGAIN "), "{both:?}");
    assert_eq!(migration.move_keys(9), 2);
    assert_eq!(migration.move_keys(9), 0);
    migration.finish();
    assert_eq!(cluster.master_of(slot).port(), to.port());
    assert_eq!(to.command(&["GET", "{tag}:1"]).text(), Some("value"));
    // Move the slot back in one call.
    cluster.migrate_slot(slot, from);
    assert_eq!(from.command(&["GET", "{tag}:3"]).text(), Some("value"));
}

#[test]
fn redis_6_2_serves() {
    serves(&Cluster::masters_only(Flavor::Redis62, 3));
}

#[test]
fn valkey_9_1_serves() {
    serves(&Cluster::masters_only(Flavor::Valkey91, 3));
}

#[test]
fn a_cluster_is_shared() {
    let (one, other) = (
        shared::cluster(Flavor::System),
        shared::cluster(Flavor::System),
    );
    assert_eq!(one.addresses(), other.addresses());
    assert_eq!(one.urls().len(), 3);
    let slot = Cluster::slot_of("key");
    let master = one.master_of(slot);
    assert_eq!(one.command(&["SET", "key", "value"]).text(), Some("OK"));
    let mut connection = tollgate_testkit::Connection::open(&master).unwrap();
    assert_eq!(
        connection.command(&["GET", "key"]).unwrap().text(),
        Some("value")
    );
    assert_eq!(other.command(&["GET", "key"]).text(), Some("value"));
}
