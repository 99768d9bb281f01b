//! What is counted only once the answer is known, and bans after refusals.

use std::convert::Infallible;
use std::iter::from_fn;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use http::request::Parts;
use http::{Request, Response};
use tollgate_core::Store;
use tollgate_http::inbound::{Decided, Fields, InboundLayer, Policy};
use tollgate_layers::DenyCache;
use tollgate_mock::{Fault, FaultyStore};
use tower::{Layer, ServiceExt, service_fn};

use super::support::*;

fn policy() -> Policy {
    Policy::new(by_user())
}

fn misses() -> Policy {
    policy().count_if(|head| head.status == 404)
}

/// Sends requests that are all in flight before the first is answered, with these statuses, and returns the
/// statuses that the client gets, and what the last answer says of the limits.
async fn at_once<S: Store + 'static>(
    layer: &InboundLayer<S>,
    answers: &[u16],
) -> (Vec<u16>, String) {
    let calls = answers.iter().map(|status| {
        let service = service_fn(async |_: Request<Body>| {
            settled().await;
            Response::builder().status(*status).body(Body::default())
        });
        layer.layer(service).oneshot(request("alice"))
    });
    let answers = join_all(calls).await;
    settled().await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let last = answers.last().unwrap();
    let fields = last.headers()["ratelimit"].to_str().unwrap().to_owned();
    if let Some(decided) = last.extensions().get().map(Decided::remaining) {
        assert!(fields.contains(&format!("r={decided};")), "{fields}");
    }
    let statuses = answers.iter().map(|answer| answer.status().as_u16());
    (statuses.collect(), fields)
}

