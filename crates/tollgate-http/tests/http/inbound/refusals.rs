//! What a client that is refused gets.

use base64::Engine;
use http::Response;
use http::header::RETRY_AFTER;
use http_body_util::BodyExt;
use tokio::join;
use tollgate_core::ErrorKind;
use tollgate_http::inbound::{Cause, ClientIp, Draft, Fields, InboundLayer, Policy, Reset};
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
    let expected = serde_json::json!(["minute", "day"]);
    assert_eq!(problem["violated-policies"], expected);

    let limits = ["minute=sliding-log:1/1m", "day=sliding-log:1/1d,shadow"];
    let shadow = InboundLayer::new(limiter(store().0, limits), by_user());
    let _ = send(&shadow, request("alice")).await;
    for layer in [layer.fields(Fields::new().hide("day")).unwrap(), shadow] {
        let answer = send(&layer, request("alice")).await;
        let problem: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(problem["violated-policies"], serde_json::json!(["minute"]));
        for header in ["ratelimit", "ratelimit-policy"] {
            let said = answer.header(header);
            let holds = said.contains(r#""minute";"#) && !said.contains("day");
            assert!(holds, "{said}");
        }
    }
}

#[tokio::test]
async fn a_handler_refuses_as_the_layer_does() {
    let limits = [
        "minute=sliding-log:1/1m",
        "hidden=sliding-log:1/1d",
        "hour=sliding-log:1/1h",
        "none=sliding-log:0/1d,shadow",
    ];
    let fields = Fields::new().draft(Draft::Seven).hide("hidden");
    let fields = fields.x_rate_limit(Reset::After);
    let limiter = limiter(store().0, limits);
    let policy =
        Policy::new(by_user()).cost(|parts| parts.headers.iter().count().try_into().unwrap());
    let layer = InboundLayer::new(limiter.clone(), policy);
    let layer = layer.fields(fields.clone()).unwrap();
    let check = |cost| limiter.check("alice").cost(cost).run().unwrap();
    assert!(fields.refuse::<Body>(&check(1)).is_none());
    for cost in [1, 2] {
        let mut request = request("alice");
        let more = (1..cost).map(|_| (RETRY_AFTER, "0".parse().unwrap()));
        request.headers_mut().extend(more);
        let of_layer = send(&layer, request).await;
        let refusal = fields.refuse::<Body>(&check(cost)).unwrap();
        assert_eq!(refusal.status(), of_layer.status);
        assert_eq!(*refusal.headers(), of_layer.headers);
        let body = refusal.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, of_layer.body);
    }
}

