//! Servers become a cluster.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::view::View;
use crate::Connection;
use crate::server::{connect, field};

/// How many slots there are.
pub(super) const SLOTS: u16 = 16_384;
/// How long anything that nodes have to agree on may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often in a row a cluster must be seen to be up.
const LOOKS: usize = 5;
/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns what a server of a cluster is started with.
pub(crate) fn arguments(node_timeout: Duration) -> [String; 8] {
    [
        "--cluster-enabled",
        "yes",
        // What clients are told; a node finds out by itself only once it is asked by another.
        "--cluster-announce-ip",
        "127.0.0.1",
        "--cluster-node-timeout",
        &node_timeout.as_millis().to_string(),
        // By default a replica waits five seconds for others to come.
        "--repl-diskless-sync-delay",
        "0",
    ]
    .map(str::to_owned)
}

/// Makes the servers at `doors`, which listen on `ports`, a cluster: the first `masters` of them
/// share the slots, and each later one becomes a replica of one of them in turn.
pub(crate) fn form(doors: &[String], ports: &[u16], masters: usize) -> Result<(), String> {
    let mut nodes: Vec<Connection> = doors.iter().map(|door| connect(door)).collect();
    for (index, node) in nodes.iter_mut().enumerate() {
        let epoch = (index + 1).to_string();
        run(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        if index < masters {
            // The command that takes ranges is too new for Redis 6.2.
            let slots = share(index, masters).map(|slot| slot.to_string());
            let words = ["CLUSTER", "ADDSLOTS"].map(str::to_owned);
            let words: Vec<String> = words.into_iter().chain(slots).collect();
            run(node, &words)?;
        }
        // All earlier ones, so that nothing depends on how quickly gossip spreads.
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
    // A message from before it became a replica can make a node a master again in the eyes of
    // another, for a moment: so it must be up for some time.
    until("the cluster does not come up", PATIENCE, || {
        (0..LOOKS).all(|_| {
            sleep(PAUSE);
            is_up()
        })
    })
}

/// Returns whether the node at `door` serves, and follows its master if it has one.
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

/// Returns the slots of the master `index` of `masters`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_masters_share_every_slot_once() {
        for masters in [1, 3, 7] {
            let shared: Vec<usize> = (0..masters)
                .flat_map(|index| share(index, masters))
                .collect();
            assert!(shared.into_iter().eq(0..usize::from(SLOTS)));
        }
    }
}
