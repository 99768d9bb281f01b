//! Slots that migrate between cluster nodes.

use std::thread::sleep;
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_testkit::{Cluster, Flavor};

use super::Client;
use super::load::Load;
use super::scene::{BOUND, Scene, wait};

/// Keys in different slots.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// How often a slot is migrated.
const MOVES: usize = 8;
/// How long a slot stays on a node: if slots return at once, nodes can disagree about them forever.
const STAY: Duration = Duration::from_millis(250);

/// While its slot migrates, a call counts at one of the two nodes, or fails.
pub async fn slots_move(client: &dyn Client) {
    let cluster = wait(|| Cluster::masters_only(Flavor::System, 3));
    let scene = Scene::on_cluster(client, &cluster).await;
    let load = Load::on(scene.limiter(), &KEYS);
    load.allowed(100).await;
    wait(|| {
        for round in 0..MOVES {
            let slot = Cluster::slot_of(KEYS[round % KEYS.len()]);
            let from = cluster.master_of(slot).port();
            // A different node each time.
            let others = cluster.nodes().iter().filter(|node| node.port() != from);
            let to = others.cycle().nth(round).expect("two other nodes");
            cluster.migrate_slot(slot, to);
            sleep(STAY);
        }
    });
    load.mark();
    let (tally, resumed) = load.recovered().await;

    tally.fails_only_with(&[ErrorKind::Unavailable, ErrorKind::Unknown]);
    let (mut counted, mut admitted) = (0, 0);
    for key in KEYS {
        let counts = tally.of(key);
        let of_key = scene.counted(key).await;
        let most = counts.allowed + counts.unknown;
        let holds = (counts.allowed..=most).contains(&of_key);
        assert!(holds, "{of_key} counted of {key}: {counts:?}");
        counted += of_key;
        let taken = scene.use_up(key).await;
        assert_eq!(of_key + taken, BOUND);
        admitted += counts.allowed + taken;
    }
    let bound = BOUND * u64::try_from(KEYS.len()).expect("a small number");
    assert!(admitted <= bound);
    let fault = format!("cluster: {MOVES} moves of {} slots", KEYS.len());
    tally.print(&fault, client, [counted, admitted, bound], Some(resumed));
}
