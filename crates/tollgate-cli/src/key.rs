//! `KeyParts`: the parts of a request that form its key.

use std::fmt;
use std::str::FromStr;

use crate::failure::Failure;
use crate::input::Record;
use crate::text::{Short, printable};

/// One part of a request that can be part of its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
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

    /// Returns the key of `record`; a composite key is built in `buffer`.
    ///
    /// Parts of a composite key are prefixed by their lengths, so that two keys are equal only if
    /// all their parts are: clients cannot forge a separator.
    #[inline]
    pub(crate) fn of<'a>(&self, record: &'a Record<'_>, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        if let [part] = self.0[..] {
            return record.part(part);
        }
        buffer.clear();
        for &part in &self.0 {
            let text = record.part(part);
            buffer.extend_from_slice(&length_prefix(text));
            buffer.extend_from_slice(text);
        }
        buffer
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
                Part::Ip => "ip",
                Part::Path => "path",
                Part::User => "user",
            };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

const PREFIX: usize = size_of::<u64>();

fn length_prefix(text: &[u8]) -> [u8; PREFIX] {
    // The conversion cannot fail: lines are far shorter than 2^64 bytes.
    u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Timestamp;

    fn record<'a>(ip: &'a str, path: &'a str) -> Record<'a> {
        Record {
            at: Timestamp::UNIX_EPOCH,
            ip: ip.as_bytes().into(),
            user: b"-".into(),
            path: path.as_bytes().into(),
        }
    }

    #[test]
    fn composite_keys_differ_when_parts_do() {
        let parts: KeyParts = "ip+path".parse().unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let a = record("1 /a", "b");
        let b = record("1", "/a b");
        let (a, b) = (parts.of(&a, &mut first), parts.of(&b, &mut second));
        assert_ne!(a, b);
        assert_eq!(parts.readable(a), parts.readable(b));
    }
}
