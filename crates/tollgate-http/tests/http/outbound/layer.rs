//! The layer, around clients whose responses a test chooses.

use std::iter;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::HOST;
use http::{HeaderMap, Request};
use tokio::time::sleep;
use tollgate_core::ErrorKind;
use tollgate_core::store::Source;
use tollgate_http::Hints;
use tollgate_http::outbound::{OutboundLayer, OutboundRequestError, host};
use tollgate_layers::Prefetch;
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};
use tollgate_tokio::Outbound;
use tollgate_tokio::wait::WaitError;
use tower::{Layer, ServiceExt};

use super::remote::*;

#[test]
fn a_host_is_one_key_however_it_is_written() {
    for (url, header, key) in [
        ("https://api.example.com/a", None, "api.example.com"),
        ("http://user@API.Example.com.:80/b", None, "api.example.com"),
        (
            "https://api.example.com:443",
            Some("other.example"),
            "api.example.com",
        ),
        ("/a", Some("Api.example.com.:443"), "api.example.com"),
        (
            "https://api.example.com.:8443/a",
            None,
            "api.example.com:8443",
        ),
        ("https://[2001:DB8::1]:443/", None, "[2001:db8::1]"),
        ("/a", Some("a b"), ""),
        ("/a", None, ""),
    ] {
        let mut request = Request::get(url).body(()).unwrap();
        let header = header.map(|header| (HOST, header.parse().unwrap()));
        request.headers_mut().extend(header);
        assert_eq!(host(&request), key, "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_is_not_sent() {
    let (outbound, remote) = (process(&store()), Remote::new(&[]));
    let layer = OutboundLayer::new(outbound, key, 5 * SECOND);
    let background = layer.clone().background();
    for (layer, most) in [(background, 6), (layer, 4)] {
        let client = layer.layer(remote.client.clone());
        for _ in 0..most {
            client.clone().oneshot(request("GET")).await.unwrap();
        }
        let error = client.oneshot(request("GET")).await.unwrap_err();
        let OutboundRequestError::NotAdmitted(WaitError::TooLong(refused)) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(error.to_string(), refused.to_string());
    }
    assert_eq!(remote.calls().len(), 10);
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
        let permit = other.call(KEY).wait_up_to(Duration::ZERO).await.unwrap();
        assert_eq!(permit.remaining(), left - 1);
        permit.give_back().await.unwrap();
    }
    // What is known already pauses nobody.
    let store = self::store();
    let (one, other) = (process(&store), process(&store));
    let _ = one.call(KEY).cost(9).await.unwrap();
    let nothing: Answer = (
        200,
        &[
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "60"),
        ],
    );
    assert_eq!(send(&one, &Remote::new(&[nothing]), "GET").await.0, 200);
    assert!(other.call(KEY).wait_up_to(11 * SECOND).await.is_ok());
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
    let refused = other.call(KEY).wait_up_to(SECOND).await.unwrap_err();
    let WaitError::TooLong(refused) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.limit().name(), "api-paused");
    assert_eq!(refused.wait().duration(), Some(5 * SECOND + MARGIN));
}

/// What this process has in hand is less than what the service says, and what the store has left is more.
#[tokio::test(start_paused = true)]
async fn what_the_service_says_is_shared_by_a_process_with_units_in_hand() {
    const LIMIT: [&str; 1] = ["api=sliding-log:1000/1h"];
    let store = Arc::new(MemoryStore::new());
    let prefetch = Prefetch::new(Arc::clone(&store), MINUTE);
    let one = Outbound::builder(prefetch, LIMIT).build().unwrap();
    let other = Outbound::builder(store, LIMIT).build().unwrap();
    let permit = loop {
        let permit = one.call(KEY).await.unwrap();
        if permit.verdicts().source() == Source::Prefetched {
            break permit;
        }
    };
    assert!(permit.remaining() < 500);
    let mut headers = HeaderMap::new();
    let _ = headers.insert("x-ratelimit-remaining", 500.into());
    let hints = Hints::read(&headers, SystemTime::now());
    hints.report(&permit, MINUTE).await.unwrap();
    assert_eq!(other.call(KEY).await.unwrap().remaining(), 499);
}

