//! What a client still sends of a request that is refused.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, Version};
use http_body::Frame;
use http_body_util::StreamBody;
use tollgate_core::Store;
use tollgate_http::inbound::{InboundLayer, Policy};
use tower::{Layer, ServiceExt, service_fn};

use super::support::*;

/// How many chunks of a body were read; only the body holds another reference.
type Read = Arc<AtomicUsize>;

/// Sends a request that is refused, with a body of `chunks` and then nothing, without an end. Returns
/// what is read of it.
async fn refused<S: Store + 'static>(
    store: S,
    chunks: usize,
    change: impl Fn(&mut http::request::Parts),
) -> Read {
    let read = Read::default();
    let body = stream::unfold(read.clone(), move |read| async move {
        if read.load(Ordering::Relaxed) == chunks {
            pending::<()>().await;
        }
        let _ = read.fetch_add(1, Ordering::Relaxed);
        let chunk = Frame::data(Bytes::from_static(&[0; 1 << 20]));
        Some((Ok::<_, Infallible>(chunk), read))
    });
    let (mut parts, _) = request("alice").into_parts();
    change(&mut parts);
    let request = Request::from_parts(parts, StreamBody::new(body));
    let layer = InboundLayer::new(
        limiter(store, ["a=sliding-log:1/1m"]),
        Policy::new(by_user()).cost(|_| 2),
    );
    let service = layer.layer(service_fn(async |_| {
        Ok::<_, Infallible>(Response::new(Body::default()))
    }));
    assert_eq!(service.oneshot(request).await.unwrap().status(), 429);
    tokio::time::sleep(Duration::from_millis(1)).await;
    read
}

/// Returns how many chunks were read, and whether the rest may still be.
fn progress(read: &Read) -> (usize, bool) {
    (read.load(Ordering::Relaxed), Arc::strong_count(read) > 1)
}

#[tokio::test(start_paused = true)]
async fn it_is_read_for_half_a_minute() {
    let now = refused(store().0, 3, |_| {}).await;
    let later = refused(waiting_store(), 3, |_| {}).await;
    for reading in [true, false] {
        assert_eq!(progress(&now), (3, reading));
        assert_eq!(progress(&later), (3, reading));
        tokio::time::sleep(Duration::from_secs(31)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_64_mebibytes_are_read() {
    let read = refused(store().0, 1000, |_| {}).await;
    assert_eq!(progress(&read), (65, false));
}

#[tokio::test(start_paused = true)]
async fn it_is_not_read_if_the_client_stops_by_itself() {
    let http2 = refused(store().0, 3, |parts| parts.version = Version::HTTP_2).await;
    let expects = refused(store().0, 3, |parts| {
        let _ = parts
            .headers
            .insert("expect", "100-continue".parse().unwrap());
    });
    for read in [http2, expects.await] {
        assert_eq!(progress(&read), (0, false));
    }
}
