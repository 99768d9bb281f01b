//! What a layer must not do to the service that it wraps.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use proptest::prelude::*;
use tollgate_http::inbound::InboundLayer;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::support::*;

/// A service that must be ready when it is called, and whose clones are not.
#[derive(Debug, Default)]
struct Fragile {
    is_ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        Self {
            is_ready: false,
            calls: Arc::clone(&self.calls),
        }
    }
}

impl Service<Request<Body>> for Fragile {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let holds = std::mem::take(&mut self.is_ready);
        assert!(holds, "called without being ready");
        let _ = self.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Body::default())))
    }
}

#[tokio::test]
async fn the_service_that_was_made_ready_is_the_one_that_is_called() {
    for store in stores() {
        let layer = InboundLayer::new(limiter(store, ["a=sliding-log:3/1m"]), by_user());
        let fragile = Fragile::default();
        let mut service = layer.layer(fragile.clone());
        for _ in 0..5 {
            let ready = service.ready().await.unwrap();
            let _ = ready.call(request("alice")).await.unwrap();
        }
        assert_eq!(fragile.calls.load(Ordering::Relaxed), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_keeps_nothing_of_the_service_that_was_made_ready() {
    for store in stores() {
        let layer = InboundLayer::new(limiter(store, ["a=sliding-log:1/1m"]), by_user());
        let inner = ConcurrencyLimit::new(service_fn(hello), 1);
        let mut first = layer.layer(inner);
        let mut second = first.clone();
        // The last has no key.
        for (request, status) in [
            (request("alice"), 200),
            (request("alice"), 429),
            (Request::new(Body::default()), 401),
        ] {
            let response = first.ready().await.unwrap().call(request).await.unwrap();
            assert_eq!(response.status(), status);
            let ready = tokio::time::timeout(Duration::from_secs(1), second.ready()).await;
            assert!(ready.is_ok(), "{status}");
            second = first.clone();
        }
    }
}

/// What an inner service does.
#[derive(Clone, Debug)]
struct Inner {
    status: u16,
    headers: Vec<(String, String)>,
    chunks: Vec<Vec<u8>>,
    trailers: bool,
    fails: bool,
}

fn inner() -> impl Strategy<Value = Inner> {
    (
        200_u16..599,
        prop::collection::vec(("x-[a-z]{1,5}", "[ -~]{0,9}"), 0..4),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..5),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(status, headers, chunks, trailers, fails)| Inner {
            status,
            headers,
            chunks,
            trailers,
            fails,
        })
}

impl Inner {
    fn respond(
        &self,
    ) -> Result<Response<impl http_body::Body<Data = Bytes, Error = String> + use<>>, String> {
        if self.fails {
            return Err("broken".to_owned());
        }
        let data = self.chunks.iter().cloned();
        let data = data.map(|chunk| Ok(Frame::data(Bytes::from(chunk))));
        let trailers = self.trailers.then(|| {
            let mut trailers = HeaderMap::new();
            let _ = trailers.insert("x-trailer", "1".parse().unwrap());
            Ok(Frame::trailers(trailers))
        });
        let frames: Vec<_> = data.chain(trailers).collect();
        let body = StreamBody::new(futures_util::stream::iter(frames));
        let mut response = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(name, value.trim());
        }
        Ok(response.extension(7_u8).body(body).unwrap())
    }
}

proptest! {
    /// Bodies, trailers, errors, statuses, headers and extensions pass unchanged.
    #[test]
    fn what_the_inner_service_does_passes_unchanged(inner in inner(), waits in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [at_once, waiting] = stores();
        let store = if waits { waiting } else { at_once };
        let layer = InboundLayer::new(limiter(store, ["a=gcra:1/1s"]), by_user());
        let serves = inner.clone();
        let service = service_fn(move |request: Request<Body>| {
            assert_eq!(request.extensions().get::<u16>(), Some(&9));
            assert_eq!(request.headers()["user"], "alice");
            let served = serves.respond();
            async move { served }
        });
        let mut sent = request("alice");
        let _ = sent.extensions_mut().insert(9_u16);
        let response = runtime.block_on(layer.layer(service).oneshot(sent));
        if inner.fails {
            prop_assert_eq!(response.map(drop), Err("broken".to_owned()));
            return Ok(());
        }
        let (head, body) = response.unwrap().into_parts();
        prop_assert_eq!(head.status.as_u16(), inner.status);
        prop_assert_eq!(head.extensions.get::<u8>(), Some(&7));
        for (name, value) in &inner.headers {
            prop_assert!(head.headers.get_all(name).iter().any(|found| found == value.trim()));
        }
        let body = runtime.block_on(body.collect()).unwrap();
        prop_assert_eq!(body.trailers().is_some(), inner.trailers);
        prop_assert_eq!(body.to_bytes().to_vec(), inner.chunks.concat());
    }
}
