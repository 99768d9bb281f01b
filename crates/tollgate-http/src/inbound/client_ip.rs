//! `ClientIp`: finds the IP address of the client that sent a request.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::{FORWARDED, HeaderName, HeaderValue};
use http::request::Parts;

use super::client_key::{ClientKey, NoKey, Unknown};
use super::forwarded::{self, CLOUDFRONT_VIEWER_ADDRESS, Chain, X_FORWARDED_FOR};
use super::prefix::{PrefixError, Prefixes, canonical};

/// The address that the connection came from, in the extensions of a request: for servers that set
/// no other.
///
/// [`ClientIp`] also finds an [`IpAddr`] or a [`SocketAddr`] there, with the feature `axum` its
/// `ConnectInfo<SocketAddr>`, and with the feature `tonic` its `TcpConnectInfo`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "servers make it")]
pub struct Peer(pub IpAddr);

/// Finds the IP address of the client that sent a request, by which it is counted.
///
/// A client can write any header, so only what was appended by a proxy that you trust says anything.
/// There are four models, and the default trusts nobody:
///
/// | the server is reached | model |
/// |---|---|
/// | directly | [`peer`](Self::peer): the address of the connection |
/// | through proxies with known addresses | [`behind`](Self::behind): the last address in `X-Forwarded-For` or [`Forwarded`](Self::forwarded) that is none of theirs |
/// | through a proxy that sets a header of its own | [`header`](Self::header) |
/// | only through a fixed number of proxies, whatever their addresses | [`hops`](Self::hops) |
///
/// An IPv6 client usually has a whole /64, so addresses that share their first 64 bits are one
/// client ([`ipv6_prefix`](Self::ipv6_prefix)). An IPv4 address in IPv6 notation (`::ffff:0:0/96`),
/// or behind the well-known prefix of NAT64 (`64:ff9b::/96`), is that IPv4 address.
#[derive(Clone)]
pub struct ClientIp {
    model: Model,
    peer: Option<PeerOf>,
    ipv6_prefix: u8,
    only_from: Option<Prefixes>,
    allowed: Prefixes,
    denied: Prefixes,
}

type PeerOf = Arc<dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync>;

#[derive(Clone, Debug)]
enum Model {
    Peer,
    Behind(Chain, Prefixes),
    Hops(Chain, usize),
    Header(HeaderName),
}

/// A request that shows that the clients of a proxy may be counted together, by its address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Mistake {
    /// The request has a proxy's header, but none is read.
    UnusedHeader,
    /// The request has this header, but its connection does not come from a listed proxy.
    UnknownProxy { peer: IpAddr, header: HeaderName },
    /// The connection comes from a listed proxy, but this header has no address at its end.
    MissingAddress { peer: IpAddr, header: HeaderName },
}

impl ClientIp {
    fn new(model: Model) -> Self {
        Self {
            model,
            peer: None,
            ipv6_prefix: 64,
            only_from: None,
            allowed: Prefixes::default(),
            denied: Prefixes::default(),
        }
    }

    /// Counts by the address of the connection, and reads no header.
    ///
    /// With axum, serve with `into_make_service_with_connect_info::<SocketAddr>()`: without that,
    /// requests have no such address. With other servers, insert [`Peer`] into the extensions of
    /// each request, or set [`peer_by`](Self::peer_by).
    #[must_use]
    pub fn peer() -> Self {
        Self::new(Model::Peer)
    }

    /// Counts by `X-Forwarded-For`, for servers behind proxies with these addresses: those of the
    /// header are read from the last one on, beginning with the connection's, and the first that is
    /// none of the proxies' is the client.
    ///
    /// So a client that connects past the proxies is counted by its own address, whatever it writes.
    /// An entry that is no address ends the search at the proxy that wrote it.
    ///
    /// # Errors
    ///
    /// [`PrefixError`] if a text is no address and no prefix, or if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_http::inbound::ClientIp;
    ///
    /// let client = ClientIp::behind(["10.0.0.0/8", "2001:db8:ffff::/48"])?;
    /// # let _ = client;
    /// assert!(ClientIp::behind(["10.0.0.1/8"]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn behind<T: AsRef<str>>(
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, PrefixError> {
        let proxies = Prefixes::read_proxies(proxies)?;
        Ok(Self::new(Model::Behind(Chain::XForwardedFor, proxies)))
    }

