//! `host`: the key of requests to a host, however its name is written.

use std::fmt::Write;

use http::Request;
use http::header::HOST;
use http::uri::Authority;

/// Returns the host that a request goes to, as a key for [`OutboundLayer::new`](super::OutboundLayer::new):
/// the same with capitals, with a dot at its end, and with the port 80 or 443. Another port is part of it.
///
/// # Examples
///
/// ```
/// use http::Request;
/// use tollgate_http::outbound::host;
///
/// let key = |url| Request::get(url).body(()).map(|request| host(&request));
/// assert_eq!(key("https://API.example.com.:443/orders")?, "api.example.com");
/// assert_eq!(key("https://api.example.com:8443/orders")?, "api.example.com:8443");
/// # Ok::<(), http::Error>(())
/// ```
pub fn host<B>(request: &Request<B>) -> String {
    // Without a host in its address, the request names it in a header.
    let header = request.headers().get(HOST);
    let header = header.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let Some(authority) = request.uri().authority().or(header.as_ref()) else {
        return String::new();
    };
    let host = authority.host();
    let mut key = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if let Some(port) = authority
        .port_u16()
        .filter(|port| ![80, 443].contains(port))
    {
        // Writing to a string cannot fail.
        let _ = write!(key, ":{port}");
    }
    key
}
