//! Settings of redis-rs for a rate limiter.

use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::io::tcp::TcpSettings;
#[cfg(feature = "cluster")]
use redis::{ProtocolVersion, cluster::ClusterClientBuilder};

/// The most calls in flight on one connection; the next call waits until one of them ends.
///
/// This bounds the calls sent per deadline, not the calls that a hung server will run: a call that
/// times out makes room for another, but the server still executes it when it resumes.
pub const MOST_IN_FLIGHT: usize = 4096;

/// How long data may stay unacknowledged before the connection counts as lost.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// How long opening a connection may take.
const CONNECTING: Duration = Duration::from_secs(1);
/// How long a node of a cluster has at least to greet and to tell the slots, however short the
/// deadline of calls is.
#[cfg(feature = "cluster")]
const LEAST_RESPONSE: Duration = Duration::from_millis(250);

/// Returns the socket settings: `TCP_NODELAY`, and on Linux `TCP_USER_TIMEOUT`.
///
/// A missed deadline ends a call, not the connection. If the server's machine vanishes,
/// `TCP_USER_TIMEOUT` ends the connection after five seconds; on systems other than Linux it stays
/// until the system gives it up.
#[must_use]
pub fn tcp() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED);
    settings
}

/// Returns the settings of a multiplexed connection: at most [`MOST_IN_FLIGHT`] calls at once, and
/// no response timeout, because the store's deadline ends a call.
#[must_use]
pub fn multiplexed() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTING))
        .set_response_timeout(None)
        .set_concurrency_limit(MOST_IN_FLIGHT)
}

/// Sets up cluster connections: no retries, the `protocol`, [`tcp`], and [`MOST_IN_FLIGHT`].
///
/// The retries matter most: after a lost connection redis-rs would send a command again that the
/// server may have executed, and the call would be counted twice. The store follows redirections
/// itself.
#[cfg(feature = "cluster")]
pub(crate) fn cluster(
    builder: ClusterClientBuilder,
    protocol: ProtocolVersion,
    deadline: Duration,
) -> ClusterClientBuilder {
    builder
        .retries(0)
        .use_protocol(protocol)
        .tcp_settings(tcp())
        .connection_timeout(CONNECTING)
        // Reading the slots needs a timeout of its own, because all calls wait for it. Greeting a
        // node has the same.
        .response_timeout(deadline.max(LEAST_RESPONSE))
        .connection_concurrency_limit(MOST_IN_FLIGHT)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tollgate_testkit::{Answer, FakeServer};

    use super::*;

    /// The table in the crate's documentation.
    #[test]
    fn connections_are_set_up_as_documented() {
        let tcp = tcp();
        assert!(tcp.nodelay());
        #[cfg(target_os = "linux")]
        assert_eq!(tcp.user_timeout(), Some(Duration::from_secs(5)));
    }

    #[tokio::test]
    async fn a_slow_reply_is_waited_for() {
        let server = FakeServer::start(|words| {
            if words[0] == "SET" {
                // Longer than the default timeout of redis-rs.
                thread::sleep(Duration::from_millis(700));
            }
            "+OK\r\n".into()
        });
        let client = redis::Client::open(server.url()).unwrap();
        let settings = multiplexed();
        let connection = client.get_multiplexed_async_connection_with_config(&settings);
        let mut connection = connection.await.unwrap();
        let mut set = redis::cmd("SET");
        set.arg("key").arg(1);
        set.query_async::<()>(&mut connection).await.unwrap();
    }

    #[cfg(feature = "cluster")]
    #[tokio::test]
    async fn a_cluster_is_waited_for_as_long_as_the_deadline() {
        let node = FakeServer::start_node(&[], |words| {
            if words[0] == "SET" {
                thread::sleep(Duration::from_millis(700));
            }
            "+OK\r\n".into()
        });
        let builder = ClusterClientBuilder::new([node.url()]);
        let builder = cluster(builder, ProtocolVersion::RESP3, Duration::from_secs(10));
        let client = builder.build().unwrap();
        let mut connection = client.get_async_connection().await.unwrap();
        let mut set = redis::cmd("SET");
        set.arg("key").arg(1);
        set.query_async::<()>(&mut connection).await.unwrap();
    }

    #[tokio::test]
    async fn connecting_to_a_server_that_hangs_takes_a_second() {
        let server = FakeServer::start(|_| Answer::Nothing);
        let client = redis::Client::open(server.url()).unwrap();
        let settings = multiplexed();
        let connection = client.get_multiplexed_async_connection_with_config(&settings);
        let limit = 5 * CONNECTING;
        let outcome = tokio::time::timeout(limit, connection).await;
        assert!(outcome.expect("connecting ends").is_err());
    }
}
