//! `address`: the client's address as logs write it, in one spelling for each address.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::str;

use tollgate_http::inbound::ClientIp;

/// Returns the client with the address in `text`: an IPv4 address, or the network of an IPv6 address
/// of `ipv6_prefix` bits, as the HTTP layer spells it; `None` if it is not an address.
///
/// The port, the zone and quotes are removed, an IPv6 address that stands for an IPv4 address becomes that
/// one, and a list, such as `X-Forwarded-For` has it, stands for its first address.
#[inline]
pub(crate) fn client(text: &[u8], ipv6_prefix: u8) -> Option<Cow<'_, [u8]>> {
    if is_ipv4(text) {
        return Some(Cow::Borrowed(text));
    }
    let layer = ClientIp::peer().ipv6_prefix(ipv6_prefix);
    let key = layer.key_of(read(text)?);
    let key = key.as_key();
    let spelling = match key.rest() {
        [] => key.partition().to_vec(),
        rest => rest.strip_suffix(b"/128").unwrap_or(rest).to_vec(),
    };
    Some(Cow::Owned(spelling))
}

/// Returns whether `text` is an address, perhaps with a port, or a list of them.
#[inline]
pub(crate) fn is_address(text: &[u8]) -> bool {
    is_ipv4(text) || read(text).is_some()
}

/// Removes the port that always follows the address in some formats, which write
/// `2001:db8::1:443` without brackets, too.
pub(crate) fn without_port(text: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', text) {
        Some(colon) if is_port(&text[colon + 1..]) => &text[..colon],
        _ => text,
    }
}

fn is_port(text: &[u8]) -> bool {
    (1..=5).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

/// Returns whether `text` is the name of a host with its port, such as `shop.example:443`.
pub(crate) fn is_name_with_port(text: &[u8]) -> bool {
    let name = without_port(text);
    name.len() < text.len() && is_name(name) && !is_address(text)
}

pub(crate) fn is_name(text: &[u8]) -> bool {
    let is_letter = |b: &u8| b.is_ascii_alphanumeric() || b"-._".contains(b);
    text.len() < 256 && text.iter().all(is_letter) && text.iter().any(u8::is_ascii_alphanumeric)
}

/// Returns whether `text` is an IPv4 address: four numbers without leading zeros, which some
/// programs read as octal.
#[inline]
fn is_ipv4(text: &[u8]) -> bool {
    str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv4Addr>().is_ok())
}

/// Reads every spelling of an address.
pub(crate) fn read(text: &[u8]) -> Option<IpAddr> {
    let mut entries = text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let first = entries.find(|entry| !entry.is_empty())?;
    let unquoted = first.strip_prefix(b"\"");
    let first = match unquoted {
        Some(quoted) => quoted.strip_suffix(b"\"")?,
        None => first,
    };
    let bare = match first.strip_prefix(b"[") {
        Some(bracketed) => {
            let end = memchr::memchr(b']', bracketed)?;
            let port = &bracketed[end + 1..];
            if !port.is_empty() && !port.strip_prefix(b":").is_some_and(is_port) {
                return None;
            }
            &bracketed[..end]
        }
        None => first,
    };
    let bare = match memchr::memchr(b'%', bare) {
        Some(zone) if bare[..zone].contains(&b':') => &bare[..zone],
        _ => bare,
    };
    let parsed = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok();
    // What may be the end of an IPv6 address is no port.
    parsed(bare).or_else(|| parsed(without_port(bare)).filter(|_| bare == first))
}

/// Reads an address as an operator finds it, also with a port, or as a network of IPv6 with its bits,
/// as tables show it.
///
/// # Errors
///
/// What to write instead.
pub(crate) fn typed_address(text: &str) -> Result<(IpAddr, Option<u8>), String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address = read(address.as_bytes()).filter(|_| !address.contains(','));
    let address = address.ok_or("write one address, such as 203.0.113.7 or 2001:db8:1:2::7")?;
    let bits = match bits.map(str::parse) {
        None => None,
        Some(Ok(bits @ 1..=128)) if address.is_ipv6() => Some(bits),
        Some(_) => return Err("write the address without what follows the slash".to_owned()),
    };
    Ok((address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> Option<String> {
        let spelling = client(text.as_bytes(), 128);
        spelling.map(|spelling| String::from_utf8(spelling.into_owned()).unwrap())
    }

    #[test]
    fn an_address_has_one_spelling() {
        for (text, expected) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:40000", "203.0.113.7"),
            (" 203.0.113.7 ", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("::FFFF:cb00:7107", "203.0.113.7"),
            ("[::ffff:203.0.113.7]:443", "203.0.113.7"),
            ("203.0.113.7, 10.0.0.1", "203.0.113.7"),
            ("203.0.113.7,10.0.0.1", "203.0.113.7"),
            ("203.0.113.7,", "203.0.113.7"),
            (", ,203.0.113.7", "203.0.113.7"),
            ("\"203.0.113.7:40000\", 10.0.0.1", "203.0.113.7"),
            ("\"[2001:db8::1]:443\"", "2001:db8::1"),
            ("2001:db8:1:2:3:4:5:6:46532", "2001:db8:1:2:3:4:5:6"),
            ("2001:db8:1:2:3:4:5:6:80", "2001:db8:1:2:3:4:5:6"),
            ("2001:db8::1:46532", "2001:db8::1"),
            ("2001:db8::1:4653", "2001:db8::1:4653"),
            ("2001:DB8:0:0::1", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::1", "::1"),
        ] {
            assert_eq!(spelled(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_not_an_address() {
        for text in [
            "",
            "-",
            "May",
            "<190>1",
            "1",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "010.0.0.1",
            "1.2.3.4:",
            "1.2.3.4:x",
            "1.2.3.4:123456",
            "[1.2.3.4",
            "[::1]x",
            "[::1]:",
            "unix:",
            "shop.example:443",
            "\"1.2.3.4",
            "[1.2.3.4:1]",
            "1:2:3:4:5:6:7:8:9:10",
            "1.2.3.4 5.6.7.8",
            "[pod/web/nginx]",
            "1.2.3.4%1",
        ] {
            assert_eq!(spelled(text), None, "{text}");
        }
    }

    #[test]
    fn an_operator_types_what_a_log_or_a_table_shows() {
        for (text, expected) in [
            ("203.0.113.7", Some(("203.0.113.7", None))),
            ("203.0.113.7:123", Some(("203.0.113.7", None))),
            ("[2001:db8::1]:80", Some(("2001:db8::1", None))),
            ("2001:db8:1:2::/64", Some(("2001:db8:1:2::", Some(64)))),
            ("203.0.113.0/24", None),
            ("2001:db8::/129", None),
            ("2001:db8::/", None),
            ("203.0.113.7, 10.0.0.1", None),
            ("alice", None),
        ] {
            let read = typed_address(text).ok();
            let read = read.map(|(address, bits)| (address.to_string(), bits));
            let expected = expected.map(|(address, bits)| (address.to_owned(), bits));
            assert_eq!(read, expected, "{text}");
        }
    }
}
