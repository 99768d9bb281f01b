//! Turns errors of connecting into store errors.

use redis::{ConnectionInfo, ErrorKind, RedisError};
use tollgate_core::StoreError;
use tollgate_wire::inside::NoConnection;

/// Phrases in errors of redis-rs, and what each means.
///
/// We search the text because a cluster's error has only that, and because redis-rs has no error
/// kinds for TLS.
const WORDS: [(&str, NoConnection); 10] = [
    ("doesn't support HELLO", NoConnection::WithoutResp3),
    ("AuthenticationFailed", NoConnection::WrongPassword),
    (
        "invalid peer certificate",
        NoConnection::UntrustedCertificate,
    ),
    ("refused to switch database", NoConnection::NoSuchDatabase),
    ("received fatal alert", NoConnection::AlertedTls),
    ("received corrupt message", NoConnection::AlertedTls),
    ("timed out", NoConnection::NotGreeted),
    ("onnection reset", NoConnection::NotGreeted),
    ("roken pipe", NoConnection::NotGreeted),
    ("unexpected end of file", NoConnection::NotGreeted),
];

/// Returns the store error for an address that redis-rs cannot read.
pub(super) fn invalid_address(error: RedisError) -> StoreError {
    let told = if error.to_string().contains("feature is not enabled") {
        NoConnection::WithoutTls {
            feature: "tls-rustls",
        }
    } else {
        NoConnection::InvalidAddress
    };
    told.error(error)
}

/// Returns whether the server refuses the command that asks for RESP3.
pub(super) fn refuses_hello(error: &RedisError) -> bool {
    told(error) == Some(NoConnection::WithoutResp3)
}

/// Returns the store error for an error of connecting to `servers`.
pub(super) fn refused(servers: &[ConnectionInfo], error: RedisError) -> StoreError {
    let is_settled = matches!(
        error.kind(),
        ErrorKind::Client
            | ErrorKind::EmptySentinelList
            | ErrorKind::InvalidClientConfig
            | ErrorKind::RESP3NotSupported
    );
    let other = if is_settled {
        NoConnection::UnusableSettings
    } else {
        NoConnection::Unreachable
    };
    let servers = servers.iter().map(ConnectionInfo::addr);
    told(&error).unwrap_or(other).error_of(servers, error)
}

fn told(error: &RedisError) -> Option<NoConnection> {
    // redis-rs replaces the codes that it knows with words of its own.
    let text = match error.code() {
        Some(code) => format!("{code} {error}"),
        None => error.to_string(),
    };
    NoConnection::told(&text, &WORDS)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tollgate_core::ErrorKind as StoreErrorKind;

    use super::*;

    #[test]
    fn an_address_that_asks_for_tls_needs_the_feature() {
        // As redis-rs says when it was built without TLS.
        let text = "can't connect with TLS, the feature is not enabled";
        let error = invalid_address((ErrorKind::InvalidClientConfig, text).into());
        let told = error.to_string();
        assert!(told.contains("TLS"), "{told}");
        assert!(told.ends_with("enable the feature `tls-rustls`"), "{told}");
    }

    #[test]
    fn a_server_that_is_away_may_come_back_but_settings_stay_wrong() {
        let refusal = io::Error::from(io::ErrorKind::ConnectionRefused);
        let server = redis::Client::open("redis://:sesame@10.0.0.1:1").unwrap();
        let servers = [server.get_connection_info().clone()];
        let away = refused(&servers, refusal.into());
        let told = away.to_string();
        let said = "10.0.0.1:1: no connection to the server: ";
        assert!(told.starts_with(said), "{told}");
        assert_eq!(away.kind(), StoreErrorKind::Unavailable, "{away}");
        for kind in [
            ErrorKind::Client,
            ErrorKind::EmptySentinelList,
            ErrorKind::InvalidClientConfig,
            ErrorKind::RESP3NotSupported,
        ] {
            let wrong = refused(&servers, (kind, "no").into());
            assert_eq!(wrong.kind(), StoreErrorKind::Misconfigured, "{wrong}");
        }
    }
}
