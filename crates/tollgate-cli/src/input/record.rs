//! `Record` and `Skip`: a parsed log line, or why a line was skipped.

use std::borrow::Cow;

use tollgate_core::Timestamp;

use crate::key::Part;

/// A request from a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Record<'a> {
    pub(crate) at: Timestamp,
    pub(crate) ip: Cow<'a, [u8]>,
    /// `-` without a user.
    pub(crate) user: Cow<'a, [u8]>,
    /// Without the query string.
    pub(crate) path: Cow<'a, [u8]>,
}

impl Record<'_> {
    /// Returns the text of `part`.
    #[inline]
    pub(crate) fn part(&self, part: Part) -> &[u8] {
        match part {
            Part::Ip => &self.ip,
            Part::Path => &self.path,
            Part::User => &self.user,
        }
    }
}

/// Why a line was skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Skip {
    #[error("the line is empty")]
    Blank,
    #[error("the time is before 1970 or after 2255")]
    NoSuchInstant,
    #[error("no address at the start")]
    NoAddress,
    #[error("the JSON object has no address field; name it with --ip-field")]
    NoIpField,
    #[error("the JSON object has no path field; name it with --path-field")]
    NoPathField,
    #[error("no \"request\" in quotes after the time")]
    NoRequest,
    #[error("no status and size after the request")]
    NoStatus,
    #[error("no [time] such as [17/May/2015:10:05:03 +0000]")]
    NoTime,
    #[error("the JSON object has no time field; name it with --time-field")]
    NoTimeField,
    #[error("not a JSON object")]
    NotJson,
    #[error("the line is longer than 1 MiB")]
    TooLong,
    #[error("the time is neither RFC 3339 nor unix seconds or milliseconds")]
    UnknownTime,
}

/// Returns the path of a request line such as `GET /path?query HTTP/1.1`, without the query.
///
/// Clients may send anything: text without that form is used as the path.
#[inline]
pub(crate) fn path_of_request(request: &[u8]) -> &[u8] {
    let mut path = request;
    if let Some(method) = memchr::memchr(b' ', request) {
        path = &request[method + 1..];
        match memchr::memrchr(b' ', path) {
            Some(end) if path[end + 1..].starts_with(b"HTTP/") => path = &path[..end],
            _ => {}
        }
    }
    without_query(path)
}

/// Returns the path of a field that contains a path or a whole request line.
pub(crate) fn path_of_field(text: &[u8]) -> &[u8] {
    let protocol = memchr::memrchr(b' ', text).map_or(&[][..], |space| &text[space + 1..]);
    if protocol.starts_with(b"HTTP/") {
        path_of_request(text)
    } else {
        without_query(text)
    }
}

#[inline]
fn without_query(path: &[u8]) -> &[u8] {
    memchr::memchr(b'?', path).map_or(path, |query| &path[..query])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_without_method_protocol_and_query() {
        let path =
            |text: &str| String::from_utf8_lossy(path_of_request(text.as_bytes())).into_owned();
        assert_eq!(path("GET /a?b=c HTTP/1.1"), "/a");
        assert_eq!(path("GET /a b HTTP/1.1"), "/a b");
        assert_eq!(path("GET /a"), "/a");
        assert_eq!(path("-"), "-");
        assert_eq!(path(""), "");
        assert_eq!(path_of_field(b"/a b?c"), b"/a b");
        assert_eq!(path_of_field(b"GET /a?b HTTP/2.0"), b"/a");
    }
}
