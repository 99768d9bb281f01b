//! `ClientKey`: the key under which a client's requests are counted.

use std::fmt;
use std::net::IpAddr;

use http::header::HeaderName;
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tollgate_core::Key;

use super::prefix;

/// How many bits of an IPv6 address its keys have in their partition: those of one network are
/// decided together, also in a cluster.
const PARTITION_BITS: u8 = 48;
/// Longer parts are hashed: a client may have chosen them, and stores keep them.
const LONGEST_PART: usize = 128;
/// How many bytes of a hash stand for a value.
const HASH_BYTES: usize = 16;
/// What precedes the text of a hash.
const HASHED: &[u8] = b"sha256-";

/// The bytes of a part of a key.
pub(super) type Part = SmallVec<[u8; 64]>;

/// Why a request has no key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NoKey {
    /// The client is never limited.
    Allowed,
    /// The client is never served.
    Denied,
    /// The client's address is not known.
    Unknown(Unknown),
    /// The request has no such header.
    Header(HeaderName),
    /// A function or the extensions had nothing.
    Nothing,
}

/// Why the address of a client is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Unknown {
    /// The request has no peer.
    Peer,
    /// The chain of addresses in this header is shorter than the number of proxies.
    Hops(HeaderName),
    /// This header does not hold one address, or comes several times.
    Header(HeaderName),
}

/// The key under which the layer counts a client's requests: with it, a limiter on the same store
/// peeks at, blocks or resets a client, and a mock expects one.
///
/// [`ClientIp::key_of`](super::ClientIp::key_of) returns that of an address,
/// [`KeyBy::key_of_header`](super::KeyBy::key_of_header) that of an API key, and
/// [`KeyBy::key_of`](super::KeyBy::key_of) that of a request.
/// [A table](https://tollgate.invalid/tollgate/blob/main/docs/http.md#the-key-of-a-client) has the
/// texts of all keys; they do not change between versions that can share a store.
///
/// # Examples
///
/// ```
/// use tollgate_http::inbound::{ClientIp, InboundLayer};
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// let limiter = RateLimiter::new(MemoryStore::new(), ["login=gcra:5/1m", "ban=block:15m"])?;
/// let client = ClientIp::peer();
/// let layer = InboundLayer::new(limiter.clone(), client.clone());
/// # let _ = layer;
/// // Blocks all addresses that the layer counts together with this one.
/// limiter.block(&client.key_of("2001:db8:1:2::9".parse()?)).run()?;
/// let other = client.key_of("2001:db8:1:2::a".parse()?);
/// assert!(limiter.check(&other).run()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, Eq, Hash, PartialEq)]
pub struct ClientKey {
    /// The partition, and then the rest.
    bytes: Part,
    partition: usize,
}

impl ClientKey {
    /// Returns the key with this partition and nothing else.
    pub(super) fn of_partition(bytes: Part) -> Self {
        Self {
            partition: bytes.len(),
            bytes,
        }
    }

    /// Returns the key of a value that a program found for a request: its bytes, or their hash if they are many.
    pub(super) fn of_value(value: Part) -> Self {
        // What is spelled like a hash is hashed, or it would be the one that it spells.
        if value.len() > LONGEST_PART || value.starts_with(HASHED) {
            return Self::of_secret(b"", &value);
        }
        Self::of_partition(value)
    }

    /// Returns the key of a secret: the hash of the scheme before it and of itself.
    pub(super) fn of_secret(scheme: &[u8], secret: &[u8]) -> Self {
        let mut part = Part::from_slice(HASHED);
        let hash = Sha256::new_with_prefix(scheme).chain_update(secret);
        for byte in &hash.finalize()[..HASH_BYTES] {
            for digit in [byte >> 4, byte & 0xf] {
                part.push(b"0123456789abcdef"[usize::from(digit)]);
            }
        }
        Self::of_partition(part)
    }

    /// Returns the key of an IPv4 address: its text, or of an IPv6 prefix: its first 48 bits, and
    /// then, if it is longer, the prefix.
    pub(super) fn of_address(address: IpAddr, ipv6_prefix: u8) -> Self {
        let text = |address: IpAddr| Part::from_slice(&Key::from(address).partition());
        match prefix::canonical(address) {
            IpAddr::V4(v4) => Self::of_partition(text(v4.into())),
            IpAddr::V6(v6) => {
                let prefix = |length: u8| {
                    let mut prefix = text(prefix::first_of(v6, length).into());
                    prefix.push(b'/');
                    push_number(&mut prefix, length);
                    prefix
                };
                let shared = ipv6_prefix.min(PARTITION_BITS);
                let mut key = Self::of_partition(prefix(shared));
                if ipv6_prefix > shared {
                    key.bytes.extend_from_slice(&prefix(ipv6_prefix));
                }
                key
            }
        }
    }

    /// Returns the key of what has both in common.
    pub(super) fn of_both(first: &Self, second: &Self) -> Self {
        let mut key = Self::of_partition(Part::from_slice(first.partition()));
        // The lengths come first, so that no two pairs have the same text.
        for length in [first.rest().len(), second.partition] {
            push_number(&mut key.bytes, length);
            key.bytes.push(b'|');
        }
        key.bytes.extend_from_slice(first.rest());
        key.bytes.extend_from_slice(&second.bytes);
        key
    }

    /// Returns this key as that of a choice between two: `choice` begins its rest.
    pub(super) fn chosen(mut self, choice: &[u8]) -> Self {
        self.bytes.insert_from_slice(self.partition, choice);
        self
    }

    /// Returns the key for a limiter or a store.
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        Key::new(self.partition()).with_rest(self.rest())
    }

    fn partition(&self) -> &[u8] {
        &self.bytes[..self.partition]
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.partition..]
    }
}

fn push_number(part: &mut Part, number: impl itoa::Integer) {
    part.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

impl<'k> From<&'k ClientKey> for Key<'k> {
    fn from(key: &'k ClientKey) -> Self {
        key.as_key()
    }
}

/// Shows the lengths of its parts: what a client is counted by is nobody's business in a log.
impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}
