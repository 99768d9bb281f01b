//! The layer, around clients whose responses a test chooses, under Tokio's paused clock.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tollgate_core::{ErrorKind, Timestamp};
use tollgate_http::{OutboundLayer, OutboundRequestError};
use tollgate_memory::{Clock, MemoryStore};
use tollgate_tokio::{Outbound, WaitError};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt, service_fn};

const KEY: &str = "api.example.com";
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const MARGIN: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(1);

struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating_from_micros(1_800_000_000_000_000).saturating_add(self.0.elapsed())
    }
}

fn store() -> Arc<MemoryStore> {
    let clock = TokioClock(Instant::now());
    Arc::new(MemoryStore::builder().clock(clock).build())
}

type Process = Outbound<Arc<MemoryStore>>;

fn process(store: &Arc<MemoryStore>) -> Process {
    let outbound = Outbound::builder(Arc::clone(store), ["api=sliding-log:10/10s"]);
    outbound.margin(MARGIN).reserve(4).build().unwrap()
}

type Client = BoxCloneSyncService<Request<String>, Response<u32>, Infallible>;

/// What a service answers: the status, and headers.
type Answer = (u16, &'static [(&'static str, &'static str)]);

/// A client for a service that gives these answers, then 200; and when it was called, after the
/// start. A body is the number of its call.
#[derive(Clone)]
struct Remote {
    client: Client,
    calls: Arc<Mutex<Vec<Duration>>>,
}

impl Remote {
    fn new(answers: &[Answer]) -> Self {
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

    fn calls(&self) -> Vec<Duration> {
        self.calls.lock().unwrap().clone()
    }
}

fn request(method: &str) -> Request<String> {
    Request::builder()
        .method(method)
        .body("body".to_owned())
        .unwrap()
}

fn key<B>(_: &Request<B>) -> &'static str {
    KEY
}

/// Sends a request through a layer with a longest wait of a minute, and returns the status and the
/// number of the call.
async fn send(outbound: &Process, remote: &Remote, method: &str) -> (u16, u32) {
    let layer = OutboundLayer::new(outbound.clone(), key, MINUTE);
    let client = layer.layer(remote.client.clone());
    let response = client.oneshot(request(method)).await.unwrap();
    (response.status().as_u16(), *response.body())
}

async fn may_call_now(outbound: &Process) -> bool {
    match outbound.call(KEY).within(Duration::ZERO).await {
        Ok(permit) => permit.give_back().await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_permits() {
    let (outbound, remote) = (process(&store()), Remote::new(&[]));
    let layer = OutboundLayer::new(outbound, key, MINUTE);
    let mut client = layer.layer(remote.client.clone());
    for _ in 0..25 {
        let response = client.ready().await.unwrap().call(request("POST")).await;
        assert_eq!(response.unwrap().status(), 200);
    }
    let calls = remote.calls();
    assert!(calls[9] < 5 * TICK);
    assert!(calls[10] >= 10 * SECOND + MARGIN && calls[10] <= 11 * SECOND);
    assert!(calls[20] >= 20 * SECOND + 2 * MARGIN && calls[24] <= 21 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_is_not_sent() {
    let (outbound, remote) = (process(&store()), Remote::new(&[]));
    let layer = OutboundLayer::new(outbound, key, 5 * SECOND);
    let background = layer.clone().background();
    for (layer, most) in [(background, 6), (layer, 4)] {
        let mut client = layer.layer(remote.client.clone());
        for _ in 0..most {
            client
                .ready()
                .await
                .unwrap()
                .call(request("GET"))
                .await
                .unwrap();
        }
        let error = client.ready().await.unwrap().call(request("GET")).await;
        let error = error.unwrap_err();
        let OutboundRequestError::NotAdmitted(WaitError::TooLong(refused)) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(error.to_string(), refused.to_string());
    }
    assert_eq!(remote.calls().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_sent_again_when_the_service_says() {
    let store = store();
    let (one, other) = (process(&store), process(&store));
    let remote = Remote::new(&[(429, &[("retry-after", "7")])]);
    let sending = {
        let (one, remote) = (one.clone(), remote.clone());
        tokio::spawn(async move { send(&one, &remote, "POST").await })
    };
    sleep(SECOND).await;
    assert!(!may_call_now(&other).await, "the whole fleet is paused");
    assert_eq!(sending.await.unwrap(), (200, 2));
    let calls = remote.calls();
    assert!(calls[1] >= 7 * SECOND + MARGIN && calls[1] <= 8 * SECOND);
    // Each request took a permit of its own.
    assert_eq!(one.stats().admitted, 2);
}

#[tokio::test(start_paused = true)]
async fn pauses_double_if_the_service_does_not_say_how_long() {
    // A wait of zero is no answer: the next request would follow at once.
    let answers: [Answer; 4] = [
        (429, &[]),
        (429, &[("retry-after", "0")]),
        (429, &[]),
        (429, &[]),
    ];
    let (outbound, remote) = (process(&store()), Remote::new(&answers));
    // Three retries, and the last response.
    assert_eq!(send(&outbound, &remote, "GET").await, (429, 4));
    let calls = remote.calls();
    assert!(calls[1] >= SECOND && calls[1] <= SECOND + MARGIN);
    assert!(calls[2] >= 3 * SECOND && calls[2] <= 3 * SECOND + MARGIN);
    assert!(calls[3] >= 7 * SECOND && calls[3] <= 7 * SECOND + MARGIN);
    // Other requests wait after the last one, too.
    assert!(!may_call_now(&outbound).await);
    assert_eq!(send(&outbound, &remote, "GET").await, (200, 5));
    assert!(remote.calls()[4] >= 15 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn retries_can_be_limited() {
    let refused: [Answer; 2] = [(429, &[("retry-after", "1")]); 2];
    let outbound = || OutboundLayer::new(process(&store()), key, MINUTE);
    let remote = Remote::new(&refused);
    let client = outbound().retries(1).layer(remote.client.clone());
    assert_eq!(client.oneshot(request("GET")).await.unwrap().status(), 429);
    assert_eq!(remote.calls().len(), 2);
    let remote = Remote::new(&refused);
    let client = outbound().without_retries().layer(remote.client.clone());
    assert_eq!(client.oneshot(request("GET")).await.unwrap().status(), 429);
    assert_eq!(remote.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_cannot_be_cloned_are_sent_once() {
    struct Body;
    let client = service_fn(|_: Request<Body>| async {
        let response = Response::builder().status(429).body(());
        Ok::<_, Infallible>(response.unwrap())
    });
    let layer = OutboundLayer::new(process(&store()), key, MINUTE).without_retries();
    let response = layer.layer(client).oneshot(Request::new(Body)).await;
    assert_eq!(response.unwrap().status(), 429);
}

#[tokio::test(start_paused = true)]
async fn a_503_with_retry_after_pauses_and_repeats_idempotent_requests() {
    let busy: [Answer; 1] = [(503, &[("retry-after", "3")])];
    for (method, expected) in [("GET", (200, 2)), ("PUT", (200, 2)), ("POST", (503, 1))] {
        let (outbound, remote) = (process(&store()), Remote::new(&busy));
        assert_eq!(send(&outbound, &remote, method).await, expected, "{method}");
        if method == "POST" {
            assert!(!may_call_now(&outbound).await);
        } else {
            assert!(remote.calls()[1] >= 3 * SECOND);
        }
    }
    // Other failures have nothing to do with limits.
    for status in [500, 503] {
        let (outbound, remote) = (process(&store()), Remote::new(&[(status, &[])]));
        assert_eq!(send(&outbound, &remote, "GET").await, (status, 1));
        assert!(may_call_now(&outbound).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_would_come_too_late_is_left_out() {
    let (outbound, remote) = (
        process(&store()),
        Remote::new(&[(429, &[("retry-after", "90")])]),
    );
    let started = Instant::now();
    assert_eq!(send(&outbound, &remote, "GET").await, (429, 1));
    assert_eq!(started.elapsed(), Duration::ZERO);

    // All retries together have the time of one request.
    let slow: [Answer; 2] = [(429, &[("retry-after", "40")]); 2];
    let (outbound, remote) = (process(&store()), Remote::new(&slow));
    assert_eq!(send(&outbound, &remote, "GET").await, (429, 2));
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_not_longer_than_the_longest() {
    let forever: Answer = (429, &[("retry-after", "999999999")]);
    let remaining: Answer = (
        200,
        &[
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset-ms", "999999999000"),
        ],
    );
    for answer in [forever, remaining] {
        let (outbound, remote) = (process(&store()), Remote::new(&[answer]));
        let layer = OutboundLayer::new(outbound.clone(), key, MINUTE);
        let layer = layer.longest_pause(20 * SECOND).without_retries();
        let client = layer.layer(remote.client.clone());
        assert!(client.oneshot(request("GET")).await.is_ok());
        assert!(!may_call_now(&outbound).await);
        sleep(20 * SECOND + MARGIN).await;
        assert!(may_call_now(&outbound).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_service_says_is_shared_and_only_lowers() {
    let store = store();
    let (one, other) = (process(&store), process(&store));
    let less: Answer = (
        200,
        &[("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", "3")],
    );
    let more: Answer = (200, &[("x-ratelimit-remaining", "9")]);
    let tokens: Answer = (
        200,
        &[
            ("x-ratelimit-limit-tokens", "40000"),
            ("x-ratelimit-remaining-tokens", "1"),
            ("x-ratelimit-reset-tokens", "5s"),
        ],
    );
    let remote = Remote::new(&[less, more, tokens]);
    for left in [3, 2, 1] {
        assert_eq!(send(&one, &remote, "GET").await.0, 200);
        let permit = other.call(KEY).within(Duration::ZERO).await.unwrap();
        assert_eq!(permit.remaining(), left - 1);
        permit.give_back().await.unwrap();
    }
    // Nothing remains of a limit that this program does not count.
    let store = self::store();
    let (one, other) = (process(&store), process(&store));
    let no_tokens: Answer = (
        200,
        &[
            ("x-ratelimit-limit-tokens", "40000"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "5s"),
        ],
    );
    assert_eq!(send(&one, &Remote::new(&[no_tokens]), "GET").await.0, 200);
    let refused = other.call(KEY).within(SECOND).await.unwrap_err();
    let WaitError::TooLong(refused) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.limit().name(), "api-paused");
    assert_eq!(refused.wait().duration(), Some(5 * SECOND + MARGIN));
}

/// Of several limits, the one that a report is about may have more left than another, and the report
/// may come with a response that refuses the request.
#[tokio::test(start_paused = true)]
async fn reports_about_any_of_several_limits_are_shared() {
    let limits = [
        "second=sliding-log:10/1s",
        "day=sliding-buckets:5000/1d,buckets=24",
    ];
    for (status, calls, background) in [(200, 1, false), (200, 1, true), (429, 2, false)] {
        let store = store();
        let outbound = || {
            Outbound::builder(Arc::clone(&store), limits)
                .reserve(5)
                .build()
        };
        let (one, other) = (outbound().unwrap(), outbound().unwrap());
        let answer: Answer = (
            status,
            &[
                ("retry-after", "2"),
                ("x-ratelimit-remaining", "4000"),
                ("x-ratelimit-reset", "80000"),
            ],
        );
        let remote = Remote::new(&[answer]);
        let layer = OutboundLayer::new(one, |_: &Request<String>| KEY, MINUTE);
        let layer = if background {
            layer.background()
        } else {
            layer
        };
        let mut client = layer.layer(remote.client.clone());
        let response = client.ready().await.unwrap().call(request("GET"));
        assert_eq!(response.await.unwrap().status(), 200);
        assert_eq!(remote.calls().len(), calls);
        let permit = other.call(KEY).within(SECOND).await.unwrap();
        let left = 4_000 - u64::try_from(calls).unwrap();
        assert_eq!(permit.as_slice()[1].remaining(), left, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_does_not_cost_the_response() {
    use tollgate_mock::{Fault, FaultyStore};

    // The permit, and then no pause and no report.
    for answer in [
        (429, &[("retry-after", "1")][..]),
        (200, &[("x-ratelimit-remaining", "1")]),
    ] {
        let faults = [Fault::None, Fault::Fail(ErrorKind::Unavailable)];
        let store = FaultyStore::new(MemoryStore::new(), faults);
        let outbound = Outbound::builder(store, ["api=sliding-log:10/10s"])
            .build()
            .unwrap();
        let remote = Remote::new(&[answer]);
        let client = OutboundLayer::new(outbound, key, MINUTE).layer(remote.client.clone());
        let response = client.oneshot(request("GET")).await.unwrap();
        assert_eq!(response.status(), answer.0);
        assert_eq!(remote.calls().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_errors_of_the_client_are_returned() {
    let client = service_fn(|_: Request<()>| async {
        Err::<Response<()>, _>(std::io::Error::other("no connection"))
    });
    let client = OutboundLayer::new(process(&store()), key, MINUTE).layer(client);
    let error = client.oneshot(Request::new(())).await.unwrap_err();
    assert!(matches!(error, OutboundRequestError::Client(_)));
    assert_eq!(error.to_string(), "no connection");
}

/// Calls a service, which allows 10 in any 10 seconds, for 200 seconds, while somebody else calls
/// it every 2 seconds. Returns how many of our calls it accepted and refused.
async fn share_with_somebody_else(has_headers: bool) -> (usize, usize) {
    const WINDOW: Duration = Duration::from_secs(10);
    let log = Arc::new(Mutex::new(VecDeque::new()));
    let count = move || {
        let mut log = log.lock().unwrap();
        let now = Instant::now();
        while log.front().is_some_and(|first| *first + WINDOW <= now) {
            log.pop_front();
        }
        let is_accepted = log.len() < 10;
        if is_accepted {
            log.push_back(now);
        }
        (is_accepted, 10 - log.len())
    };
    let somebody_else = count.clone();
    let somebody_else = tokio::spawn(async move {
        loop {
            somebody_else();
            sleep(2 * SECOND).await;
        }
    });
    let client = service_fn(move |_: Request<()>| {
        let (is_accepted, remaining) = count();
        let status = if is_accepted { 200 } else { 429 };
        let mut response = Response::builder().status(status);
        if has_headers {
            response = response
                .header("x-ratelimit-limit", 10)
                .header("x-ratelimit-remaining", remaining);
        }
        async move { Ok::<_, Infallible>(response.body(()).unwrap()) }
    });
    let layer = OutboundLayer::new(process(&store()), key, 2 * MINUTE).without_retries();
    let mut client = layer.layer(client);
    let end = Instant::now() + 200 * SECOND;
    let (mut accepted, mut refused) = (0, 0);
    while Instant::now() < end {
        let response = client.ready().await.unwrap().call(Request::new(()));
        match response.await.unwrap().status().as_u16() {
            200 => accepted += 1,
            _ => refused += 1,
        }
        sleep(SECOND / 5).await;
    }
    somebody_else.abort();
    (accepted, refused)
}

#[tokio::test(start_paused = true)]
async fn headers_leave_room_for_somebody_else() {
    let (accepted_without, refused_without) = share_with_somebody_else(false).await;
    let (accepted, refused) = share_with_somebody_else(true).await;
    // Some are still refused: those that somebody else was faster than.
    assert!(refused < refused_without && refused * 20 <= accepted);
    // Fewer refusals mean fewer and shorter pauses.
    assert!(accepted >= 2 * accepted_without);
}

/// A client that takes five seconds to get ready for each request, and counts the permits that were
/// given before it was.
#[derive(Clone)]
struct Slow {
    outbound: Process,
    ready_at: Option<Instant>,
    permits: Arc<Mutex<Vec<u64>>>,
}

impl Service<Request<()>> for Slow {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let now = Instant::now();
        let ready_at = *self.ready_at.get_or_insert(now + 5 * SECOND);
        if now >= ready_at {
            let permits = self.outbound.stats().admitted;
            self.permits.lock().unwrap().push(permits);
            return Poll::Ready(Ok(()));
        }
        let waker = context.waker().clone();
        tokio::spawn(async move {
            sleep(ready_at - now).await;
            waker.wake();
        });
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.ready_at.take().is_some(), "called before it was ready");
        let response = Response::builder().status(429).header("retry-after", 1);
        std::future::ready(Ok(response.body(()).unwrap()))
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_asked_for_when_the_client_is_ready() {
    let outbound = process(&store());
    let permits = Arc::new(Mutex::new(Vec::new()));
    let client = Slow {
        outbound: outbound.clone(),
        ready_at: None,
        permits: Arc::clone(&permits),
    };
    let client = OutboundLayer::new(outbound, key, MINUTE).layer(client);
    assert_eq!(
        client.oneshot(Request::new(())).await.unwrap().status(),
        429
    );
    // Once for the request, and for each of three retries.
    assert_eq!(*permits.lock().unwrap(), [0, 1, 2, 3]);
}
