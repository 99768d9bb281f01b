//! The settings of fred that a rate limiter needs, for clients that are not the store's own.

use std::time::Duration;

use fred::types::Builder;
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, ConnectionConfig, ReconnectPolicy, ServerConfig,
};
use tollgate_core::StoreError;
use tollgate_core::wire::Options;

use crate::connect::refused;

/// How long opening a connection may take, and each command of fred's own.
const SETUP: Duration = Duration::from_secs(1);
/// How many commands may wait to be written before the next is refused.
const WAITING: usize = 10_000;
/// How long a connection may be silent, in deadlines, while it owes replies.
const SILENT_DEADLINES: u32 = 4;

/// Returns what builds a client or a pool on `url` that serves a store with `options`.
///
/// # Errors
///
/// [`ErrorKind::Misconfigured`](tollgate_core::ErrorKind::Misconfigured) if `url` is not one that
/// fred takes.
///
/// # Examples
///
/// ```
/// use tollgate_fred::{Options, settings};
///
/// let builder = settings::builder("redis://127.0.0.1:6379", &Options::default())?;
/// assert_eq!(builder.get_connection_config().max_command_attempts, 1);
/// # Ok::<(), tollgate_core::StoreError>(())
/// ```
pub fn builder(url: &str, options: &Options) -> Result<Builder, StoreError> {
    let deadline = options.deadline();
    let mut config = Config::from_url(url).map_err(refused)?;
    if let ServerConfig::Clustered { policy, .. } = &mut config.server {
        // The nodes that the URL names may all be gone after some failovers.
        *policy = ClusterDiscoveryPolicy::UseCache;
    }
    let mut builder = Builder::from_config(config);
    builder
        .with_connection_config(|connection| set_up(connection, deadline))
        // For what else the client is used: the store sets it for each of its own calls.
        .with_performance_config(|performance| performance.default_command_timeout = deadline)
        .set_policy(ReconnectPolicy::new_exponential(0, 50, 1_000, 2));
    Ok(builder)
}

fn set_up(connection: &mut ConnectionConfig, deadline: Duration) {
    let silence = deadline.saturating_mul(SILENT_DEADLINES).max(SETUP);
    connection.connection_timeout = SETUP;
    connection.internal_command_timeout = SETUP;
    connection.max_command_attempts = 1;
    connection.max_command_buffer_len = WAITING;
    connection.max_redirections = 0;
    connection.tcp.nodelay = Some(true);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    {
        // fred counts silence from its last write, so to it a busy connection is never silent.
        connection.tcp.user_timeout = Some(silence);
    }
    connection.unresponsive.max_timeout = Some(silence);
    connection.unresponsive.interval = silence / 4;
}
