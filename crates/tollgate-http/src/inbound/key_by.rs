//! `KeyBy`: what requests are counted by.

use std::fmt;
use std::sync::Arc;

use http::header::HeaderName;
use http::request::Parts;

use super::client_ip::{Client, ClientIp, Unknown};
use super::client_key::{ClientKey, Part};

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

    /// Returns the key that a request is counted under, or `None` if it is not counted: its client is
    /// [allowed](ClientIp::allow), or it is refused with another status than 429.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{HeaderName, Request};
    /// use tollgate_http::inbound::{ClientIp, KeyBy};
    ///
    /// let key = KeyBy::header(HeaderName::from_static("x-api-key")).or(ClientIp::peer());
    /// let (request, ()) = Request::get("/").header("x-api-key", "secret").body(())?.into_parts();
    /// let found = key.key_of(&request).unwrap();
    /// assert!(found.as_key().partition().starts_with(b"sha256-"));
    /// assert_eq!(found.as_key().rest(), b"1|");
    ///
    /// // Without an API key, it needs an address.
    /// let (request, ()) = Request::get("/").body(())?.into_parts();
    /// assert_eq!(key.key_of(&request), None);
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn key_of(&self, request: &Parts) -> Option<ClientKey> {
        self.find(request).ok()
    }

    /// Returns the key that requests with this value of [a header](Self::header) are counted under.
    ///
    /// Spaces around a value are no part of it in a request, nor is the end of a line.
    #[must_use]
    pub fn key_of_header(value: impl AsRef<[u8]>) -> ClientKey {
        ClientKey::of_secret(value.as_ref())
    }

    /// Finds who a request is counted for.
    pub(super) fn find(&self, parts: &Parts) -> Result<ClientKey, NoKey> {
        match &self.0 {
            Source::ClientIp(client) => match client.find(parts) {
                Ok(Client::At(address)) => Ok(client.key_of(address)),
                Ok(Client::Allowed) => Err(NoKey::Allowed),
                Ok(Client::Denied) => Err(NoKey::Denied),
                Err(unknown) => Err(NoKey::Unknown(unknown)),
            },
            Source::Header(name) => {
                let mut values = parts.headers.get_all(name).iter();
                match (values.next(), values.next()) {
                    (Some(value), None) => Ok(Self::key_of_header(value)),
                    _ => Err(NoKey::Header(name.clone())),
                }
            }
            Source::Found(find) => {
                let mut part = Part::new();
                let is_found = find(parts, &mut part);
                is_found
                    .then(|| ClientKey::of_value(part))
                    .ok_or(NoKey::Nothing)
            }
            Source::Both(both) => {
                let [first, second] = &**both;
                Ok(ClientKey::of_both(
                    &first.find(parts)?,
                    &second.find(parts)?,
                ))
            }
            Source::Either(either) => {
                let [first, second] = &**either;
                let (key, of) = match first.find(parts) {
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
                Ok(key.chosen(of))
            }
        }
    }

    /// Returns whether keys of both can have the same partition, for all that is known before a request
    /// comes: what a function finds may be anything.
    pub(super) fn may_share_partition(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Both(both), _) => both[0].may_share_partition(other),
            (_, Source::Both(both)) => self.may_share_partition(&both[0]),
            (Source::Either(either), _) => either.iter().any(|one| one.may_share_partition(other)),
            (_, Source::Either(either)) => either.iter().any(|one| self.may_share_partition(one)),
            (Source::Found(_), _) | (_, Source::Found(_)) => true,
            (Source::ClientIp(_), Source::ClientIp(_)) => true,
            // Two headers hardly have the same value.
            (Source::Header(one), Source::Header(other)) => one == other,
            (Source::ClientIp(_), Source::Header(_)) | (Source::Header(_), Source::ClientIp(_)) => {
                false
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
