//! `KeyBy`: what requests are counted by.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::HeaderName;
use http::request::Parts;
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tollgate_core::Key;

use super::client_ip::{Client, ClientIp, Unknown};
use super::prefix;
use crate::text::{append, append_number};

/// How many bits of an IPv6 address its keys have in their partition: those of one network are
/// decided together, also in a cluster.
const PARTITION_BITS: u8 = 48;
/// Longer parts are hashed: a client may have chosen them, and stores keep them.
const LONGEST_PART: usize = 128;
/// How many bytes of a hash stand for a value.
const HASH_BYTES: usize = 16;
/// What precedes the text of a hash.
const HASHED: &[u8] = b"sha256-";

/// What requests are counted by: the client's address, a header such as an API key, the route, a
/// value that earlier layers left in the extensions, or what a function returns.
///
/// # Examples
///
/// ```
/// use http::HeaderName;
/// use tollgate_http::inbound::{ClientIp, KeyBy};
///
/// // By API key, or by address for clients without one.
/// let key = KeyBy::header(HeaderName::from_static("x-api-key")).or(ClientIp::peer());
/// // By address and method: a client's reads do not count for its writes.
/// let key = KeyBy::client_ip(ClientIp::peer())
///     .and(KeyBy::function(|parts| Some(parts.method.clone())));
/// # let _ = key;
/// ```
#[derive(Clone)]
pub struct KeyBy(Source);

type Find = dyn Fn(&Parts, &mut Part) -> bool + Send + Sync;

#[derive(Clone)]
enum Source {
    ClientIp(ClientIp),
    Header(HeaderName),
    Found(Arc<Find>),
    Both(Arc<[KeyBy; 2]>),
    Either(Arc<[KeyBy; 2]>),
}

/// The bytes of a part of a key.
pub(super) type Part = SmallVec<[u8; 64]>;

/// Who a request is counted for.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnedKey {
    /// The partition, and then the rest.
    bytes: Part,
    partition: usize,
}

impl OwnedKey {
    pub(super) fn as_key(&self) -> Key<'_> {
        Key::new(self.partition()).with_rest(self.rest())
    }

    fn partition(&self) -> &[u8] {
        &self.bytes[..self.partition]
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.partition..]
    }
}

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

impl KeyBy {
    /// Counts by the client's address.
    #[must_use]
    pub fn client_ip(client: ClientIp) -> Self {
        Self(Source::ClientIp(client))
    }

    /// Counts by the value of a header, such as an API key: by its hash, so that no key of a store
    /// holds the secret. A request without the header, or with several, is answered with the status
    /// 401.
    ///
    /// Whoever sends the header chooses the key: let a layer before this one refuse what is no valid
    /// API key, or count by address, too.
    #[must_use]
    pub fn header(name: HeaderName) -> Self {
        Self(Source::Header(name))
    }

    /// Counts by the route's pattern, such as `/users/{id}`, which axum's router leaves in the
    /// extensions for layers added with `Router::layer` or `route_layer`. Requests that match no
    /// route are counted as one.
    #[cfg(feature = "axum")]
    #[must_use]
    pub fn route() -> Self {
        Self(Source::Found(Arc::new(|parts, part| {
            if let Some(route) = parts.extensions.get::<axum::extract::MatchedPath>() {
                part.extend_from_slice(route.as_str().as_bytes());
            }
            true
        })))
    }

    /// Counts by a value that an earlier layer left in the extensions of the request, such as the
    /// user; more than 128 bytes are counted by their hash. A request without one is answered with
    /// the status 401.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_http::inbound::KeyBy;
    ///
    /// #[derive(Clone)]
    /// struct User {
    ///     name: String,
    /// }
    /// let key = KeyBy::extension(|user: &User| &user.name);
    /// # let _ = key;
    /// ```
    #[must_use]
    pub fn extension<T, K>(name: impl Fn(&T) -> &K + Send + Sync + 'static) -> Self
    where
        T: Clone + Send + Sync + 'static,
        K: AsRef<[u8]> + ?Sized,
    {
        Self(Source::Found(Arc::new(move |parts, part| {
            let found = parts.extensions.get::<T>();
            found.is_some_and(|found| {
                part.extend_from_slice(name(found).as_ref());
                true
            })
        })))
    }

    /// Counts by what `name` returns; more than 128 bytes are counted by their hash. A request for
    /// which it returns `None` is answered with the status 401.
    #[must_use]
    pub fn function<K: AsRef<str>>(
        name: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Found(Arc::new(move |parts, part| {
            name(parts).is_some_and(|name| {
                part.extend_from_slice(name.as_ref().as_bytes());
                true
            })
        })))
    }

    /// Counts by both: only requests that have both in common are counted together. The other never
    /// flows into the first, so `a` and `bc` are not `ab` and `c`.
    ///
    /// In a cluster, what the first has in common is decided together.
    #[must_use]
    pub fn and(self, other: impl Into<Self>) -> Self {
        Self(Source::Both(Arc::new([self, other.into()])))
    }

