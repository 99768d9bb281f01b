//! Several processes of a fleet, played by as many `Outbound`s on one store, call a real service
//! over HTTP, which refuses none of their requests.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request};
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tollgate_http::outbound::OutboundLayer;
use tollgate_memory::MemoryStore;
use tollgate_testkit::{Counts, Rule, Service, clock_micros};
use tollgate_tokio::Outbound;
use tower::{Layer, Service as _, ServiceExt, service_fn};

const PROCESSES: usize = 4;
/// How many requests of each process wait at a time.
const WAITING: usize = 3;
const SPAN: Duration = Duration::from_millis(1_500);
/// By how much the service makes journeys differ.
const JITTER: Duration = Duration::from_millis(20);
const MARGIN: Duration = Duration::from_millis(150);
/// A permit is at most this old, and the rest of the margin is for the journey.
const AGE: Duration = Duration::from_millis(50);
/// A machine that is busy may delay a request for longer than the margin. Then nothing is shown,
/// and the measurement is repeated.
const ATTEMPTS: usize = 10;

/// Calls a service with this rule for a while from all processes, which keep to `limit`.
async fn call(rule: Rule, limit: &str) -> Counts {
    let service = Service::start(rule, JITTER);
    let store = Arc::new(MemoryStore::new());
    let end = Instant::now() + SPAN;
    let mut calling = JoinSet::new();
    for _ in 0..PROCESSES {
        let outbound = Outbound::builder(Arc::clone(&store), [limit]);
        let outbound = outbound.margin(MARGIN).permit_age(AGE).build().unwrap();
        let http = Client::builder(TokioExecutor::new()).build_http::<Empty<&'static [u8]>>();
        let departing = service_fn(move |mut request: Request<_>| {
            let now = HeaderValue::from(clock_micros());
            request.headers_mut().insert("x-departed", now);
            http.clone().call(request)
        });
        let layer = OutboundLayer::new(outbound, |_: &Request<_>| "service", SPAN);
        for _ in 0..WAITING {
            let mut client = layer.layer(departing.clone());
            let uri = service.url();
            calling.spawn(async move {
                loop {
                    let request = Request::get(&uri).body(Empty::new()).unwrap();
                    let response = client.ready().await.unwrap().call(request);
                    // The last permits would come after the end.
                    let Ok(Ok(_)) = timeout_at(end, response).await else {
                        return;
                    };
                }
            });
        }
    }
    while let Some(done) = calling.join_next().await {
        done.unwrap();
    }
    service.counts()
}

/// Checks that no request is refused, and that at least `least` requests are accepted unless the
/// machine is too busy to send them.
async fn keeps_to(rule: Rule, limit: &str, least: u64) {
    for _ in 0..ATTEMPTS {
        let counts = call(rule, limit).await;
        let journey = Duration::from_micros(counts.longest_journey_us);
        if journey <= MARGIN - AGE {
            assert_eq!(counts.refused, 0, "{counts:?}");
            if counts.accepted >= least {
                return;
            }
        }
    }
    panic!(
        "{ATTEMPTS} times, journeys took longer than the margin, or fewer than {least} requests were sent"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aligned_window_refuses_nothing() {
    let (amount, window_us) = (40, 250_000);
    let rule = Rule::Window { amount, window_us };
    // 40 per 400 ms; the end of the last window may be missed.
    keeps_to(rule, "service=sliding-log:40/250ms", 90).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sliding_log_refuses_nothing() {
    let (amount, window_us) = (40, 250_000);
    let rule = Rule::Log { amount, window_us };
    keeps_to(rule, "service=sliding-log:40/250ms", 90).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_bucket_refuses_nothing() {
    let rule = Rule::Bucket {
        amount: 200,
        window_us: 1_000_000,
        burst: 40,
    };
    keeps_to(rule, "service=gcra:200/1s,burst=40", 150).await;
}
