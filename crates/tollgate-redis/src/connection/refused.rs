//! Why there is no connection.

use redis::{ErrorKind, RedisError};
use tollgate_core::StoreError;
use tollgate_core::wire::NoConnection;

/// What redis-rs says of what went wrong.
///
/// It is looked for in the text, since that is all there is of what went wrong with a cluster, and
/// since redis-rs does not tell one end of a TLS session from another.
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

/// Returns why there is no connection.
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
    // redis-rs writes the codes that it knows in words of its own.
    let text = match error.code() {
        Some(code) => format!("{code} {error}"),
        None => error.to_string(),
    };
    let told = NoConnection::told(&text, &WORDS);
    told.unwrap_or(other).error(error)
}
