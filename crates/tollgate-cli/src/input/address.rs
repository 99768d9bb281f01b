//! `address`: the client's address as logs write it, in one spelling for each address.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str;

/// Returns the address in `text`, in its canonical spelling; `None` if it is not an address.
///
/// The port and the zone are removed, an IPv4-mapped IPv6 address becomes its IPv4 address, and a
/// list, such as `X-Forwarded-For` has it, stands for its first address.
#[inline]
pub(crate) fn address(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if is_ipv4(text) {
        Some(Cow::Borrowed(text))
    } else {
        unusual(text)
    }
}

/// Returns whether `text` is an address, perhaps with a port, or a list of them.
#[inline]
pub(crate) fn is_address(text: &[u8]) -> bool {
    address(text).is_some()
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

/// Returns whether `text` may be the name of a host.
pub(crate) fn is_name(text: &[u8]) -> bool {
    let is_letter = |b: &u8| b.is_ascii_alphanumeric() || b"-._".contains(b);
    text.len() < 256 && text.iter().all(is_letter) && text.iter().any(u8::is_ascii_alphanumeric)
}

/// Returns whether `text` is an IPv4 address: four numbers without leading zeros, which some
/// programs read as octal.
#[inline]
fn is_ipv4(text: &[u8]) -> bool {
    let (mut dots, mut number, mut digits) = (0, 0, 0);
    for byte in text {
        match byte {
            b'0'..=b'9' if digits == 0 || number > 0 => {
                number = 10 * number + u32::from(byte - b'0');
                digits += 1;
            }
            b'.' if digits > 0 => {
                dots += 1;
                (number, digits) = (0, 0);
            }
            _ => return false,
        }
        if number > 255 {
            return false;
        }
    }
    dots == 3 && digits > 0
}

/// Reads every spelling but that of a bare IPv4 address.
fn unusual(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let first = text.split(|&byte| byte == b',').next()?.trim_ascii();
    let bare = match first.strip_prefix(b"[") {
        Some(bracketed) => {
            let end = memchr::memchr(b']', bracketed)?;
            let port = &bracketed[end + 1..];
            if !port.is_empty() && !port.strip_prefix(b":").is_some_and(is_port) {
                return None;
            }
            &bracketed[..end]
        }
        // More than one colon without brackets belongs to the address itself.
        None if first.iter().filter(|&&byte| byte == b':').count() == 1 => without_port(first),
        None => first,
    };
    let bare = match memchr::memchr(b'%', bare) {
        Some(zone) if bare[..zone].contains(&b':') => &bare[..zone],
        _ => bare,
    };
    let address: IpAddr = str::from_utf8(bare).ok()?.parse().ok()?;
    let spelling = address.to_canonical().to_string().into_bytes();
    Some(if spelling == bare {
        Cow::Borrowed(bare)
    } else {
        Cow::Owned(spelling)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        address(text.as_bytes()).map(|spelling| String::from_utf8(spelling.into_owned()).unwrap())
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
            ("2001:DB8:0:0::1", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::1", "::1"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
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
            ",1.2.3.4",
            "1.2.3.4 5.6.7.8",
            "[pod/web/nginx]",
            "1.2.3.4%1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_port_without_brackets_follows_the_last_colon() {
        for (text, expected) in [
            ("10.0.0.1:80", "10.0.0.1"),
            ("2001:db8::1:443", "2001:db8::1"),
            ("[2001:db8::1]:443", "[2001:db8::1]"),
            ("unix:1", "unix"),
            ("10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(without_port(text.as_bytes()), expected.as_bytes(), "{text}");
        }
        assert!(is_name_with_port(b"shop.example:443"));
        assert!(!is_name_with_port(b"10.0.0.1:443"));
        assert!(!is_name_with_port(b"shop.example"));
        assert!(!is_name_with_port(b"nginx:"));
    }
}