    /// Counts a request that has no such key by another: never together with a request that has one.
    ///
    /// Addresses that the other [allows](ClientIp::allow) or [denies](ClientIp::deny) stay allowed or
    /// denied if the request has such a key.
    #[must_use]
    pub fn or(self, other: impl Into<Self>) -> Self {
        Self(Source::Either(Arc::new([self, other.into()])))
    }

    /// Finds who a request is counted for.
    pub(super) fn find(&self, parts: &Parts) -> Result<OwnedKey, NoKey> {
        match &self.0 {
            Source::ClientIp(client) => match client.find(parts) {
                Ok(Client::At(address)) => Ok(of_address(address, client.ipv6_prefix)),
                Ok(Client::Allowed) => Err(NoKey::Allowed),
                Ok(Client::Denied) => Err(NoKey::Denied),
                Err(unknown) => Err(NoKey::Unknown(unknown)),
            },
            Source::Header(name) => {
                let mut values = parts.headers.get_all(name).iter();
                match (values.next(), values.next()) {
                    (Some(value), None) => Ok(of_partition(hashed(value.as_bytes()))),
                    _ => Err(NoKey::Header(name.clone())),
                }
            }
            Source::Found(find) => {
                let mut part = Part::new();
                if find(parts, &mut part) {
                    // What is spelled like a hash is hashed, or it would be the one that it spells.
                    if part.len() > LONGEST_PART || part.starts_with(HASHED) {
                        part = hashed(&part);
                    }
                    Ok(of_partition(part))
                } else {
                    Err(NoKey::Nothing)
                }
            }
            Source::Both(both) => {
                let [first, second] = &**both;
                let first = first.find(parts)?;
                let second = second.find(parts)?;
                let mut key = of_partition(Part::from_slice(first.partition()));
                // The lengths come first, so that no two pairs have the same text.
                for length in [first.rest().len(), second.partition] {
                    append_number(&mut key.bytes, length);
                    key.bytes.push(b'|');
                }
                key.bytes.extend_from_slice(first.rest());
                key.bytes.extend_from_slice(&second.bytes);
                Ok(key)
            }
            Source::Either(either) => {
                let [first, second] = &**either;
                let (mut key, of) = match first.find(parts) {
                    Err(NoKey::Header(_) | NoKey::Nothing) => (second.find(parts)?, b"2|"),
                    found => {
                        let found = found?;
                        // No header makes an address one that is denied or allowed, or another.
                        if let Some(client) = second.client().filter(|client| client.has_lists()) {
                            match client.find(parts) {
                                Ok(Client::Denied) => return Err(NoKey::Denied),
                                Ok(Client::Allowed) => return Err(NoKey::Allowed),
                                Ok(Client::At(_)) | Err(_) => {}
                            }
                        }
                        (found, b"1|")
                    }
                };
                key.bytes.insert_from_slice(key.partition, of);
                Ok(key)
            }
        }
    }

    /// Returns the first client address that is part of the key.
    pub(super) fn client(&self) -> Option<&ClientIp> {
        match &self.0 {
            Source::ClientIp(client) => Some(client),
            Source::Header(_) | Source::Found(_) => None,
            Source::Both(both) | Source::Either(both) => both.iter().find_map(Self::client),
        }
    }
}

impl From<ClientIp> for KeyBy {
    fn from(client: ClientIp) -> Self {
        Self::client_ip(client)
    }
}

fn of_partition(bytes: Part) -> OwnedKey {
    OwnedKey {
        partition: bytes.len(),
        bytes,
    }
}

/// Returns the key of an IPv4 address: its text, or of an IPv6 prefix: its first 48 bits, and then,
/// if it is longer, the prefix.
fn of_address(address: IpAddr, ipv6_prefix: u8) -> OwnedKey {
    let mut bytes = Part::new();
    match address {
        IpAddr::V4(v4) => {
            for octet in v4.octets() {
                if !bytes.is_empty() {
                    bytes.push(b'.');
                }
                append_number(&mut bytes, octet);
            }
            of_partition(bytes)
        }
        IpAddr::V6(v6) => {
            let shared = ipv6_prefix.min(PARTITION_BITS);
            let first = prefix::first_of(v6, shared);
            append(&mut bytes, format_args!("{first}/{shared}"));
            let mut key = of_partition(bytes);
            if ipv6_prefix > shared {
                let first = prefix::first_of(v6, ipv6_prefix);
                append(&mut key.bytes, format_args!("{first}/{ipv6_prefix}"));
            }
            key
        }
    }
}

/// Returns the text of a hash that stands for a secret.
fn hashed(secret: &[u8]) -> Part {
    let mut part = Part::from_slice(HASHED);
    for byte in &Sha256::digest(secret)[..HASH_BYTES] {
        append(&mut part, format_args!("{byte:02x}"));
    }
    part
}

impl fmt::Debug for KeyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::ClientIp(client) => client.fmt(f),
            Source::Header(name) => f.debug_tuple("Header").field(name).finish(),
            Source::Found(_) => f.write_str("Function"),
            Source::Both(both) => f
                .debug_tuple("Both")
                .field(&both[0])
                .field(&both[1])
                .finish(),
            Source::Either(either) => {
                let [first, second] = &**either;
                f.debug_tuple("Either").field(first).field(second).finish()
            }
        }
    }
}
