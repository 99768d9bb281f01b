//! `KeyParts`: the parts of a request that form its key.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::address::client;
use super::record::{Record, Skip};
use crate::failure::Failure;
use crate::text::{Short, printable};

/// One part of a request that can be part of its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    /// An address, or otherwise the name that the log gives the client.
    Client,
    /// An address, and nothing else.
    Ip,
    Path,
    User,
}

const PARTS: [(Part, &str); 4] = [
    (Part::Client, "client"),
    (Part::Ip, "ip"),
    (Part::Path, "path"),
    (Part::User, "user"),
];

/// How many bits of an IPv6 address its key has, unless the user gives another number.
pub(crate) const IPV6_PREFIX: u8 = 64;

/// The parts of a request that together form its key, in the given order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct KeyParts {
    parts: Vec<Part>,
    /// How many bits of an IPv6 address count.
    ipv6_prefix: u8,
}

impl KeyParts {
    pub(super) fn with_ipv6_prefix(self, ipv6_prefix: u8) -> Self {
        Self {
            ipv6_prefix,
            ..self
        }
    }

    pub(super) fn contains(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Writes the key of `record` to `key`, or returns why it has none.
    ///
    /// Parts of a composite key are prefixed by their lengths, so that two keys are equal only if
    /// all their parts are: clients cannot forge a separator.
    #[inline]
    pub(super) fn write(&self, record: &Record<'_>, key: &mut Vec<u8>) -> Result<(), Skip> {
        key.clear();
        for &part in &self.parts {
            let text = record.part(part, self.ipv6_prefix)?;
            if text.len() > LONGEST_PART {
                return Err(Skip::LongKey);
            }
            if self.parts.len() > 1 {
                key.extend_from_slice(&length_prefix(&text));
            }
            key.extend_from_slice(&text);
        }
        Ok(())
    }

    /// Returns `key` for display: its parts separated by spaces.
    pub(crate) fn readable(&self, key: &[u8]) -> String {
        if self.parts.len() == 1 {
            return printable(key);
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut rest = key;
        while let Some((prefix, after)) = rest.split_first_chunk::<PREFIX>() {
            let length = usize::try_from(u64::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
            let (text, next) = after.split_at_checked(length).unwrap_or((after, &[]));
            parts.push(printable(text));
            rest = next;
        }
        parts.join(" ")
    }
}

impl FromStr for KeyParts {
    type Err = Failure;

    fn from_str(key: &str) -> Result<Self, Failure> {
        let bad = |reason: String| {
            let join = "join ip, client, user and path with +, such as ip+path";
            Failure::wrong("--key", key, format!("{reason}; {join}"))
        };
        let mut parts = Vec::new();
        for name in key.split('+') {
            let part = PARTS.iter().find(|(_, of)| *of == name);
            let unknown = || bad(format!("\"{}\" is not a part of a request", Short(name)));
            let (part, _) = part.ok_or_else(unknown)?;
            if parts.contains(part) {
                return Err(bad(format!("{name} is given twice")));
            }
            parts.push(*part);
        }
        Ok(Self {
            parts,
            ipv6_prefix: IPV6_PREFIX,
        })
    }
}

/// Formats the parts as they were given.
impl fmt::Display for KeyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |part: &Part| PARTS.iter().find(|(of, _)| of == part);
        let names = self.parts.iter().filter_map(named);
        let names: Vec<_> = names.map(|&(_, name)| name).collect();
        f.write_str(&names.join("+"))
    }
}

impl Record<'_> {
    #[inline]
    fn part(&self, part: Part, ipv6_prefix: u8) -> Result<Cow<'_, [u8]>, Skip> {
        match (part, client(self.client, ipv6_prefix)) {
            (Part::Path, _) => Ok(Cow::Borrowed(self.path)),
            (Part::User, _) => Ok(Cow::Borrowed(self.user)),
            (_, Some(address)) => Ok(address),
            (Part::Ip, None) => Err(Skip::NotAnAddress),
            (Part::Client, None) => match self.client {
                b"" | b"-" => Err(Skip::NoClient),
                // The name that the log gives the client.
                name => Ok(Cow::Borrowed(name)),
            },
        }
    }
}

/// The most bytes of a part of a key. Servers refuse longer requests, and log them nevertheless.
const LONGEST_PART: usize = 8 * 1024;

const PREFIX: usize = size_of::<u64>();

fn length_prefix(text: &[u8]) -> [u8; PREFIX] {
    // The conversion cannot fail: lines are far shorter than 2^64 bytes.
    u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &str, client: &str, path: &str) -> Result<Vec<u8>, Skip> {
        let parts: KeyParts = parts.parse().unwrap();
        let record = Record {
            client: client.as_bytes(),
            path: path.as_bytes(),
            ..Record::default()
        };
        let mut key = Vec::new();
        parts.write(&record, &mut key).map(|()| key)
    }

    #[test]
    fn an_ip_is_an_address_and_a_client_may_have_a_name() {
        let address = Ok(b"203.0.113.7".to_vec());
        assert_eq!(key("ip", "203.0.113.7:443", "/"), address);
        assert_eq!(key("client", "203.0.113.7:443", "/"), address);
        let name = "crawler.example";
        assert_eq!(key("client", name, "/"), Ok(name.into()));
        for name in [name, "", "-"] {
            assert_eq!(key("ip", name, "/"), Err(Skip::NotAnAddress));
            assert_eq!(key("path+ip", name, "/"), Err(Skip::NotAnAddress));
            assert_eq!(key("path", name, "/"), Ok(b"/".to_vec()));
        }
        assert_eq!(key("client", "-", "/"), Err(Skip::NoClient));
        assert_eq!(key("client", "", "/"), Err(Skip::NoClient));
    }

    #[test]
    fn composite_keys_differ_when_parts_do() {
        let parts: KeyParts = "client+path".parse().unwrap();
        let of = |client: &str, path: &str| key("client+path", client, path).unwrap();
        let [a, b] = [of("1 /a", "b"), of("1", "/a b")];
        assert_ne!(a, b);
        assert_eq!(parts.readable(&a), parts.readable(&b));
        for separator in [" ", "+", "\0"] {
            let joined = format!("/a{separator}b");
            assert_ne!(of("1", &joined), of(&format!("1{separator}/a"), "b"));
        }
    }
}
