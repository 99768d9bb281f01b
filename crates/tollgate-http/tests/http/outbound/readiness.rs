//! A request takes its permit first, and then the client gets ready for it.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::ErrorKind;
use tollgate_http::outbound::{OutboundLayer, OutboundRequestError};
use tollgate_mock::{Fault, FaultyStore};
use tollgate_tokio::Outbound;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::remote::*;

/// A client that takes some time to get ready for each request, or fails to. Only the clone that is
/// ready may be called.
struct Slow {
    takes: Duration,
    /// How often any clone gets ready before it fails.
    successes: Arc<Mutex<u32>>,
    ready_at: Option<Instant>,
    is_ready: bool,
    sent: Arc<Mutex<Vec<Instant>>>,
    status: StatusCode,
}

impl Slow {
    fn new(takes: Duration, successes: u32, status: StatusCode) -> Self {
        Self {
            takes,
            successes: Arc::new(Mutex::new(successes)),
            ready_at: None,
            is_ready: false,
            sent: Arc::default(),
            status,
        }
    }
}

impl Clone for Slow {
    fn clone(&self) -> Self {
        Self {
            successes: Arc::clone(&self.successes),
            ready_at: None,
            is_ready: false,
            sent: Arc::clone(&self.sent),
            ..*self
        }
    }
}

impl Service<Request<()>> for Slow {
    type Response = Response<()>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Response<()>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = Instant::now();
        let ready_at = *self.ready_at.get_or_insert(now + self.takes);
        if now < ready_at {
            let waker = context.waker().clone();
            tokio::spawn(async move {
                sleep(ready_at - now).await;
                waker.wake();
            });
            return Poll::Pending;
        }
        let mut successes = self.successes.lock().unwrap();
        let Some(left) = successes.checked_sub(1) else {
            return Poll::Ready(Err(io::Error::other("no connection")));
        };
        *successes = left;
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.is_ready, "called before it was ready");
        (self.is_ready, self.ready_at) = (false, None);
        self.sent.lock().unwrap().push(Instant::now());
        let response = Response::builder()
            .status(self.status)
            .header("retry-after", 1);
        std::future::ready(Ok(response.body(()).unwrap()))
    }
}

/// Returns a process that may make one call in ten seconds, and not for `margin` more.
fn slow_process(margin: Duration) -> Process {
    let outbound = Outbound::builder(store(), ["api=sliding-log:1/10s"]);
    outbound.margin(margin).build().unwrap()
}

/// Returns how many units of 10 are left after one more call.
async fn left(outbound: &Process) -> u64 {
    let permit = outbound.call(KEY).wait_up_to(Duration::ZERO).await.unwrap();
    let left = permit.remaining();
    permit.give_back().await.unwrap();
    left
}

#[tokio::test(start_paused = true)]
async fn free_key_does_not_wait_for_a_busy_one() {
    let outbound = slow_process(Duration::ZERO);
    let key = |request: &Request<()>| request.uri().path().to_owned();
    let client = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(())) });
    // All requests share one slot of the client.
    let client = ConcurrencyLimit::new(client, 1);
    let client = OutboundLayer::new(outbound, key, MINUTE).layer(client);
    let started = Instant::now();
    let send = |path: &'static str| {
        let sent = client.clone().oneshot(Request::get(path).body(()).unwrap());
        tokio::spawn(async move {
            assert_eq!(sent.await.unwrap().status(), 200);
            started.elapsed()
        })
    };
    assert!(send("/busy").await.unwrap() < SECOND);
    let waiting = send("/busy");
    sleep(TICK).await;
    assert!(send("/free").await.unwrap() < SECOND);
    assert!(waiting.await.unwrap() >= 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn client_that_fails_to_get_ready_again_leaves_the_last_response() {
    let outbound = process(&store());
    let client = Slow::new(TICK, 1, StatusCode::TOO_MANY_REQUESTS);
    let client = OutboundLayer::new(outbound.clone(), key, MINUTE).layer(client);
    let response = client.oneshot(Request::new(())).await.unwrap();
    assert_eq!(response.status(), 429);
    // The permit of the request that was sent is consumed, and that of the other was given back.
    sleep(TICK).await;
    assert_eq!(left(&outbound).await, 8);
}

#[tokio::test(start_paused = true)]
async fn permit_is_given_back_if_the_client_fails_to_get_ready() {
    let outbound = process(&store());
    let client = Slow::new(TICK, 0, StatusCode::OK);
    let client = OutboundLayer::new(outbound.clone(), key, MINUTE).layer(client);
    let error = client.oneshot(Request::new(())).await.unwrap_err();
    assert!(matches!(error, OutboundRequestError::Client(_)));
    assert_eq!(error.to_string(), "no connection");
    sleep(TICK).await;
    assert_eq!(left(&outbound).await, 9);
}

#[tokio::test(start_paused = true)]
async fn permit_is_given_back_if_the_request_is_dropped_before_the_client_is_ready() {
    let outbound = process(&store());
    let client = Slow::new(MINUTE, 1, StatusCode::OK);
    let client = OutboundLayer::new(outbound.clone(), key, MINUTE).layer(client);
    let sending = timeout(SECOND, client.oneshot(Request::new(())));
    assert!(sending.await.is_err());
    assert_eq!(outbound.stats().admitted, 1);
    sleep(TICK).await;
    assert_eq!(left(&outbound).await, 9);
}

#[test]
fn permit_is_given_back_if_the_request_is_dropped_outside_of_its_runtime() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let (outbound, sending) = runtime.block_on(async {
        let outbound = process(&store());
        let client = Slow::new(MINUTE, 1, StatusCode::OK);
        let client = OutboundLayer::new(outbound.clone(), key, MINUTE).layer(client);
        let mut sending = Box::pin(client.oneshot(Request::new(())));
        assert!(timeout(10 * TICK, &mut sending).await.is_err());
        assert_eq!(outbound.stats().admitted, 1);
        (outbound, sending)
    });
    drop(sending);
    runtime.block_on(async {
        sleep(TICK).await;
        assert_eq!(left(&outbound).await, 9);
    });
}

