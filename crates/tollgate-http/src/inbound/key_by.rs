//! `KeyBy`: what requests are counted by.

use std::fmt;
use std::mem;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use http::request::Parts;

use super::client_ip::ClientIp;
use super::client_key::{ClientKey, NoKey, Part};

/// What requests are counted by: the client's address, a header such as an API key, the route, a
/// value that earlier layers left in the extensions, or what a function returns.
///
/// What is empty or only spaces is no key: otherwise, all who send it would share one.
///
/// Count by what a layer before this one has [found](Self::extension), such as the user, rather than by
/// the header that it read: what that layer takes for one user may be spelled in many ways, and each
/// would have limits of its own.
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

/// Appends what was found; nothing if nothing was.
type Find = dyn Fn(&Parts, &mut Part) + Send + Sync;

#[derive(Clone)]
enum Source {
    ClientIp(ClientIp),
    Header(HeaderName),
    Bearer,
    #[cfg(feature = "axum")]
    Route,
    Found(Arc<Find>),
    Both(Arc<[KeyBy; 2]>),
    Either(Arc<[KeyBy; 2]>),
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
    /// API key, or count by address, too. If that layer takes several spellings for one key, such as
    /// capitals for small letters, count by what it [found](Self::extension).
    ///
    /// Of `Authorization` and `Proxy-Authorization`, neither the case of the scheme nor how many spaces
    /// follow it make another key: `bearer  abc` is `Bearer abc`. The credentials are compared byte by
    /// byte, also those of `Basic`, of which every password is a key of its own, and so may be every way to
    /// write it in Base64.
    #[must_use]
    pub fn header(name: HeaderName) -> Self {
        Self(Source::Header(name))
    }

    /// Counts by the token of `Authorization: Bearer TOKEN` (RFC 6750), by its hash. A request without one
    /// token, or with another scheme, is answered with the status 401.
    ///
    /// The key is that of an API key that is the token: see [`key_of_header`](Self::key_of_header).
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_http::inbound::KeyBy;
    ///
    /// let key = KeyBy::bearer();
    /// let (request, ()) = Request::get("/").header("authorization", "bearer abc").body(())?.into_parts();
    /// assert_eq!(key.key_of(&request), Some(KeyBy::key_of_header("abc")));
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn bearer() -> Self {
        Self(Source::Bearer)
    }

