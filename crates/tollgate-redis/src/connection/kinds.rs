//! `Connection` and `ToOneServer`: what a store can send its commands through.

use redis::aio::{ConnectionLike, MultiplexedConnection};
#[cfg(feature = "cluster")]
use redis::cluster_async::ClusterConnection;

#[cfg(feature = "sentinel")]
use super::SentinelConnection;
use super::ServerConnection;

/// A connection of a [`RedisStore`](crate::RedisStore): one [to one server](ToOneServer), or to a cluster
/// that the store has connected to itself.
///
/// You need it only to name the bound of a generic store.
pub trait Connection: sealed::Sealed + ConnectionLike + Clone + Send + Sync + 'static {
    /// Returns the cluster, if the connection is to one.
    #[cfg(feature = "cluster")]
    #[doc(hidden)]
    fn cluster(&self) -> Option<&ClusterConnection>;
}

/// A connection to one server, possibly to another one after a failover, which a
/// [`RedisStore`](crate::RedisStore) can be made on.
///
/// # Behavior
///
/// - It MUST NOT send a command again that a server may have executed, or calls are counted twice. The
///   connections of redis-rs to a cluster do, so this is not for types around them:
///   [`connect_cluster_with`](crate::RedisStoreBuilder::connect_cluster_with) switches that off.
///
/// # Examples
///
/// A connection that counts its commands:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use tollgate_redis::RedisStore;
/// use tollgate_redis::connection::{ServerConnection, ToOneServer};
/// use tollgate_redis::redis::aio::ConnectionLike;
/// use tollgate_redis::redis::{Cmd, Pipeline, RedisFuture, Value};
///
/// #[derive(Clone)]
/// struct Counted(ServerConnection, Arc<AtomicU64>);
///
/// impl ConnectionLike for Counted {
///     fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.req_packed_command(cmd)
///     }
/// #     fn req_packed_commands<'a>(
/// #         &'a mut self,
/// #         cmd: &'a Pipeline,
/// #         offset: usize,
/// #         count: usize,
/// #     ) -> RedisFuture<'a, Vec<Value>> {
/// #         self.0.req_packed_commands(cmd, offset, count)
/// #     }
/// #     fn get_db(&self) -> i64 {
/// #         self.0.get_db()
/// #     }
///     // And the other methods.
/// }
///
/// impl ToOneServer for Counted {}
///
/// fn store(connection: Counted) -> RedisStore<Counted> {
///     RedisStore::new(connection)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be a connection to one server",
    note = "for a cluster, use `RedisStore::connect_cluster` or `RedisStoreBuilder::connect_cluster_with`",
    note = "for a type of your own around a connection to one server, implement `connection::ToOneServer`"
)]
pub trait ToOneServer: ConnectionLike + Clone + Send + Sync + 'static {}

impl ToOneServer for MultiplexedConnection {}
#[cfg(feature = "sentinel")]
impl ToOneServer for SentinelConnection {}
impl ToOneServer for ServerConnection {}

impl<C: ToOneServer> Connection for C {
    #[cfg(feature = "cluster")]
    fn cluster(&self) -> Option<&ClusterConnection> {
        None
    }
}

#[cfg(feature = "cluster")]
impl Connection for ClusterConnection {
    fn cluster(&self) -> Option<&ClusterConnection> {
        Some(self)
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "so that no other type implements it")]
    pub trait Sealed {}

    impl<C: super::ToOneServer> Sealed for C {}
    #[cfg(feature = "cluster")]
    impl Sealed for redis::cluster_async::ClusterConnection {}
}
