//! What a client that is refused gets.

use http::Response;
use http::header::RETRY_AFTER;
use tollgate_core::ErrorKind;
use tollgate_http::Fields;
use tollgate_http::inbound::{Cause, ClientIp, InboundLayer};
use tollgate_mock::{Fault, FaultyStore};

use super::support::*;

#[tokio::test]
async fn a_denial_is_a_problem_with_the_policies_that_were_violated() {
    let limits = [
        "minute=sliding-log:1/1m",
        "hour=sliding-log:9/1h",
        "day=sliding-log:1/1d",
    ];
    let layer = InboundLayer::new(limiter(store().0, limits), by_user());
    let _ = send(&layer, request("alice")).await;
    let answer = send(&layer, request("alice")).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.header("retry-after"), "86400");
    let problem: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let kind = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    assert_eq!(problem["type"], kind);
    assert_eq!(problem["status"], 429);
    assert_eq!(
        problem["violated-policies"],
        serde_json::json!(["minute", "day"])
    );

    let layer = layer.fields(Fields::new().hide("day"));
    let answer = send(&layer, request("alice")).await;
    assert!(!format!("{answer:?}").contains("\"day\""), "{answer:?}");
}

#[tokio::test]
async fn every_refusal_is_well_formed_json() {
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), ClientIp::peer());
    let unknown = send(&layer, request("alice")).await;
    let key = tollgate_http::inbound::KeyBy::header(http::HeaderName::from_static("x-api-key"));
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), key).cost(|_| 2);
    let nameless = send(&layer, request("alice")).await;
    let mut named = request("alice");
    let _ = named
        .headers_mut()
        .insert("x-api-key", "k".parse().unwrap());
    let impossible = send(&layer, named).await;
    for (answer, status) in [(unknown, 500), (nameless, 401), (impossible, 429)] {
        let problem: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().ends_with('.'));
        assert_eq!(answer.header("retry-after"), "");
    }
}

#[tokio::test]
async fn a_response_of_ones_own_gets_the_fields() {
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), by_user());
    let layer = layer.respond(|refusal| {
        assert_eq!(refusal.cause(), Cause::Denied);
        assert_eq!(refusal.request().headers["user"], "alice");
        assert_eq!(refusal.verdicts().count(), 1);
        let seconds = refusal.retry_after().as_secs_ceil();
        let mut response = Response::new(format!("come back in {seconds:?}").into());
        *response.status_mut() = http::StatusCode::IM_A_TEAPOT;
        response
    });
    let _ = send(&layer, request("alice")).await;
    let answer = send(&layer, request("alice")).await;
    assert_eq!(
        (answer.status, &*answer.body),
        (418, "come back in Some(60)")
    );
    assert_eq!(answer.header("retry-after"), "60");
    assert_eq!(answer.header("ratelimit"), r#""a";r=0;t=60"#);
}

#[tokio::test]
async fn a_response_of_ones_own_says_when_to_come_back_if_the_store_fails() {
    for (own, expected) in [(Some("30"), "30"), (None, "1")] {
        let store = FaultyStore::new(store().0, [Fault::Fail(ErrorKind::Unavailable)]);
        let layer = InboundLayer::new(limiter(store, ["a=sliding-log:1/1m"]), by_user());
        let layer = layer.respond(move |_| {
            let mut response = Response::new(bytes::Bytes::new());
            let own = own.map(http::HeaderValue::from_static);
            response
                .headers_mut()
                .extend(own.map(|own| (RETRY_AFTER, own)));
            response
        });
        let answer = send(&layer, request("alice")).await;
        assert_eq!(answer.header("retry-after"), expected);
    }
}

#[tokio::test]
async fn grpc_gets_a_status_of_grpc() {
    let (store, clock) = store();
    let layer = InboundLayer::new(limiter(store, ["a=gcra:1/1m"]), by_user());
    let of = |content_type: &str| {
        let mut request = request("alice");
        let _ = request
            .headers_mut()
            .insert("content-type", content_type.parse().unwrap());
        request
    };
    let _ = send(&layer, of("application/grpc")).await;
    // A client that comes back a part of a millisecond early is denied again.
    clock.advance(std::time::Duration::from_micros(1));
    for content_type in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc-web+proto",
    ] {
        let answer = send(&layer, of(content_type)).await;
        assert_eq!((answer.status, &*answer.body), (200, ""));
        assert_eq!(answer.header("content-type"), content_type);
        assert_eq!(answer.header("grpc-status"), "8");
        assert_eq!(answer.header("grpc-retry-pushback-ms"), "60000");
        assert_eq!(answer.header("retry-after"), "60");
    }
    for content_type in [
        "application/json",
        "application/grpcx",
        "text/application/grpc",
    ] {
        assert_eq!(send(&layer, of(content_type)).await.status, 429);
    }
    let impossible = layer.cost(|_| 2);
    let answer = send(&impossible, of("application/grpc")).await;
    assert_eq!(answer.header("grpc-retry-pushback-ms"), "-1");
}

#[tokio::test]
async fn clients_of_grpc_do_not_come_back_all_at_once() {
    let fields = Fields::new().jitter(std::time::Duration::from_secs(3_600));
    let limiter = limiter(store().0, ["a=gcra:1/1m"]);
    let layer = InboundLayer::new(limiter, by_user()).fields(fields);
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let mut request = request("alice");
        let content_type = "application/grpc".parse().unwrap();
        let _ = request.headers_mut().insert("content-type", content_type);
        let answer = send(&layer, request).await;
        if answer.header("grpc-status") == "8" {
            let wait: u64 = answer.header("grpc-retry-pushback-ms").parse().unwrap();
            assert!((60_000..=3_660_000).contains(&wait), "{wait}");
            let _ = waits.insert(wait);
        }
    }
    assert!(waits.len() > 10, "{waits:?}");
}
