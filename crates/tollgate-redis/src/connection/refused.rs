//! Turns errors of connecting into store errors.

use redis::{ErrorKind, RedisError};
use tollgate_core::StoreError;
use tollgate_core::wire::NoConnection;

/// Phrases in errors of redis-rs, and what each means.
///
/// We search the text because a cluster's error has only that, and because redis-rs has no error
/// kinds for TLS.
const WORDS: [(&str, NoConnection); 9] = [
    ("AuthenticationFailed", NoConnection::WrongPassword),
    (
        "invalid peer certificate",
        NoConnection::UntrustedCertificate,
    ),
    ("refused to switch database", NoConnection::UnusableSettings),
    ("received fatal alert", NoConnection::AlertedTls),
    ("received corrupt message", NoConnection::AlertedTls),
    ("timed out", NoConnection::NotGreeted),
    ("onnection reset", NoConnection::NotGreeted),
    ("roken pipe", NoConnection::NotGreeted),
    ("unexpected end of file", NoConnection::NotGreeted),
];

/// Returns the store error for an error of connecting.
pub(super) fn refused(error: RedisError) -> StoreError {
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
    // redis-rs replaces the codes that it knows with words of its own.
    let text = match error.code() {
        Some(code) => format!("{code} {error}"),
        None => error.to_string(),
    };
    let told = NoConnection::told(&text, &WORDS);
    told.unwrap_or(other).error(error)
}
