//! Reads the chain of addresses that proxies write, from its end: each proxy appends the address it
//! was called from, so only what a trusted proxy appended is ever read.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};

/// `X-Forwarded-For`.
pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// `CloudFront-Viewer-Address`.
pub(super) const CLOUDFRONT_VIEWER_ADDRESS: HeaderName =
    HeaderName::from_static("cloudfront-viewer-address");

/// A header with a chain of addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Chain {
    XForwardedFor,
    Forwarded,
}

impl Chain {
    pub(super) fn header(self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => FORWARDED,
        }
    }

    /// Returns the addresses, the last first; `None` is an entry that holds no address. Empty entries are
    /// none, as in all lists of HTTP.
    pub(super) fn addresses(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        // Lines are in the order in which they were appended.
        let lines = headers.get_all(self.header()).iter().rev();
        lines.flat_map(move |line| {
            let entries = Entries(Some(line.as_bytes())).map(<[u8]>::trim_ascii);
            let entries = entries.filter(|entry| !entry.is_empty());
            entries.map(move |entry| match self {
                Self::XForwardedFor => address(entry),
                Self::Forwarded => address_of_element(entry),
            })
        })
    }
}

/// What stands between commas, the last first; a comma between quotes separates nothing.
struct Entries<'h>(Option<&'h [u8]>);

impl<'h> Iterator for Entries<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        let rest = self.0?;
        // Read backwards: what a client wrote, such as a quote that never ends, comes first in the
        // line and cannot hide what a proxy appended.
        let mut is_quoted = false;
        for (index, byte) in rest.iter().enumerate().rev() {
            match byte {
                b'"' if !is_escaped(rest, index) => is_quoted = !is_quoted,
                b',' if !is_quoted => {
                    self.0 = Some(&rest[..index]);
                    return Some(&rest[index + 1..]);
                }
                _ => {}
            }
        }
        self.0 = None;
        Some(rest)
    }
}

/// Returns whether an odd number of backslashes precedes the byte at `index`.
fn is_escaped(text: &[u8], index: usize) -> bool {
    let backslashes = text[..index].iter().rev().take_while(|b| **b == b'\\');
    backslashes.count() % 2 == 1
}

/// Reads the address of an element such as `for="[2001:db8::1]:4711";proto=https`.
fn address_of_element(element: &[u8]) -> Option<IpAddr> {
    // Between quotes may stand what a client chose, such as the name of a host.
    let mut is_quoted = false;
    let mut index = 0;
    let mut pairs = element.split(|byte| {
        if *byte == b'"' && !is_escaped(element, index) {
            is_quoted = !is_quoted;
        }
        index += 1;
        *byte == b';' && !is_quoted
    });
    pairs.find_map(|pair| {
        let (name, value) = pair.trim_ascii().split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then(|| address(value))
    })?
}

/// Reads an address, with or without a port, and perhaps in quotes: `192.0.2.1`, `192.0.2.1:80`,
/// `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = unquoted(text)?;
    let text = str::from_utf8(&text).ok()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(inner) = inner {
        return inner.parse().ok().map(IpAddr::V6);
    }
    match text.parse().ok()? {
        SocketAddr::V6(address) if address.scope_id() != 0 => None,
        address => Some(address.ip()),
    }
}

/// Reads the value of [`CLOUDFRONT_VIEWER_ADDRESS`]: what precedes the last colon is the address, also
/// one of IPv6, which has no brackets there: `2001:db8::1:4711` is `2001:db8::1` with the port 4711.
pub(super) fn address_before_port(text: &[u8]) -> Option<IpAddr> {
    let (address, port) = str::from_utf8(text).ok()?.rsplit_once(':')?;
    let _: u16 = port.parse().ok()?;
    address.parse().ok()
}

/// Returns what a string in quotes says, or other text as it is; `None` if the quotes do not end.
fn unquoted(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        return Some(Cow::Borrowed(text));
    };
    let quoted = quoted.strip_suffix(b"\"")?;
    if !quoted.contains(&b'\\') {
        return Some(Cow::Borrowed(quoted));
    }
    // A backslash stands for the byte after it.
    let mut bytes = quoted.iter();
    let next = || match bytes.next()? {
        // Without one, the last quote is part of the text.
        b'\\' => Some(bytes.next().copied().unwrap_or(b'"')),
        byte => Some(*byte),
    };
    Some(std::iter::from_fn(next).collect())
}
