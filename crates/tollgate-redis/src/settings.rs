//! The settings that a rate limiter needs, for connections of your own.
//!
//! [`RedisStore::connect`](crate::RedisStore) and its like use these.

use std::time::Duration;

use redis::AsyncConnectionConfig;
#[cfg(feature = "connection-manager")]
use redis::aio::ConnectionManagerConfig;
use redis::io::tcp::TcpSettings;
#[cfg(feature = "cluster")]
use redis::{ProtocolVersion, cluster::ClusterClientBuilder};
#[cfg(feature = "cluster")]
use tollgate_core::wire::Options;

/// How many calls may be waited for at once through one connection; the next one is not sent until
/// another ends.
///
/// It bounds how many are sent in one deadline to a server that hangs, not how many are on their way
/// there: a call that is given up at its deadline makes room for another, and what was sent of it is
/// executed when the server goes on.
pub const MOST_IN_FLIGHT: usize = 4096;

/// How long data may stay unacknowledged before the connection counts as lost.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// How long opening a connection may take.
const CONNECTING: Duration = Duration::from_secs(1);

/// Returns the settings of sockets: what is written is sent at once, and a peer that is gone
/// without a word is noticed.
///
/// No reply within the deadline ends a call, not the connection, so that on Linux one to a machine
/// that has vanished is ended by `TCP_USER_TIMEOUT` after five seconds; elsewhere it stays until
/// the system gives it up.
#[must_use]
pub fn tcp() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED);
    settings
}

/// Returns the settings of a multiplexed connection: the store's deadline is the only timeout of a
/// call, and calls that are waited for are bounded by [`MOST_IN_FLIGHT`].
#[must_use]
pub fn connection() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTING))
        .set_response_timeout(None)
        .set_concurrency_limit(MOST_IN_FLIGHT)
}

/// Returns the settings of a connection manager: as [`connection`], and a call fails at once where
/// the server cannot be reached, instead of waiting for several attempts.
///
/// Its client is to use [`tcp`] and RESP3, which notices a lost connection before a call does.
#[cfg(feature = "connection-manager")]
#[must_use]
pub fn manager() -> ConnectionManagerConfig {
    ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(CONNECTING))
        .set_response_timeout(None)
        .set_concurrency_limit(MOST_IN_FLIGHT)
}

/// Sets what a cluster's connections need: no retries, RESP3, [`tcp`], and [`MOST_IN_FLIGHT`].
///
/// The retries are the ones that matter. redis-rs sends a command again after a lost connection,
/// where it may have been executed; a store counts it twice then.
/// The store follows redirections itself.
#[cfg(feature = "cluster")]
#[must_use]
pub fn cluster(builder: ClusterClientBuilder, options: &Options) -> ClusterClientBuilder {
    builder
        .retries(0)
        .use_protocol(ProtocolVersion::RESP3)
        .tcp_settings(tcp())
        .connection_timeout(CONNECTING)
        // Reading the slots needs a bound of its own: all calls wait for it.
        .response_timeout(options.deadline())
        .connection_concurrency_limit(MOST_IN_FLIGHT)
}
