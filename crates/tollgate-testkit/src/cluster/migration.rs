//! `Migration`: moves a slot from one master to another, step by step.

use super::Cluster;
use super::view::View;
use crate::connection::Reply;
use crate::server::Server;

/// The timeout for moving a batch of keys, in milliseconds.
const PATIENCE_MS: &str = "5000";

/// The migration of a slot from one master to another, which a test performs step by step.
///
/// If it is dropped before [`finish`](Self::finish), the slot stays in migration.
#[derive(Debug)]
#[must_use = "the slot is on its way until it is finished"]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a Server,
    to: &'a Server,
    /// The id of `to`.
    id: String,
}

impl<'a> Migration<'a> {
    #[track_caller]
    pub(super) fn begin(cluster: &'a Cluster, slot: u16, to: &'a Server) -> Self {
        let from = cluster.master_of(slot);
        assert_ne!(from.port(), to.port(), "the slot is there already");
        let (source, id) = (id(from), id(to));
        let number = slot.to_string();
        let set = ["CLUSTER", "SETSLOT", &number];
        // The new master first: until it imports the slot, it would redirect clients back.
        Cluster::run(to, &[&set[..], &["IMPORTING", &source]].concat());
        Cluster::run(from, &[&set[..], &["MIGRATING", &id]].concat());
        Self {
            cluster,
            slot,
            from,
            to,
            id,
        }
    }

    /// Moves up to `count` of the remaining keys, and returns how many it moved.
    #[track_caller]
    pub fn move_keys(&self, count: usize) -> usize {
        let (slot, count) = (self.slot.to_string(), count.to_string());
        let words = ["CLUSTER", "GETKEYSINSLOT", &slot, &count];
        let keys = self.from.command(&words);
        let keys: Vec<&[u8]> = keys.items().iter().filter_map(bytes).collect();
        if keys.is_empty() {
            return 0;
        }
        let port = self.to.port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", PATIENCE_MS];
        if let Some(password) = self.to.password() {
            words.extend(["AUTH", password]);
        }
        words.push("KEYS");
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let reply = self.from.command(&[words, keys.clone()].concat());
        assert_eq!(reply.text(), Some("OK"), "{reply:?}");
        keys.len()
    }

    /// Assigns the slot to its new master, and waits until every running node knows.
    ///
    /// Keys that were not moved would be lost, so the old master refuses if it still has any.
    #[track_caller]
    pub fn finish(self) {
        let slot = self.slot.to_string();
        let words = ["CLUSTER", "SETSLOT", &slot, "NODE", &self.id];
        // The new master first, so that the slot always has one.
        Cluster::run(self.to, &words);
        Cluster::run(self.from, &words);
        let port = self.to.port();
        let arrived = |view: &View| {
            view.master_of(self.slot)
                .is_some_and(|node| node.port == port)
        };
        self.cluster.agree(arrived);
    }
}

fn bytes(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

/// Returns the id of `node`.
#[track_caller]
fn id(node: &Server) -> String {
    let view = View::of(&node.door()).expect("a node that runs");
    view.myself().expect("a node that knows itself").id.clone()
}
