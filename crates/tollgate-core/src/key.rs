//! `Key`: who or what a limit is counted for.

use std::fmt;

/// Who or what a limit is counted for, such as a user or an address: any bytes, in a partition and
/// a rest.
///
/// States of one partition are stored together, so one request can decide them together; in a
/// cluster, the partition is the hash tag. Keys are equal if both parts are. Moving a byte from one
/// part to the other makes another key, so callers need no separator and no escaping.
///
/// # Examples
///
/// ```
/// use tollgate_core::Key;
///
/// let ip = Key::from("203.0.113.7");
/// let ip_and_endpoint = ip.with_rest("/login");
/// assert_eq!(ip_and_endpoint.partition(), b"203.0.113.7");
/// assert_ne!(Key::from("a:b"), Key::from("a").with_rest(":b"));
/// // Numbers and addresses are keys as bytes, without being formatted.
/// assert_eq!(Key::from(&42_u64.to_be_bytes()).partition(), [0, 0, 0, 0, 0, 0, 0, 42]);
/// ```
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Key<'a> {
    partition: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Key<'a> {
    /// Returns a key with this partition and an empty rest.
    #[must_use]
    pub fn new(partition: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            partition: partition.as_ref(),
            rest: &[],
        }
    }

    /// Returns a key with the same partition and this `rest`.
    #[must_use]
    pub fn with_rest(self, rest: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            partition: self.partition,
            rest: rest.as_ref(),
        }
    }

    /// Returns the partition, which decides where the key's states are stored.
    #[must_use]
    pub fn partition(self) -> &'a [u8] {
        self.partition
    }

    /// Returns the rest, which is empty by default.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

impl<'a> From<&'a String> for Key<'a> {
    fn from(text: &'a String) -> Self {
        Self::new(text)
    }
}

/// Such as `&id.to_be_bytes()` of a number, or `&ip.octets()` of an address.
impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::new(bytes)
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes)
    }
}

/// Shows the lengths only: a key may be an address, a name or a secret.
impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Key({} + {} bytes)",
            self.partition.len(),
            self.rest.len()
        )
    }
}