    /// Counts by the address that the `proxies`th proxy before the server wrote into
    /// `X-Forwarded-For`: with 1, the last address of the header.
    ///
    /// Only for servers that cannot be reached past these proxies, or with
    /// [`only_from`](Self::only_from): whoever can chooses the address.
    /// A number of zero is the same as [`peer`](Self::peer).
    #[must_use]
    pub fn hops(proxies: usize) -> Self {
        match proxies {
            0 => Self::peer(),
            proxies => Self::new(Model::Hops(Chain::XForwardedFor, proxies)),
        }
    }

    /// Counts by a header that the proxy sets to the client's address, such as `CF-Connecting-IP`
    /// or `X-Real-IP`. It must occur once and hold one address, with or without a port;
    /// `CloudFront-Viewer-Address` always has a port, and no brackets around an IPv6 address.
    ///
    /// Only for servers that cannot be reached past the proxy, or with
    /// [`only_from`](Self::only_from): whoever can chooses the address, and may choose that of
    /// another client, to lock it out. The proxy must replace what the client wrote.
    #[must_use]
    pub fn header(name: HeaderName) -> Self {
        Self::new(Model::Header(name))
    }

    /// Reads a header only if the connection comes from one of these proxies; other clients are
    /// counted by the address of their connection.
    ///
    /// # Errors
    ///
    /// [`PrefixError`] if a text is no address and no prefix, or if there is none.
    pub fn only_from<T: AsRef<str>>(
        mut self,
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, PrefixError> {
        self.only_from = Some(Prefixes::read_proxies(proxies)?);
        Ok(self)
    }

    /// Reads `Forwarded` (RFC 7239) instead of `X-Forwarded-For`.
    #[must_use]
    pub fn forwarded(mut self) -> Self {
        if let Model::Behind(chain, _) | Model::Hops(chain, _) = &mut self.model {
            *chain = Chain::Forwarded;
        }
        self
    }

    /// Sets how the address of the connection is found, for servers that keep it elsewhere.
    #[must_use]
    pub fn peer_by(
        mut self,
        find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.peer = Some(Arc::new(find));
        self
    }

    /// Sets how many bits of an IPv6 address a client has; the default is 64.
    ///
    /// Many networks get a /56 or a /48. To bound what one of those does as a whole, add
    /// [another policy](super::InboundLayer::also) with a shorter prefix: all are decided together.
    /// More than 128 is 128.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits.min(128);
        self
    }

    /// Never limits clients with these addresses.
    ///
    /// # Errors
    ///
    /// [`PrefixError`] if a text is no address and no prefix.
    pub fn allow<T: AsRef<str>>(
        mut self,
        clients: impl IntoIterator<Item = T>,
    ) -> Result<Self, PrefixError> {
        self.allowed = Prefixes::read(clients)?;
        Ok(self)
    }

    /// Answers clients with these addresses with the status 403, unless they are
    /// [allowed](Self::allow).
    ///
    /// # Errors
    ///
    /// [`PrefixError`] if a text is no address and no prefix.
    pub fn deny<T: AsRef<str>>(
        mut self,
        clients: impl IntoIterator<Item = T>,
    ) -> Result<Self, PrefixError> {
        self.denied = Prefixes::read(clients)?;
        Ok(self)
    }

    /// Returns the key that clients with this address are counted under: that of the address, or of
    /// the prefix of an IPv6 address. Whether it is allowed or denied does not matter.
    #[must_use]
    pub fn key_of(&self, address: IpAddr) -> ClientKey {
        ClientKey::of_address(address, self.ipv6_prefix)
    }

    /// Returns whether the client of a request is allowed or denied.
    pub(super) fn listed(&self, parts: &Parts) -> Result<(), NoKey> {
        if self.allowed.is_empty() && self.denied.is_empty() {
            return Ok(());
        }
        match self.address(parts) {
            Ok(address) if self.allowed.contain(address) => Err(NoKey::Allowed),
            Ok(address) if self.denied.contain(address) => Err(NoKey::Denied),
            _ => Ok(()),
        }
    }

