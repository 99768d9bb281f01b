//! Whom a limit is counted for.

use std::fmt;

/// Whom a limit is counted for: any bytes, in a partition and a rest.
///
/// The partition is what keeps states together: everything of one partition is held, and may be
/// decided, in one place. Keys are equal when both parts are; moving a byte from one part to the
/// other makes another key, so no separator needs escaping.
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
/// ```
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Key<'a> {
    partition: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Key<'a> {
    /// Returns a key that is its own partition.
    #[must_use]
    pub fn new(partition: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            partition: partition.as_ref(),
            rest: &[],
        }
    }

    /// Returns a key in the same partition with `rest` as its other part.
    #[must_use]
    pub fn with_rest(self, rest: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            partition: self.partition,
            rest: rest.as_ref(),
        }
    }

    /// Returns the part that says where the key belongs.
    #[must_use]
    pub fn partition(self) -> &'a [u8] {
        self.partition
    }

    /// Returns the other part, empty unless one was given.
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
