//! What lasts until the body of a response has ended, however it ends.

use std::convert::Infallible;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, StreamBody};
use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_core::{ErrorKind, Store};
use tollgate_http::inbound::{InboundLayer, OnStoreFailure, Place, Policy};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};
use tower::{Layer, ServiceExt, service_fn};

use super::support::*;

type Frames = Vec<Result<Frame<Bytes>, &'static str>>;

fn two_chunks() -> Frames {
    ["abc", "defg"]
        .map(|chunk| Ok(Frame::data(Bytes::from(chunk))))
        .into()
}

fn broken() -> Frames {
    vec![Ok(Frame::data(Bytes::from("abc"))), Err("broken")]
}

/// Sends a request to a service whose bodies have these frames, and returns the response's status
/// and body.
async fn open<S: Store + 'static>(
    layer: &InboundLayer<S>,
    frames: fn() -> Frames,
) -> (
    u16,
    impl HttpBody<Data = Bytes, Error = &'static str> + Unpin + use<S>,
) {
    let service = service_fn(move |_: Request<Body>| async move {
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames()))))
    });
    let response = layer.layer(service).oneshot(request("alice"));
    let response = response.await.unwrap();
    (response.status().as_u16(), Box::pin(response.into_body()))
}

fn one_at_once(store: Arc<MemoryStore>) -> (InboundLayer<Arc<MemoryStore>>, impl AsyncFn() -> u64) {
    let leases =
        ConcurrencyLimiter::new(store.clone(), "open", 1, Duration::from_secs(30)).unwrap();
    let layer = InboundLayer::new(limiter(store, ["a=sliding-log:100/1m"]), by_user());
    let peeks = leases.clone();
    let held = async move || {
        // Guards give their leases back in the background.
        tokio::time::sleep(Duration::from_millis(1)).await;
        peeks.peek("alice").await.unwrap().held()
    };
    (layer.hold(leases), held)
}

