//! Slots that move from one node of a cluster to another.

use std::thread::sleep;
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_testkit::{Cluster, Flavor};

use super::Client;
use super::load::Load;
use super::scene::{BOUND, Scene, patient, suffering, wait};
use super::tally::Row;

/// Keys of as many slots.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// How often a slot moves.
const MOVES: usize = 8;
/// How long a slot stays: nodes whose slots come back at once can disagree for good about them.
const STAY: Duration = Duration::from_millis(250);

/// A call for a key on its way is counted at one place or the other, or refused.
pub async fn slots_move<C: Client>() {
    let cluster = wait(|| Cluster::masters_only(Flavor::System, 3));
    let scene = Scene::with(
        C::cluster(&cluster.addresses(), suffering()).await,
        C::cluster(&cluster.addresses(), patient()).await,
    );
    let load = Load::on(scene.limiter(), &KEYS);
    load.allowed(100).await;
    wait(|| {
        for round in 0..MOVES {
            let slot = Cluster::slot_of(KEYS[round % KEYS.len()]);
            let from = cluster.master_of(slot).port();
            // Not to the same node each time.
            let others = cluster.nodes().iter().filter(|node| node.port() != from);
            let to = others.cycle().nth(round).expect("two other nodes");
            cluster.migrate_slot(slot, to);
            sleep(STAY);
        }
    });
    load.mark();
    let resumed = load.resumed().await;
    load.allowed(100).await;
    let tally = load.stop().await;

    tally.fails_only_with(&[ErrorKind::Unavailable, ErrorKind::Unknown]);
    let (mut counted, mut admitted) = (0, 0);
    for key in KEYS {
        let counts = tally.of(key);
        let of_key = scene.counted(key).await;
        let most = counts.allowed + counts.unknown;
        assert!(
            (counts.allowed..=most).contains(&of_key),
            "{of_key} counted of {key}: {counts:?}"
        );
        counted += of_key;
        let taken = scene.use_up(key).await;
        assert_eq!(of_key + taken, BOUND);
        admitted += counts.allowed + taken;
    }
    let bound = BOUND * u64::try_from(KEYS.len()).expect("a small number");
    assert!(admitted <= bound);
    Row {
        fault: &format!("cluster: {MOVES} moves of {} slots", KEYS.len()),
        client: C::NAME,
        tally: &tally,
        counted,
        admitted,
        bound,
        resumed: Some(resumed),
    }
    .print();
}
