//! One of several processes that call a service.

use std::time::{Duration, SystemTime};

use http_body_util::Empty;
use hyper::Request;
use hyper::header::HeaderValue;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_http::outbound::OutboundLayer;
use tollgate_redis::RedisStore;
use tollgate_testkit::clock_micros;
use tollgate_tokio::Outbound;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{Arguments, Problem};

/// How many requests of each process wait or are on their way at a time.
const WAITING: usize = 8;

/// Calls `service` from `begin` on for the span, and prints how many requests were sent, how many
/// permits came too late, and the processor time that the process used.
pub(crate) async fn call(
    server: &str,
    service: &str,
    limit: &str,
    arguments: &Arguments,
) -> Result<(), Problem> {
    let store = RedisStore::connect(server).await?;
    let margin = arguments.margin();
    let mut outbound = Outbound::builder(store, [limit]).margin(margin);
    if !margin.is_zero() {
        outbound = outbound.permit_age(arguments.permit_age());
    }
    let outbound = outbound.build()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    sleep(Duration::from_millis(arguments.begin).saturating_sub(now)).await;
    let end = Instant::now() + arguments.span();

    let http = Client::builder(TokioExecutor::new()).build_http::<Empty<&'static [u8]>>();
    // Inside of the layer: a request departs when it has its permit.
    let departing = service_fn(move |mut request: Request<_>| {
        let now = HeaderValue::from(clock_micros());
        request.headers_mut().insert("x-departed", now);
        http.clone().call(request)
    });
    let layer = OutboundLayer::new(
        outbound.clone(),
        |_: &Request<_>| "service",
        arguments.span(),
    );
    let mut calling = JoinSet::new();
    for _ in 0..WAITING {
        let mut client = layer.layer(departing.clone());
        let uri = service.to_owned();
        calling.spawn(async move {
            loop {
                let request = Request::get(&uri).body(Empty::new())?;
                let response = client.ready().await?.call(request);
                // The last permits would come after the end.
                let Ok(Ok(_)) = timeout_at(end, response).await else {
                    return Ok::<_, Problem>(());
                };
            }
        });
    }
    while let Some(done) = calling.join_next().await {
        done??;
    }
    let stats = outbound.stats();
    crate::say(&format!("{} {}", stats.admitted, stats.stale))
}
