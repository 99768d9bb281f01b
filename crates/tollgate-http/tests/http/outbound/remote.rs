//! A service whose responses a test chooses, and processes that call it, under Tokio's paused clock.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_http::outbound::OutboundLayer;
use tollgate_memory::{Clock, MemoryStore};
use tollgate_tokio::Outbound;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

pub(crate) const KEY: &str = "api.example.com";
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const MARGIN: Duration = Duration::from_millis(50);
pub(crate) const TICK: Duration = Duration::from_millis(1);

struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating_from_micros(1_800_000_000_000_000).saturating_add(self.0.elapsed())
    }
}

pub(crate) fn store() -> Arc<MemoryStore> {
    let clock = TokioClock(Instant::now());
    Arc::new(MemoryStore::builder().clock(clock).build())
}

pub(crate) type Process = Outbound<Arc<MemoryStore>>;

pub(crate) fn process(store: &Arc<MemoryStore>) -> Process {
    let outbound = Outbound::builder(Arc::clone(store), ["api=sliding-log:10/10s"]);
    outbound.margin(MARGIN).keep_for_urgent(4).build().unwrap()
}

/// Returns a process of its own, and a service that gives it these answers.
pub(crate) fn alone(answers: &[Answer]) -> (Process, Remote) {
    (process(&store()), Remote::new(answers))
}

type Client = BoxCloneSyncService<Request<String>, Response<u32>, Infallible>;

/// What a service answers: the status, and headers.
pub(crate) type Answer = (u16, &'static [(&'static str, &'static str)]);

/// A client for a service that gives these answers, then 200; and when it was called, after the
/// start. A body is the number of its call.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) client: Client,
    calls: Arc<Mutex<Vec<Duration>>>,
}

impl Remote {
    pub(crate) fn new(answers: &[Answer]) -> Self {
        let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let started = Instant::now();
        let called = Arc::clone(&calls);
        let client = service_fn(move |request: Request<String>| {
            assert_eq!(request.body(), "body");
            let number = {
                let mut called = called.lock().unwrap();
                called.push(started.elapsed());
                u32::try_from(called.len()).unwrap()
            };
            let (status, headers) = answers.lock().unwrap().pop_front().unwrap_or((200, &[]));
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            async move { Ok::<_, Infallible>(response.body(number).unwrap()) }
        });
        Self {
            client: BoxCloneSyncService::new(client),
            calls,
        }
    }

    pub(crate) fn calls(&self) -> Vec<Duration> {
        self.calls.lock().unwrap().clone()
    }
}

pub(crate) fn request(method: &str) -> Request<String> {
    Request::builder()
        .method(method)
        .body("body".to_owned())
        .unwrap()
}

pub(crate) fn key<B>(_: &Request<B>) -> &'static str {
    KEY
}

/// Sends a request through a layer with a longest wait of a minute, and returns the status and the
/// number of the call.
pub(crate) async fn send(outbound: &Process, remote: &Remote, method: &str) -> (u16, u32) {
    let layer = OutboundLayer::new(outbound.clone(), key, MINUTE);
    let client = layer.layer(remote.client.clone());
    let response = client.oneshot(request(method)).await.unwrap();
    (response.status().as_u16(), *response.body())
}

pub(crate) async fn may_call_now(outbound: &Process) -> bool {
    match outbound.call(KEY).wait_up_to(Duration::ZERO).await {
        Ok(permit) => permit.give_back().await.is_ok(),
        Err(_) => false,
    }
}
