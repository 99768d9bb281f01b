//! Settings of fred for a rate limiter.

use std::time::Duration;

use fred::types::Builder;
use fred::types::config::{
    ClusterDiscoveryPolicy, ConnectionConfig, ReconnectPolicy, ServerConfig,
};
use tollgate_core::StoreError;
use tollgate_wire::Options;

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

/// Returns a builder of fred for a client or a pool at `address`, set up for a store with `options`.
///
/// # Errors
///
/// [`ErrorKind::Misconfigured`](tollgate_core::ErrorKind::Misconfigured) if fred does not accept
/// the text of an address, or would not do what it says: if its scheme or a parameter is not one
/// that fred knows, or if it asks for TLS and this program was built without. fred would ignore
/// that, connect in the clear, and send the password in it.
///
/// # Examples
///
/// ```
/// use tollgate_fred::{Options, connection};
///
/// let builder = connection::builder("redis://127.0.0.1:6379", &Options::default())?;
/// assert_eq!(builder.get_connection_config().max_command_attempts, 1);
/// # Ok::<(), tollgate_core::StoreError>(())
/// ```
///
/// With TLS and a certificate authority that the system does not know, here through `rustls`:
///
/// ```no_run
/// # #[cfg(any(feature = "enable-rustls", feature = "enable-rustls-ring"))]
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use rustls::pki_types::CertificateDer;
/// use rustls::pki_types::pem::PemObject;
/// use rustls::{ClientConfig, RootCertStore};
/// use tollgate_fred::fred::types::config::TlsConnector;
/// use tollgate_fred::{FredStore, Options, connection};
///
/// let mut roots = RootCertStore::empty();
/// for certificate in CertificateDer::pem_file_iter("authority.pem")? {
///     roots.add(certificate?)?;
/// }
/// let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
/// let options = Options::default();
/// let mut builder = connection::builder("rediss://:secret@10.0.0.1:6379", &options)?;
/// builder.with_config(|config| config.tls = Some(TlsConnector::from(tls).into()));
/// let store = FredStore::builder().options(options).connect_with(&builder).await?;
/// # Ok(())
/// # }
/// ```
pub fn builder(address: impl Address, options: &Options) -> Result<Builder, StoreError> {
    let mut config = address.read()?;
    let deadline = options.deadline();
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
            let options = Options::new().with_deadline(deadline);
            let builder = builder("redis-cluster://h", &options).unwrap();
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