#[tokio::test(start_paused = true)]
async fn permit_that_grew_old_is_replaced_when_the_client_is_ready() {
    for (margin, age, permits) in [
        (MARGIN, None, 2),
        (Duration::ZERO, None, 1),
        (5 * SECOND, None, 1),
        // The margin has a part for the journey, too.
        (6 * SECOND, Some(5 * SECOND - TICK), 2),
        (MARGIN, Some(5 * SECOND), 1),
        (MARGIN, Some(Duration::ZERO), 1),
        (Duration::ZERO, Some(MARGIN), 2),
    ] {
        let outbound = Outbound::builder(store(), ["api=sliding-log:10/10s"]).margin(margin);
        let outbound = match age {
            Some(age) => outbound.permit_age(age),
            None => outbound,
        };
        let outbound = outbound.build().unwrap();
        let client = Slow::new(5 * SECOND, 9, StatusCode::OK);
        let sent = Arc::clone(&client.sent);
        let client = OutboundLayer::new(outbound.clone(), key, MINUTE).layer(client);
        let started = Instant::now();
        let response = client.oneshot(Request::new(())).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(sent.lock().unwrap()[0] - started < 5 * SECOND + 2 * TICK);
        assert_eq!(outbound.stats().admitted, permits);
        // The first was given back.
        assert_eq!(left(&outbound).await, 8);
        if permits == 2 {
            // The second was consumed when the request was sent.
            sleep(9 * SECOND).await;
            assert_eq!(left(&outbound).await, 8);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_get_ready_slowly_are_sent_in_spite_of_each_other() {
    let outbound = slow_process(MARGIN);
    let client = Slow::new(5 * SECOND, 99, StatusCode::OK);
    let sent = Arc::clone(&client.sent);
    let client = OutboundLayer::new(outbound.clone(), key, 5 * MINUTE).layer(client);
    let requests: Vec<_> = (0..4)
        .map(|_| tokio::spawn(client.clone().oneshot(Request::new(()))))
        .collect();
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap().status(), 200);
    }
    let sent = sent.lock().unwrap();
    let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.min() >= Some(10 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn client_that_is_ready_is_kept_only_for_a_permit_that_comes_at_once() {
    let outbound = slow_process(MARGIN);
    let key = |request: &Request<()>| request.uri().path().to_owned();
    let client = Slow::new(5 * SECOND, 99, StatusCode::OK);
    // All requests share one slot of the client.
    let client = ConcurrencyLimit::new(client, 1);
    let client = OutboundLayer::new(outbound.clone(), key, 5 * MINUTE).layer(client);
    let send = |path: &str| {
        let request = Request::get(path).body(()).unwrap();
        tokio::spawn(client.clone().oneshot(request))
    };
    let busy = send("/busy");
    sleep(SECOND).await;
    // Its permit is too old when the client is ready, and there is no other for a minute.
    let _ = outbound.penalize("/busy", MINUTE).await.unwrap();
    let free = timeout(30 * SECOND, send("/free")).await;
    assert_eq!(free.unwrap().unwrap().unwrap().status(), 200);
    assert_eq!(busy.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn old_permit_that_has_no_successor_in_time_is_an_error() {
    // The permit, its refund, and then no other permit.
    let faults = [
        Fault::None,
        Fault::None,
        Fault::Fail(ErrorKind::Unavailable),
    ];
    let store = FaultyStore::new(store(), faults);
    let outbound = Outbound::builder(store, ["api=sliding-log:10/10s"]);
    let outbound = outbound.margin(MARGIN).build().unwrap();
    let client = Slow::new(5 * SECOND, 9, StatusCode::OK);
    let sent = Arc::clone(&client.sent);
    let client = OutboundLayer::new(outbound, key, 3 * SECOND).layer(client);
    let error = client.oneshot(Request::new(())).await.unwrap_err();
    assert!(matches!(error, OutboundRequestError::NotAdmitted(_)));
    assert!(sent.lock().unwrap().is_empty());
}
