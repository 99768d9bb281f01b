//! Limits that count different things: what requests cost, and what their responses settle.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, request, response};
use tokio::time::sleep;
use tollgate_http::outbound::OutboundLayer;
use tollgate_memory::MemoryStore;
use tollgate_tokio::Outbound;
use tollgate_tokio::outbound::OutboundError;
use tollgate_tokio::wait::WaitError;
use tower::{Layer as _, ServiceExt};

use super::remote::*;

fn model() -> Process {
    let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:40000/1m"];
    let outbound = Outbound::builder(store(), limits);
    outbound.keep_for_urgent_of("tokens", 100).build().unwrap()
}

type Layer = OutboundLayer<Arc<MemoryStore>, fn(&Request<String>) -> &'static str>;

fn layer(outbound: &Process) -> Layer {
    OutboundLayer::new(outbound.clone(), key, MINUTE)
}

fn used(response: &response::Parts) -> Option<u64> {
    let used = response.headers.get("x-used")?;
    used.to_str().unwrap().parse().ok()
}

fn estimate(request: &request::Parts) -> u64 {
    request.extensions.get().copied().unwrap_or(800)
}

/// Returns what is left of the requests and of the tokens.
async fn left(outbound: &Process) -> [u64; 2] {
    let call = outbound.call(KEY).cost(0).wait_up_to(Duration::ZERO);
    let permit = call.await.unwrap();
    let verdicts = permit.verdicts().as_slice();
    [verdicts[0].remaining(), verdicts[1].remaining()]
}

/// What the service says is left is compared with what is left after the settlement.
#[tokio::test(start_paused = true)]
async fn each_limit_costs_what_it_counts() {
    const LEFT: &str = "x-ratelimit-remaining-tokens";
    let answers: [(&'static [_], u64); 6] = [
        (&[], 39_200),
        (&[("x-used", "420")], 39_580),
        (&[("x-used", "2000")], 38_000),
        (&[(LEFT, "39000")], 39_000),
        (&[("x-used", "420"), (LEFT, "39400")], 39_400),
        (&[("x-used", "2000"), (LEFT, "38000")], 38_000),
    ];
    for (headers, tokens) in answers {
        let outbound = model();
        let layer = layer(&outbound).cost_of("tokens", estimate).unwrap();
        let layer = layer.settle_of("tokens", used).unwrap().background();
        let client = layer.layer(Remote::new(&[(200, headers)]).client);
        client.oneshot(request("POST")).await.unwrap();
        assert_eq!(left(&outbound).await, [59, tokens], "{headers:?}");
    }
}

/// Limits with costs of their own keep these, and what costs nothing can be settled.
#[tokio::test(start_paused = true)]
async fn a_settlement_is_for_limits_without_one_of_their_own() {
    let outbound = model();
    let layer = layer(&outbound).cost(|_| 0).settle(used);
    let layer = layer.cost_of("tokens", estimate).unwrap();
    let client = layer.layer(Remote::new(&[(200, &[("x-used", "3")])]).client);
    let mut request = request("POST");
    request.extensions_mut().insert(500_u64);
    client.clone().oneshot(request).await.unwrap();
    assert_eq!(left(&outbound).await, [57, 39_500]);
}

/// An attempt that was refused cost what its own response says.
#[tokio::test(start_paused = true)]
async fn each_attempt_is_settled() {
    let outbound = model();
    let layer = layer(&outbound).cost_of("tokens", estimate).unwrap();
    let layer = layer.settle_of("tokens", used).unwrap();
    let refusal: Answer = (429, &[("x-used", "0"), ("retry-after", "1")]);
    let remote = Remote::new(&[refusal, (200, &[("x-used", "420")])]);
    let client = layer.layer(remote.client.clone());
    client.oneshot(request("POST")).await.unwrap();
    assert_eq!(remote.calls().len(), 2);
    assert_eq!(left(&outbound).await, [58, 39_580]);
}

/// The tokens of a model count for the model, whatever the settlement of the other limits is. A pause, which is
/// for the key of the call, lasts until the service has tokens again.
#[tokio::test(start_paused = true)]
async fn a_limit_may_have_a_key_of_its_own() {
    let outbound = model();
    let layer = layer(&outbound).key_of("tokens", |request| request.uri.path().to_owned());
    let layer = layer.unwrap().settle(used);
    let answers: [Answer; 2] = [
        (
            200,
            &[("x-used", "3"), ("x-ratelimit-remaining-tokens", "39000")],
        ),
        (
            200,
            &[
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "2m0s"),
            ],
        ),
    ];
    let client = layer.layer(Remote::new(&answers).client);
    client.clone().oneshot(request("POST")).await.unwrap();
    assert_eq!(left(&outbound).await, [57, 40_000]);
    let call = outbound.call(KEY).cost(0).key_of("tokens", "/");
    let permit = call.await.unwrap();
    assert_eq!(permit.verdict("tokens").unwrap().remaining(), 39_000);
    client.oneshot(request("POST")).await.unwrap();
    sleep(MINUTE + Duration::from_secs(1)).await;
    let call = outbound.call(KEY).key_of("tokens", "/");
    let paused = call.wait_up_to(Duration::ZERO).await.unwrap_err();
    assert!(matches!(paused, WaitError::TooLong(of) if of.limit().name() == "requests-paused"));
}

#[tokio::test]
async fn a_cost_of_no_limit_is_an_error() {
    let outbound = model();
    for name in ["tokns", "requests-paused", "tokens-background"] {
        let unknown = OutboundError::UnknownLimit { limit: name.into() };
        let cost = layer(&outbound).cost_of(name, estimate).map(drop);
        assert_eq!(cost, Err(unknown.clone()));
        let settle = layer(&outbound).settle_of(name, used).map(drop);
        assert_eq!(settle, Err(unknown.clone()));
        let key = layer(&outbound).key_of(name, |_| "model").map(drop);
        assert_eq!(key, Err(unknown));
    }
}
