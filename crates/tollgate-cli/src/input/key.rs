//! `KeyParts`: the parts of a request that form its key.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::address::address;
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

/// The parts of a request that together form its key, in the given order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct KeyParts(Vec<Part>);

impl KeyParts {
    /// Returns whether `part` is one of the parts.
    pub(crate) fn contains(&self, part: Part) -> bool {
        self.0.contains(&part)
    }

    /// Returns whether the client is one of the parts, by address or by name.
    pub(crate) fn has_client(&self) -> bool {
        self.contains(Part::Client) || self.contains(Part::Ip)
    }

    /// Returns the key of `record`, or why it has none; a key that is not a piece of the line is
    /// built in `buffer`.
    ///
    /// Parts of a composite key are prefixed by their lengths, so that two keys are equal only if
    /// all their parts are: clients cannot forge a separator.
    #[inline]
    pub(crate) fn of<'a>(
        &self,
        record: &'a Record<'_>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Skip> {
        if let [part] = self.0[..] {
            return Ok(match record.part(part)? {
                Cow::Borrowed(text) => text,
                Cow::Owned(text) => {
                    *buffer = text;
                    buffer
                }
            });
        }
        buffer.clear();
        for &part in &self.0 {
            let text = record.part(part)?;
            buffer.extend_from_slice(&length_prefix(&text));
            buffer.extend_from_slice(&text);
        }
        Ok(buffer)
    }

    /// Returns `key` for display: its parts separated by spaces.
    pub(crate) fn readable(&self, key: &[u8]) -> String {
        if self.0.len() == 1 {
            return printable(key);
        }
        let mut parts = Vec::with_capacity(self.0.len());
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
        let bad = |reason: String| Failure::Key {
            key: key.to_owned(),
            reason,
        };
        let mut parts = Vec::new();
        for name in key.split('+') {
            let part = match name {
                "client" => Part::Client,
                "ip" => Part::Ip,
                "path" => Part::Path,
                "user" => Part::User,
                _ => {
                    return Err(bad(format!(
                        "\"{}\" is not a part of a request",
                        Short(name)
                    )));
                }
            };
            if parts.contains(&part) {
                return Err(bad(format!("{name} is given twice")));
            }
            parts.push(part);
        }
        Ok(Self(parts))
    }
}

/// Formats the parts as they were given.
impl fmt::Display for KeyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "+" };
            let name = match part {
                Part::Client => "client",
                Part::Ip => "ip",
                Part::Path => "path",
                Part::User => "user",
            };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

impl Record<'_> {
    /// Returns the text of `part`.
    #[inline]
    pub(crate) fn part(&self, part: Part) -> Result<Cow<'_, [u8]>, Skip> {
        let text = match part {
            Part::Client => self.client()?,
            Part::Ip => address(&self.client).ok_or(Skip::NotAnAddress)?,
            Part::Path => Cow::Borrowed(&*self.path),
            Part::User => Cow::Borrowed(&*self.user),
        };
        if text.len() > LONGEST_PART {
            return Err(Skip::LongKey);
        }
        Ok(text)
    }

    /// Returns the client's address, or otherwise the name that the log gives it.
    fn client(&self) -> Result<Cow<'_, [u8]>, Skip> {
        match address(&self.client) {
            Some(address) => Ok(address),
            None if matches!(*self.client, [] | [b'-']) => Err(Skip::NoClient),
            None => Ok(Cow::Borrowed(&*self.client)),
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
    use crate::input::format::Shape;
    use tollgate_core::Timestamp;

    fn record<'a>(client: &'a str, path: &'a str) -> Record<'a> {
        Record {
            at: Timestamp::UNIX_EPOCH,
            client: client.as_bytes().into(),
            user: b"-".into(),
            path: path.as_bytes().into(),
            shape: Shape::Combined,
        }
    }

    fn key(parts: &str, client: &str, path: &str) -> Result<Vec<u8>, Skip> {
        let parts: KeyParts = parts.parse().unwrap();
        let record = record(client, path);
        parts.of(&record, &mut Vec::new()).map(<[u8]>::to_vec)
    }

    #[test]
    fn an_ip_is_an_address_and_a_client_may_have_a_name() {
        let address = Ok(b"203.0.113.7".to_vec());
        assert_eq!(key("ip", "203.0.113.7:443", "/"), address);
        assert_eq!(key("client", "203.0.113.7:443", "/"), address);
        assert_eq!(
            key("client", "crawler.example", "/"),
            Ok(b"crawler.example".to_vec())
        );
        for name in ["crawler.example", "", "-"] {
            assert_eq!(key("ip", name, "/"), Err(Skip::NotAnAddress));
            assert_eq!(key("path+ip", name, "/"), Err(Skip::NotAnAddress));
            assert_eq!(key("path", name, "/"), Ok(b"/".to_vec()));
        }
        assert_eq!(key("client", "-", "/"), Err(Skip::NoClient));
        assert_eq!(key("client", "", "/"), Err(Skip::NoClient));
    }

    #[test]
    fn the_longest_part_is_a_key() {
        let longest = "x".repeat(8 * 1024);
        assert_eq!(
            key("path", "10.0.0.1", &longest).map(|key| key.len()),
            Ok(8 * 1024)
        );
        let long = longest + "x";
        assert_eq!(key("path", "10.0.0.1", &long), Err(Skip::LongKey));
        assert_eq!(key("ip", "10.0.0.1", &long), Ok(b"10.0.0.1".to_vec()));
    }

    #[test]
    fn composite_keys_differ_when_parts_do() {
        let parts: KeyParts = "client+path".parse().unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let a = record("1 /a", "b");
        let b = record("1", "/a b");
        let [a, b] = [(&a, &mut first), (&b, &mut second)]
            .map(|(record, buffer)| parts.of(record, buffer).unwrap());
        assert_ne!(a, b);
        assert_eq!(parts.readable(a), parts.readable(b));
    }
}
