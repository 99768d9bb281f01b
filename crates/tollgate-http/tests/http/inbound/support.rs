//! Requests, a store with a clock of its own, and a service that answers every request.

use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::Full;
use proptest::prelude::*;
use tokio::task::yield_now;
use tollgate_core::store::{Checks, Request as Question, Verdicts};
use tollgate_core::{Key, Limit, LimitError, RateLimiter, Store, StoreError, Timestamp};
use tollgate_http::inbound::{InboundLayer, KeyBy, Peer};
use tollgate_memory::{ManualClock, MemoryStore};
use tower::{Layer, ServiceExt, service_fn};

use crate::client::Answer;

pub(crate) type Body = Full<Bytes>;

/// An instant in the middle of nowhere.
pub(crate) const START: u64 = 1_700_000_000_000_000;

pub(crate) const ALICE: [u8; 4] = [203, 0, 113, 7];

/// Returns a store that decides in place, and its clock.
pub(crate) fn store() -> (Arc<MemoryStore>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_micros(START).unwrap());
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(store), clock)
}

/// A store that has to wait: it decides when it is first polled, and its answer comes later.
pub(crate) struct Waits(Arc<MemoryStore>);

#[async_trait]
impl Store for Waits {
    async fn decide<'a>(&'a self, request: Question<'a>) -> Result<Verdicts, StoreError> {
        let said = self.0.decide(request).await;
        yield_now().await;
        said
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(checks).await
    }

    fn supports<'a>(&self, request: &Question<'a>) -> Result<(), StoreError> {
        self.0.supports(request)
    }
}

/// Returns a store that has to wait.
pub(crate) fn waiting_store() -> Arc<Waits> {
    Arc::new(Waits(store().0))
}

/// Returns one of either.
pub(crate) fn stores() -> [Arc<dyn Store>; 2] {
    [store().0, waiting_store()]
}

pub(crate) fn limiter<S, L>(store: S, limits: impl IntoIterator<Item = L>) -> RateLimiter<S>
where
    L: TryInto<Limit>,
    LimitError: From<L::Error>,
{
    RateLimiter::new(store, limits).unwrap()
}

/// Returns the partition and, after a space, the rest of a key.
pub(crate) fn text_of(key: Key<'_>) -> String {
    let part = |part: &[u8]| String::from_utf8(part.to_vec()).unwrap();
    let (partition, rest) = (part(&key.partition()), part(key.rest()));
    let separator = if rest.is_empty() { "" } else { " " };
    format!("{partition}{separator}{rest}")
}

/// A store that says for which key it was asked last.
#[derive(Default)]
pub(crate) struct Keys {
    store: MemoryStore,
    asked: Mutex<Option<String>>,
}

#[async_trait]
impl Store for Keys {
    async fn decide<'a>(&'a self, request: Question<'a>) -> Result<Verdicts, StoreError> {
        let [check] = request.checks() else {
            panic!("one policy with one limit")
        };
        *self.asked.lock().unwrap() = Some(text_of(check.key()));
        self.store.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Question<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

/// A layer that says by which key it counts a request.
pub(crate) struct Counted(Arc<Keys>, InboundLayer<Arc<Keys>>, KeyBy);

impl Counted {
    pub(crate) fn by(key: impl Into<KeyBy>) -> Self {
        let keys = Arc::<Keys>::default();
        let limiter = limiter(Arc::clone(&keys), ["a=gcra:1000000/1s"]);
        let key = key.into();
        Self(keys, InboundLayer::new(limiter, key.clone()), key)
    }

    /// Returns the partition and, after a space, the rest of the key, or the status of the refusal.
    pub(crate) async fn key_of(&self, request: Request<Body>) -> Result<String, u16> {
        let (parts, body) = request.into_parts();
        let expected = self.2.key_of(&parts);
        let status = send(&self.1, Request::from_parts(parts, body)).await.status;
        let asked = self.0.asked.lock().unwrap().take();
        assert_eq!(asked, expected.map(|key| text_of(key.as_key())));
        assert_eq!(asked.is_some(), status == 200);
        asked.ok_or(status)
    }
}

/// Counts by the header `user`.
pub(crate) fn by_user() -> KeyBy {
    KeyBy::function(|parts| {
        let user = parts.headers.get("user")?;
        user.to_str().ok().map(str::to_owned)
    })
}

pub(crate) fn request(user: &str) -> Request<Body> {
    let request = Request::builder().header("user", user);
    request.body(Body::default()).unwrap()
}

/// Adds headers to a request.
pub(crate) fn with(mut request: Request<Body>, headers: &[(&str, &str)]) -> Request<Body> {
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        let _ = request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

pub(crate) fn request_from(peer: impl Into<IpAddr>) -> Request<Body> {
    let mut request = Request::new(Body::default());
    let _ = request.extensions_mut().insert(Peer(peer.into()));
    request
}

/// Answers every request.
pub(crate) async fn hello(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

/// Sends a request through the layer to a service that answers `hello`.
pub(crate) async fn send<S: Store + 'static>(
    layer: &InboundLayer<S>,
    request: Request<Body>,
) -> Answer {
    send_to(layer, request, |_| Response::new(Body::from("hello"))).await
}

/// Sends a request through the layer to a service that answers as `respond` does.
pub(crate) async fn send_to<S: Store + 'static>(
    layer: &InboundLayer<S>,
    request: Request<Body>,
    respond: impl Fn(Request<Body>) -> Response<Body> + Clone,
) -> Answer {
    let respond = move |request| ready(Ok::<_, Infallible>(respond(request)));
    let response = layer.layer(service_fn(respond)).oneshot(request);
    Answer::read(response.await.unwrap()).await
}

/// A limit of any algorithm.
pub(crate) fn limit() -> impl Strategy<Value = String> {
    let window = prop::sample::select(vec!["500ms", "1s", "1500ms", "7s", "1m"]);
    let shape = prop::sample::select(vec![
        "gcra",
        "fixed-window",
        "sliding-log",
        "sliding-counter",
        "sliding-buckets",
    ]);
    (shape, 1_u64..12, window, 1_u64..12).prop_map(|(shape, amount, window, burst)| match shape {
        "gcra" => format!("{shape}:{amount}/{window},burst={burst}"),
        "sliding-buckets" => format!("{shape}:{amount}/{window},buckets=4"),
        _ => format!("{shape}:{amount}/{window}"),
    })
}

/// Lets what runs in the background run.
pub(crate) async fn settled() {
    for _ in 0..10 {
        yield_now().await;
    }
}
