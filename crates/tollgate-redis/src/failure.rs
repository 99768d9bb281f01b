//! Turns errors of redis-rs into failures that say whether the server may have run the call.

use redis::{ErrorKind, RedisError, ServerError};
use tollgate_wire::Failure;

/// Returns the failure for an `error` of a call on a connection to one server.
///
/// When a connection is lost, redis-rs returns the same `BrokenPipe` for calls that were sent and
/// for calls that were not. A timeout may come from connecting or from waiting for a reply. In both
/// cases the call may have been executed.
pub(crate) fn of(error: RedisError) -> Failure {
    answered(error).unwrap_or_else(|error| match error.kind() {
        // The password is checked while connecting, before any call is sent. redis-rs drops the
        // server's own words.
        ErrorKind::AuthenticationFailed => {
            Failure::refused("WRONGPASS the server refused the user or password", error)
        }
        // Raised before anything is written: settings that contradict each other or the server, and
        // host names without an address.
        ErrorKind::Client | ErrorKind::InvalidClientConfig | ErrorKind::RESP3NotSupported => {
            Failure::not_sent(error)
        }
        // Only connecting is refused: an established connection ends with another error
        // (`ECONNRESET`, `EPIPE`, `ETIMEDOUT`). Of all connections only the manager connects for a
        // call, and it connects before it writes the call, and does not write it twice.
        _ if error.is_connection_refusal() => Failure::not_sent(error),
        // A certificate, too, is refused before anything else is written.
        _ if is_distrust(&error) => Failure::not_sent(error),
        _ => Failure::lost(error),
    })
}

/// Returns whether this client refused the server's certificate, which ends the TLS handshake.
fn is_distrust(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Io && error.to_string().starts_with("invalid peer certificate")
}

/// Returns the failure for an `error` that a cluster node answered a call with.
#[cfg(feature = "cluster")]
pub(crate) fn of_answer(error: RedisError) -> Failure {
    answered(error).unwrap_or_else(Failure::lost)
}

/// Returns the error in a reply.
pub(crate) fn within(reply: &redis::Value) -> Option<RedisError> {
    match reply {
        redis::Value::ServerError(error) => Some(error.clone().into()),
        _ => None,
    }
}

/// Returns an error as the server wrote it.
pub(crate) fn line(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// Returns whether the server says that it is out of service; in a transaction that is nested inside
/// `EXECABORT`.
pub(crate) fn is_out_of_service(error: &RedisError) -> bool {
    is_any(error, tollgate_wire::inside::is_out_of_service)
}

/// Returns whether the server says that it is a replica.
#[cfg(feature = "sentinel")]
pub(crate) fn is_of_replica(error: &RedisError) -> bool {
    is_any(error, tollgate_wire::inside::is_of_replica)
}

fn is_any(error: &RedisError, is: fn(&str) -> bool) -> bool {
    let errors = error.clone().into_server_errors().unwrap_or_default();
    errors.iter().any(|(_, said)| is(&line(said)))
}

/// Returns the failure for an answer of a server that is not a usable reply, or any other error.
fn answered(error: RedisError) -> Result<Failure, RedisError> {
    // An error has a code only if a server wrote one.
    if let Some(code) = error.code() {
        let line = match error.detail() {
            Some(detail) => format!("{code} {detail}"),
            None => code.to_owned(),
        };
        return Ok(Failure::refused(line, error));
    }
    match error.kind() {
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Ok(Failure::malformed(error)),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::ServerErrorKind;

    use super::*;

    fn name(failure: &Failure) -> &'static str {
        match failure {
            Failure::Lost(_) => "lost",
            Failure::Malformed(_) => "malformed",
            Failure::NotSent(_) => "not sent",
            Failure::Refused { .. } => "refused",
            _ => "another",
        }
    }

    fn broken(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    #[test]
    fn the_servers_own_words_are_kept() {
        let refused = |error: RedisError| match of(error) {
            Failure::Refused { line, .. } => line,
            other => panic!("{other:?}"),
        };
        let error = redis::make_extension_error("OOM".into(), Some("command not allowed".into()));
        assert_eq!(refused(error), "OOM command not allowed");
        let error = redis::make_extension_error("BUSY".into(), None);
        assert_eq!(refused(error), "BUSY");
        let moved = (
            ErrorKind::Server(ServerErrorKind::Moved),
            "An error",
            "4574 127.0.0.1:7120".to_owned(),
        );
        assert_eq!(refused(moved.into()), "MOVED 4574 127.0.0.1:7120");
    }

    #[test]
    fn only_a_refusal_to_connect_is_known_not_to_have_been_sent() {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
            TimedOut, UnexpectedEof,
        };
        assert_eq!(name(&of(broken(ConnectionRefused))), "not sent");
        let distrust = io::Error::other("invalid peer certificate: Expired");
        assert_eq!(name(&of(distrust.into())), "not sent");
        let broken_off = io::Error::other("received fatal alert: CertificateRequired");
        assert_eq!(name(&of(broken_off.into())), "lost");
        for kind in [
            BrokenPipe,
            ConnectionAborted,
            ConnectionReset,
            HostUnreachable,
            TimedOut,
            UnexpectedEof,
        ] {
            assert_eq!(name(&of(broken(kind))), "lost", "{kind}");
        }
    }

    #[test]
    fn a_reply_of_another_type_is_an_error() {
        let error = RedisError::from((ErrorKind::UnexpectedReturnType, "not a bulk string"));
        assert_eq!(name(&of(error)), "malformed");
    }

    #[test]
    fn what_is_found_while_connecting_was_not_counted() {
        let wrong = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert_eq!(name(&of(wrong)), "refused");
        for kind in [
            ErrorKind::Client,
            ErrorKind::InvalidClientConfig,
            ErrorKind::RESP3NotSupported,
        ] {
            assert_eq!(name(&of((kind, "no").into())), "not sent", "{kind:?}");
        }
        // Only the client itself says so of a certificate.
        let said = RedisError::from((ErrorKind::Extension, "invalid peer certificate"));
        assert_eq!(name(&of(said)), "lost");
    }
}
