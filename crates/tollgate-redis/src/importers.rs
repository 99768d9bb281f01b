//! Connections to the nodes that slots are being moved to.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisResult, Value};
use tokio::sync::OnceCell;

use crate::lock::lock;
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
    connections: Mutex<HashMap<Node, Arc<Connecting>>>,
}

/// One connection, which many calls may wait for.
type Connecting = OnceCell<MultiplexedConnection>;

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
        let place = Arc::clone(lock(&self.connections).entry(node.clone()).or_default());
        let connection = place.get_or_try_init(|| self.connect(node)).await;
        let Ok(mut connection) = connection.cloned() else {
            return Sent::Nothing;
        };
        let count = commands.len();
        let replies = connection.req_packed_commands(commands, 0, count).await;
        if let Err(error) = &replies
            && error.is_unrecoverable_error()
        {
            lock(&self.connections).retain(|_, other| !Arc::ptr_eq(other, &place));
        }
        Sent::Commands(replies)
    }

    async fn connect(&self, node: &Node) -> RedisResult<MultiplexedConnection> {
        let address = self
            .address(node)
            .ok_or((ErrorKind::InvalidClientConfig, "no address of a node"))?;
        let client = Client::open(self.info.clone().set_addr(address))?;
        let config = settings::connection();
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

/// Leaves the password out.
impl fmt::Debug for Importers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importers").finish_non_exhaustive()
    }
}
