//! Settings of fred for a rate limiter.

use std::time::Duration;

use fred::types::Builder;
use fred::types::config::{
    ClusterDiscoveryPolicy, ConnectionConfig, ReconnectPolicy, ServerConfig,
};
use tollgate_core::StoreError;

use super::address::Address;

/// The most calls of a store in flight; the next call waits until one of them ends.
///
/// This bounds the calls sent per deadline, not the calls that a hung server will run: a call that
/// times out makes room for another, but the server still executes it when it resumes.
pub const MOST_IN_FLIGHT: u32 = 4096;

/// How long connecting may take, and each command that fred sends by itself.
const SETUP: Duration = Duration::from_secs(1);
/// How many commands may wait to be written before the next is refused.
const WAITING: usize = 10_000;
/// How long a connection that owes replies may be silent, in deadlines.
const SILENT_DEADLINES: u32 = 4;
/// The longest silence that can be set: on Linux, `TCP_USER_TIMEOUT` is a signed 32-bit number of
/// milliseconds.
const LONGEST_SILENCE: Duration = Duration::from_millis((1 << 31) - 1);

/// Returns a builder of fred for a client or a pool at `address`, set up for calls with this `deadline`.
pub(crate) fn builder(address: impl Address, deadline: Duration) -> Result<Builder, StoreError> {
    let mut config = address.read()?;
    if let ServerConfig::Clustered { policy, .. } = &mut config.server {
        // The nodes that the address names may all be gone after some failovers.
        *policy = ClusterDiscoveryPolicy::UseCache;
    }
    let mut builder = Builder::from_config(config);
    builder
        .with_connection_config(|connection| set_up(connection, deadline))
        // For other uses of the client: the store sets a timeout for each of its own calls.
        .with_performance_config(|performance| performance.default_command_timeout = deadline)
        .set_policy(ReconnectPolicy::new_exponential(0, 50, 1_000, 2));
    Ok(builder)
}

fn set_up(connection: &mut ConnectionConfig, deadline: Duration) {
    let silence = deadline.saturating_mul(SILENT_DEADLINES);
    let silence = silence.clamp(SETUP, LONGEST_SILENCE);
    connection.connection_timeout = SETUP;
    connection.internal_command_timeout = SETUP;
    connection.max_command_attempts = 1;
    connection.max_command_buffer_len = WAITING;
    connection.max_redirections = 0;
    connection.tcp.nodelay = Some(true);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    {
        // fred measures silence from its last write, so it never finds a busy connection silent.
        connection.tcp.user_timeout = Some(silence);
    }
    connection.unresponsive.max_timeout = Some(silence);
    connection.unresponsive.interval = silence / 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in the crate's documentation.
    #[test]
    fn clients_are_set_up_as_documented() {
        let second = Duration::from_secs(1);
        for (deadline, silence) in [
            (Duration::from_millis(100), second),
            (Duration::from_millis(500), second * 2),
            (Duration::MAX, LONGEST_SILENCE),
        ] {
            let builder = builder("redis-cluster://h", deadline).unwrap();
            let connection = builder.get_connection_config();
            assert_eq!(connection.connection_timeout, second);
            assert_eq!(connection.internal_command_timeout, second);
            assert_eq!(connection.max_command_attempts, 1);
            assert_eq!(connection.max_command_buffer_len, 10_000);
            assert_eq!(connection.max_redirections, 0);
            assert_eq!(connection.tcp.nodelay, Some(true));
            #[cfg(target_os = "linux")]
            assert_eq!(connection.tcp.user_timeout, Some(silence));
            assert_eq!(connection.unresponsive.max_timeout, Some(silence));
            assert_eq!(connection.unresponsive.interval, silence / 4);
            let performance = builder.get_performance_config();
            assert_eq!(performance.default_command_timeout, deadline);
            let reconnects = ReconnectPolicy::new_exponential(0, 50, 1_000, 2);
            assert_eq!(builder.get_policy(), Some(&reconnects));
            let config = builder.get_config().unwrap();
            let ServerConfig::Clustered { policy, .. } = &config.server else {
                panic!("{config:?}");
            };
            assert_eq!(*policy, ClusterDiscoveryPolicy::UseCache);
        }
    }
}
