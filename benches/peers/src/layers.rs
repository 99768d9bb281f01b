//! Layers for servers, which limit each client by one limit that denies nothing.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum_governor::extractor::PeerIp;
use governor::{DefaultKeyedRateLimiter, Quota};
use http::{Request, Response};
use tollgate_http::inbound::{ClientIp, Fields, InboundLayer};
use tollgate_memory::{MemoryStore, RateLimiter};
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::{Named, Problem, Subject};

const CLIENT: [u8; 4] = [203, 0, 113, 7];

/// Returns them, the service alone, and their checks alone.
///
/// # Errors
///
/// If a quota is not valid.
pub fn subjects() -> Result<Vec<Named>, Problem> {
    let limiter = RateLimiter::new(MemoryStore::new(), ["calls=gcra:1000000000/1s"])?;
    let layer = InboundLayer::new(limiter.clone(), ClientIp::peer());
    let silent = layer.clone().fields(Fields::retry_after_only())?;
    let billion = NonZeroU32::new(1_000_000_000).unwrap_or(NonZeroU32::MAX);
    let governor = DefaultKeyedRateLimiter::keyed(Quota::per_second(billion));
    let mut theirs = GovernorConfigBuilder::default();
    let theirs = theirs.per_nanosecond(1).burst_size(billion.get());
    let with_headers = theirs.use_headers().finish().ok_or("a quota of zero")?;
    let without = theirs.finish().ok_or("a quota of zero")?;
    let others = axum_governor::GovernorConfigBuilder::default()
        .with_extractor(PeerIp::default())
        .expect_connect_info()
        .quota_default(axum_governor::Quota::requests_per_second(billion))
        .finish()?;
    let others = axum_governor::GovernorLayer::new(others);
    let client = IpAddr::from(CLIENT);
    let check = Check(move || limiter.check(client).run().is_ok());
    let governor = Check(move || governor.check_key(&client).is_ok());
    Ok(vec![
        ("service alone", Box::new(Served::new(Answers))),
        ("tollgate, check alone", Box::new(check)),
        (
            "tollgate, Retry-After only",
            Box::new(Served::new(silent.layer(Answers))),
        ),
        ("tollgate", Box::new(Served::new(layer.layer(Answers)))),
        ("governor, check alone", Box::new(governor)),
        (
            "tower_governor, Retry-After only",
            Box::new(Served::new(GovernorLayer::new(without).layer(Answers))),
        ),
        (
            "tower_governor",
            Box::new(Served::new(GovernorLayer::new(with_headers).layer(Answers))),
        ),
        (
            "axum-governor",
            Box::new(Served::new(others.layer(Answers))),
        ),
    ])
}

/// Answers each request at once.
#[derive(Clone, Copy)]
struct Answers;

impl Service<Request<Body>> for Answers {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(Body::empty())))
    }
}

/// A check without a request.
struct Check<F>(F);

impl<F: Fn() -> bool + Sync> Subject for Check<F> {
    #[inline]
    fn check(&self, _: &String) -> bool {
        std::hint::black_box(self.0())
    }
}

/// A service that is sent requests.
struct Served<S>(Mutex<S>);

impl<S> Served<S> {
    fn new(service: S) -> Self {
        Self(Mutex::new(service))
    }
}

impl<B, S: Service<Request<Body>, Response = Response<B>> + Send> Subject for Served<S> {
    #[inline]
    fn check(&self, _: &String) -> bool {
        let mut request = Request::new(Body::empty());
        let client = ConnectInfo(SocketAddr::from((CLIENT, 4711)));
        let _ = request.extensions_mut().insert(client);
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = pin!(service.call(request));
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(response)) => response.status().is_success(),
            _ => false,
        }
    }
}