#[tokio::test]
async fn every_refusal_is_well_formed_json() {
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:1/1m"]), ClientIp::peer());
    let unknown = send(&layer, request("alice")).await;
    let key = tollgate_http::inbound::KeyBy::header(http::HeaderName::from_static("x-api-key"));
    let layer = InboundLayer::new(
        limiter(store().0, ["a=sliding-log:1/1m"]),
        Policy::new(key).cost(|_| 2),
    );
    let nameless = send(&layer, request("alice")).await;
    let named = with(request("alice"), &[("x-api-key", "k")]);
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
    let found = (answer.status, &*answer.body);
    assert_eq!(found, (418, "come back in Some(60)"));
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

/// Returns a request of Alice with a body of this type.
pub(crate) fn of(content_type: &str) -> http::Request<Body> {
    let mut request = with(request("alice"), &[("content-type", content_type)]);
    *request.method_mut() = http::Method::POST;
    request
}

#[tokio::test]
async fn grpc_gets_a_status_of_grpc() {
    let (store, clock) = store();
    let layer = InboundLayer::new(limiter(store, ["a=gcra:1/1m"]), by_user());
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
    // Whoever only says so gets no status that lets it in.
    for (method, version, status) in [
        ("GET", http::Version::HTTP_11, 429),
        ("OPTIONS", http::Version::HTTP_10, 429),
        ("OPTIONS", http::Version::HTTP_2, 200),
    ] {
        let mut request = of("application/grpc");
        *request.method_mut() = method.parse().unwrap();
        *request.version_mut() = version;
        assert_eq!(send(&layer, request).await.status, status, "{method}");
    }
    let too_costly = Policy::new(by_user()).cost(|_| 2);
    let impossible = layer.also(["b=gcra:1/1m"], too_costly).unwrap();
    let answer = send(&impossible, of("application/grpc")).await;
    assert_eq!(answer.header("grpc-retry-pushback-ms"), "-1");
    assert_eq!(answer.header("grpc-status-details-bin"), "");
}

/// If nobody knows when a place or the store is there again, clients come back after a second.
#[tokio::test]
async fn a_missing_place_or_store_asks_for_a_second() {
    use tollgate_core::lease::ConcurrencyLimiter;
    let second = std::time::Duration::from_secs(1);
    let down = FaultyStore::new(store().0, [Fault::Fail(ErrorKind::Unavailable); 2]);
    let down = InboundLayer::new(limiter(down, ["a=gcra:9/1m"]), by_user());
    let (store, _) = store();
    let places = ConcurrencyLimiter::new(store.clone(), "places", 1, 9 * second).unwrap();
    let full = InboundLayer::new(limiter(store, ["a=gcra:9/1m"]), by_user()).hold(places.clone());
    let held = places.acquire("alice", "other").run().unwrap();
    assert!(held.is_granted());
    let grpc = || of("application/grpc");
    let down = join!(send(&down, request("alice")), send(&down, grpc()));
    let full = join!(send(&full, request("alice")), send(&full, grpc()));
    for ((http, grpc), code, status) in [(down, "14", 503), (full, "8", 429)] {
        assert_eq!((http.status, &*http.header("retry-after")), (status, "1"));
        assert_eq!(grpc.header("grpc-status"), code);
        assert_eq!(grpc.header("retry-after"), "1");
        assert_eq!(grpc.header("grpc-retry-pushback-ms"), "1000");
        // One with `RetryInfo`: a `Duration` of one second, in two messages and a name before it.
        let details = grpc.header("grpc-status-details-bin");
        let details = base64::prelude::BASE64_STANDARD_NO_PAD.decode(details);
        let details = details.unwrap();
        let name = b"type.googleapis.com/google.rpc.RetryInfo";
        assert!(details.windows(name.len()).any(|part| part == name));
        let holds = details.ends_with(&[0x12, 4, 0x0a, 2, 0x08, 1]);
        assert!(holds, "{details:?}");
    }
}

#[tokio::test]
async fn a_request_without_a_key_is_told_which_header_it_needs() {
    use tollgate_http::inbound::KeyBy;
    let header = |name| KeyBy::header(http::HeaderName::from_static(name));
    for (key, challenge) in [
        (header("x-api-key"), r#"ApiKey header="x-api-key""#),
        (header("authorization"), "Bearer"),
        (by_user(), "ApiKey"),
    ] {
        let layer = InboundLayer::new(limiter(store().0, ["a=gcra:1/1m"]), key);
        let nobody = || http::Request::new(Body::default());
        let answer = send(&layer, nobody()).await;
        let found = (answer.status, &*answer.header("www-authenticate"));
        assert_eq!(found, (401, challenge));
        // A response of one's own may know better, or have another status.
        for (status, own, expected) in
            [(401, "", challenge), (401, "Basic", "Basic"), (403, "", "")]
        {
            let layer = layer.clone().respond(move |refusal| {
                assert_eq!(refusal.cause(), Cause::NoKey);
                let mut response = Response::builder().status(status);
                if !own.is_empty() {
                    response = response.header("www-authenticate", own);
                }
                response.body(bytes::Bytes::new()).unwrap()
            });
            let answer = send(&layer, nobody()).await;
            let found = (answer.status, &*answer.header("www-authenticate"));
            assert_eq!(found, (status, expected));
        }
    }
}

#[tokio::test]
async fn clients_of_grpc_do_not_come_back_all_at_once() {
    let fields = Fields::new().jitter(std::time::Duration::from_secs(3_600));
    let limiter = limiter(store().0, ["a=gcra:1/1m"]);
    let layer = InboundLayer::new(limiter, by_user());
    let layer = layer.fields(fields).unwrap();
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let answer = send(&layer, of("application/grpc")).await;
        if answer.header("grpc-status") == "8" {
            let wait: u64 = answer.header("grpc-retry-pushback-ms").parse().unwrap();
            assert!((60_000..=3_660_000).contains(&wait), "{wait}");
            let _ = waits.insert(wait);
        }
    }
    assert!(waits.len() > 10, "{waits:?}");
}
