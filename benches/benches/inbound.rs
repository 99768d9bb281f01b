//! What the layer for servers costs beside the check itself.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use hyper::body::Bytes;
use tollgate_core::RateLimiter;
use tollgate_http::inbound::{ClientIp, Fields, InboundLayer, Peer};
use tollgate_memory::MemoryStore;
use tower::{Layer, Service};

/// Answers each request at once, with the header that most responses have.
#[derive(Clone, Copy)]
struct Answers;

impl Service<Request<Empty<Bytes>>> for Answers {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Self::Future {
        let mut response = Response::new(Empty::new());
        let text = HeaderValue::from_static("text/plain");
        let _ = response.headers_mut().insert(CONTENT_TYPE, text);
        ready(Ok(response))
    }
}

const CLIENT: [u8; 4] = [203, 0, 113, 7];

fn request() -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    let _ = request.extensions_mut().insert(Peer(IpAddr::from(CLIENT)));
    request
}

fn call<S: Service<Request<Empty<Bytes>>>>(
    service: &mut S,
    request: Request<Empty<Bytes>>,
) -> bool {
    let mut call = pin!(service.call(request));
    let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.is_ready()
}

fn inbound(criterion: &mut Criterion) {
    measure(criterion).expect("the layer is possible");
}

fn measure(criterion: &mut Criterion) -> Result<(), Box<dyn Error>> {
    let mut group = criterion.benchmark_group("inbound");
    let limits = ["requests=gcra:1000000000/1s"];
    let limiter = RateLimiter::new(MemoryStore::new(), limits)?;
    let layer = InboundLayer::new(limiter.clone(), ClientIp::peer());
    let silent = layer.clone().fields(Fields::retry_after_only())?;
    group.bench_function("request", |bencher| bencher.iter(request));
    group.bench_function("service", |bencher| {
        bencher.iter(|| call(&mut Answers, request()));
    });
    group.bench_function("check", |bencher| {
        bencher.iter(|| limiter.check(IpAddr::from(CLIENT)).run());
    });
    for (name, layer) in [("layer", layer), ("layer-without-fields", silent)] {
        let mut service = layer.layer(Answers);
        group.bench_function(name, |bencher| {
            bencher.iter(|| call(&mut service, request()));
        });
    }
    group.finish();
    Ok(())
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = inbound
}
criterion_main!(benches);
