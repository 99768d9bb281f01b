//! `Record` and `Skip`: a parsed log line, or why a line was skipped.

use memchr::{memchr, memmem, memrchr};
use tollgate_core::Timestamp;

/// A request from a log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Record<'a> {
    pub(super) at: Timestamp,
    /// The client as the log writes it: an address, perhaps with a port, or the name of a host.
    pub(super) client: &'a [u8],
    /// `-` without a user.
    pub(super) user: &'a [u8],
    /// Without the query string.
    pub(super) path: &'a [u8],
    /// Such as `GET`; empty if the log does not have it.
    pub(super) method: &'a [u8],
    /// Such as `200`; empty if the log does not have it.
    pub(super) status: &'a [u8],
    /// The user agent; empty or `-` if the log does not have it.
    pub(super) agent: &'a [u8],
}

/// Why a line was skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Skip {
    #[error("the line is empty")]
    Blank,
    /// Not counted as skipped.
    #[error("a line of the log about itself")]
    Directive,
    /// Not counted as skipped.
    #[error("a request that was not asked for")]
    LeftOut,
    #[error("the time is before 1970 or after 2255")]
    NoSuchInstant,
    #[error("a part of the key is longer than 8 KiB")]
    LongKey,
    #[error("no #Fields line before it, which names its columns")]
    NoColumns,
    #[error("no client; `-` or nothing is in its place")]
    NoClient,
    #[error("no method, which --method needs; name its field with --method-field")]
    NoMethod,
    #[error("no status, which --status needs; name its field with --status-field")]
    NoStatus,
    #[error(
        "the #Fields line before it has no date, no time or no column for the key, such as c-ip; name another with --ip-field"
    )]
    MissingColumn,
    #[error(
        "the JSON object has no address field; name it with --ip-field, an element of a list as in headers.X-Forwarded-For.0"
    )]
    NoIpField,
    #[error("the JSON object has no path field; name it with --path-field")]
    NoPathField,
    #[error("nothing that says who wrote the line before it, as in the other lines")]
    NoPrefix,
    #[error("the client is not an address; --key client counts names of hosts, too")]
    NotAnAddress,
    #[error("the JSON object has no time field; name it with --time-field")]
    NoTimeField,
    #[error("not a JSON object")]
    NotJson,
    /// The name of the field of a pattern.
    #[error("no {{{0}}} where its format has one; describe other lines with --pattern")]
    NotThere(&'static str),
    #[error("the line is longer than 1 MiB")]
    TooLong,
    #[error(
        "the time is neither RFC 3339, with or without a zone, nor as in access logs or syslog, nor unix seconds or milliseconds"
    )]
    UnknownTime,
}

impl Skip {
    /// Returns whether the line had the format it was read as, and only a value was not usable.
    pub(super) fn is_about_value(self) -> bool {
        matches!(
            self,
            Self::LongKey
                | Self::NoClient
                | Self::NoMethod
                | Self::NoStatus
                | Self::MissingColumn
                | Self::NoIpField
                | Self::NoPathField
                | Self::NoSuchInstant
                | Self::NotAnAddress
                | Self::NoTimeField
        )
    }
}

/// Returns the path of a field that holds a path, a URL, or a whole request line such as
/// `GET /path?query HTTP/1.1`, without the query.
///
/// Clients may send anything: text without that form is used as the path.
#[inline]
pub(super) fn path_of_field(text: &[u8]) -> &[u8] {
    let mut path = text;
    if let Some(method) = memchr(b' ', text) {
        let (first, rest) = (&text[..method], &text[method + 1..]);
        let protocol = memrchr(b' ', rest).filter(|&end| rest[end + 1..].starts_with(b"HTTP/"));
        path = match protocol {
            Some(end) => &rest[..end],
            None if first.iter().all(u8::is_ascii_uppercase) => rest,
            // What a load balancer could not parse.
            None if first == b"-" => first,
            None => text,
        };
    }
    if let Some(scheme) = memmem::find(path, b"://").filter(|_| !path.starts_with(b"/")) {
        let host = &path[scheme + 3..];
        path = memchr(b'/', host).map_or(b"/", |slash| &host[slash..]);
    }
    memchr(b'?', path).map_or(path, |query| &path[..query])
}

/// Returns the method of a field that holds a request line, such as `GET /path HTTP/1.1`; nothing of
/// another.
#[inline]
pub(super) fn method_of_field(text: &[u8]) -> &[u8] {
    match memchr(b' ', text).map(|end| &text[..end]) {
        Some(first) if first.iter().all(u8::is_ascii_uppercase) => first,
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_without_method_host_protocol_and_query() {
        for (text, path) in [
            ("GET /a?b=c HTTP/1.1", "/a"),
            ("GET /a b HTTP/1.1", "/a b"),
            ("GET /a", "/a"),
            ("-", "-"),
            ("- http://x:80- ", "-"),
            ("", ""),
            ("/a b?c", "/a b"),
            ("/a?u=http://b/c", "/a"),
            ("GET https://shop.example:443/a/b HTTP/2.0", "/a/b"),
            ("http://shop.example", "/"),
            ("<BADREQ>", "<BADREQ>"),
        ] {
            let found = path_of_field(text.as_bytes());
            assert_eq!(found, path.as_bytes(), "{text}");
        }
    }
}
