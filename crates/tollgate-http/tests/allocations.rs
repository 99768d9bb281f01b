//! A request that is allowed costs no allocation beside those of the headers that are written, and a
//! response no more than it has.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use allocation_counter::measure;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use tollgate_http::Hints;
use tollgate_http::inbound::{ClientIp, Fields, InboundLayer, Peer};
use tollgate_memory::{MemoryStore, RateLimiter};
use tower::{Layer, Service};

const FIELDS: [(HeaderName, &str); 2] = [
    (HeaderName::from_static("ratelimit-policy"), "policy"),
    (HeaderName::from_static("ratelimit"), "r"),
];

/// Answers each request, if asked to with headers like those of the layer.
#[derive(Clone, Copy)]
struct Answers {
    with_fields: bool,
}

impl Service<Request<String>> for Answers {
    type Response = Response<http_body_util::Empty<bytes::Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        let mut response = Response::new(http_body_util::Empty::new());
        if self.with_fields {
            for (name, value) in FIELDS {
                let headers = response.headers_mut();
                let _ = headers.insert(name, HeaderValue::from_static(value));
            }
        }
        ready(Ok(response))
    }
}

fn request() -> Request<String> {
    let mut request = Request::new(String::new());
    let peer = Peer(IpAddr::from([203, 0, 113, 7]));
    let _ = request.extensions_mut().insert(peer);
    request
}

/// Returns how many allocations a call to the service makes.
fn allocations<S: Service<Request<String>, Error = Infallible>>(service: &mut S) -> u64 {
    let mut counted = 0;
    // The first call may allocate what is kept for the key.
    for _ in 0..200 {
        let request = request();
        let calls = || {
            let mut call = pin!(service.call(request));
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready());
        };
        counted = measure(calls).count_total;
    }
    counted
}

#[test]
fn an_allowed_request_allocates_only_for_headers() {
    let limits = ["a=gcra:1000000/1s", "b=fixed-window:1000000/1s"];
    for limits in [&limits[..1], &limits[..]] {
        let limiter = RateLimiter::new(MemoryStore::new(), limits.iter().copied()).unwrap();
        let layer = InboundLayer::new(limiter, ClientIp::peer());
        let with_headers = allocations(&mut Answers { with_fields: true });
        let limited = allocations(&mut layer.layer(Answers { with_fields: false }));
        // Of the two values, one is made anew.
        assert!(limited == with_headers + 1, "{limited} for {with_headers}");

        let silent = layer.fields(Fields::retry_after_only()).unwrap();
        let without = allocations(&mut Answers { with_fields: false });
        let limited = allocations(&mut silent.layer(Answers { with_fields: false }));
        assert_eq!(limited, without);
    }
}

#[test]
fn reading_a_response_takes_no_more_memory_than_in_proportion() {
    let mut headers = HeaderMap::new();
    let (name, left) = ("n".repeat(100_000), "0,".repeat(10_000));
    let _ = headers.insert("x-ratelimit-resource", name.parse().unwrap());
    let _ = headers.insert("x-ratelimit-remaining", left.parse().unwrap());
    let mut limits = 0;
    let read = || limits = Hints::read(&headers, SystemTime::now()).limits().len();
    let bytes = measure(read).bytes_max;
    assert_eq!(limits, 10_000);
    assert!(bytes < 10_000_000, "{bytes}");
}