    /// Finds the address of the client of a request.
    pub(super) fn address(&self, parts: &Parts) -> Result<IpAddr, Unknown> {
        if let Some(proxies) = &self.only_from {
            let peer = self.peer_of(parts)?;
            if !proxies.contain(peer) {
                return Ok(peer);
            }
        }
        match &self.model {
            Model::Peer => self.peer_of(parts),
            Model::Behind(chain, proxies) => {
                let mut client = self.peer_of(parts)?;
                for address in chain.addresses(&parts.headers) {
                    if !proxies.contain(client) {
                        break;
                    }
                    match address {
                        Some(address) => client = address,
                        None => break,
                    }
                }
                Ok(client)
            }
            Model::Hops(chain, proxies) => {
                let address = chain.addresses(&parts.headers).nth(proxies - 1);
                address
                    .flatten()
                    .ok_or_else(|| Unknown::Hops(chain.header()))
            }
            Model::Header(name) => {
                let mut values = parts.headers.get_all(name).iter();
                let value = values.next().map(HeaderValue::as_bytes);
                let read = if *name == CLOUDFRONT_VIEWER_ADDRESS {
                    forwarded::address_before_port
                } else {
                    forwarded::address
                };
                let address = value.and_then(|value| read(value.trim_ascii()));
                address
                    .filter(|_| values.next().is_none())
                    .ok_or_else(|| Unknown::Header(name.clone()))
            }
        }
    }

    fn peer_of(&self, parts: &Parts) -> Result<IpAddr, Unknown> {
        let peer = match &self.peer {
            Some(find) => find(parts),
            None => peer_in(parts),
        };
        peer.ok_or(Unknown::Peer)
    }

    /// Returns the mistake that a request shows.
    pub(super) fn mistake(&self, parts: &Parts) -> Option<Mistake> {
        let has = |header: &HeaderName| parts.headers.contains_key(header);
        let header = match &self.model {
            Model::Header(name) => has(name).then(|| name.clone()),
            _ => [X_FORWARDED_FOR, FORWARDED].into_iter().find(has),
        };
        if matches!(self.model, Model::Peer) {
            return header.map(|_| Mistake::UnusedHeader);
        }
        let _ = self.proxies().next()?;
        let peer = canonical(self.peer_of(parts).ok()?);
        if !self.proxies().all(|proxies| proxies.contain(peer)) {
            return header.map(|header| Mistake::UnknownProxy { peer, header });
        }
        match &self.model {
            Model::Behind(chain, _) => match chain.addresses(&parts.headers).next() {
                Some(Some(_)) => None,
                _ => Some(Mistake::MissingAddress {
                    peer,
                    header: chain.header(),
                }),
            },
            // Without an address, these refuse the request.
            Model::Peer | Model::Hops(..) | Model::Header(_) => None,
        }
    }

    /// Returns whether every address is a trusted proxy's.
    pub(super) fn trusts_everybody(&self) -> bool {
        self.proxies().any(Prefixes::hold_everything)
    }

    /// Returns the proxies' addresses: a connection from one that is missing in a list is a client's.
    fn proxies(&self) -> impl Iterator<Item = &Prefixes> {
        let behind = match &self.model {
            Model::Behind(_, proxies) => Some(proxies),
            Model::Peer | Model::Hops(..) | Model::Header(_) => None,
        };
        behind.into_iter().chain(&self.only_from)
    }
}

/// Finds the address of the connection where servers put it.
fn peer_in(parts: &Parts) -> Option<IpAddr> {
    let extensions = &parts.extensions;
    if let Some(Peer(address)) = extensions.get() {
        return Some(*address);
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) =
        extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(address.ip());
    }
    // Also there if the connection is one of TLS.
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>()
        && let Some(address) = info.remote_addr()
    {
        return Some(address.ip());
    }
    let socket = extensions.get::<SocketAddr>().map(SocketAddr::ip);
    socket.or_else(|| extensions.get().copied())
}

impl fmt::Debug for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIp")
            .field("model", &self.model)
            .field("ipv6_prefix", &self.ipv6_prefix)
            .finish_non_exhaustive()
    }
}
