//! Connections to the nodes that slots are being moved to.

use std::collections::HashMap;
use std::fmt;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, ConnectionAddr, ConnectionInfo, Pipeline, RedisResult, Value};
use tokio::sync::Mutex;

use crate::settings;

/// A node's host and port.
pub(crate) type Node = (String, u16);

/// Connections to the nodes that slots are being moved to, made when a node first names them.
///
/// A cluster connection of redis-rs knows only nodes that have slots. Asked for another, it drops
/// what it knows and connects to its first nodes again, while all calls wait; so a node that is new
/// in the cluster would slow down all the others until it has its first slot.
pub(crate) struct Importers {
    /// How to connect to a node, whose address is another.
    info: ConnectionInfo,
    connections: Mutex<HashMap<Node, MultiplexedConnection>>,
}

/// What came of commands to a node.
pub(crate) enum Sent {
    /// There is no connection to the node, and nothing was sent.
    Nothing,
    Commands(RedisResult<Vec<Value>>),
}

impl Importers {
    pub(crate) fn new(info: ConnectionInfo) -> Self {
        Self {
            info,
            connections: Mutex::default(),
        }
    }

    /// Sends `commands` to `node`, at once and once.
    pub(crate) async fn send(&self, commands: &Pipeline, node: &Node) -> Sent {
        let Some(mut connection) = self.connection(node).await else {
            return Sent::Nothing;
        };
        let count = commands.len();
        let replies = connection.req_packed_commands(commands, 0, count).await;
        if let Err(error) = &replies
            && error.is_unrecoverable_error()
        {
            self.connections.lock().await.remove(node);
        }
        Sent::Commands(replies)
    }

    async fn connection(&self, node: &Node) -> Option<MultiplexedConnection> {
        // Held while connecting, so that many calls open one connection.
        let mut connections = self.connections.lock().await;
        if let Some(connection) = connections.get(node) {
            return Some(connection.clone());
        }
        let info = self.info.clone().set_addr(self.address(node)?);
        let config = settings::connection();
        let connection = Client::open(info)
            .ok()?
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .ok()?;
        connections.insert(node.clone(), connection.clone());
        Some(connection)
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

/// Leaves the password out.
impl fmt::Debug for Importers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importers").finish_non_exhaustive()
    }
}