#[tokio::test(start_paused = true)]
async fn a_place_is_held_until_the_body_has_ended() {
    let (layer, held) = one_at_once(store().0);
    let bytes = Policy::new(by_user()).settle_by_bytes(NonZeroU64::MIN);
    let layer = layer.also(["bytes=sliding-log:100/1m"], bytes).unwrap();
    let (status, mut body) = open(&layer, two_chunks).await;
    assert_eq!(status, 200);
    assert_eq!(held().await, 1);
    assert_eq!(open(&layer, two_chunks).await.0, 429);
    let _ = body.frame().await.unwrap().unwrap();
    assert_eq!(held().await, 1);
    let _ = body.frame().await.unwrap().unwrap();
    assert!(body.frame().await.is_none());
    // The body is still there.
    assert_eq!(held().await, 0);
    assert_eq!(open(&layer, two_chunks).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_or_fails_gives_its_place_back() {
    let (layer, held) = one_at_once(store().0);
    let (_, mut body) = open(&layer, two_chunks).await;
    let _ = body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(held().await, 0);
    let (_, mut body) = open(&layer, broken).await;
    let _ = body.frame().await.unwrap().unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
    assert_eq!(held().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_says_it_is_over_gives_its_place_back() {
    let (layer, held) = one_at_once(store().0);
    for text in ["abc", ""] {
        let service = service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Body::from(text)))
        });
        let response = layer.layer(service).oneshot(request("alice"));
        let mut body = response.await.unwrap().into_body();
        if !text.is_empty() {
            let _ = body.frame().await.unwrap().unwrap();
        }
        assert!(body.is_end_stream());
        // A consumer stops polling here.
        assert_eq!(held().await, 0, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_refused_or_given_up_keep_no_place() {
    let (layer, held) = one_at_once(store().0);
    let too_costly = Policy::new(by_user()).cost(|_| 2);
    let denied = layer.clone().also(["b=sliding-log:1/1m"], too_costly);
    let denied = denied.unwrap();
    assert_eq!(open(&denied, two_chunks).await.0, 429);
    assert_eq!(held().await, 0);
    // A service that fails, and one that never answers.
    let fails = service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>("broken") });
    let mut call = pin!(layer.layer(fails).oneshot(request("alice")));
    let _ = call.as_mut().await.unwrap_err();
    // The future is still there.
    assert_eq!(held().await, 0);
    let never =
        service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let call = layer.layer(never).oneshot(request("alice"));
    let call = tokio::time::timeout(Duration::from_secs(1), call);
    assert!(call.await.is_err());
    assert_eq!(held().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_place_is_held_also_if_the_limits_cannot_be_asked() {
    let (store, _) = store();
    let failing = FaultyStore::new(store.clone(), [Fault::Fail(ErrorKind::Unavailable)]);
    let leases = ConcurrencyLimiter::new(store, "open", 1, Duration::from_secs(30)).unwrap();
    let layer = InboundLayer::new(limiter(failing, ["a=sliding-log:9/1m"]), by_user())
        .hold(leases.clone())
        .on_store_failure(OnStoreFailure::Allow);
    let response = layer.layer(service_fn(hello)).oneshot(request("alice"));
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(leases.peek("alice").await.unwrap().held(), 1);
    drop(response);
}

#[tokio::test(start_paused = true)]
async fn limits_are_asked_also_if_places_fail() {
    let fails = || Fault::Fail(ErrorKind::Unavailable);
    for (does, answers) in [
        (OnStoreFailure::Allow, [200, 429, 429]),
        (OnStoreFailure::Refuse, [503, 503, 200]),
    ] {
        let failing = FaultyStore::new(store().0, [fails(), fails()]);
        let leases = ConcurrencyLimiter::new(failing, "open", 5, Duration::from_secs(30)).unwrap();
        let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), by_user());
        let layer = layer.hold(leases).on_store_failure(does);
        for status in answers {
            assert_eq!(send(&layer, request("alice")).await.status, status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_no_place_consumes_nothing() {
    let (store, _) = store();
    let (layer, _) = one_at_once(store.clone());
    let (_, _body) = open(&layer, two_chunks).await;
    for _ in 0..10 {
        assert_eq!(open(&layer, two_chunks).await.0, 429);
    }
    let limiter = limiter(store, ["a=sliding-log:100/1m"]);
    assert_eq!(limiter.peek("alice").run().unwrap().remaining(), 99);
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_after_the_response_keeps_the_places_of_all_layers() {
    let store = store().0;
    let leases = ["outer", "inner"].map(|name| {
        ConcurrencyLimiter::new(store.clone(), name, 1, Duration::from_secs(30)).unwrap()
    });
    let [around, within] = ["a", "b"].map(|name| {
        let limit = format!("{name}=sliding-log:100/1m");
        InboundLayer::new(limiter(store.clone(), [limit]), by_user())
    });
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keeps = Arc::clone(&kept);
    let service = service_fn(move |request: Request<Body>| {
        *keeps.lock().unwrap() = request.extensions().get::<Place>().cloned();
        async { Ok::<_, Infallible>(Response::new(Body::default())) }
    });
    let service = within.hold(leases[1].clone()).layer(service);
    let service = around.hold(leases[0].clone()).layer(service);
    drop(service.oneshot(request("alice")).await.unwrap());
    for held in [1, 0] {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for leases in &leases {
            assert_eq!(leases.peek("alice").await.unwrap().held(), held);
        }
        let place: Option<Place> = kept.lock().unwrap().take();
        assert_eq!(place.is_some_and(|place| place.is_held()), held == 1);
    }
}

#[tokio::test]
async fn bytes_count_until_the_body_ends_however_it_ends() {
    for (frames, read, cost) in [
        (two_chunks as fn() -> Frames, 2, 7),
        (two_chunks, 1, 3),
        (two_chunks, 0, 0),
        (broken, 2, 3),
    ] {
        let limiter = limiter(store().0, ["bytes=sliding-log:1000/1m"]);
        let policy = Policy::new(by_user());
        let policy = policy.cost(|_| 100).settle_by_bytes(NonZeroU64::MIN);
        let layer = InboundLayer::new(limiter.clone(), policy);
        let (_, mut body) = open(&layer, frames).await;
        for _ in 0..read {
            let _ = body.frame().await.unwrap();
        }
        if read < 2 {
            assert_eq!(limiter.peek("alice").run().unwrap().remaining(), 900);
        }
        drop(body);
        let found = limiter.peek("alice").run().unwrap().remaining();
        assert_eq!(found, 1000 - cost);
    }
    // Also if it is dropped outside of the runtime on which the store is asked.
    let limiter = limiter(waiting_store(), ["bytes=sliding-log:1000/1m"]);
    let policy = Policy::new(by_user()).settle_by_bytes(NonZeroU64::MIN);
    let layer = InboundLayer::new(limiter.clone(), policy);
    let (_, mut body) = open(&layer, two_chunks).await;
    let _ = body.frame().await.unwrap();
    std::thread::spawn(|| drop(body)).join().unwrap();
    settled().await;
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 997);
}
