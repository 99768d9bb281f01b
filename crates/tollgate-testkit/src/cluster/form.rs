//! Joins servers into a cluster.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::view::View;
use crate::connection::Connection;
use crate::server::{connect, field};

/// The number of slots.
pub(super) const SLOTS: u16 = 16_384;
/// How long nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many checks in a row must find the cluster up.
const LOOKS: usize = 5;
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(10);

/// The arguments of a server in a cluster.
pub(crate) const ARGUMENTS: [&str; 8] = [
    "--cluster-enabled",
    "yes",
    // The address that clients are told; without this, a node only learns it when another
    // contacts it.
    "--cluster-announce-ip",
    "127.0.0.1",
    // Milliseconds; short, so that failovers are quick.
    "--cluster-node-timeout",
    "2000",
    // By default a master waits five seconds for more replicas before it synchronizes them.
    "--repl-diskless-sync-delay",
    "0",
];

/// Makes the servers at `doors`, which listen on `ports`, a cluster: the first `masters` share the
/// slots, and the others become replicas of each in turn.
pub(crate) fn form(doors: &[String], ports: &[u16], masters: usize) -> Result<(), String> {
    let mut nodes: Vec<Connection> = doors.iter().map(|door| connect(door)).collect();
    for (index, node) in nodes.iter_mut().enumerate() {
        let epoch = (index + 1).to_string();
        run(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        if index < masters {
            // Redis 6.2 does not have `ADDSLOTSRANGE`.
            let slots = share(index, masters).map(|slot| slot.to_string());
            let words = ["CLUSTER", "ADDSLOTS"].map(str::to_owned);
            let words: Vec<String> = words.into_iter().chain(slots).collect();
            run(node, &words)?;
        }
        // Meet all earlier nodes, so that it does not matter how fast gossip spreads.
        for port in &ports[..index] {
            run(node, &["CLUSTER", "MEET", "127.0.0.1", &port.to_string()])?;
        }
    }
    let views = || doors.iter().map(|door| View::of(door));
    let count = doors.len();
    until("the nodes do not meet", PATIENCE, || {
        views().all(|view| view.is_some_and(|view| view.knows(count)))
    })?;
    let first = View::of(&doors[0]).ok_or("the first node does not answer")?;
    for (index, node) in nodes.iter_mut().enumerate().skip(masters) {
        let master = first.at(ports[index % masters]);
        let master = &master.ok_or("a master is not known")?.id;
        run(node, &["CLUSTER", "REPLICATE", master])?;
    }
    let complete = |view: View| view.replicas() == count - masters && view.covers_all();
    let is_up = || {
        let all_ok = doors.iter().all(|door| is_ok(door));
        all_ok && views().all(|view| view.is_some_and(complete))
    };
    // An old message can make another node take a new replica for a master for a moment, so the
    // cluster must stay up for several checks.
    until("the cluster does not come up", PATIENCE, || {
        (0..LOOKS).all(|_| {
            sleep(PAUSE);
            is_up()
        })
    })
}

/// Returns whether the node at `door` serves and, if it is a replica, follows its master.
pub(crate) fn is_ok(door: &str) -> bool {
    let Ok(mut node) = Connection::open(door) else {
        return false;
    };
    let mut says = |words: &[&str], name: &str, value: &str, otherwise: bool| {
        let reply = node.command(words).ok();
        let text = reply.as_ref().and_then(|reply| reply.text());
        let found = text.and_then(|text| field(text, name));
        found.map_or(otherwise, |found| found == value)
    };
    says(&["CLUSTER", "INFO"], "cluster_state", "ok", false)
        && says(&["INFO", "replication"], "master_link_status", "up", true)
}

/// Returns the slots of master number `index` of `masters`.
fn share(index: usize, masters: usize) -> impl Iterator<Item = usize> {
    let slots = usize::from(SLOTS);
    slots * index / masters..slots * (index + 1) / masters
}

fn run(node: &mut Connection, words: &[impl AsRef<[u8]>]) -> Result<(), String> {
    let reply = node.command(words).map_err(|error| error.to_string())?;
    match reply.error() {
        Some(error) => Err(format!("a node refuses: {error}")),
        None => Ok(()),
    }
}

/// Waits until `condition` holds.
pub(crate) fn until(
    problem: &str,
    patience: Duration,
    condition: impl Fn() -> bool,
) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    while !condition() {
        if Instant::now() > deadline {
            return Err(format!("{problem} within {patience:?}"));
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// Waits until `condition` holds, and panics if it takes too long.
#[track_caller]
pub(crate) fn eventually(problem: &str, condition: impl Fn() -> bool) {
    if let Err(error) = until(problem, PATIENCE, condition) {
        panic!("{error}");
    }
}
