//! `Importers`: connections to the nodes that slots are migrating to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, PushInfo, PushKind, RedisResult,
    Value,
};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::connection::multiplexed;
use crate::lock::lock;

/// How long a connection is kept without use. A migrating slot is used more often than that, and
/// nodes come and go.
const UNUSED: Duration = Duration::from_secs(60);

/// A node's host and port.
pub(crate) type Node = (String, u16);

/// Connections to the nodes that slots are migrating to, made when an `ASK` first names them.
///
/// A cluster connection of redis-rs knows only nodes that have slots. Asked for another, it drops
/// what it knows and reconnects to its initial nodes, while all calls wait. So a node that is new
/// in the cluster would slow down all calls until it has its first slot.
pub(crate) struct Importers {
    /// How to connect to a node, except for its address.
    info: ConnectionInfo,
    entries: Arc<Mutex<Entries>>,
}

/// Never drop a connection while these are locked: that may end the connection's own task, which
/// locks them.
type Entries = HashMap<Node, Entry>;

struct Entry {
    connecting: Arc<Connecting>,
    used: Instant,
}

/// A connection that many calls may wait for.
type Connecting = OnceCell<MultiplexedConnection>;

/// The outcome of sending commands to a node.
pub(crate) enum Sent {
    /// There is no connection to the node, and nothing was sent.
    Nothing,
    Commands(RedisResult<Vec<Value>>),
}

impl Importers {
    /// Returns an empty set of connections, to be made with `info`, which must ask for RESP3.
    pub(crate) fn new(info: ConnectionInfo) -> Self {
        Self {
            info,
            entries: Arc::default(),
        }
    }

    /// Sends `commands` to `node` once, in one pipeline.
    pub(crate) async fn send(&self, commands: &Pipeline, node: &Node) -> Sent {
        let connecting = self.connecting(node);
        let connection = connecting.get_or_try_init(|| self.connect(node, &connecting));
        let Ok(mut connection) = connection.await.cloned() else {
            return Sent::Nothing;
        };
        let count = commands.len();
        Sent::Commands(connection.req_packed_commands(commands, 0, count).await)
    }

    /// Returns the connection to `node`. If it is a new one, drops those that were unused for
    /// [`UNUSED`].
    fn connecting(&self, node: &Node) -> Arc<Connecting> {
        let used = Instant::now();
        let connecting = Arc::<Connecting>::default();
        let _unused: Vec<_> = {
            let mut entries = lock(&self.entries);
            if let Some(entry) = entries.get_mut(node) {
                entry.used = used;
                return Arc::clone(&entry.connecting);
            }
            let is_unused = |_: &Node, entry: &mut Entry| used - entry.used >= UNUSED;
            let unused = entries.extract_if(is_unused).collect();
            let entry = Entry {
                connecting: Arc::clone(&connecting),
                used,
            };
            entries.insert(node.clone(), entry);
            unused
        };
        connecting
    }

    async fn connect(
        &self,
        node: &Node,
        connecting: &Arc<Connecting>,
    ) -> RedisResult<MultiplexedConnection> {
        let address = self
            .address(node)
            .ok_or((ErrorKind::InvalidClientConfig, "no address of a node"))?;
        let client = Client::open(self.info.clone().set_addr(address))?;
        // Weak, because the connection holds this closure and `entries` hold the connection.
        let entries = (Arc::downgrade(&self.entries), Arc::downgrade(connecting));
        let config = multiplexed().set_push_sender(move |news: PushInfo| {
            // Forget the connection now: a call that finds it lost would not know whether it was
            // executed.
            let (entries, connecting) = (entries.0.upgrade(), entries.1.upgrade());
            if let (PushKind::Disconnection, Some(entries), Some(connecting)) =
                (news.kind, entries, connecting)
            {
                forget(&entries, &connecting);
            }
            Ok::<(), ()>(())
        });
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    fn address(&self, node: &Node) -> Option<ConnectionAddr> {
        let (host, port) = node.clone();
        match self.info.addr() {
            ConnectionAddr::Tcp(..) => Some(ConnectionAddr::Tcp(host, port)),
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => Some(ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            }),
            _ => None,
        }
    }
}

/// Drops a lost connection.
fn forget(entries: &Mutex<Entries>, lost: &Arc<Connecting>) {
    let is_lost = |_: &Node, entry: &mut Entry| Arc::ptr_eq(&entry.connecting, lost);
    let _lost: Vec<_> = lock(entries).extract_if(is_lost).collect();
}

#[cfg(test)]
mod tests {
    use redis::{IntoConnectionInfo, ProtocolVersion};
    use tollgate_testkit::{Flavor, Server};

    use super::*;

    fn importers(server: &Server) -> Importers {
        let info = server.url().into_connection_info().unwrap();
        let redis = info.redis_settings().clone();
        Importers::new(info.set_redis_settings(redis.set_protocol(ProtocolVersion::RESP3)))
    }

    async fn ping(importers: &Importers, node: &Node) {
        let Sent::Commands(replies) = importers.send(redis::pipe().cmd("PING"), node).await else {
            panic!("no connection");
        };
        replies.unwrap();
    }

    fn nodes(importers: &Importers) -> Vec<Node> {
        lock(&importers.entries).keys().cloned().collect()
    }

    #[tokio::test]
    async fn a_connection_lost_while_idle_is_not_used() {
        let server = Server::start(Flavor::System);
        let (importers, node) = (importers(&server), ("127.0.0.1".to_owned(), server.port()));
        ping(&importers, &node).await;
        assert_eq!(nodes(&importers).len(), 1);
        server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let killed = Instant::now();
        while !nodes(&importers).is_empty() {
            assert!(killed.elapsed() < Duration::from_secs(5), "it is kept");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ping(&importers, &node).await;
    }

    #[test]
    fn an_unused_connection_makes_room_for_another() {
        let info = "redis://127.0.0.1".into_connection_info();
        let importers = Importers::new(info.unwrap());
        let [first, second, third] = [1, 2, 3].map(|port| ("127.0.0.1".to_owned(), port));
        importers.connecting(&first);
        importers.connecting(&second);
        for entry in lock(&importers.entries).values_mut() {
            entry.used -= UNUSED;
        }
        importers.connecting(&second);
        assert_eq!(nodes(&importers).len(), 2);
        importers.connecting(&third);
        let left = nodes(&importers);
        assert!(left.len() == 2 && !left.contains(&first), "{left:?}");
    }
}
