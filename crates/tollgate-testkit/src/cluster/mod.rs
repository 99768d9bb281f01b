//! `Cluster`: a Redis or Valkey cluster that belongs to one test.

mod form;
mod migration;
mod slot;
mod view;

use form::eventually;
pub(crate) use form::{ARGUMENTS, form, is_ok, until};
pub use migration::Migration;

use crate::flavor::Flavor;
use crate::server::{Server, ServerOptions};
use crate::tls::Authority;
use view::View;

/// Options to start a [`Cluster`].
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    server: ServerOptions,
    masters: usize,
    replicas: usize,
}

impl ClusterOptions {
    /// Sets the number of masters, which share the slots evenly.
    #[must_use]
    pub fn masters(mut self, masters: usize) -> Self {
        self.masters = masters;
        self
    }

    /// Sets the number of replicas per master.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Adds arguments for all nodes, such as `["--maxmemory", "1mb"]`.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.server = self.server.args(arguments);
        self
    }

    /// Makes the nodes accept only TLS, also from each other; see [`ServerOptions::tls`].
    #[must_use]
    pub fn tls(mut self, authority: &Authority) -> Self {
        self.server = self.server.tls(authority);
        self
    }

    /// Makes the nodes require `password`; see [`ServerOptions::password`].
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.server = self.server.password(password);
        self
    }

    /// Starts the nodes, and waits until all of them serve and know each other.
    #[track_caller]
    pub fn start(self) -> Cluster {
        assert!(self.masters > 0, "a cluster has a master at least");
        let options = self.server.args(ARGUMENTS);
        let count = self.masters * (1 + self.replicas);
        let nodes: Vec<Server> = (0..count).map(|_| options.clone().start()).collect();
        let cluster = Cluster { nodes };
        let doors: Vec<String> = cluster.nodes.iter().map(Server::door).collect();
        let ports: Vec<u16> = cluster.nodes.iter().map(Server::port).collect();
        if let Err(error) = form(&doors, &ports, self.masters) {
            panic!("{error}");
        }
        cluster
    }
}

/// A cluster that belongs to one test: masters that share the slots, and their replicas.
///
/// The nodes are ordinary servers: kill one with [`Server::kill`] and restart it with
/// [`Server::restart`], and it rejoins the cluster. All of them are killed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three masters of `flavor`, with one replica each.
    #[track_caller]
    pub fn start(flavor: Flavor) -> Self {
        Self::options(flavor).start()
    }

    /// Starts `masters` nodes of `flavor` without replicas, which is faster.
    #[track_caller]
    pub fn masters_only(flavor: Flavor, masters: usize) -> Self {
        Self::options(flavor).masters(masters).replicas(0).start()
    }

    /// Returns options for three masters of `flavor`, with one replica each.
    #[track_caller]
    pub fn options(flavor: Flavor) -> ClusterOptions {
        ClusterOptions {
            server: Server::options(flavor),
            masters: 3,
            replicas: 1,
        }
    }

    /// Returns the slot of `key`, from 0 to 16383; if `key` has a non-empty hash tag in braces, the
    /// slot of the tag.
    pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
        slot::of(key.as_ref())
    }

    /// Returns the nodes: first the original masters, then the original replicas.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Returns the nodes' addresses, such as `127.0.0.1:11000`.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Server::address).collect()
    }

    /// Returns the nodes' URLs, such as `redis://127.0.0.1:11000`; see [`Server::url`].
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// Returns the master that serves `slot`, as the first running node sees it.
    #[track_caller]
    pub fn master_of(&self, slot: u16) -> &Server {
        let view = self.view();
        let master = view.master_of(slot);
        let master = master.unwrap_or_else(|| panic!("no master serves slot {slot}:\n{view}"));
        self.at(master.port)
    }

    /// Returns a master that does not serve `slot`.
    #[track_caller]
    pub fn another(&self, slot: u16) -> &Server {
        let (port, mut nodes) = (self.master_of(slot).port(), self.nodes.iter());
        let another = nodes.find(|node| node.port() != port);
        another.expect("two masters")
    }

    /// Returns a running replica of `master`.
    #[track_caller]
    pub fn replica_of(&self, master: &Server) -> &Server {
        let view = self.view();
        let id = view.at(master.port()).map(|node| node.id.as_str());
        // Ask each node for its own role: an old message can make other nodes take it for a master
        // until the next message.
        let follows = |node: &&Server| {
            let view = View::of(&node.door());
            view.is_some_and(|view| view.myself().is_some_and(|node| node.master() == id))
        };
        let mut running = self.nodes.iter().filter(|node| node.is_running());
        let replica = running.find(follows);
        replica.unwrap_or_else(|| panic!("{} has none:\n{view}", master.address()))
    }

    /// Promotes `replica` to master of its master's slots, and waits until every running node
    /// knows.
    ///
    /// Loses no writes if the old master is running; otherwise forces a takeover.
    #[track_caller]
    pub fn failover(&self, replica: &Server) {
        let view = View::of(&replica.door()).expect("a replica that runs");
        let master = view.master_of_replica(replica.port());
        let master = master.unwrap_or_else(|| panic!("{} is none:\n{view}", replica.address()));
        let reply = match View::of(&self.at(master.port).door()) {
            Some(_) => replica.command(&["CLUSTER", "FAILOVER"]),
            None => replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]),
        };
        assert_eq!(reply.text(), Some("OK"), "{reply:?}");
        self.agree(|view| view.is_master(replica.port()) && view.covers_all());
    }

    /// Moves `slot` with all its keys to the master `to`.
    #[track_caller]
    pub fn migrate_slot(&self, slot: u16, to: &Server) {
        let migration = self.begin_migration(slot, to);
        while migration.move_keys(100) > 0 {}
        migration.finish();
    }

    /// Starts to move `slot` to the master `to`. From now on, the old master redirects calls for
    /// missing keys to the new one with `ASK`.
    #[track_caller]
    pub fn begin_migration<'a>(&'a self, slot: u16, to: &'a Server) -> Migration<'a> {
        Migration::begin(self, slot, to)
    }

    /// Waits until the view of every running node meets `condition`, and all see the same masters.
    #[track_caller]
    fn agree(&self, condition: impl Fn(&View) -> bool) {
        let agreed = || {
            let views = self.running().filter_map(|door| View::of(&door));
            let mut masters = Vec::new();
            for view in views {
                if !condition(&view) {
                    return false;
                }
                masters.push(view.masters());
            }
            masters.windows(2).all(|pair| pair[0] == pair[1]) && !masters.is_empty()
        };
        eventually("the nodes do not agree", agreed);
    }

    #[track_caller]
    fn view(&self) -> View {
        let mut views = self.running().filter_map(|door| View::of(&door));
        views.next().expect("a node that runs")
    }

    fn running(&self) -> impl Iterator<Item = String> {
        let running = self.nodes.iter().filter(|node| node.is_running());
        running.map(Server::door)
    }

    #[track_caller]
    fn at(&self, port: u16) -> &Server {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.port() == port).expect("a node")
    }

    /// Runs a command that must succeed.
    #[track_caller]
    fn run(node: &Server, words: &[&str]) {
        let reply = node.command(words);
        assert_eq!(reply.text(), Some("OK"), "{words:?}: {reply:?}");
    }
}
