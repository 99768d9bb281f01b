//! `Address`: where a server is, in whatever form a program has it.

use fred::types::config::Config;
use tollgate_core::{ErrorKind, StoreError};
use tollgate_wire::inside::NoConnection;

/// The address of a server, a cluster or Sentinels: text such as `redis://127.0.0.1:6379` (a `&str`,
/// `String`, `&String` or a reference to a `Url`), or a [`Config`].
///
/// Text whose scheme or parameters fred would ignore is an error.
pub trait Address {
    /// Returns what fred needs to connect.
    #[doc(hidden)]
    fn read(self) -> Result<Config, StoreError>;
}

impl<T: AsRef<str> + ?Sized> Address for &T {
    fn read(self) -> Result<Config, StoreError> {
        let url = self.as_ref();
        let config = Config::from_url(url);
        let config = config.map_err(|error| NoConnection::InvalidAddress.error(error))?;
        is_kept(url, &config)?;
        Ok(config)
    }
}

impl Address for String {
    fn read(self) -> Result<Config, StoreError> {
        self.as_str().read()
    }
}

impl Address for Config {
    fn read(self) -> Result<Config, StoreError> {
        Ok(self)
    }
}

/// Fails if fred does not do what `url` says, of which it made `config`: it ignores parameters that it
/// does not know, takes any unknown scheme for `redis`, and without its features for TLS does without TLS.
fn is_kept(url: &str, config: &Config) -> Result<(), StoreError> {
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
    if asks_for_tls && !config.uses_tls() {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn addresses_are_read_in_every_form() {
        let text = "redis://127.0.0.1:7001/2".to_owned();
        let config = Config::from_url(&text).unwrap();
        let texts = [text.as_str().read(), (&text).read(), text.clone().read()];
        for read in texts.into_iter().chain([config.clone().read()]) {
            assert_eq!(read.unwrap(), config);
        }
    }

    #[test]
    fn tls_without_its_feature_is_an_error() {
        // The first as fred makes it of any URL in a program without TLS.
        let (without, with) = (Config::default(), Config::from_url("rediss://h").unwrap());
        for url in [
            "rediss://h",
            "REDISS://h",
            "rediss-cluster://h",
            "rediss-sentinel://h",
            "valkeys://h",
        ] {
            let error = is_kept(url, &without).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{url}");
            is_kept(url, &with).unwrap();
        }
        for url in [
            "redis://rediss",
            "redis-cluster://h",
            "valkey://h",
            "REDIS://h",
        ] {
            is_kept(url, &without).unwrap();
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
            let error = url.read().map(drop).expect_err(url);
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
            let error = url.read().map(drop).expect_err(url);
            assert!(error.to_string().contains(known), "{error}");
        }
        for url in [
            "redis://alice:s3cret@h:6379/1",
            "valkeys://alice:s3cret@h:6379/1",
            "redis-cluster://h:6379?node=i:6379&node=j:6379",
            "rediss-sentinel://h?node=i:1&sentinelServiceName=n&sentinelUsername=u&sentinelPassword=p",
        ] {
            url.read().unwrap();
        }
    }
}
