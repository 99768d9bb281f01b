//! Settings of fred for a rate limiter, for clients of your own.

use std::time::Duration;

use fred::types::Builder;
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, ConnectionConfig, ReconnectPolicy, ServerConfig,
};
use tollgate_core::{ErrorKind, StoreError};
use tollgate_wire::{NoConnection, Options};

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

/// Returns a builder of fred for a client or a pool on `url`, set up for a store with `options`.
///
/// # Errors
///
/// [`ErrorKind::Misconfigured`] if fred does not accept `url`, or would not do what it says: if its
/// scheme or a parameter is not one that fred knows, or if it asks for TLS and this program was
/// built without. fred would ignore that, connect in the clear, and send the password in it.
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
/// use tollgate_fred::{FredStore, Options, settings};
///
/// let mut roots = RootCertStore::empty();
/// for certificate in CertificateDer::pem_file_iter("authority.pem")? {
///     roots.add(certificate?)?;
/// }
/// let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
/// let options = Options::default();
/// let mut builder = settings::builder("rediss://:secret@10.0.0.1:6379", &options)?;
/// builder.with_config(|config| config.tls = Some(TlsConnector::from(tls).into()));
/// let store = FredStore::builder().options(options).connect_with(&builder).await?;
/// # Ok(())
/// # }
/// ```
pub fn builder(url: &str, options: &Options) -> Result<Builder, StoreError> {
    let config =
        Config::from_url(url).map_err(|error| NoConnection::InvalidAddress.error(error))?;
    with_config(url, config, options)
}

/// Returns a builder for the `config` that fred made of `url`.
fn with_config(url: &str, mut config: Config, options: &Options) -> Result<Builder, StoreError> {
    let deadline = options.deadline();
    is_kept(url, config.uses_tls())?;
    if let ServerConfig::Clustered { policy, .. } = &mut config.server {
        // The nodes that the URL names may all be gone after some failovers.
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

/// Fails if fred would not do what `url` says: it ignores parameters that it does not know, takes
/// any unknown scheme for `redis`, and without its features for TLS does without TLS.
fn is_kept(url: &str, uses_tls: bool) -> Result<(), StoreError> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let (server, kind) = scheme.split_at(scheme.find(['-', '+']).unwrap_or(scheme.len()));
    let asks_for_tls = matches!(server, "rediss" | "valkeys");
    let parameters: &[&str] = match (server, kind) {
        ("redis" | "rediss" | "valkey" | "valkeys", "") | ("redis" | "valkey", "+unix") => &[],
        ("redis" | "rediss" | "valkey" | "valkeys", "-cluster") => &["node"],
        ("redis" | "rediss" | "valkey" | "valkeys", "-sentinel") => SENTINEL_PARAMETERS,
        _ => {
            return Err(misconfigured(
                "fred does not know the scheme of the address: use redis, redis-cluster or \
                 redis-sentinel, with rediss in place of redis for TLS",
            ));
        }
    };
    // What is not a parameter may be a part of a password, so the errors do not quote it.
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let named = |pair: &str| {
        pair.split('=')
            .next()
            .is_some_and(|name| parameters.contains(&name))
    };
    if rest.contains('#') || !query.split('&').all(|pair| pair.is_empty() || named(pair)) {
        return Err(misconfigured(match kind {
            "-cluster" => {
                "fred knows no parameter but `node` in the address of a cluster: leave out others, \
                 and percent-encode `?` and `#` in passwords"
            }
            "-sentinel" => {
                "fred knows no parameters but `node` and `sentinelServiceName` in the address of a \
                 Sentinel, and `sentinelUsername` and `sentinelPassword` with the feature \
                 `sentinel-auth`: leave out others, and percent-encode `?` and `#` in passwords"
            }
            _ => {
                "fred knows no parameters in the address of a single server: leave them out, write \
                 rediss:// for TLS, and percent-encode `?` and `#` in passwords"
            }
        }));
    }
    if asks_for_tls && !uses_tls {
        return Err(misconfigured(
            "this program has no TLS: build it with one of the features `enable-rustls`, \
             `enable-rustls-ring` and `enable-native-tls`",
        ));
    }
    Ok(())
}

/// The parameters of an address of Sentinels.
const SENTINEL_PARAMETERS: &[&str] = if cfg!(feature = "sentinel-auth") {
    &[
        "node",
        "sentinelServiceName",
        "sentinelUsername",
        "sentinelPassword",
    ]
} else {
    &["node", "sentinelServiceName"]
};

fn misconfigured(message: &str) -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, message)
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

    #[test]
    fn tls_without_its_feature_is_an_error() {
        for url in [
            "rediss://h",
            "REDISS://h",
            "rediss-cluster://h",
            "rediss-sentinel://h",
            "valkeys://h",
        ] {
            // As fred makes it of any URL in a program without TLS.
            let config = Config::default();
            let error = with_config(url, config, &Options::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{url}");
            is_kept(url, true).unwrap();
        }
        for url in [
            "redis://rediss",
            "redis-cluster://h",
            "valkey://h",
            "REDIS://h",
        ] {
            is_kept(url, false).unwrap();
        }
    }

    #[test]
    fn what_fred_would_ignore_is_an_error() {
        for url in [
            "tls://alice:s3cret@h:6379",
            "https://alice:s3cret@h:6379",
            "redis+tls://alice:s3cret@h:6379",
            "redis-s://alice:s3cret@h:6379",
            "redis-clusters://alice:s3cret@h:6379",
            "rediss+cluster://alice:s3cret@h:6379",
            "redisses://alice:s3cret@h:6379",
            "ftp://alice:s3cret@h:6379",
            "postgres://alice:s3cret@h:6379",
            "cluster://alice:s3cret@h:6379",
            " redis://alice:s3cret@h:6379",
            "redi\tss://alice:s3cret@h:6379",
            "redis://alice:s3cret@h:6379?tls=true",
            "redis://h:6379?node=i:6379",
            "redis-cluster://h:6379?node=i:6379&ssl=1",
            "redis-cluster://h:6379?sentinelServiceName=name",
            "redis-sentinel://h:6379?sentinelServiceName=name&protocol=3",
            "redis://alice:6379#s3cret@h",
            "redis://alice:6379?s3cret@h",
        ] {
            let error = builder(url, &Options::new()).map(drop).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{url}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
        // What is known depends on the kind of server.
        for (url, known) in [
            ("redis://h?x=1", "no parameters in the address of a single"),
            ("redis-cluster://h?x=1", "no parameter but `node`"),
            (
                "redis-sentinel://h?sentinelServiceName=n&x=1",
                "`node` and `sentinelServiceName`",
            ),
        ] {
            let error = builder(url, &Options::new()).map(drop).expect_err(url);
            assert!(error.to_string().contains(known), "{error}");
        }
        for url in [
            "redis://alice:s3cret@h:6379/1",
            "valkeys://alice:s3cret@h:6379/1",
            "redis-cluster://h:6379?node=i:6379&node=j:6379",
            "rediss-sentinel://h?node=i:1&sentinelServiceName=n&sentinelUsername=u&sentinelPassword=p",
        ] {
            builder(url, &Options::new()).unwrap();
        }
    }
}
