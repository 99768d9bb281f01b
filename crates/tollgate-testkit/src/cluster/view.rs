//! `View`: the cluster as one of its nodes sees it.

use std::fmt;
use std::ops::RangeInclusive;

use super::form::SLOTS;
use crate::connection::Connection;

/// A node's reply to `CLUSTER NODES`.
#[derive(Clone, Debug)]
pub(super) struct View(pub(super) Vec<Seen>);

/// A node as seen by another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) port: u16,
    flags: Vec<String>,
    /// The id of this node's master, or `-`.
    master: String,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    /// Returns the view of the node at `door`, if it answers.
    pub(super) fn of(door: &str) -> Option<Self> {
        let mut connection = Connection::open(door).ok()?;
        let reply = connection.command(&["CLUSTER", "NODES"]).ok()?;
        Self::parse(reply.text()?)
    }

    fn parse(text: &str) -> Option<Self> {
        text.lines()
            .map(Seen::parse)
            .collect::<Option<_>>()
            .map(Self)
    }

    /// Returns the node that replied.
    pub(super) fn myself(&self) -> Option<&Seen> {
        self.0.iter().find(|node| node.has("myself"))
    }

    pub(super) fn at(&self, port: u16) -> Option<&Seen> {
        self.0.iter().find(|node| node.port == port)
    }

    pub(super) fn master_of(&self, slot: u16) -> Option<&Seen> {
        let mut masters = self.0.iter().filter(|node| node.is_master());
        masters.find(|node| node.slots.iter().any(|range| range.contains(&slot)))
    }

    pub(super) fn master_of_replica(&self, replica: u16) -> Option<&Seen> {
        let master = &self.at(replica)?.master;
        self.0.iter().find(|node| node.id == *master)
    }

    pub(super) fn is_master(&self, port: u16) -> bool {
        self.at(port).is_some_and(Seen::is_master)
    }

    /// Returns whether all slots are served by masters that have not failed.
    pub(super) fn covers_all(&self) -> bool {
        let masters = self.0.iter().filter(|node| node.is_master());
        let ranges = masters.flat_map(|node| &node.slots);
        ranges.map(ExactSizeIterator::len).sum::<usize>() == usize::from(SLOTS)
    }

    /// Returns the masters and their slots, sorted, to compare with another view.
    pub(super) fn masters(&self) -> Vec<(u16, Vec<RangeInclusive<u16>>)> {
        let masters = self.0.iter().filter(|node| !node.slots.is_empty());
        let mut masters: Vec<_> = masters
            .map(|node| (node.port, node.slots.clone()))
            .collect();
        masters.sort_by_key(|&(port, _)| port);
        masters
    }

    /// Returns whether the node has completed the handshake with all `count` nodes, including
    /// itself.
    pub(super) fn knows(&self, count: usize) -> bool {
        self.0.len() == count && !self.0.iter().any(|node| node.has("handshake"))
    }

    /// Returns the number of replicas.
    pub(super) fn replicas(&self) -> usize {
        self.0.iter().filter(|node| node.master().is_some()).count()
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.0 {
            writeln!(f, "{node:?}")?;
        }
        Ok(())
    }
}

impl Seen {
    /// Reads a line such as `ID IP:PORT@BUS,HOST FLAGS MASTER PING PONG EPOCH LINK SLOTS…`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, master, _, _, _, _, slots @ ..] = words.as_slice() else {
            return None;
        };
        let (address, _) = address.split_once('@')?;
        let (_, port) = address.rsplit_once(':')?;
        // Slots in brackets are migrating, and still counted at the old node.
        let slots = slots.iter().filter(|word| !word.starts_with('['));
        Some(Self {
            id: (*id).to_owned(),
            port: port.parse().ok()?,
            flags: flags.split(',').map(str::to_owned).collect(),
            master: (*master).to_owned(),
            slots: slots.map(|word| range(word)).collect::<Option<_>>()?,
        })
    }

    /// Returns the id of this node's master, if it is a replica.
    pub(super) fn master(&self) -> Option<&str> {
        Some(self.master.as_str()).filter(|&id| id != "-")
    }

    fn is_master(&self) -> bool {
        self.has("master") && !self.has_failed()
    }

    fn has_failed(&self) -> bool {
        self.has("fail") || self.has("fail?")
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }
}

/// Parses a slot, or the first and last slot of a range.
fn range(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
