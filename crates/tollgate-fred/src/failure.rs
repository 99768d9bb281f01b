//! Turns fred's errors into failures: not sent, refused by the server, or unknown.

use fred::error::{Error, ErrorKind};
use fred::interfaces::Resp3Frame;
use tollgate_wire::Failure;

/// Errors that fred returns only before it has written a command.
///
/// Each comes from one place in fred: the check whether the client is connected; the queue, when it
/// is closed or emptied; the search for a connection; and the check whether the connection is
/// blocked.
const NOT_SENT: [(ErrorKind, &str); 5] = [
    (ErrorKind::Canceled, "Canceled."),
    (ErrorKind::Canceled, "Connection closed unexpectedly."),
    (
        ErrorKind::InvalidCommand,
        "Error sending command while connection is blocked.",
    ),
    (ErrorKind::Unknown, "Failed to route command."),
    (ErrorKind::Unknown, "Failed to send command to router."),
];
/// The error that fred returns for `MOVED` and `ASK` when it may not follow them.
const REDIRECTED: (ErrorKind, &str) = (ErrorKind::Routing, "Too many redirections.");
/// The error code that we report for [`REDIRECTED`], because fred hides the server's own.
const ON_ITS_WAY: &str = "TRYAGAIN";

/// Returns the reply to a command, or the server's error.
pub(crate) fn reply(frame: Resp3Frame) -> Result<Resp3Frame, Failure> {
    let line = match frame {
        Resp3Frame::SimpleError { data, .. } => data.to_string(),
        Resp3Frame::BlobError { data, .. } => String::from_utf8_lossy(&data).into_owned(),
        frame => return Ok(frame),
    };
    Err(refused(line))
}

/// Returns the failure for a command to which fred has no reply.
pub(crate) fn no_reply(error: Error) -> Failure {
    let is =
        |(kind, details): &(ErrorKind, &str)| error.kind() == kind && error.details() == *details;
    if is(&REDIRECTED) {
        let line = format!("{ON_ITS_WAY} redirected: fred does not say where to");
        return Failure::refused(line, error);
    }
    if NOT_SENT.iter().any(is) {
        return Failure::not_sent(error);
    }
    match error.kind() {
        // The queue of commands that fred has not written yet is full.
        ErrorKind::Backpressure => Failure::crowded(error),
        // All commands of a connection get this when it brings a reply that fred cannot assign.
        ErrorKind::Protocol | ErrorKind::Parse => Failure::malformed(error),
        // Also errors that look like the server's, such as CLUSTERDOWN: fred closes the connection
        // that brings one, and returns it for every command that waits there, run or not.
        _ => Failure::lost(error),
    }
}

/// Returns the failure for a reply of another type than `expected`.
pub(crate) fn wrong_type(expected: &str, frame: &Resp3Frame) -> Failure {
    let details = format!("expected {expected}, found {:?}", frame_kind(frame));
    Failure::malformed(Error::new(ErrorKind::Parse, details))
}

/// Returns whether the server refused a command because its keys are, or are moving, elsewhere.
pub(crate) fn is_on_its_way(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { line, .. } if line.starts_with(ON_ITS_WAY))
}

/// Returns whether the server says that it is out of service.
pub(crate) fn is_out_of_service(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { line, .. } if tollgate_wire::inside::is_out_of_service(line))
}

/// Returns whether fred's own timeout has ended a command.
pub(crate) fn is_timeout(error: &Error) -> bool {
    *error.kind() == ErrorKind::Timeout
}

fn refused(line: String) -> Failure {
    let source = Error::new(ErrorKind::Unknown, line.clone());
    Failure::refused(line, source)
}

fn frame_kind(frame: &Resp3Frame) -> &'static str {
    match frame {
        Resp3Frame::Array { .. } => "an array",
        Resp3Frame::Null => "nothing",
        Resp3Frame::Number { .. } => "a number",
        Resp3Frame::SimpleString { .. } => "a status",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(kind: ErrorKind, details: &'static str) -> Failure {
        no_reply(Error::new(kind, details))
    }

    #[test]
    fn only_unwritten_commands_are_known_not_to_be_sent() {
        for (kind, details) in NOT_SENT {
            let failure = outcome(kind, details);
            assert!(matches!(failure, Failure::NotSent(_)), "{failure:?}");
        }
        let failure = outcome(ErrorKind::Backpressure, "Max in-flight commands reached.");
        assert!(matches!(failure, Failure::Crowded(_)), "{failure:?}");
        for (kind, details) in [
            (ErrorKind::IO, "Connection closed."),
            (ErrorKind::IO, "Canceled."),
            (ErrorKind::IO, "Unresponsive connection."),
            (ErrorKind::Canceled, "Max reconnection attempts reached."),
            (ErrorKind::Unknown, "channel closed"),
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
            (ErrorKind::Auth, "NOAUTH Authentication required."),
        ] {
            let failure = outcome(kind, details);
            assert!(matches!(failure, Failure::Lost(_)), "{failure:?}");
        }
    }

    #[test]
    fn a_redirected_command_may_be_sent_again() {
        let (kind, details) = REDIRECTED;
        assert!(is_on_its_way(&outcome(kind, details)));
        assert!(is_on_its_way(&refused("TRYAGAIN Multiple keys".to_owned())));
        assert!(!is_on_its_way(&refused("LOADING Redis is".to_owned())));
        assert!(!is_on_its_way(&outcome(
            ErrorKind::IO,
            "Connection closed."
        )));
    }

    #[test]
    fn an_error_reply_is_an_error_of_the_server() {
        let (data, attributes) = ("OOM no".into(), None);
        let short = Resp3Frame::SimpleError { data, attributes };
        let (data, attributes) = ("OOM no".into(), None);
        let long = Resp3Frame::BlobError { data, attributes };
        for frame in [short, long] {
            let Err(Failure::Refused { line, .. }) = reply(frame) else {
                panic!("no error");
            };
            assert_eq!(line, "OOM no");
        }
        assert!(reply(Resp3Frame::Null).is_ok());
    }

    #[test]
    fn a_reply_of_another_type_is_named() {
        let (data, attributes) = (Vec::new(), None);
        let array = Resp3Frame::Array { data, attributes };
        let (data, attributes) = ("OK".into(), None);
        let status = Resp3Frame::SimpleString { data, attributes };
        for (frame, expected) in [
            (array, "an array"),
            (Resp3Frame::Null, "nothing"),
            (Resp3Frame::from(1), "a number"),
            (status, "a status"),
            (Resp3Frame::from(true), "something else"),
        ] {
            let Failure::Malformed(source) = wrong_type("a bulk string", &frame) else {
                panic!("{frame:?}");
            };
            let source = source.to_string();
            assert!(source.contains(&format!("{expected:?}")), "{source}");
        }
    }
}