    /// Counts by the route's pattern, such as `/users/{id}`, which axum's router leaves in the
    /// extensions for layers added with `Router::layer` or `route_layer`. Requests that match no
    /// route are counted as one.
    #[cfg(feature = "axum")]
    #[must_use]
    pub fn route() -> Self {
        Self(Source::Route)
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
            if let Some(found) = parts.extensions.get::<T>() {
                part.extend_from_slice(name(found).as_ref());
            }
        })))
    }

    /// Counts by what `name` returns; more than 128 bytes are counted by their hash. A request for
    /// which it returns `None` is answered with the status 401.
    #[must_use]
    pub fn function<K: AsRef<str>>(
        name: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Found(Arc::new(move |parts, part| {
            if let Some(name) = name(parts) {
                part.extend_from_slice(name.as_ref().as_bytes());
            }
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
    /// Addresses that one of both [allows](ClientIp::allow) or [denies](ClientIp::deny) are allowed or
    /// denied whichever key the request has.
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

    /// Returns the key that requests with this value of [a header](Self::header) are counted under, or with
    /// this token under [`bearer`](Self::bearer).
    ///
    /// Spaces around a value and ends of lines are no part of it. Nor are the case of `Basic` and `Bearer`
    /// at its beginning, and how many spaces follow these; write another scheme of `Authorization` like
    /// them, with a capital and one space: `Digest`, `Dpop`.
    #[must_use]
    pub fn key_of_header(value: impl AsRef<[u8]>) -> ClientKey {
        key_of_value(value.as_ref().trim_ascii(), is_known)
    }

    /// Finds who a request is counted for.
    pub(super) fn find(&self, parts: &Parts) -> Result<ClientKey, NoKey> {
        // No header makes an address one that is denied or allowed, or another.
        self.listed(parts)?;
        self.key(parts)
    }

    /// Returns whether one of its addresses is allowed or denied.
    fn listed(&self, parts: &Parts) -> Result<(), NoKey> {
        match &self.0 {
            Source::ClientIp(client) => client.listed(parts),
            Source::Both(both) | Source::Either(both) => {
                both.iter().try_for_each(|one| one.listed(parts))
            }
            _ => Ok(()),
        }
    }

    fn key(&self, parts: &Parts) -> Result<ClientKey, NoKey> {
        let only = |name: &HeaderName| {
            let mut values = parts.headers.get_all(name).iter();
            let value = values.next().map(HeaderValue::as_bytes);
            let value = value
                .map(<[u8]>::trim_ascii)
                .filter(|_| values.next().is_none());
            value.ok_or_else(|| NoKey::Header(name.clone()))
        };
        match &self.0 {
            Source::ClientIp(client) => {
                let address = client.address(parts).map_err(NoKey::Unknown)?;
                Ok(client.key_of(address))
            }
            Source::Header(name) => {
                let value = only(name)?;
                let has_scheme = [AUTHORIZATION, PROXY_AUTHORIZATION].contains(name);
                let is_scheme = |scheme: &[u8]| has_scheme || is_known(scheme);
                // A known scheme alone has no credentials.
                if value.is_empty() || is_known(value) {
                    return Err(NoKey::Header(name.clone()));
                }
                Ok(key_of_value(value, is_scheme))
            }
            Source::Bearer => {
                let token = credentials(only(&AUTHORIZATION)?);
                let token = token.filter(|(scheme, token)| {
                    scheme.eq_ignore_ascii_case(b"Bearer") && is_token(token)
                });
                let token = token.map(|(_, token)| ClientKey::of_secret(b"", token));
                token.ok_or(NoKey::Header(AUTHORIZATION))
            }
            #[cfg(feature = "axum")]
            Source::Route => {
                let route = parts.extensions.get::<axum::extract::MatchedPath>();
                let route = route.map_or("", |route| route.as_str());
                Ok(ClientKey::of_value(Part::from_slice(route.as_bytes())))
            }
            Source::Found(find) => {
                let mut part = Part::new();
                find(parts, &mut part);
                match part.trim_ascii() {
                    [] => Err(NoKey::Nothing),
                    _ => Ok(ClientKey::of_value(part)),
                }
            }
            Source::Both(both) => {
                let [first, second] = &**both;
                Ok(ClientKey::of_both(&first.key(parts)?, &second.key(parts)?))
            }
            Source::Either(either) => {
                let [first, second] = &**either;
                match first.key(parts) {
                    Err(NoKey::Header(_) | NoKey::Nothing) => Ok(second.key(parts)?.chosen(b"2|")),
                    found => Ok(found?.chosen(b"1|")),
                }
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
            // Two headers hardly have the same value.
            (Source::Header(one), Source::Header(other)) => one == other,
            (one, other) => mem::discriminant(one) == mem::discriminant(other),
        }
    }

    /// Returns the first client address that is part of the key.
    pub(super) fn client(&self) -> Option<&ClientIp> {
        match &self.0 {
            Source::ClientIp(client) => Some(client),
            Source::Both(both) | Source::Either(both) => both.iter().find_map(Self::client),
            _ => None,
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
            Source::Bearer => f.write_str("Bearer"),
            #[cfg(feature = "axum")]
            Source::Route => f.write_str("Route"),
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

/// Returns a scheme and its credentials, which follow one or more spaces.
fn credentials(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = value.iter().position(u8::is_ascii_whitespace)?;
    let (scheme, credentials) = value.split_at(end);
    Some((scheme, credentials.trim_ascii_start()))
}

/// Returns whether it is a scheme of credentials in every header.
fn is_known(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"Basic") || scheme.eq_ignore_ascii_case(b"Bearer")
}

/// Returns the key of a header's value: a scheme counts as one with a capital, and one space after it.
fn key_of_value(value: &[u8], is_scheme: impl Fn(&[u8]) -> bool) -> ClientKey {
    let Some((scheme, credentials)) = credentials(value).filter(|(scheme, _)| is_scheme(scheme))
    else {
        return ClientKey::of_secret(b"", value);
    };
    let mut one = Part::from_slice(scheme);
    one.make_ascii_lowercase();
    one[..1].make_ascii_uppercase();
    one.push(b' ');
    ClientKey::of_secret(&one, credentials)
}

/// Returns whether it is a token of RFC 6750.
fn is_token(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| *byte != b'=');
    end.is_some_and(|end| {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
        text[..=end].iter().all(is_allowed)
    })
}
