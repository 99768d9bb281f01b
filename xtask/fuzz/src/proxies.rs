//! Headers: those that name a client, and those that name a service's limits.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::slice;
use std::time::UNIX_EPOCH;

use http::header::{FORWARDED, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use tollgate_http::Hints;
use tollgate_http::inbound::{ClientIp, InboundLayer, Peer};
use tollgate_memory::{MemoryStore, RateLimiter};
use tower::{Layer, ServiceExt, service_fn};

use crate::server::at_once;

/// What a proxy appends: the address of whoever called it. The same one, in the syntax of each header.
const APPENDED: [(&str, &str); 4] = [
    ("x-forwarded-for", "203.0.113.7"),
    ("x-forwarded-for", "203.0.113.7:4711"),
    ("forwarded", "for=203.0.113.7"),
    ("forwarded", "proto=https;for=\"203.0.113.7:4711\";by=_"),
];

/// Sends a header that a client chose through a proxy, which appends the client's address: the
/// request must be counted for that address, whatever the client wrote.
pub fn addresses(data: &[u8]) {
    let Some((&choice, written)) = data.split_first() else {
        return;
    };
    let (name, appended) = APPENDED[usize::from(choice) % APPENDED.len()];
    let is_one_line = choice & 4 == 0;
    let Ok(client) = HeaderValue::from_bytes(written) else {
        return;
    };
    let appended = HeaderValue::from_static(appended);
    let lines = if is_one_line {
        let line = [client.as_bytes(), b", ", appended.as_bytes()].concat();
        vec![HeaderValue::from_bytes(&line).unwrap_or_else(|error| panic!("{error}"))]
    } else {
        vec![client, appended.clone()]
    };
    for by_hops in [true, false] {
        let Some(clients) = clients(name, by_hops) else {
            panic!("the addresses of the proxies are fine");
        };
        let limiter = RateLimiter::new(MemoryStore::new(), ["once=gcra:1/1d"]);
        let limiter = limiter.unwrap_or_else(|error| panic!("{error}"));
        let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
        let service = InboundLayer::new(limiter, clients).layer(service);
        let status = |lines: &[HeaderValue]| {
            let mut request = Request::new(String::new());
            request
                .extensions_mut()
                .insert(Peer(Ipv4Addr::LOCALHOST.into()));
            for line in lines {
                request.headers_mut().append(name, line.clone());
            }
            at_once(service.clone().oneshot(request)).map(|response| response.status())
        };
        // The proxy's client alone uses the limit up, so the next request is refused if it is theirs.
        assert_eq!(status(slice::from_ref(&appended)), Ok(StatusCode::OK));
        let found = status(&lines);
        assert_eq!(found, Ok(StatusCode::TOO_MANY_REQUESTS), "{lines:?}");
    }
}

/// Returns how to find the client behind one proxy, on this machine.
fn clients(header: &str, by_hops: bool) -> Option<ClientIp> {
    let clients = if by_hops {
        ClientIp::hops(1)
    } else {
        ClientIp::behind(["127.0.0.0/8"]).ok()?
    };
    Some(if header == FORWARDED {
        clients.forwarded()
    } else {
        clients
    })
}

/// Reads the headers of a service's response: a line of `name: value` for each.
pub fn hints(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|&byte| byte == b'\n') {
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let [name, value] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let hints = Hints::read(&headers, UNIX_EPOCH);
    // A wait that the service names outright is waited for.
    if let Some(retry_after) = hints.retry_after() {
        assert!(hints.wait() >= Some(retry_after), "{headers:?}");
    }
}
