//! Responses that refuse a request pause the key, and the request is sent again.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, sleep};
use tollgate_http::outbound::{OutboundLayer, OutboundRequestError};
use tollgate_tokio::Outbound;
use tower::{Layer, ServiceExt, service_fn};

use super::remote::*;

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
    let (outbound, remote) = alone(&answers);
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
    let (outbound, remote) = alone(&refused);
    let layer = OutboundLayer::new(outbound, key, MINUTE);
    let client = layer.clone().retries(1).layer(remote.client.clone());
    assert_eq!(client.oneshot(request("GET")).await.unwrap().status(), 429);
    assert_eq!(remote.calls().len(), 2);
    let remote = Remote::new(&refused);
    let client = layer.without_retries().layer(remote.client.clone());
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
async fn retry_after_of_a_refusal_pauses_whatever_its_status() {
    let refusing = [
        400, 403, 404, 409, 420, 429, 430, 500, 502, 503, 504, 509, 529, 599,
    ];
    for status in refusing {
        for method in ["GET", "PUT", "POST"] {
            let headers = &[("retry-after", "3"), ("x-ratelimit-remaining", "9")];
            let (outbound, remote) = alone(&[(status, headers)]);
            let sent = send(&outbound, &remote, method).await;
            // Only a 429 says that nothing was done.
            if method == "POST" && status != 429 {
                assert_eq!(sent, (status, 1));
                assert!(!may_call_now(&outbound).await, "{status}");
                assert_eq!(send(&outbound, &remote, method).await, (200, 2));
            } else {
                assert_eq!(sent, (200, 2), "{method} {status}");
            }
            assert!(remote.calls()[1] >= 3 * SECOND + MARGIN);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_responses_do_not_pause() {
    let wait: &[_] = &[("retry-after", "3")];
    for (status, headers) in [
        (200, wait),
        (202, wait),
        // Only the redirected request waits, and whoever follows the redirect sends that.
        (301, wait),
        (303, wait),
        (307, wait),
        (403, &[]),
        (
            403,
            &[("x-ratelimit-remaining", "5"), ("x-ratelimit-reset", "9")],
        ),
        // Whoever says this did not count the request.
        (403, &[("x-ratelimit-remaining", "-1")]),
        (404, &[]),
        (500, &[]),
        (503, &[]),
        (503, &[("retry-after", "soon")]),
    ] {
        let (outbound, remote) = alone(&[(status, headers)]);
        assert_eq!(send(&outbound, &remote, "GET").await, (status, 1));
        assert!(may_call_now(&outbound).await, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_with_nothing_left_is_refused_until_the_reset() {
    let nothing_left: &[_] = &[
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "30"),
    ];
    let (outbound, remote) = alone(&[(403, nothing_left)]);
    assert_eq!(send(&outbound, &remote, "GET").await, (200, 2));
    assert!(remote.calls()[1] >= 30 * SECOND + MARGIN);
    // Whichever statuses refuse with `Retry-After`.
    let (outbound, remote) = alone(&[(403, nothing_left)]);
    let layer = OutboundLayer::new(outbound, key, MINUTE).refusals([]);
    let client = layer.layer(remote.client.clone());
    assert_eq!(client.oneshot(request("GET")).await.unwrap().status(), 200);
    assert!(remote.calls()[1] >= 30 * SECOND + MARGIN);
    // The service does not say until when.
    let forbidden: Answer = (403, &[("x-ratelimit-remaining", "0")]);
    let (outbound, remote) = alone(&[forbidden]);
    assert_eq!(send(&outbound, &remote, "GET").await, (200, 2));
    assert!(remote.calls()[1] >= SECOND);
    // The last call that the limit admits may find nothing, or fail.
    for status in [404, 500] {
        let (outbound, remote) = alone(&[(status, nothing_left)]);
        assert_eq!(send(&outbound, &remote, "GET").await, (status, 1));
        assert!(!may_call_now(&outbound).await);
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_of_refusals_can_be_set() {
    for (status, calls) in [(409, 1), (403, 1), (503, 2), (429, 2)] {
        let (outbound, remote) = alone(&[(status, &[("retry-after", "3")])]);
        let layer = OutboundLayer::new(outbound.clone(), key, MINUTE);
        let layer = layer.refusals([StatusCode::SERVICE_UNAVAILABLE]);
        let client = layer.layer(remote.client.clone());
        client.oneshot(request("GET")).await.unwrap();
        assert_eq!(remote.calls().len(), calls, "{status}");
        assert!(may_call_now(&outbound).await);
    }
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_bounded_whatever_refuses() {
    for status in [403, 429, 503] {
        let refused: [Answer; 9] = [(status, &[("retry-after", "1")]); 9];
        let (outbound, remote) = alone(&refused);
        assert_eq!(send(&outbound, &remote, "GET").await, (status, 4));
        assert_eq!(remote.calls().len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_would_come_too_late_is_left_out() {
    let (outbound, remote) = alone(&[(429, &[("retry-after", "90")])]);
    let started = Instant::now();
    assert_eq!(send(&outbound, &remote, "GET").await, (429, 1));
    assert_eq!(started.elapsed(), Duration::ZERO);

    // All retries together have the time of one request.
    let slow: [Answer; 2] = [(429, &[("retry-after", "40")]); 2];
    let (outbound, remote) = alone(&slow);
    assert_eq!(send(&outbound, &remote, "GET").await, (429, 2));
}

#[tokio::test(start_paused = true)]
async fn retry_is_left_out_after_the_longest_wait_although_a_permit_is_free() {
    let outbound = Outbound::builder(store(), ["api=sliding-log:10/10s"]);
    let outbound = outbound.build().unwrap();
    let sent = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&sent);
    let slow = service_fn(move |_: Request<String>| {
        count.fetch_add(1, Ordering::Relaxed);
        async {
            sleep(MINUTE).await;
            let response = Response::builder().status(429).header("retry-after", 1);
            Ok::<_, Infallible>(response.body(()).unwrap())
        }
    });
    let layer = OutboundLayer::new(outbound, key, MINUTE);
    let client = layer.longest_pause(Duration::ZERO).layer(slow);
    assert_eq!(client.oneshot(request("GET")).await.unwrap().status(), 429);
    assert_eq!(sent.load(Ordering::Relaxed), 1);
}

/// It would be admitted in the pause.
#[tokio::test(start_paused = true)]
async fn request_that_costs_nothing_is_sent_once() {
    let (outbound, remote) = alone(&[(429, &[("retry-after", "7")])]);
    let layer = OutboundLayer::new(outbound.clone(), key, MINUTE).cost(|_| 0);
    let client = layer.layer(remote.client.clone());
    assert_eq!(client.oneshot(request("GET")).await.unwrap().status(), 429);
    assert!(!may_call_now(&outbound).await);
}

/// A request that failed may have been done, and the earlier response says that it was not.
#[tokio::test(start_paused = true)]
async fn error_of_a_retry_is_returned_instead_of_the_response_before_it() {
    let failing = Remote::new(&[(429, &[("retry-after", "1")])]);
    let calls = failing.clone();
    let client = service_fn(move |request: Request<String>| {
        let (client, is_first) = (failing.client.clone(), failing.calls().is_empty());
        async move {
            match is_first {
                true => Ok(client.oneshot(request).await.unwrap()),
                false => Err(io::Error::other("connection reset")),
            }
        }
    });
    let client = OutboundLayer::new(process(&store()), key, MINUTE).layer(client);
    let error = client.oneshot(request("POST")).await.unwrap_err();
    assert!(matches!(error, OutboundRequestError::Client(_)));
    assert_eq!(error.to_string(), "connection reset");
    assert_eq!(calls.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_not_longer_than_the_longest() {
    let nothing_left: &[_] = &[
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset-ms", "999999999000"),
    ];
    let of_another: &[_] = &[
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "999999999"),
    ];
    let forever: &[_] = &[("retry-after", "999999999")];
    for answer in [
        (429, forever),
        (503, forever),
        (429, nothing_left),
        (403, nothing_left),
        (200, nothing_left),
        (200, of_another),
    ] {
        let (outbound, remote) = alone(&[answer]);
        let layer = OutboundLayer::new(outbound.clone(), key, MINUTE);
        let layer = layer.longest_pause(20 * SECOND).without_retries();
        let client = layer.layer(remote.client.clone());
        assert!(client.oneshot(request("GET")).await.is_ok());
        assert!(!may_call_now(&outbound).await);
        sleep(20 * SECOND + MARGIN).await;
        assert!(may_call_now(&outbound).await);
    }
}