#[tokio::test]
async fn only_what_an_answer_says_is_counted() {
    for store in stores() {
        let layer = InboundLayer::new(limiter(store, ["a=sliding-log:10/1m"]), misses());
        let layer = layer.insert_decision();
        // The parts of a page, of which none is missing.
        assert_eq!(at_once(&layer, &[200; 30]).await.0, [200; 30]);
        let mut left = 10;
        for part in 0..42 {
            let answer = if part % 7 < 2 { 404 } else { 200 };
            let expected = if left == 0 { 429 } else { answer };
            left -= u32::from(expected == 404);
            let (statuses, fields) = at_once(&layer, &[answer]).await;
            assert_eq!(statuses, [expected]);
            assert_eq!(fields, format!(r#""a";r={left};t=60"#));
        }
    }
    // What is not counted leaves what the limit says as it is.
    let (memory, clock) = store();
    let layer = InboundLayer::new(limiter(memory, ["a=gcra:10/1m"]), misses());
    for (answer, fields) in [(404, r#""a";r=9;t=6"#), (200, r#""a";r=9;t=4"#)] {
        assert_eq!(at_once(&layer, &[answer]).await.1, fields);
        clock.advance(Duration::from_secs(2));
    }
    // Beside the two that are left, three are in flight.
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:10/1m"]), misses());
    for (requests, status) in [(8, 404), (5, 404), (3, 429)] {
        let statuses = at_once(&layer, &vec![404; requests]).await.0;
        assert_eq!(statuses, vec![status; requests]);
    }
    // What is reserved is missing until it is settled.
    let reserves = policy().settle(|head| Some(u64::from(head.status == 404)));
    let layer = InboundLayer::new(limiter(store().0, ["a=sliding-log:10/1m"]), reserves);
    let statuses = at_once(&layer, &[200; 30]).await.0;
    assert_eq!(statuses, [[200; 10], [429; 10], [429; 10]].concat());
}

/// What is counted afterwards is what the policy, the handler or the body says, whether it fits or not.
#[tokio::test]
async fn a_look_is_charged_at_the_cost_that_is_known_afterwards() {
    let bytes = policy().settle_by_bytes(NonZeroU64::MIN);
    for (policy, said, left) in [
        (policy().cost(|_| 3).count_if(|_| true), 7, 7),
        (policy().cost(|_| u64::MAX).count_if(|_| true), 0, 0),
        (policy().cost(|_| 0).count_if(|_| true), 10, 10),
        (policy().cost(|_| 99).look_first().settle(|_| Some(4)), 6, 6),
        (policy().look_first().settle_by_handler(), 9, 9),
        // How many bytes there are is not known before the fields are written.
        (bytes.cost(|_| 99).look_first(), 0, 5),
    ] {
        let algorithms = ["gcra", "sliding-log", "fixed-window", "sliding-counter"];
        for (store, algorithm) in stores().into_iter().cycle().zip(algorithms) {
            let limiter = limiter(store, [format!("a={algorithm}:10/1m")]);
            let layer = InboundLayer::new(limiter.clone(), policy.clone());
            let answer = send(&layer, request("alice")).await;
            assert_eq!(answer.status, 200);
            let fields = answer.header("ratelimit");
            assert!(fields.contains(&format!("r={said};")), "{fields}");
            settled().await;
            assert_eq!(limiter.peek("alice").await.unwrap().remaining(), left);
            let status = send(&layer, request("alice")).await.status;
            assert_eq!(status == 429, left == 0);
        }
    }
}

/// What one rule denies takes nothing from the others, whichever of them looks.
#[tokio::test]
async fn rules_that_look_and_rules_that_consume_are_all_or_nothing() {
    for store in stores() {
        let kept = limiter(store.clone(), ["kept=sliding-log:3/1m"]);
        let settled = policy().cost(|_| 9).settle(|_| Some(1));
        let layer = InboundLayer::new(kept.clone(), policy());
        let layer = layer.also(["a=sliding-log:2/1m"], misses()).unwrap();
        let layer = layer.also(["back=sliding-log:10/1m"], settled).unwrap();
        for (answer, fields) in [
            (404, r#""kept";r=2;t=60, "a";r=1;t=60, "back";r=1;t=60"#),
            (404, r#""kept";r=1;t=60, "a";r=0;t=60, "back";r=0;t=60"#),
            // The others have not been asked.
            (429, r#""a";r=0;t=60"#),
        ] {
            let found = at_once(&layer, &[answer]).await;
            assert_eq!(found, (vec![answer], fields.to_owned()));
        }
        assert_eq!(kept.peek("alice").await.unwrap().remaining(), 1);
    }
    let layer = InboundLayer::new(limiter(store().0, ["kept=sliding-log:1/1m"]), policy());
    let layer = layer.also(["a=sliding-log:2/1m"], misses()).unwrap();
    for status in [404, 429] {
        let fields = r#""kept";r=0;t=60, "a";r=1;t=60"#.to_owned();
        assert_eq!(at_once(&layer, &[404]).await, (vec![status], fields));
    }
}

#[tokio::test]
async fn a_key_that_is_refused_too_often_is_banned() {
    let bans = || policy().ban_after(3, "ban=block:10m").unwrap();
    let limits = ["a=sliding-log:1/1m", "other=block:1h"];
    for by in ["limiter", "also"] {
        let (store, clock) = store();
        let asked = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&asked);
        let count = move || Some((counts.fetch_add(1, Relaxed), Fault::None).1);
        let store = FaultyStore::new(store, from_fn(count));
        let chosen = move |_: &Parts| Ok::<_, Infallible>(Some(limiter((), limits)));
        let layer = match by {
            "limiter" => InboundLayer::by_limiter(store, bans(), chosen),
            _ => InboundLayer::new(limiter(store, ["all=gcra:99/1s"]), policy())
                .also(limits, bans())
                .unwrap(),
        };
        let layer = layer.fields(Fields::new()).unwrap();
        for (after, user, status, wait, calls) in [
            (0, "alice", 200, "", 1),
            (0, "alice", 429, "60", 2),
            (30, "alice", 429, "30", 2),
            // It is blocked from now on.
            (0, "alice", 429, "600", 3),
            (0, "bob", 200, "", 1),
            (31, "alice", 429, "569", 1),
            (568, "alice", 429, "1", 1),
            (1, "alice", 200, "", 1),
            (0, "alice", 429, "60", 2),
        ] {
            clock.advance(Duration::from_secs(after));
            let before = asked.load(Relaxed);
            let answer = send(&layer, request(user)).await;
            let calls_made = asked.load(Relaxed) - before;
            let found = (answer.status, &*answer.header("retry-after"), calls_made);
            assert_eq!(found, (status, wait, calls), "{by}");
            let is_banned = !["", "30", "60"].contains(&wait);
            assert_eq!(answer.body.contains(r#""ban""#), is_banned);
        }
    }
    for store in stores() {
        let bans = policy().ban_after(1, "ban=block:10m").unwrap();
        let layer = InboundLayer::new(limiter(store, limits), bans);
        for wait in ["", "600", "600"] {
            let answer = send(&layer, request("alice")).await;
            assert_eq!(answer.header("retry-after"), wait);
        }
    }
    // What limits of other policies refuse bans nobody, nor what one in shadow would have refused.
    let never = limiter(store().0, ["never=sliding-log:0/1m,shadow"]);
    let layer = InboundLayer::new(never, policy().ban_after(1, "ban=block:10m").unwrap());
    let layer = layer.also(limits, policy()).unwrap();
    for wait in ["", "60", "60"] {
        let answer = send(&layer, request("alice")).await;
        assert_eq!(answer.header("retry-after"), wait);
    }
    // What a cache refuses is to cost the store nothing, also beside a look that the store answers.
    let (store, clock) = store();
    let cache = DenyCache::new(store).clock(clock);
    let alone = InboundLayer::new(limiter(cache, limits), bans());
    let beside = alone.clone().also(["b=sliding-log:9/1m"], misses());
    for (layer, user) in [(alone, "alice"), (beside.unwrap(), "bob")] {
        for wait in ["", "60", "60", "60", "60", "60"] {
            let answer = send(&layer, request(user)).await;
            assert_eq!(answer.header("retry-after"), wait);
        }
    }
}
