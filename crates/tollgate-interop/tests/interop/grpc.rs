//! The layer in a gRPC service: the example, run.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::client::*;

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/grpc.rs"]
mod example;

/// Runs the example in the background, and returns its address.
async fn serve() -> std::net::SocketAddr {
    let (listener, address) = listener().await;
    drop(tokio::spawn(async move {
        let served = example::serve(listener).await;
        served.map_err(|error| error.to_string()).unwrap();
    }));
    address
}

#[tokio::test]
async fn grpc_clients_are_told_when_to_call_again() {
    let address = serve().await;
    let channel = tonic::transport::Endpoint::new(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    let ask = HealthCheckRequest::default;
    for _ in 0..5 {
        let _ = client.check(ask()).await.unwrap();
    }
    let denied = client.check(ask()).await.unwrap_err();
    assert_eq!(denied.code(), tonic::Code::ResourceExhausted);
    let info = denied.get_details_retry_info().unwrap();
    let delay = info.retry_delay.unwrap();
    assert!(delay > Duration::ZERO && delay <= Duration::from_secs(1));
    let pushback = denied.metadata().get("grpc-retry-pushback-ms").unwrap();
    let pushback = Duration::from_millis(pushback.to_str().unwrap().parse().unwrap());
    assert!(pushback >= delay && pushback < delay + Duration::from_millis(2));
    // A client that waits for as long as it was told is served, and refused at most once more per
    // call.
    tokio::time::sleep(delay).await;
    for _ in 0..7 {
        if let Err(denied) = client.check(ask()).await {
            let info = denied.get_details_retry_info().unwrap();
            tokio::time::sleep(info.retry_delay.unwrap()).await;
            let _ = client.check(ask()).await.unwrap();
        }
    }
}

/// tonic serves a call whatever its method is.
#[tokio::test]
async fn grpc_calls_that_look_like_preflight_requests_are_limited() {
    let address = serve().await;
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let mut codes = Vec::new();
    for _ in 0..6 {
        let call = request("OPTIONS", address, "/grpc.health.v1.Health/Check")
            .header("access-control-request-method", "POST")
            .header("content-type", "application/grpc")
            .body(Full::new(Bytes::from_static(&[0; 5])))
            .unwrap();
        let (head, body) = client.request(call).await.unwrap().into_parts();
        let trailers = body.collect().await.unwrap().trailers().cloned();
        let status = head.headers.get("grpc-status").cloned();
        codes.push(status.or_else(|| trailers?.remove("grpc-status")).unwrap());
    }
    assert_eq!(codes, ["0", "0", "0", "0", "0", "8"]);
}