/// Of several limits, the one that a report is about may have more left than another, and the report
/// may come with a response that refuses the request.
#[tokio::test(start_paused = true)]
async fn reports_about_any_of_several_limits_are_shared() {
    let limits = [
        "hour=sliding-log:4500/1h",
        "day=sliding-buckets:5000/1d,buckets=24",
    ];
    for (status, calls, background) in [(200, 1, false), (200, 1, true), (429, 2, false)] {
        let store = store();
        let outbound = || Outbound::builder(Arc::clone(&store), limits).keep_for_urgent(5);
        let [one, other] = [outbound(), outbound()].map(|one| one.build().unwrap());
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
        let layer = match background {
            true => layer.background(),
            false => layer,
        };
        let client = layer.layer(remote.client.clone());
        let response = client.oneshot(request("GET")).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(remote.calls().len(), calls);
        let permit = other.call(KEY).wait_up_to(SECOND).await.unwrap();
        let left = permit.verdicts().as_slice()[1].remaining();
        assert_eq!(left, 4_000 - u64::try_from(calls).unwrap(), "{status}");
    }
}

/// However many fields a response has: one report for a limit, and one pause.
#[tokio::test(start_paused = true)]
async fn what_a_response_repeats_is_reported_once() {
    // The permit, the pause and the report.
    let faults = iter::repeat_n(Fault::None, 3);
    let faults = faults.chain(iter::repeat(Fault::Fail(ErrorKind::Unavailable)));
    let store = store();
    let limits = ["api=sliding-log:100/10s"];
    let other = Outbound::builder(Arc::clone(&store), limits);
    let other = other.build().unwrap();
    let outbound = Outbound::builder(FaultyStore::new(store, faults), limits);
    let outbound = outbound.build().unwrap();
    let permit = outbound.call(KEY).await.unwrap();
    let mut headers = HeaderMap::new();
    for number in 0..100 {
        let (left, reset) = (50 + number % 10, 5 + number % 10);
        let policies = format!(r#""{number}";q={number}99;w=60"#);
        let limits = format!(r#""api";r={left}, "{number}";r=0;t={reset}"#);
        headers.append("ratelimit-policy", policies.parse().unwrap());
        headers.append("ratelimit", limits.parse().unwrap());
    }
    let hints = Hints::read(&headers, SystemTime::now());
    hints.report(&permit, MINUTE).await.unwrap();
    let free = other.call(KEY).cost(0).await.unwrap();
    assert_eq!(free.verdicts().as_slice()[0].remaining(), 50);
    sleep(14 * SECOND - TICK).await;
    assert!(!may_call_now(&other).await);
    sleep(TICK).await;
    assert!(may_call_now(&other).await);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_does_not_cost_the_response() {
    let refusal: Answer = (429, &[("retry-after", "1")]);
    let accepted: Answer = (200, &[("x-ratelimit-remaining", "1")]);
    let refusal_with_rest: Answer = (429, &[("retry-after", "1"), ("x-ratelimit-remaining", "1")]);
    // After the permit, and perhaps the pause, the next call fails.
    for (answer, successes, cost) in [
        (refusal, 1, None),
        (accepted, 1, None),
        (accepted, 1, Some(2)),
        (refusal, 1, Some(2)),
        (refusal, 2, Some(2)),
        (refusal_with_rest, 1, None),
        (refusal_with_rest, 2, None),
    ] {
        let faults = iter::repeat_n(Fault::None, successes);
        let faults = faults.chain([Fault::Fail(ErrorKind::Unavailable)]);
        let store = FaultyStore::new(store(), faults);
        let outbound = Outbound::builder(store, ["api=sliding-log:10/10s"]).build();
        let remote = Remote::new(&[answer]);
        let layer = OutboundLayer::new(outbound.unwrap(), key, MINUTE).settle(move |_| cost);
        let client = layer.layer(remote.client.clone());
        let response = client.oneshot(request("GET")).await.unwrap();
        assert_eq!(response.status(), answer.0);
        assert_eq!(remote.calls().len(), 1);
    }
}
