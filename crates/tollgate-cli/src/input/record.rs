//! `Record` and `Skip`: a parsed log line, or why a line was skipped.

use std::borrow::Cow;

use tollgate_core::Timestamp;

use super::format::Shape;

/// A request from a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Record<'a> {
    pub(crate) at: Timestamp,
    /// The client as the log writes it: an address, perhaps with a port, or the name of a host.
    pub(crate) client: Cow<'a, [u8]>,
    /// `-` without a user.
    pub(crate) user: Cow<'a, [u8]>,
    /// Without the query string.
    pub(crate) path: Cow<'a, [u8]>,
    /// The format of the line.
    pub(crate) shape: Shape,
}

impl Record<'_> {
    /// Returns a record that borrows nothing.
    pub(crate) fn into_owned<'a>(self) -> Record<'a> {
        let owned = |text: Cow<'_, [u8]>| Cow::Owned(text.into_owned());
        Record {
            at: self.at,
            client: owned(self.client),
            user: owned(self.user),
            path: owned(self.path),
            shape: self.shape,
        }
    }
}

/// Why a line was skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Skip {
    #[error("the line is empty")]
    Blank,
    /// Not counted as skipped.
    #[error("a line of the log about itself")]
    Directive,
    #[error("the time is before 1970 or after 2255")]
    NoSuchInstant,
    #[error("a part of the key is longer than 8 KiB")]
    LongKey,
    #[error("no address at the start; describe other lines with --pattern")]
    NoAddress,
    #[error("no #Fields line before it, which names its columns")]
    NoColumns,
    #[error("no client; `-` or nothing is in its place")]
    NoClient,
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
    #[error("no \"request\" in quotes where its format has one")]
    NoRequest,
    #[error("no status and size after the request")]
    NoStatus,
    #[error("the client is not an address; --key client counts names of hosts, too")]
    NotAnAddress,
    #[error("no [time] such as [17/May/2015:10:05:03 +0000]; describe other lines with --pattern")]
    NoTime,
    #[error("the JSON object has no time field; name it with --time-field")]
    NoTimeField,
    #[error("not a JSON object")]
    NotJson,
    #[error("not as --pattern describes it")]
    NotAsPattern,
    #[error("not a line of a load balancer")]
    NotBalancer,
    #[error("not an HTTP line of HAProxy")]
    NotHaproxy,
    #[error("other columns than the #Fields line names")]
    OtherColumns,
    #[error("the line is longer than 1 MiB")]
    TooLong,
    #[error(
        "the time is neither RFC 3339, with or without a zone, nor as in access logs, nor unix seconds or milliseconds"
    )]
    UnknownTime,
}

impl Skip {
    /// Returns whether the line had the format it was read as, and only a value was not usable.
    pub(crate) fn is_about_value(self) -> bool {
        matches!(
            self,
            Self::LongKey
                | Self::NoClient
                | Self::MissingColumn
                | Self::NoIpField
                | Self::NoPathField
                | Self::NoSuchInstant
                | Self::NotAnAddress
                | Self::NoTimeField
        )
    }
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

/// Returns the path of a URL such as `https://shop.example:443/path`; other text stays as it is.
pub(crate) fn path_of_url(url: &[u8]) -> &[u8] {
    let Some(scheme) = memchr::memmem::find(url, b"://") else {
        return url;
    };
    let host = &url[scheme + 3..];
    memchr::memchr(b'/', host).map_or(b"/", |slash| &host[slash..])
}

#[inline]
pub(crate) fn without_query(path: &[u8]) -> &[u8] {
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
        assert_eq!(path_of_url(b"https://shop.example:443/a/b"), b"/a/b");
        assert_eq!(path_of_url(b"http://shop.example"), b"/");
        assert_eq!(path_of_url(b"/a/b"), b"/a/b");
        assert_eq!(path_of_field(b"/a b?c"), b"/a b");
        assert_eq!(path_of_field(b"GET /a?b HTTP/2.0"), b"/a");
    }
}
