//! A primary that dies, and a replica that is promoted.

use tollgate_core::ErrorKind;
use tollgate_testkit::{Cluster, Flavor, SentinelGroup, Server};

use super::Client;
use super::load::{CALLERS, Load};
use super::scene::{BOUND, KEY, Scene, patient, suffering, wait};

/// The new primary admits again what was not replicated to it, and no more.
pub async fn sentinels_promote_a_replica(client: &dyn Client) {
    let group = wait(|| SentinelGroup::start(Flavor::System));
    let scene = watched_by(client, &group).await;
    let primary = wait(|| group.primary());
    let fault = "Sentinel: the primary is killed";
    promote(client, &scene, fault, primary, async |_| ()).await;
}

/// A lagging replica admits again each call that it has missed.
pub async fn sentinels_promote_a_replica_that_lags(client: &dyn Client) {
    let group = wait(|| SentinelGroup::start(Flavor::System));
    let scene = watched_by(client, &group).await;
    let primary = wait(|| group.primary());
    let fault = "Sentinel: the replica lags, the primary is killed";
    let lost = promote(client, &scene, fault, primary, async |load| {
        leave_replicas_behind(primary);
        load.allowed(200).await;
    });
    // All calls since then are lost, except those in flight when replication stopped.
    assert!(lost.await > 150);
}

/// A primary with `min-replicas-to-write 1` admits nothing without a replica, so almost nothing is
/// lost.
pub async fn sentinels_promote_a_replica_that_is_needed(client: &dyn Client) {
    let group = wait(|| {
        SentinelGroup::options(Flavor::System)
            // The second replica then follows the new primary, which needs one too.
            .replicas(2)
            .args(["--min-replicas-to-write", "1"])
            .start()
    });
    let scene = watched_by(client, &group).await;
    let primary = wait(|| group.primary());
    let fault = "Sentinel: the same with `min-replicas-to-write 1`";
    let lost = promote(client, &scene, fault, primary, async |load| {
        leave_replicas_behind(primary);
        load.renewed().await;
        let then = load.so_far();
        load.renewed().await;
        let now = load.so_far();
        let found = (now.answered(), now.unknown());
        assert_eq!(found, (then.answered(), then.unknown()));
    });
    // Only calls answered at the moment when the last replica disconnected can be lost.
    assert!(lost.await <= CALLERS.into());
}

/// Stops replication from `primary`, without effect on other clients.
fn leave_replicas_behind(primary: &Server) {
    wait(|| {
        let reply = primary.command(&["ACL", "SETUSER", "default", "-psync", "-sync"]);
        assert_eq!(reply.text(), Some("OK"));
        let reply = primary.command(&["CLIENT", "KILL", "TYPE", "replica"]);
        assert!(reply.integer() > Some(0), "{reply:?}");
    });
}

/// Waits until `replicas` replicas follow `primary`. After its synchronization, a replica receives
/// nothing until it has acknowledged it, which can take a second.
fn follow(primary: &Server, replicas: usize) {
    let mut connection = primary.connection();
    let replicas = replicas.to_string();
    // A key in the same slot as all others.
    let tag = format!("{{{KEY}}}");
    for words in [&["SET", &tag, "1"][..], &["WAIT", &replicas, "4000"]] {
        let reply = connection.command(words).expect("a reply");
        let number = reply.integer().map(|count| count.to_string());
        assert!(number.is_none_or(|count| count == replicas), "{reply:?}");
    }
}

async fn watched_by(client: &dyn Client, group: &SentinelGroup) -> Scene {
    wait(|| follow(group.primary(), group.servers().len() - 1));
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let connect = async |options| client.sentinels(&urls, name, options).await.unwrap();
    Scene::with(
        connect(suffering(client)).await,
        connect(patient(client)).await,
    )
}

/// Promotes a cluster's replica: a planned failover loses nothing, a killed master what was not
/// replicated.
pub async fn cluster_promotes_a_replica(client: &dyn Client) {
    let cluster = wait(|| Cluster::start(Flavor::System));
    let scene = Scene::on_cluster(client, &cluster).await;
    let slot = Cluster::slot_of(KEY);
    wait(|| follow(cluster.master_of(slot), 1));

    let load = scene.load().await;
    load.mark();
    wait(|| cluster.failover(cluster.replica_of(cluster.master_of(slot))));
    let (tally, resumed) = load.recovered().await;
    let fault = "cluster: `CLUSTER FAILOVER`";
    scene.settle(client, fault, &tally, 0, resumed).await;

    scene
        .auditor()
        .reset(KEY)
        .await
        .expect("a cluster that serves");
    let master = wait(|| cluster.master_of(slot));
    wait(|| follow(master, 1));
    let fault = "cluster: the master is killed";
    promote(client, &scene, fault, master, async |_| ()).await;
}

/// Runs `prelude`, kills `primary` during a load of calls, and waits for a new primary. Returns how
/// many answered calls were lost.
async fn promote(
    client: &dyn Client,
    scene: &Scene,
    fault: &str,
    primary: &Server,
    prelude: impl AsyncFnOnce(&Load),
) -> u64 {
    let load = scene.load().await;
    prelude(&load).await;
    wait(|| primary.kill());
    // Every answer from now on comes from the new primary.
    load.mark();
    // Wait until no call to the old primary is in flight before there is a new one.
    load.renewed().await;
    let before = load.so_far();
    let resumed = load.resumed().await;
    load.allowed(100).await;
    // How many calls the new primary knew of when it was first called.
    let held = BOUND - load.most_left() - 1;
    let tally = load.stop().await;

    tally.fails_only_with(&[ErrorKind::Unavailable, ErrorKind::Unknown]);
    let lost = before.allowed().saturating_sub(held);
    let after = tally.allowed() - before.allowed();
    let counted = scene.counted(KEY).await;
    assert!(
        (held + after..=held + after + tally.unknown()).contains(&counted),
        "{counted} counted, {held} held by the new primary, {after} allowed by it"
    );
    let admitted = tally.allowed() + scene.use_up(KEY).await;
    assert!(admitted <= BOUND + lost, "{admitted} with {lost} lost");
    assert!(admitted + tally.unknown() >= BOUND);
    tally.print(
        &format!("{fault}; {lost} of {} lost", before.allowed()),
        client,
        [counted, admitted, BOUND + lost],
        Some(resumed),
    );
    lost
}
